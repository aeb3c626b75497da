//! Simulated CPUs for our tables, and the promise that the tracer requires.
//!
//! The tracer ensures that no two threads are on one CPU. It cannot ensure that no thread restarts
//! the restartable sequences of a simulated CPU: the kernel itself restarts none on it.

#![expect(unsafe_code, reason = "the tracer requires a promise")]

use conflict_tracer::{CpuId, Cpus, numbers};
use fdtable_sync::percpu::{current_node, expect_cpus};

/// Simulated CPUs for cases of two calls.
pub(super) struct Pair {
    pub(super) cpus: Cpus,
    /// CPU of the thread that creates and drops tables.
    _third: CpuId,
}

impl Pair {
    pub(super) fn new() -> anyhow::Result<Self> {
        anyhow::ensure!(expect_cpus(numbers(3)?), "there are copies for fewer CPUs");
        let cpus = start(2)?;
        // SAFETY: as in `start`.
        let third = unsafe { CpuId::claim() }?;
        Ok(Pair {
            cpus,
            _third: third,
        })
    }
}

/// Starts CPUs, each with its copy of all per-CPU data.
pub(super) fn simulate(count: usize) -> anyhow::Result<Cpus> {
    anyhow::ensure!(
        expect_cpus(numbers(count)?),
        "there are copies for fewer CPUs"
    );
    start(count)
}

/// Starts CPUs. The memory node of each is read inside of a trace, once: outside, the kernel
/// reports that of the real CPU.
fn start(count: usize) -> anyhow::Result<Cpus> {
    // SAFETY: the slabs and owned lookups have restartable sequences here. Sequences of slabs are
    // restarted by `slab::shrink`, and by `shrink` of a cache, which no experiment and no table
    // calls. Grace periods restart lookups, for the sake of what was removed since they began:
    // while a CPU is in an operation, no other thread removes anything. The only signal handler
    // beside the tracer's is the profiler's, which takes samples, looks nothing up and allocates
    // nothing from slabs.
    let mut cpus = unsafe { Cpus::new(count) }?;
    for cpu in 0..count {
        cpus.trace(cpu, current_node)?;
    }
    Ok(cpus)
}
