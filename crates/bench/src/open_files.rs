//! Workloads that open and close files all the time, on a file system that all clients share.
//!
//! Every open puts a file on the list of its file system's open files, and every close takes it
//! off. Where that list has one lock, many clients wait for it; it was with loads as these that
//! kernels found out.
//!
//! 1. [`loadfile`]: the recorded day of an office, as the benchmark dbench has it.
//! 2. [`replay()`]: clients that do all of it, each in a directory of its own.
//! 3. [`build()`]: the jobs of a compilation, which all read the same headers.
//!
//! Both run on the vfs, as fast as it goes, and check every answer.

use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::usage::Usage;

mod build;
mod client;
mod crew;
pub mod loadfile;
mod replay;

pub use build::{Build, build};
pub use loadfile::Loadfile;
pub use replay::replay;

/// How long a workload runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// Each thread does its work this often, at least 1.
    Passes(u32),
    /// Each thread begins until this much time is over, and stops in the middle: at most a few
    /// hundred operations later.
    Elapsed(Duration),
}

/// What a workload did, and what it took.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Operations of all threads: lines of the load file, or compilations.
    pub operations: u64,
    /// Files and directories that were opened.
    pub opens: u64,
    /// Files and directories that were closed: as many, for nothing stays open.
    pub closes: u64,
    /// Bytes that were read and written.
    pub bytes: u64,
    /// From the start of all threads to the end of the last one.
    pub wall: Duration,
    /// Time of all CPUs in the program.
    pub user: Duration,
    /// Time of all CPUs in the host's kernel for the program.
    pub system: Duration,
}

/// What one thread did.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    operations: u64,
    opens: u64,
    closes: u64,
    bytes: u64,
}

impl Outcome {
    /// Returns the operations of all threads per second.
    #[must_use]
    pub fn operations_per_second(&self) -> f64 {
        self.operations as f64 / self.wall.as_secs_f64()
    }
}

impl Tally {
    /// Makes the outcome of a workload that took this much.
    fn taking(self, wall: Duration, usage: &Usage) -> Outcome {
        Outcome {
            operations: self.operations,
            opens: self.opens,
            closes: self.closes,
            bytes: self.bytes,
            wall,
            user: usage.user,
            system: usage.system,
        }
    }

    fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.opens += other.opens;
        self.closes += other.closes;
        self.bytes += other.bytes;
    }
}

impl Until {
    fn check(self) -> anyhow::Result<()> {
        ensure!(self != Until::Passes(0), "a workload runs at least once");
        Ok(())
    }

    /// Tells whether a thread that did `passes` and began at `began` does another pass.
    fn goes_on(self, passes: u32, began: Instant) -> bool {
        match self {
            Until::Passes(most) => passes < most,
            Until::Elapsed(_) => !self.is_over(began),
        }
    }

    /// Tells whether the time of a thread that began at `began` is over.
    fn is_over(self, began: Instant) -> bool {
        match self {
            Until::Passes(_) => false,
            Until::Elapsed(time) => began.elapsed() >= time,
        }
    }
}
