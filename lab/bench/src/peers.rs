//! `peers`: our table beside existing alternatives, with one row for each.
//!
//! A rival is a table as its own authors would use it, in its newest version: locks around vectors,
//! maps, trees and slabs; maps and slabs without a lock; and tables in other languages, in
//! processes of their own. All do the same work on the same descriptors: lookups without a
//! reference of the caller's own (*borrowed*) and with one (*owned*), an open and a close of an
//! existing object and of a new one, and a mixture. Operations that a rival lacks are left out.
//!
//! Rivals that read inside a critical section, a pinned guard or between quiescent states do 64
//! lookups in it, which is how such tables are used. Ours takes part with a section for each lookup
//! and with quiescent states.
//!
//! Each turn has a table of its own, created before the clock starts. So the deferred work of a
//! table is dropped with it, and the placement of its memory varies from round to round.
//!
//! *Nanoseconds per operation* are those of one CPU: duration × busy CPUs ÷ operations of all
//! threads. *Growth* is one thread that opens a million descriptors, each open timed alone. *Bytes
//! per descriptor* are those of the table with a million open, beyond the objects. The quick form
//! takes a hundred thousand.

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::report::Report;
use crate::stats::{Samples, order};
use crate::tail::Tail;

mod case;
mod foreign;
mod ours;
mod player;
mod rival;
mod summary;
pub(crate) mod theirs;

use case::Case;
pub use foreign::SlowBuilds;
use rival::{Missing, Rival, Side};

/// Experiment that measures our table beside existing alternatives.
#[derive(Clone, Debug, Serialize)]
pub struct Peers {
    /// Turns of each table in each case, at least 1.
    pub rounds: usize,
    /// Length of a turn in milliseconds, at least 1.
    pub turn_ms: u64,
    /// Descriptors of a table that has grown, at least 1.
    pub most: u32,
    /// Growths of each table, at least 1.
    pub growths: usize,
    /// Treatment of rivals that take minutes to build.
    pub slow_builds: SlowBuilds,
}

/// Measurements of one table.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    side: Side,
    timings: Vec<Timing>,
    /// Each growth that was run.
    growths: Vec<Tail>,
    bytes_per_descriptor: Option<f64>,
}

/// The times of one table in one case.
#[derive(Debug, Serialize)]
struct Timing {
    #[serde(flatten)]
    case: Case,
    /// Nanoseconds per operation and busy CPU.
    ns: Samples,
}

impl Peers {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        Peers {
            rounds: effort.rounds(7, 101),
            turn_ms: 2,
            most: effort.pick(100_000, 1_000_000),
            growths: effort.pick(1, 3),
            slow_builds: effort.pick(SlowBuilds::Skip, SlowBuilds::Build),
        }
    }

    /// Gives every rival its turn in every case of every round. A case in which a rival fails once
    /// counts as unsupported, and the failure is reported.
    fn measure_turns(
        &self,
        rivals: &mut [Box<dyn Rival>],
        progress: &dyn Progress,
    ) -> anyhow::Result<(Vec<Vec<Timing>>, Vec<String>)> {
        progress.begin("peers", self.rounds as u64);
        let cases = Case::ALL.len();
        let mut ns = vec![Vec::with_capacity(self.rounds); rivals.len() * cases];
        let mut failures = vec![None; ns.len()];
        for round in 0..self.rounds {
            for place in order(ns.len(), round) {
                let rival = &mut *rivals[place / cases];
                let case = Case::ALL[place % cases];
                if failures[place].is_some() {
                    continue;
                }
                match self.turn(rival, case, round) {
                    Ok(turn) => ns[place].extend(turn),
                    Err(error) if rival.side() == Side::Theirs => {
                        ns[place].clear();
                        failures[place] = Some(format!("{error:#}"));
                    }
                    Err(error) => return Err(error),
                }
            }
            progress.step();
        }
        let timing = |(case, rounds): (&Case, &Vec<f64>)| {
            (!rounds.is_empty()).then(|| Timing {
                case: *case,
                ns: rounds.clone().into(),
            })
        };
        let of_rival = |ns: &[Vec<f64>]| Case::ALL.iter().zip(ns).filter_map(timing).collect();
        let timings = ns.chunks(cases).map(of_rival).collect();
        Ok((timings, failures.into_iter().flatten().collect()))
    }

    fn turn(&self, rival: &mut dyn Rival, case: Case, round: usize) -> anyhow::Result<Option<f64>> {
        let length = Duration::from_millis(self.turn_ms);
        rival
            .turn(case, length, round)
            .with_context(|| format!("{}: {case:?}", rival.name()))
    }

    /// Measures the growth and the memory of each rival, in another order each time.
    fn measure_sizes(
        &self,
        rivals: &mut [Box<dyn Rival>],
        progress: &dyn Progress,
    ) -> anyhow::Result<Vec<Row>> {
        progress.begin("peers, growth", self.growths as u64 + 1);
        let mut rows = Vec::new();
        for rival in &mut *rivals {
            let footprint = rival.footprint(self.most);
            rows.push(Row {
                name: rival.name(),
                side: rival.side(),
                timings: Vec::new(),
                growths: Vec::new(),
                bytes_per_descriptor: footprint.with_context(|| rival.name())?,
            });
        }
        progress.step();
        for round in 0..self.growths {
            for place in order(rivals.len(), round) {
                let rival = &mut *rivals[place];
                let tail = rival.growth(self.most);
                rows[place]
                    .growths
                    .extend(tail.with_context(|| rival.name())?);
            }
            progress.step();
        }
        Ok(rows)
    }
}

/// Creates every rival, and lists those that are missing on this machine.
fn rivals(slow: SlowBuilds, progress: &dyn Progress) -> (Vec<Box<dyn Rival>>, Vec<Missing>) {
    let mut rivals = ours::all();
    rivals.extend(theirs::all());
    let mut missing = Vec::new();
    for foreign in foreign::all(slow, progress) {
        match foreign {
            Ok(rival) => rivals.push(rival),
            Err(reason) => missing.push(reason),
        }
    }
    (rivals, missing)
}

impl Experiment for Peers {
    fn name(&self) -> &'static str {
        "peers"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let (mut rivals, missing) = rivals(self.slow_builds, progress);
        // First, while little else is in the heap.
        let mut rows = self.measure_sizes(&mut rivals, progress)?;
        let (timings, failures) = self.measure_turns(&mut rivals, progress)?;
        for (row, timings) in rows.iter_mut().zip(timings) {
            row.timings = timings;
        }
        let title = "our table beside existing alternatives";
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        summary::show(&rows, self.most, &mut report);
        report.remarks = summary::remarks(&rows, &missing, &failures);
        Ok(report)
    }
}
