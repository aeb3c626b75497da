//! Simulated CPUs for our tables, and the promise that the tracer asks for.
//!
//! The tracer sees to it that no two threads are on one CPU. What it cannot see to is that nobody
//! restarts the sequences of a simulated CPU, on which the kernel restarts none.

#![expect(unsafe_code, reason = "the tracer asks for a promise")]

use conflict_tracer::{CpuId, Cpus, numbers};
use fdtable_base::percpu::{current_node, expect_cpus};

/// Simulated CPUs for cases of two calls.
pub(super) struct Pair {
    pub(super) cpus: Cpus,
    /// The thread that asks makes and drops tables, on a CPU of its own.
    _third: CpuId,
}

impl Pair {
    pub(super) fn new() -> anyhow::Result<Self> {
        expect_cpus(numbers(3)?)?;
        let cpus = start(2)?;
        // SAFETY: as in `start`.
        let third = unsafe { CpuId::claim() }?;
        Ok(Pair {
            cpus,
            _third: third,
        })
    }
}

/// Starts CPUs, each with its copy of what is divided among them.
pub(super) fn simulate(count: usize) -> anyhow::Result<Cpus> {
    expect_cpus(numbers(count)?)?;
    start(count)
}

/// Starts CPUs. The memory node of each is asked for inside of a trace, once: outside, the kernel
/// tells that of the real one.
fn start(count: usize) -> anyhow::Result<Cpus> {
    // SAFETY: what has restartable sequences here is the slabs. Who restarts them is `slab::shrink`,
    // and `shrink` of a cache, which no experiment calls, nor anything that tables do by
    // themselves. The only handler of a signal that is installed beside the tracer's is that of the
    // profiler, which takes samples and nothing from slabs.
    let mut cpus = unsafe { Cpus::new(count) }?;
    for cpu in 0..count {
        cpus.trace(cpu, current_node)?;
    }
    Ok(cpus)
}
