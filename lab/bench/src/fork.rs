//! `fork`: the copy of a table for a child, and the first change after it.
//!
//! The parent has 10 open descriptors, or a million, each of an object of its own. Only the fork is
//! timed: the child is dropped afterwards, and the work that its drop deferred is done before the
//! next sample. The baselines copy their table under its lock and take a reference to each open
//! file.
//!
//! A table that defers the copy pays at the first change. So the first close in a child is timed
//! too, right after the fork and after the whole cache was overwritten.
//!
//! The host is measured in two ways, with 10 descriptors open and with as many as it allows:
//! `unshare(2)` of the descriptor table, which copies only the table, and `fork(2)`, which copies
//! the rest of the process too and whose child ends at once.

use serde::Serialize;
use serde_json::json;

use crate::cache::Cache;
use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::report::Report;
use crate::stats::{Samples, order};

mod host_table;
mod parent;
mod summary;

/// Descriptors of a small table.
const FEW: u32 = 10;

/// Experiment that measures forks.
#[derive(Clone, Debug, Serialize)]
pub struct Fork {
    /// Turns of each subject, at least 1.
    pub rounds: usize,
    /// Descriptors of a large table, at least 1.
    pub most: u32,
}

/// The timed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    /// The fork.
    Fork,
    /// The first close in the child, right after the fork.
    FirstClose,
    /// The same after the cache was overwritten.
    FirstCloseCold,
}

/// The steps of one sample, in their order.
const STEPS: [Step; 3] = [Step::Fork, Step::FirstClose, Step::FirstCloseCold];

/// The times of one subject for one operation.
#[derive(Clone, Debug, Serialize)]
struct Row {
    subject: &'static str,
    /// Open descriptors.
    open: u32,
    step: Step,
    /// Nanoseconds.
    ns: Samples,
}

impl Row {
    fn new(subject: &'static str, open: u32, step: Step, rounds: Vec<f64>) -> Self {
        Row {
            subject,
            open,
            step,
            ns: rounds.into(),
        }
    }
}

impl Fork {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        Fork {
            rounds: effort.rounds(11, 51),
            most: 1_000_000,
        }
    }

    /// Measures tables with `open` descriptors.
    fn measure_tables(&self, open: u32, progress: &dyn Progress) -> anyhow::Result<Vec<Row>> {
        let parents = parent::all(open)?;
        progress.begin(&format!("fork, {open} open"), self.rounds as u64);
        let mut cache = Cache::new();
        let mut ns = vec![[const { Vec::new() }; STEPS.len()]; parents.len()];
        for round in 0..self.rounds {
            for place in order(parents.len(), round) {
                let samples = parents[place].sample(&mut cache)?;
                for (to, sample) in ns[place].iter_mut().zip(samples) {
                    to.push(sample);
                }
            }
            progress.step();
        }
        let rows = parents.iter().zip(ns).flat_map(|(parent, ns)| {
            let row = |(step, rounds)| Row::new(parent.name(), open, step, rounds);
            STEPS.into_iter().zip(ns).map(row)
        });
        Ok(rows.collect())
    }
}

impl Experiment for Fork {
    fn name(&self) -> &'static str {
        "fork"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        // First, while the process is small.
        let mut rows = host_table::rows(FEW, self.rounds, progress)?;
        rows.extend(self.measure_tables(FEW, progress)?);
        rows.extend(self.measure_tables(self.most, progress)?);
        let config = json!({ "rounds": self.rounds, "few": FEW, "most": self.most });
        let mut report = Report::new(self, "a child's table", config, &rows, machine)?;
        summary::show(&rows, self.most, &mut report);
        Ok(report)
    }
}
