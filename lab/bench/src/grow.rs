//! `grow`: the worst open, and the worst lookup, while a table grows to a million descriptors.
//!
//! One thread opens without a pause, and each open is timed alone. A thread on the other CPU looks
//! up the open descriptors without a pause. A table that copies itself, or waits for its readers,
//! shows this in the worst open; a table that locks readers out shows it in the worst lookup.
//!
//! # Which pauses are the machine's
//!
//! A machine interrupts both threads. So the reader times *idle* steps too, which only read the
//! clock, after each lookup and for as long as that took: both are interrupted alike. The opener's
//! twin is a subject that opens nothing. A pause by the machine can only add to a maximum, so the
//! headline takes the smallest maximum of five runs, of opens, lookups and idle steps alike; with
//! more than five runs it is the median over the groups of five.
//!
//! The standard library's clock is used, which costs some 20 ns: the bounds are in microseconds.
//!
//! The host gets a new descriptor table for each run, since its tables never shrink. Both threads
//! share that table, since the kernel waits for readers only in a shared one. Its opens and lookups
//! are system calls.
//!
//! # The end of the range
//!
//! The largest step of growth is that of a descriptor of the caller's choice: the first open at
//! 2^31 - 1 (`dup3`) is timed too, in fresh tables of ours. A vector would need 16 GiB for it.

use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::report::Report;
use crate::stats::order;
use crate::tail::Tail;

mod far;
mod run;
mod subject;
mod summary;

use run::Run;
use subject::Subject;

/// Experiment that looks for pauses while a table grows.
#[derive(Clone, Debug, Serialize)]
pub struct Grow {
    /// Growths of each subject, at least 1.
    pub rounds: usize,
    /// Descriptors at the end, at least 1.
    pub most: u32,
}

/// The times of one subject over all runs.
#[derive(Clone, Debug, Serialize)]
struct Row {
    subject: &'static str,
    /// Descriptors at the end.
    most: u32,
    /// Each run's opens, in nanoseconds with the clock.
    open: Vec<Tail>,
    /// The lookups beside them.
    look_up: Vec<Tail>,
    /// The steps between the lookups, which only read the clock.
    idle: Vec<Tail>,
}

impl Grow {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        Grow {
            rounds: effort.rounds(5, 25),
            most: 1_000_000,
        }
    }

    /// Grows every subject once in every round. A subject that the host refuses has no row.
    fn measure_rows(
        &self,
        subjects: &[Subject],
        progress: &dyn Progress,
    ) -> anyhow::Result<Vec<Row>> {
        progress.begin("grow", (self.rounds * subjects.len()) as u64);
        let mut rows: Vec<Row> = subjects.iter().map(Row::of).collect();
        for round in 0..self.rounds {
            for place in order(subjects.len(), round) {
                if let Some(run) = (subjects[place].grow)(subjects[place].most)? {
                    rows[place].add(&run);
                }
                progress.step();
            }
        }
        rows.retain(|row| !row.open.is_empty());
        Ok(rows)
    }
}

impl Row {
    fn of(subject: &Subject) -> Self {
        Row {
            subject: subject.name,
            most: subject.most,
            open: Vec::new(),
            look_up: Vec::new(),
            idle: Vec::new(),
        }
    }

    fn add(&mut self, run: &Run) {
        self.open.push(run.opens.tail());
        self.look_up.push(run.look_ups.tail());
        self.idle.push(run.idle.tail());
    }
}

impl Experiment for Grow {
    fn name(&self) -> &'static str {
        "grow"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        // First, while little else is in the heap.
        let far = far::measure(self.rounds, progress)?;
        let subjects = subject::all(self.most)?;
        let rows = self.measure_rows(&subjects, progress)?;
        let title = "the worst pause while a table grows";
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        report.add_rows(&[&far])?;
        summary::show(&rows, &mut report);
        far::show(&far, &mut report);
        if rows.len() < subjects.len() {
            report.remarks.push(crate::host::REFUSED.to_owned());
        }
        Ok(report)
    }
}
