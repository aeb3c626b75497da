//! `sparse`: one descriptor at the end of the range, 2^31 - 1.
//!
//! Each sample uses a new table. It has one file open at 0, which is then duplicated to a high
//! descriptor (`dup3`). Only that call is timed, the first in its table that needs memory there.
//! Then the descriptor is closed again.
//!
//! A vector cannot grow that far: 2^31 slots are 16 GiB. It is measured at 2^20 and at 2^24, where
//! it has to fill all slots below. Maps under a lock can, and are the usual choice for such
//! descriptors. The host goes as far as its limit allows, on a table of its own that no other
//! thread shares.
//!
//! *Memory* is that of a batch of tables, divided by their number: the heap with the tables
//! themselves, but without the file, which they share.

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::report::Report;
use crate::stats::{Summary, order};

mod high;
mod subject;
mod summary;

use high::Bytes;
use subject::Subject;

/// Experiment that measures a high descriptor.
#[derive(Clone, Debug, Serialize)]
pub struct Sparse {
    /// Turns of each subject, at least 1.
    pub rounds: usize,
    /// Fresh tables of a turn, at least 1. A turn that fills a vector has one.
    pub tables: u32,
}

/// The times of one subject at one descriptor.
#[derive(Clone, Debug, Serialize)]
struct Row {
    subject: &'static str,
    /// The high descriptor.
    fd: i32,
    /// Nanoseconds of the call, the clock included: all tables of all rounds.
    ns: Summary,
    /// The worst of each round.
    worst_ns: Vec<f64>,
    /// None for the host, and where the C library does not report memory.
    bytes: Option<Bytes>,
}

impl Sparse {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        let rounds = match effort {
            Effort::Quick => 5,
            Effort::Full => 25,
        };
        Sparse {
            rounds,
            tables: 200,
        }
    }

    /// Gives every subject its turn in every round. A subject that the host refuses has no row.
    fn measure_rows(
        &self,
        subjects: &[Subject],
        progress: &dyn Progress,
    ) -> anyhow::Result<Vec<Row>> {
        progress.begin("sparse", self.rounds as u64);
        let mut ns = vec![Vec::with_capacity(self.rounds); subjects.len()];
        for round in 0..self.rounds {
            for place in order(subjects.len(), round) {
                let subject = &subjects[place];
                let tables = subject.tables(self.tables);
                let took: Vec<f64> =
                    (subject.time)(subject.fd, tables).with_context(|| subject.name.to_owned())?;
                ns[place].push(took);
            }
            progress.step();
        }
        let measured = subjects.iter().zip(ns).filter(|(_, ns)| !ns[0].is_empty());
        measured
            .map(|(subject, ns)| self.row(subject, &ns))
            .collect()
    }

    fn row(&self, subject: &Subject, ns: &[Vec<f64>]) -> anyhow::Result<Row> {
        let tables = subject.tables(self.tables);
        Ok(Row {
            subject: subject.name,
            fd: subject.fd,
            ns: Summary::of(&ns.concat()),
            worst_ns: ns.iter().map(|round| Summary::of(round).max).collect(),
            bytes: (subject.measure_memory)(subject.fd, tables)?,
        })
    }
}

impl Experiment for Sparse {
    fn name(&self) -> &'static str {
        "sparse"
    }

    fn expected(&self) -> Duration {
        Duration::from_millis(self.rounds as u64 * 280)
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let subjects = subject::all()?;
        let rows = self.measure_rows(&subjects, progress)?;
        let title = "one descriptor at the end of the range";
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        summary::show(&rows, &mut report);
        Ok(report)
    }
}
