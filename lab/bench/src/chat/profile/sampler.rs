//! Samples a process by its own timer.

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal, raise};
use pprof::ProfilerGuardBuilder;

/// Most samples for each second of CPU time: the host's tick may allow fewer. Not a multiple of the
/// tick, so that no thread runs in step with it.
const FREQUENCY: i32 = 997;

/// Source files of the functions of a stack, the innermost first, inlined ones included.
pub(super) type Stack = Vec<String>;

/// Samples the whole process while `work` runs, and returns how often each stack was hit. Call it
/// once, while there are no other threads.
///
/// # Errors
/// Errors of `work`; or a system without such a timer.
pub(super) fn sample(
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<(Stack, u64)>> {
    // The handler allocates in its first run. That run is here, where this thread is the only one
    // and holds no lock of the allocator.
    let profiling = SigSet::from(Signal::SIGPROF);
    profiling.thread_block()?;
    let profiler = ProfilerGuardBuilder::default().frequency(FREQUENCY).build();
    let profiler = profiler.context("starting the profiler")?;
    raise(Signal::SIGPROF)?;
    profiling.thread_unblock()?;

    work()?;
    let report = profiler.report().build().context("reading the samples")?;
    let stacks = report.data.into_iter().map(|(stack, count)| {
        let functions = stack.frames.iter().flatten();
        let files = functions.map(|function| function.filename().into_owned());
        (files.collect(), count.unsigned_abs() as u64)
    });
    Ok(stacks.collect())
}
