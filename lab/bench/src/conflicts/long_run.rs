//! The *long run*: two CPUs open and close for longer than a grace period is shared.
//!
//! It includes refills of magazines, new claims and grace periods, each as often as it occurs. All
//! of it is traced, but the first round is not counted: in it each CPU touches for the first time
//! the memory that it keeps from then on, such as the records of the other threads of the process.
//!
//! The traces also show where in the source the lines are touched that travel.

use std::collections::HashMap;
use std::path::Path;

use conflict_tracer::{Access, Cpus, Directory, Frame, LineSize, Location, Trace};
use fdtable::{Error, rcu};
use serde::{Deserialize, Serialize};

/// Opens and closes of each CPU between two grace periods.
const PERIOD: usize = 1024;
/// Rounds until the first grace period is over, and its memory freed.
const FIRST: usize = PERIOD + PERIOD / 8;
/// Number of CPUs.
pub(super) const CPUS: usize = 2;
/// Number of functions that name a place.
const DEPTH: usize = 3;
/// Most places in a report.
const PLACES: usize = 12;

/// Result of a long run.
pub(super) struct LongRun {
    /// Lines that travel between caches for each open and close.
    pub(super) per_operation: f64,
    pub(super) places: Vec<Place>,
}

/// Place in the source that touches lines of another CPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Place {
    /// The innermost functions, and the lines in them.
    pub(super) name: String,
    /// Lines that travel there for each open and close.
    pub(super) per_operation: f64,
}

/// Runs `step` on the CPUs for a long time, and counts all transfers.
///
/// # Errors
/// If a step fails or cannot be traced.
pub(super) fn long_run(
    cpus: &mut Cpus,
    step: impl Fn(usize) -> Result<(), Error> + Sync,
) -> anyhow::Result<LongRun> {
    cpus.run(0, rcu::barrier)??;
    let mut directory = Directory::new(LineSize::Bytes64);
    let mut counts = TransferCounts::default();
    for round in 0..FIRST + PERIOD {
        for cpu in 0..CPUS {
            let (done, trace) = cpus.trace(cpu, || step(cpu))?;
            done?;
            let moved = feed(&mut directory, &trace)?;
            if round >= FIRST {
                counts.add(&trace, &moved);
            }
        }
    }
    Ok(counts.sum())
}

/// Feeds an operation, access by access, and returns the accesses for which a line travelled.
fn feed(directory: &mut Directory, trace: &Trace) -> anyhow::Result<Vec<Access>> {
    let mut moved = Vec::new();
    for access in trace.accesses() {
        let alone = Trace::from_accesses(trace.cpu(), vec![*access])?;
        let lines = directory.feed(&alone).between_caches;
        moved.extend((0..lines).map(|_| *access));
    }
    Ok(moved)
}

/// Counts of transfers by place.
#[derive(Default)]
struct TransferCounts {
    operations: usize,
    /// By the address of the instruction: the count, and its place when it was first seen.
    instructions: HashMap<u64, (usize, String)>,
}

impl TransferCounts {
    fn add(&mut self, trace: &Trace, moved: &[Access]) {
        self.operations += 1;
        for access in moved {
            let entry = self.instructions.entry(access.instruction);
            entry
                .or_insert_with(|| (0, name(&trace.location(access))))
                .0 += 1;
        }
    }

    fn sum(self) -> LongRun {
        let operations = self.operations.max(1) as f64;
        let mut places: HashMap<String, usize> = HashMap::new();
        for (count, name) in self.instructions.into_values() {
            *places.entry(name).or_default() += count;
        }
        let lines: usize = places.values().sum();
        let place = |(name, count)| Place {
            name,
            per_operation: count as f64 / operations,
        };
        let mut places: Vec<_> = places.into_iter().map(place).collect();
        places.sort_by(|one, other| {
            let most_first = other.per_operation.total_cmp(&one.per_operation);
            most_first.then_with(|| one.name.cmp(&other.name))
        });
        places.truncate(PLACES);
        LongRun {
            per_operation: lines as f64 / operations,
            places,
        }
    }
}

/// Names a place by the innermost functions of this project.
fn name(location: &Location) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let is_ours = |frame: &&Frame| {
        let file = frame.file.as_ref();
        file.is_some_and(|file| sources.is_some_and(|sources| file.starts_with(sources)))
    };
    let ours = location.frames().iter().filter(is_ours).take(DEPTH);
    let names: Vec<_> = ours.map(Frame::to_string).collect();
    names.join(" < ")
}
