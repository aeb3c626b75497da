//! `lmbench`: the effect of coloured slabs and of descriptors in blocks on the rows of lmbench.
//!
//! The rows are those of lmbench (McVoy and Staelin, USENIX 1996) that Hemment's change of Linux
//! could improve or worsen: calls, processes, context switches over pipes, bandwidths. Most of them
//! allocate nothing once they run, and show that slabs and blocks cost nothing there; an open, a
//! fork and an exec allocate in each turn.
//!
//! # With and without
//!
//! *Ours* is a process of the vfs. *Without colours* and *without slabs* are the same program; [at
//! its start](fdtable_slab::choose) it is configured so that all slabs begin alike, or all memory
//! comes from the heap of the C library. *Without slabs and blocks* has, besides, an array and
//! bitmaps under a lock in place of our table, as Linux had; open files, pipes and the file system
//! are the same, including the references that the tables hold ([`calls`](crate::calls)).
//! [`configuration`] has them; `work` has the work of each row.
//!
//! Each configuration is a process of its own, since memory is chosen once in a process. It stays
//! and answers turn by turn over a pipe: [`subject`]. The placement of a process's memory changes
//! its results by some percent, so all of them are restarted several times in a run.
//!
//! # The rows
//!
//! A process with ten open descriptors forks, and its child ends, or closes seven of them in an
//! exec and ends. The threads that pass a token in a ring are processes with tables of their own,
//! on one CPU as in lmbench. lmbench subtracts the cost of a pipe from its context switches; here
//! it is included, since a ratio of differences would be mostly noise. `select` polls files that
//! are all ready. A file that is read again is in memory, and is read in blocks of 64 KiB.

use std::env::current_exe;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::part::Part;
use crate::report::Report;
use crate::stats::{Samples, order};

pub(crate) mod configuration;
mod ring;
mod row;
pub(crate) mod subject;
mod summary;
mod work;

use configuration::Configuration;
use row::Row;

/// Experiment that measures rows of lmbench.
#[derive(Clone, Debug, Serialize)]
pub struct Lmbench {
    /// Turns of each configuration in each row, at least 1.
    pub rounds: usize,
    /// Number of rounds after which all processes are restarted, at least 1.
    pub renewed_after: usize,
    /// Length of a turn in milliseconds, at least 1.
    pub turn_ms: u64,
    /// Program to run for the configurations; the running one if none. It must have the command
    /// [`part::COMMAND`](crate::part::COMMAND).
    #[serde(skip)]
    pub program: Option<PathBuf>,
}

/// Measurements of one configuration in one row.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    row: Row,
    configuration: Configuration,
    /// Nanoseconds of one execution of the row's operation.
    ns: Samples,
}

impl Lmbench {
    /// Returns the configuration for one of the two lengths of a run. Turns are shorter than a
    /// scheduler's time slice, so that on a busy machine most are not interrupted.
    pub fn new(effort: Effort) -> Self {
        Lmbench {
            rounds: effort.rounds(50, 500),
            renewed_after: effort.pick(10, 20),
            turn_ms: 2,
            program: None,
        }
    }

    /// Gives every configuration its turn in every row of every round.
    fn measure_rows(&self, progress: &dyn Progress) -> anyhow::Result<Vec<Measured>> {
        let program = self.program.clone().map_or_else(current_exe, Ok)?;
        let turn = Duration::from_millis(self.turn_ms);
        let mut ns = vec![vec![Vec::new(); Configuration::ALL.len()]; Row::ALL.len()];
        let mut subjects = Vec::new();
        progress.begin("lmbench", self.rounds as u64);
        for round in 0..self.rounds {
            if round % self.renewed_after == 0 {
                // The old ones end first, so that the new ones have the memory to themselves.
                subjects.clear();
                let begun =
                    Configuration::ALL.map(|it| Part::Lmbench(it).start(it.name(), &program));
                subjects = begun.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
            }
            for row in order(Row::ALL.len(), round) {
                for place in order(subjects.len(), round * Row::ALL.len() + row) {
                    ns[row][place].push(subject::turn(&mut subjects[place], Row::ALL[row], turn)?);
                }
            }
            progress.step();
        }
        let of_row = |(row, ns): (&Row, Vec<Vec<f64>>)| {
            let of = |(configuration, rounds): (&Configuration, Vec<f64>)| Measured {
                row: *row,
                configuration: *configuration,
                ns: rounds.into(),
            };
            Configuration::ALL
                .iter()
                .zip(ns)
                .map(of)
                .collect::<Vec<_>>()
        };
        Ok(Row::ALL.iter().zip(ns).flat_map(of_row).collect())
    }
}

impl Experiment for Lmbench {
    fn name(&self) -> &'static str {
        "lmbench"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let rows = self.measure_rows(progress)?;
        let title = "rows of lmbench, with slabs and blocks and without";
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        summary::show(&rows, &mut report);
        Ok(report)
    }
}
