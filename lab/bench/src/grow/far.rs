//! The first open at the end of the range, 2^31 - 1, in fresh tables that have one file at 0.

use std::hint::black_box;
use std::time::Instant;

use fdtable::{FdFlags, FileRef, Files, RawFd, Rcu};
use serde::Serialize;

use crate::experiment::Progress;
use crate::memory::bytes_in_use;
use crate::report::Report;
use crate::stats::Summary;

/// Fresh tables of a round.
const TABLES: u32 = 200;

/// Every possible descriptor.
const LIMIT: u32 = 1 << 31;

/// The cost of the open.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Far {
    fd: RawFd,
    /// Nanoseconds of the open, the clock included: all tables of all rounds.
    ns: Summary,
    /// Nanoseconds of the worst open of each round.
    worst_ns: Summary,
    /// Bytes of a table with both descriptors; none where the C library does not report memory.
    bytes: Option<f64>,
}

/// Opens the last descriptor in `rounds` rounds of tables.
pub(super) fn measure(rounds: usize, progress: &dyn Progress) -> anyhow::Result<Far> {
    progress.begin("grow, the end of the range", rounds as u64);
    let file = FileRef::new_rcu(0);
    let bytes = bytes(&file)?;
    let (mut ns, mut worst_ns) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let round = (0..TABLES).map(|_| time(&table(&file)?));
        let round = round.collect::<anyhow::Result<Vec<f64>>>()?;
        worst_ns.push(Summary::of(&round).max);
        ns.extend(round);
        progress.step();
    }
    Ok(Far {
        fd: RawFd::MAX,
        ns: Summary::of(&ns),
        worst_ns: Summary::of(&worst_ns),
        bytes,
    })
}

fn table(file: &FileRef<Rcu<u64>>) -> anyhow::Result<Files<Rcu<u64>>> {
    let files = Files::with_limit(LIMIT);
    files.open(file.clone(), FdFlags::empty())?;
    Ok(files)
}

fn time(files: &Files<Rcu<u64>>) -> anyhow::Result<f64> {
    let began = Instant::now();
    let opened = black_box(files).dup3(0, RawFd::MAX, FdFlags::empty());
    let took = began.elapsed().as_nanos() as f64;
    opened?;
    Ok(took)
}

/// Measures the memory of a table, with the table itself and without the file.
fn bytes(file: &FileRef<Rcu<u64>>) -> anyhow::Result<Option<f64>> {
    let mut tables = Vec::with_capacity(TABLES as usize);
    let Some(before) = bytes_in_use()? else {
        return Ok(None);
    };
    for _ in 0..TABLES {
        let files = Box::new(table(file)?);
        time(&files)?;
        tables.push(files);
    }
    let after = bytes_in_use()?;
    Ok(after.map(|after| (after - before) / f64::from(TABLES)))
}

/// Shows the figures.
pub(super) fn show(far: &Far, report: &mut Report) {
    report.figure("grow.far_us", Some(far.ns.median / 1e3));
    report.figure("grow.far_worst_us", Some(far.worst_ns.min / 1e3));
    report.figure("grow.far_bytes", far.bytes);
}
