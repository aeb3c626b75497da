//! Duration and results of a workload.

use std::time::{Duration, Instant};

use anyhow::ensure;
use fdtable_objects::percpu_list::Statistics;

use crate::usage::Usage;

/// Duration of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// Each thread does its work this often, at least 1.
    Passes(u32),
    /// Each thread starts passes until this much time is over. It stops within a pass, at most a
    /// few hundred operations later.
    Elapsed(Duration),
}

/// Results and costs of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Operations of all threads: lines of the load file, or compilations.
    pub operations: u64,
    /// Files and directories that were opened.
    pub opens: u64,
    /// Files and directories that were closed: as many, since nothing stays open.
    pub closes: u64,
    /// Bytes that were read and written.
    pub bytes: u64,
    /// From the start of all threads to the end of the last one.
    pub wall: Duration,
    /// Time of all CPUs in the program.
    pub user: Duration,
    /// Time of all CPUs in the host's kernel for the program.
    pub system: Duration,
    /// Statistics of the file system's lists of open files for the workload, if it has any.
    pub lists: Option<Statistics>,
}

/// Results of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) operations: u64,
    pub(super) opens: u64,
    pub(super) closes: u64,
    pub(super) bytes: u64,
}

/// State at the start of a workload.
pub(super) struct Snapshot {
    usage: Usage,
    lists: Option<Statistics>,
    time: Instant,
}

impl Snapshot {
    /// Records the state now, on a file system with these lists.
    pub(super) fn now(lists: Option<Statistics>) -> anyhow::Result<Self> {
        Ok(Snapshot {
            usage: Usage::now()?,
            lists,
            time: Instant::now(),
        })
    }
}

impl Outcome {
    /// Returns the operations of all threads per second.
    #[must_use]
    pub fn operations_per_second(&self) -> f64 {
        self.operations as f64 / self.wall.as_secs_f64()
    }
}

impl Tally {
    /// Makes the outcome of a workload that started at `began` and ends now. `lists` are those of
    /// its file system.
    pub(super) fn since(
        self,
        began: &Snapshot,
        lists: Option<Statistics>,
    ) -> anyhow::Result<Outcome> {
        let usage = Usage::now()?.since(&began.usage);
        Ok(Outcome {
            operations: self.operations,
            opens: self.opens,
            closes: self.closes,
            bytes: self.bytes,
            wall: began.time.elapsed(),
            user: usage.user,
            system: usage.system,
            lists: lists
                .zip(began.lists)
                .map(|(after, before)| between(&before, &after)),
        })
    }

    pub(super) fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.opens += other.opens;
        self.closes += other.closes;
        self.bytes += other.bytes;
    }
}

impl Until {
    pub(super) fn check(self) -> anyhow::Result<()> {
        ensure!(self != Until::Passes(0), "a workload runs at least once");
        Ok(())
    }

    /// Returns true if a thread that did `passes` and started at `began` does another pass.
    pub(super) fn goes_on(self, passes: u32, began: Instant) -> bool {
        match self {
            Until::Passes(most) => passes < most,
            Until::Elapsed(_) => !self.is_over(began),
        }
    }

    /// Returns true if the time of a thread that started at `began` is over.
    pub(super) fn is_over(self, began: Instant) -> bool {
        match self {
            Until::Passes(_) => false,
            Until::Elapsed(time) => began.elapsed() >= time,
        }
    }
}

/// Returns the difference of two statistics.
fn between(before: &Statistics, after: &Statistics) -> Statistics {
    let mut between = *after;
    between.joined -= before.joined;
    between.left -= before.left;
    between.left_same_cpu -= before.left_same_cpu;
    between.left_same_node -= before.left_same_node;
    between
}
