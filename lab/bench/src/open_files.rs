//! `open-files`: the cost of a list of all open files.
//!
//! Every open puts a file on the list of its file system's open files, and every close removes it.
//! If that list has one lock, many clients wait for it; kernels found this with workloads like
//! these. Here the list has a part for each CPU, and a file leaves the part that it joined: without
//! contention if it is closed where it was opened.
//!
//! # Added and removed
//!
//! A file is created, which puts it on a list, and dropped, which removes it: by one thread, by
//! two, and *handed over*, where one thread opens all files and another closes them, so that every
//! removal is on the other CPU. The rivals have one lock: our own list in one part, and `slab`
//! under a mutex, a common choice in programs. It holds the files' addresses, and each file keeps
//! its key, so that both directions take one step. The floor is files on no list; the time of a
//! subject beyond the floor is the *net* cost of its list.
//!
//! # Opened and closed
//!
//! The same by one thread through a table of descriptors, where only files are created, and by the
//! vfs, which walks a path too: with lists and without.
//!
//! # Workloads
//!
//! Clients that share a file system: the recorded day of an office, as the benchmark dbench has it,
//! and the jobs of a compilation. A *removal* is a file that leaves its list, and a *hit* is a
//! removal on the CPU, or the memory node, where the file joined.
//!
//! 1. [`lists`]: the kinds of lists.
//! 2. [`add_remove`], [`open_close`]: the first two parts.
//! 3. [`loadfile`], [`replay()`]: clients that execute a load file.
//! 4. [`build()`]: the jobs, which all read the same headers.
//! 5. [`workload`]: both workloads on each kind of list.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress, alternate};
use crate::machine::Machine;
use crate::report::Report;
use crate::stats::Samples;

mod add_remove;
mod build;
mod client;
mod lists;
pub mod loadfile;
mod open_close;
mod outcome;
mod replay;
mod summary;
mod workers;
mod workload;

use add_remove::Case;
use open_close::Layer;
use workload::{Kind, Load, Turns};

pub use build::{Build, build};
pub use loadfile::Loadfile;
pub use outcome::{Outcome, Until};
pub use replay::replay;

/// Experiment that measures the lists of open files.
#[derive(Clone, Debug, Serialize)]
pub struct OpenFiles {
    /// Turns of each subject in the first two parts, at least 1.
    pub rounds: usize,
    /// Length of such a turn in milliseconds, at least 1.
    pub turn_ms: u64,
    /// Turns of each kind of list in each workload, at least 1.
    pub workload_rounds: usize,
    /// Length of a workload's turn in milliseconds, at least 1.
    pub workload_ms: u64,
    /// Clients of dbench's workload, each with a thread of its own, at least 1.
    pub clients: usize,
    /// Load file of dbench; without one, that at the [usual place](loadfile::USUAL_PLACE), if there
    /// is any.
    pub loadfile: Option<PathBuf>,
}

/// Measurements of one subject.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Row {
    AddRemove {
        subject: &'static str,
        case: Case,
        /// Nanoseconds per file and busy CPU; of a handover, nanoseconds of wall time.
        ns: Samples,
    },
    OpenClose {
        subject: &'static str,
        layer: Layer,
        /// Nanoseconds per open and close.
        ns: Samples,
    },
    Workload {
        subject: &'static str,
        workload: Kind,
        #[serde(flatten)]
        turns: Turns,
    },
}

/// Samples of one subject in one case, of which each round adds one.
type Sample<'a> = Box<dyn Fn(Duration) -> anyhow::Result<f64> + 'a>;

impl OpenFiles {
    /// Returns the configuration for one of the two lengths of a run. Turns of the first two parts
    /// are shorter than a scheduler's time slice, so that on a busy machine most are not
    /// interrupted.
    pub fn new(effort: Effort) -> Self {
        OpenFiles {
            rounds: effort.rounds(15, 151),
            turn_ms: 2,
            workload_rounds: effort.rounds(2, 5),
            workload_ms: effort.pick(250, 2000),
            clients: 64,
            loadfile: None,
        }
    }

    /// Measures files that are added and removed.
    fn measure_lists(&self, progress: &dyn Progress) -> anyhow::Result<Vec<Row>> {
        let subjects = add_remove::all()?;
        let mut entries = Vec::new();
        let mut samples: Vec<Sample<'_>> = Vec::new();
        for subject in &subjects {
            for case in add_remove::CASES {
                entries.push((subject, case));
                samples.push(Box::new(move |turn| subject.turn(case, turn)));
            }
        }
        let rounds = self.alternate("open-files, lists", &samples, progress)?;
        let row = |(&(subject, case), ns): (&(&add_remove::Boxed, Case), Samples)| Row::AddRemove {
            subject: subject.name(),
            case,
            ns,
        };
        Ok(entries.iter().zip(rounds).map(row).collect())
    }

    /// Measures files that are opened and closed by one thread.
    fn measure_opens(&self, progress: &dyn Progress) -> anyhow::Result<Vec<Row>> {
        let subjects = open_close::all()?;
        let samples: Vec<_> = subjects.iter().map(open_close::sample).collect();
        let rounds = self.alternate("open-files, one thread", &samples, progress)?;
        let row = |(subject, ns): (&open_close::Opener, Samples)| Row::OpenClose {
            subject: subject.lists().name(),
            layer: subject.layer(),
            ns,
        };
        Ok(subjects.iter().zip(rounds).map(row).collect())
    }

    /// Gives each subject a turn in each round. Returns the samples of each, in the order of the
    /// rounds.
    fn alternate(
        &self,
        part: &str,
        samples: &[Sample<'_>],
        progress: &dyn Progress,
    ) -> anyhow::Result<Vec<Samples>> {
        progress.begin(part, self.rounds as u64);
        let turn = Duration::from_millis(self.turn_ms);
        alternate(samples.len(), self.rounds, progress, |place, _| {
            samples[place](turn)
        })
    }

    /// Measures a workload on each kind of list.
    fn measure_workload(
        &self,
        load: &Load<'_>,
        progress: &dyn Progress,
    ) -> anyhow::Result<Vec<Row>> {
        let part = format!("open-files, {}", load.kind().name());
        progress.begin(&part, self.workload_rounds as u64);
        let until = Until::Elapsed(Duration::from_millis(self.workload_ms));
        let turns = workload::measure(load, self.workload_rounds, until, progress)?;
        let row = |(lists, turns): (lists::Lists, Turns)| Row::Workload {
            subject: lists.name(),
            workload: load.kind(),
            turns,
        };
        Ok(turns.into_iter().map(row).collect())
    }
}

impl Experiment for OpenFiles {
    fn name(&self) -> &'static str {
        "open-files"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        // First, so that an unreadable file is an error before any measurement.
        let loadfile = Loadfile::find(self.loadfile.as_deref())?;
        let mut rows = self.measure_lists(progress)?;
        rows.extend(self.measure_opens(progress)?);
        if let Some(loadfile) = &loadfile {
            let load = Load::Dbench {
                loadfile,
                clients: self.clients,
            };
            rows.extend(self.measure_workload(&load, progress)?);
        }
        let load = Load::Build(Build::default());
        rows.extend(self.measure_workload(&load, progress)?);
        let title = "files added to the list of open files, and removed";
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        summary::show(&rows, self, &mut report);
        Ok(report)
    }
}
