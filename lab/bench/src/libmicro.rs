//! `libmicro` (S5): the calls of libMicro that concern descriptors, one by one.
//!
//! Roberson measured `fget_unlocked` with Sun's libMicro: a program for each system call, which
//! repeats the call on one thread and on 16, with files that all threads share and with files of
//! each thread. Here the calls are those of the vfs on `fdtable`, and on the tables that it
//! replaces ([`calls`](crate::calls)): the old `files_struct`, and a vector, both under a
//! reader-writer lock. In each row the better of the two is the rival. Below the table all sides
//! run the same code.
//!
//! Threads above the number of CPUs are not limited: with 16 on two CPUs, threads wait for locks
//! whose holders do not run.

use std::time::Duration;

use anyhow::{Context, ensure};
use fdtable_vfs::{Object, Process};
use serde::Serialize;
use serde_json::json;

use crate::baseline::{FilesStruct, LockedVec};
use crate::calls::Locked;
use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::report::Report;
use crate::stats::{Samples, order};
use crate::table::RcuFile;

mod batch;
mod case;
mod fixture;
mod summary;

use case::Case;
use fixture::{Subject, subject};
use summary::Row;

type File = RcuFile<dyn Object>;
type Bitmap = Locked<FilesStruct<File>>;
type Vector = Locked<LockedVec<File>>;

/// Experiment that measures system calls.
#[derive(Clone, Debug, Serialize)]
pub struct LibMicro {
    /// Turns of each table in each case, at least 1.
    pub rounds: usize,
    /// Length of a turn in milliseconds, at least 1.
    pub turn_ms: u64,
    /// Threads where there are many, 2 to 64.
    pub threads: usize,
}

/// A case with the tables that have their turn: ours is the first.
struct Entry {
    case: Case,
    subjects: [Box<dyn Subject>; 3],
    samples: [Vec<f64>; 3],
}

impl Entry {
    fn new(case: Case) -> anyhow::Result<Self> {
        let subjects = [
            subject::<Process>(case)?,
            subject::<Bitmap>(case)?,
            subject::<Vector>(case)?,
        ];
        Ok(Entry {
            case,
            subjects,
            samples: Default::default(),
        })
    }

    fn row(&self) -> Row {
        let [ours, bitmap, vector] = self.samples.clone().map(Samples::from);
        let [_, old, vec] = &self.subjects;
        let locked = [(old.name(), &bitmap), (vec.name(), &vector)];
        Row::of(self.case, &ours, &locked)
    }
}

impl LibMicro {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        LibMicro {
            rounds: effort.rounds(9, 101),
            turn_ms: 3,
            threads: 16,
        }
    }

    /// Gives every table its turn in every case of every round. The tables of a case follow each
    /// other, so that both sides of a ratio are measured within milliseconds.
    fn measure_all(&self, progress: &dyn Progress) -> anyhow::Result<Vec<Row>> {
        let entries: anyhow::Result<Vec<_>> = case::all(self.threads)
            .into_iter()
            .map(Entry::new)
            .collect();
        let mut entries = entries?;
        let turn = Duration::from_millis(self.turn_ms);
        progress.begin("libmicro", self.rounds as u64);
        for round in 0..self.rounds {
            for (nth, entry) in entries.iter_mut().enumerate() {
                for place in order(entry.subjects.len(), round + nth) {
                    let subject = &entry.subjects[place];
                    let ns = subject.turn(turn);
                    entry.samples[place].push(ns.with_context(|| subject.name().to_owned())?);
                }
            }
            progress.step();
        }
        Ok(entries.iter().map(Entry::row).collect())
    }
}

impl Experiment for LibMicro {
    fn name(&self) -> &'static str {
        "libmicro"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        ensure!(
            self.rounds > 0 && self.turn_ms > 0 && (2..=64).contains(&self.threads),
            "rounds, a turn and 2 to 64 threads are needed"
        );
        let rows = self.measure_all(progress)?;
        let title = "the calls of libMicro that concern descriptors";
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        summary::show(&rows, self, &mut report);
        Ok(report)
    }
}
