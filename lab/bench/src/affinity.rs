//! Pins threads to CPUs.

use std::sync::Barrier;
use std::thread;

use anyhow::{anyhow, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Returns how many CPUs this process may use, at least 1.
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Binds the calling thread to the `nth` of the CPUs that it may use, counted from 0.
///
/// If the system refuses, the thread stays where it is: pinning only makes a measurement steadier.
pub fn pin(nth: usize) {
    let Some(cpu) = allowed().nth(nth) else {
        return;
    };
    let mut set = CpuSet::new();
    if set.set(cpu).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

/// Runs `work` on a thread that is bound to the first CPU. The calling thread keeps its CPUs.
///
/// # Errors
/// Errors of `work`, or a panic in it.
pub fn on_one_cpu<R: Send>(work: impl FnOnce() -> anyhow::Result<R> + Send) -> anyhow::Result<R> {
    let pinned = || {
        pin(0);
        work()
    };
    thread::scope(|scope| scope.spawn(pinned).join())
        .unwrap_or_else(|_| Err(anyhow!("the measuring thread panicked")))
}

/// Runs two pieces of work at the same time, each on a CPU of its own.
///
/// # Errors
/// If one of them panics.
pub(crate) fn on_two_cpus<A: Send, B: Send>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> anyhow::Result<(A, B)> {
    let start = &Barrier::new(2);
    let ready = move |nth| {
        pin(nth);
        start.wait();
    };
    let both = thread::scope(|scope| {
        let first = scope.spawn(move || {
            ready(0);
            first()
        });
        let second = scope.spawn(move || {
            ready(1);
            second()
        });
        (first.join(), second.join())
    });
    match both {
        (Ok(first), Ok(second)) => Ok((first, second)),
        _ => bail!("a measuring thread panicked"),
    }
}

/// Lists the CPUs that the calling thread may use.
fn allowed() -> impl Iterator<Item = usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(move |&cpu| set.is_set(cpu).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_use_one_cpu() {
        let remaining = thread::spawn(|| {
            pin(0);
            allowed().count()
        });
        assert_eq!(remaining.join().unwrap(), 1);
    }

    #[test]
    fn a_cpu_that_does_not_exist_changes_nothing() {
        let remaining = thread::spawn(|| {
            let before = allowed().count();
            pin(usize::MAX);
            (before, allowed().count())
        });
        let (before, after) = remaining.join().unwrap();
        assert_eq!(before, after);
    }
}
