//! `lookup` (S5): the cost of finding the open file of a descriptor.
//!
//! Each subject looks up the same random open descriptors, reads one integer of the object and adds
//! it to a sum that is checked at the end. Subjects take turns of some milliseconds. Two floors run
//! among them: a plain two-level array load, a lower bound for a borrowed lookup, and two atomic
//! adds on the object, a lower bound for a lookup with a count.
//!
//! *Nanoseconds per lookup* are those of one CPU: duration × busy CPUs ÷ lookups of all threads.

use std::time::Duration;

use anyhow::ensure;
use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress, alternate};
use crate::machine::Machine;
use crate::report::Report;
use crate::stats::Summary;

mod case;
mod floor;
mod subject;
mod summary;
pub mod timing;

pub use case::Pattern;
use case::{Case, Sequences};
pub(crate) use subject::Padded;
use subject::Subject;
#[cfg(feature = "experiments")]
pub(crate) use subject::sum_until_quiescent;

/// Experiment that measures lookups.
#[derive(Clone, Debug, Serialize)]
pub struct Lookup {
    /// Turns of each subject in each case, at least 1.
    pub rounds: usize,
    /// Length of a turn in milliseconds, at least 1.
    pub turn_ms: u64,
    /// Numbers of open descriptors: 1 to 16 million each.
    pub live: Vec<u32>,
    /// Numbers of threads that look up at once, at least 1 each.
    pub threads: Vec<usize>,
}

/// The times of one subject in one case.
#[derive(Clone, Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
    subject: &'static str,
    /// Nanoseconds per lookup.
    ns: Summary,
    /// Ratio to a plain two-level array load, in pairs.
    times_load: Summary,
    /// Ratio to two atomic adds on the object, in pairs.
    times_two_adds: Summary,
    /// Speedup over the owned lookup of `RwLock<Vec<Option<Arc>>>`, in pairs.
    faster_than_rwlock_vec: Summary,
    /// Speedup over the owned lookup of `files_struct` under a lock, in pairs.
    faster_than_files_struct: Summary,
    /// Speedup over a read under the lock of `RwLock<Vec<..>>`, without a reference, in pairs.
    faster_than_rwlock_vec_held: Summary,
}

impl Lookup {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        Lookup {
            rounds: effort.rounds(9, 25),
            turn_ms: effort.pick(6, 15),
            live: vec![64, 1_000_000],
            threads: vec![1, 2, 16],
        }
    }
}

impl Experiment for Lookup {
    fn name(&self) -> &'static str {
        "lookup"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let mut rows = Vec::new();
        for &live in &self.live {
            let cases = Case::all(live, &self.threads);
            progress.begin(
                &format!("lookup, {live} live"),
                (cases.len() * self.rounds) as u64,
            );
            let subjects = subject::all(live)?;
            for case in cases {
                rows.extend(self.measure_case(case, &subjects, progress)?);
            }
        }
        let config = json!({
            "rounds": self.rounds, "turn_ms": self.turn_ms, "live": self.live,
            "threads": self.threads, "object_bytes": size_of::<Padded>(),
        });
        let title = "from a descriptor to its open file";
        let mut report = Report::new(self, title, config, &rows, machine)?;
        summary::show(&rows, &mut report);
        summary::figures(&rows, &mut report);
        report.remarks = summary::remarks(&report.machine);
        Ok(report)
    }
}

impl Lookup {
    /// Gives every subject its turn in every round.
    fn measure_case(
        &self,
        case: Case,
        subjects: &[Subject],
        progress: &dyn Progress,
    ) -> anyhow::Result<Vec<Row>> {
        let sequences = Sequences::new(&case);
        for subject in subjects {
            let expected = sequences.sum();
            ensure!(
                subject.sum_of(&sequences) == expected,
                "{} read wrong objects",
                subject.name
            );
        }
        let length = Duration::from_millis(self.turn_ms);
        let ns = alternate(subjects.len(), self.rounds, progress, |place, round| {
            timing::turn(&sequences, length, round, &*subjects[place].sum)
        })?;
        Ok(summary::rows(case, subjects, &ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Silent;

    #[test]
    fn a_tiny_run_has_a_row_for_each_subject_in_each_case() {
        let tiny = Lookup {
            rounds: 2,
            turn_ms: 1,
            live: vec![64, 200],
            threads: vec![1, 2],
        };
        let report = tiny.measure(Machine::observe(), &Silent).unwrap();
        // Per size: one thread; two threads on the same and on different descriptors.
        assert_eq!(report.rows.len(), 2 * 3 * 10);
        for row in &report.rows {
            let fastest = row["ns"]["min"].as_f64().unwrap();
            assert!(fastest > 0.0, "{row}");
        }
        let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
        for key in [
            "lookup.borrowed_1t_vs_load",
            "lookup.borrowed_in_section_1t_vs_load",
            "lookup.borrowed_qsbr_1t_vs_load",
            "lookup.owned_1t_vs_two_adds",
            "lookup.borrowed_2t_same_fd_vs_rwlock",
            "lookup.owned_2t_diff_fd_vs_rwlock",
            "lookup.owned_2t_same_fd_vs_diff_fd",
        ] {
            assert!(keys.contains(&key), "{key} is missing");
        }
    }

    #[test]
    fn figures_of_cases_that_did_not_run_are_left_out() {
        let tiny = Lookup {
            rounds: 1,
            turn_ms: 1,
            live: vec![64],
            threads: vec![1],
        };
        let report = tiny.measure(Machine::observe(), &Silent).unwrap();
        assert!(
            report
                .headline
                .iter()
                .all(|figure| !figure.key.contains("_2t_"))
        );
        assert!(
            report
                .headline
                .iter()
                .all(|figure| figure.value.is_finite())
        );
    }
}
