//! `alloc`: the cost of allocating and freeing a descriptor, in time and in memory.
//!
//! A *pair* opens a file and closes it again. In one kind of work the same reference moves in and
//! out; in the other the table gets a reference of its own, which is dropped at the close. The
//! table is otherwise empty, or all but one of a million descriptors are open and the free one is
//! in the middle. One thread does pairs, or one on each of two CPUs, with an object of its own.
//!
//! The rivals do the same work. `slab` under a lock is the usual choice where keys need not be the
//! lowest, `sharded-slab` the usual choice where that lock is contended.
//!
//! *Bytes per slot* are those of a table with every descriptor open, beyond the objects: all of its
//! descriptors refer to one object. *Kept* is the memory that a table still holds after all but a
//! few of them were closed, from the last to the first.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress, alternate};
use crate::machine::Machine;
use crate::report::Report;
use crate::stats::Samples;

mod allocators;
mod footprint;
mod pairs;
mod summary;

use footprint::Footprint;
use pairs::{Case, Entry};

/// Experiment that measures the allocation of descriptors.
#[derive(Clone, Debug, Serialize)]
pub struct Alloc {
    /// Turns of each subject in each case, at least 1.
    pub rounds: usize,
    /// Length of a turn in milliseconds, at least 1.
    pub turn_ms: u64,
    /// Descriptors of a large table, at least 2.
    pub most: u32,
    /// Descriptors that stay open for the second measurement of memory, below `most`.
    pub remaining: u32,
}

/// Measurements of one subject.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Row {
    Pair {
        subject: &'static str,
        #[serde(flatten)]
        case: Case,
        /// Nanoseconds per pair and busy CPU.
        ns: Samples,
    },
    Footprint {
        subject: &'static str,
        #[serde(flatten)]
        footprint: Footprint,
    },
}

impl Alloc {
    /// Returns the configuration for one of the two lengths of a run. Turns are shorter than a
    /// scheduler's time slice, so that on a busy machine most are not interrupted.
    pub fn new(effort: Effort) -> Self {
        Alloc {
            rounds: effort.rounds(41, 151),
            turn_ms: 2,
            most: 1_000_000,
            remaining: 100,
        }
    }

    /// Gives every subject its turn in every case of every round.
    fn measure_pairs(&self, progress: &dyn Progress) -> anyhow::Result<Vec<Row>> {
        let entries = pairs::all(self.most)?;
        progress.begin("alloc", self.rounds as u64);
        let ns = alternate(entries.len(), self.rounds, progress, |place, _| {
            self.turn(&entries[place])
        })?;
        let row = |((subject, _, case), ns): (&Entry, Samples)| Row::Pair {
            subject,
            case: *case,
            ns,
        };
        Ok(entries.iter().zip(ns).map(row).collect())
    }

    fn turn(&self, (name, pairs, case): &Entry) -> anyhow::Result<f64> {
        let turn = Duration::from_millis(self.turn_ms);
        let ns = pairs.turn(*case, turn).context(*name)?;
        ensure!(ns.is_finite(), "{name} did not accept its own key");
        Ok(ns)
    }

    fn measure_memory(&self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for allocator in allocators::all() {
            let subject = allocator.name;
            let footprint = (allocator.measure_memory)(self.most, self.remaining);
            let footprint = footprint.context(subject)?;
            rows.extend(footprint.map(|footprint| Row::Footprint { subject, footprint }));
        }
        Ok(rows)
    }
}

impl Experiment for Alloc {
    fn name(&self) -> &'static str {
        "alloc"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        // First, while little else is in the heap.
        let mut rows = self.measure_memory()?;
        rows.extend(self.measure_pairs(progress)?);
        let title = "a descriptor allocated and freed";
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        summary::show(&rows, self, &mut report);
        Ok(report)
    }
}
