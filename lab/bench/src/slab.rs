//! `slab`: the cost of allocating and freeing an object, beside common heaps.
//!
//! A *pair* allocates one object and frees it. A *batch* allocates 1,000 and then frees them, in
//! the order in which they came or in a shuffled one. In a *handover* one thread allocates and
//! another frees. Objects have 64 bytes, or 104, the size of a small open file with its header.
//!
//! # Subjects
//!
//! `mimalloc` and `jemalloc` are called directly, without the indirection of a global allocator;
//! both are built with the defaults of their crates; `jemalloc` has a feature of its own.
//! `Box` is the default of a Rust program. `sharded-slab` and `slab` under a mutex return keys
//! instead of pointers; the former has a first page of 4,096 objects instead of 32, so that a batch
//! fits in it. The floor allocates nothing, and shows the cost of the loops: in a handover, the
//! transfer of an object to the other thread.
//!
//! We do not touch memory that is only allocated: the opener of a file initializes it. In *written*
//! work each object is filled before it is freed, so that it has to be in the cache.
//!
//! # Memory
//!
//! A process of its own fills a heap with a million objects and reads its resident set size before
//! and after. Heaps keep pages for later use, which is part of their cost. For our caches the
//! larger value of that and of their own report counts.
//!
//! # Colours
//!
//! Slabs begin at multiples of their size, so objects at the same place of each slab would share
//! one set of the cache. Colours shift them. The program walks over the first objects of many
//! slabs, and a simulated cache counts the misses: `valgrind --tool=cachegrind` runs the walk with
//! a fixed geometry, and again without a step; the difference is the walk's.

use std::env::current_exe;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress, alternate};
use crate::machine::Machine;
use crate::part::Part;
use crate::report::Report;
use crate::stats::Samples;

mod cachegrind;
mod colour;
mod footprint;
#[cfg(feature = "experiments")]
mod heaps;
mod objects;
mod summary;
mod work;

use colour::Walks;
pub(crate) use colour::walk;
pub(crate) use footprint::Footprint;
use work::{Case, Subject};

/// Bytes of a small object.
const SMALL: usize = 64;

/// Bytes of an object as large as a small open file with its header.
const FILE: usize = 104;

/// Experiment that measures the allocation of objects.
#[derive(Clone, Debug, Serialize)]
pub struct Slab {
    /// Turns of each subject in each case, at least 1.
    pub rounds: usize,
    /// Length of a turn in milliseconds, at least 1.
    pub turn_ms: u64,
    /// Live objects while memory is measured, at least 1.
    pub live: usize,
    /// Program to run for parts in a process of their own; the running one if none. It must have
    /// the command [`part::COMMAND`](crate::part::COMMAND).
    #[serde(skip)]
    pub program: Option<PathBuf>,
}

/// Measurements of one subject.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Row {
    Time {
        subject: &'static str,
        /// Size of an object.
        bytes: usize,
        case: Case,
        /// Nanoseconds per object.
        ns: Samples,
    },
    Memory {
        subject: &'static str,
        #[serde(flatten)]
        footprint: Footprint,
    },
    Colours(Walks),
}

impl Slab {
    /// Returns the configuration for one of the two lengths of a run. Turns are shorter than a
    /// scheduler's time slice, so that on a busy machine most are not interrupted.
    pub fn new(effort: Effort) -> Self {
        Slab {
            rounds: effort.rounds(9, 101),
            turn_ms: 2,
            live: 1_000_000,
            program: None,
        }
    }

    /// Gives every subject its turn in every case of every round.
    fn measure_times(&self, progress: &dyn Progress) -> anyhow::Result<Vec<Row>> {
        let subjects = objects::all()?;
        let entries: Vec<_> = subjects
            .iter()
            .flat_map(|subject| Case::ALL.map(|case| (&**subject, case)))
            .collect();
        progress.begin("slab", self.rounds as u64);
        let ns = alternate(entries.len(), self.rounds, progress, |place, _| {
            let (subject, case) = entries[place];
            self.turn(subject, case)
        })?;
        let row = |((subject, case), ns): (&(&dyn Subject, Case), Samples)| Row::Time {
            subject: subject.name(),
            bytes: subject.bytes(),
            case: *case,
            ns,
        };
        Ok(entries.iter().zip(ns).map(row).collect())
    }

    fn turn(&self, subject: &dyn Subject, case: Case) -> anyhow::Result<f64> {
        subject
            .turn(case, Duration::from_millis(self.turn_ms))
            .with_context(|| format!("{}, {} bytes", subject.name(), subject.bytes()))
    }

    /// Measures every subject's memory in a process of its own.
    fn measure_memory(&self, program: &Path, progress: &dyn Progress) -> anyhow::Result<Vec<Row>> {
        let subjects = objects::all()?;
        progress.begin("slab, memory", subjects.len() as u64);
        let mut rows = Vec::new();
        for subject in &subjects {
            let part = Part::Footprint {
                subject: subject.name().to_owned(),
                bytes: subject.bytes(),
                live: self.live,
            };
            let footprint: Option<Footprint> = part.ask(subject.name(), program)?;
            rows.extend(footprint.map(|footprint| Row::Memory {
                subject: subject.name(),
                footprint,
            }));
            progress.step();
        }
        Ok(rows)
    }
}

/// Measures the memory of an allocator in this process.
///
/// # Errors
/// If there is no such allocator, or no memory.
pub(crate) fn footprint(
    subject: &str,
    bytes: usize,
    live: usize,
) -> anyhow::Result<Option<Footprint>> {
    objects::find(subject, bytes)?.measure_memory(live)
}

impl Experiment for Slab {
    fn name(&self) -> &'static str {
        "slab"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let program = self.program.clone().map_or_else(current_exe, Ok)?;
        let mut rows = self.measure_times(progress)?;
        rows.extend(self.measure_memory(&program, progress)?);
        progress.begin("slab, colours", 1);
        rows.push(Row::Colours(colour::measure(self.rounds, &program)?));
        progress.step();
        let title = "an object allocated and freed";
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        summary::show(&rows, &mut report);
        Ok(report)
    }
}
