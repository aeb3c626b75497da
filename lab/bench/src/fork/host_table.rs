//! The host's own forks.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::thread;
use std::time::Instant;

use ::fork::waitpid;
use anyhow::{Context, anyhow};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, raise};
use nix::unistd::{dup, pause};

use super::{Row, Step};
use crate::experiment::Progress;
use crate::host;

pub(super) const UNSHARE: &str = "the host, unshare of the table";
pub(super) const FORK: &str = "the host, fork of the process";

/// Measures the host with `few` descriptors and with as many as it allows. Returns no rows where
/// it refuses a table of its own to a thread.
pub(super) fn rows(few: u32, rounds: usize, progress: &dyn Progress) -> anyhow::Result<Vec<Row>> {
    let most = host::raise_limit()?;
    progress.begin("fork, host", (2 * rounds) as u64);
    let mut rows = Vec::new();
    for open in [few, most] {
        let samples = host::with_own_table(|| {
            fill(open)?;
            (0..rounds)
                .map(|_| {
                    progress.step();
                    Ok((unshared()?, forked()?))
                })
                .collect::<anyhow::Result<Vec<(f64, f64)>>>()
        });
        if let Some(samples) = samples? {
            let (unshared, forked) = samples.into_iter().unzip();
            rows.push(Row::new(UNSHARE, open, Step::Fork, unshared));
            rows.push(Row::new(FORK, open, Step::Fork, forked));
        }
    }
    Ok(rows)
}

/// Opens descriptors until every descriptor below `open` is taken. They are closed with the table.
fn fill(open: u32) -> anyhow::Result<()> {
    let file = File::open("/dev/null")?;
    let mut number = file.as_raw_fd();
    let mut copies = Vec::with_capacity(open as usize);
    while number + 1 < open as RawFd {
        let copy = dup(&file)?;
        number = copy.as_raw_fd();
        copies.push(copy);
    }
    // Not closed one by one: the last thread with the table does that.
    std::mem::forget((copies, file));
    Ok(())
}

/// Returns the nanoseconds of an `unshare`, in which a thread copies the table that it shares.
fn unshared() -> anyhow::Result<f64> {
    let copy = || {
        let began = Instant::now();
        let copied = unshare(CloneFlags::CLONE_FILES);
        let took = began.elapsed().as_nanos() as f64;
        copied.map(|()| took)
    };
    let copied = thread::scope(|scope| scope.spawn(copy).join());
    Ok(copied.map_err(|_| anyhow!("the copying thread panicked"))??)
}

/// Returns the nanoseconds until `fork(2)` returns in the parent. The child ends at once.
fn forked() -> anyhow::Result<f64> {
    let began = Instant::now();
    match ::fork::fork().context("forking the process")? {
        ::fork::Fork::Parent(child) => {
            let took = began.elapsed().as_nanos() as f64;
            waitpid(child).context("waiting for the child")?;
            Ok(took)
        }
        // A signal and not an exit, which would run the parent's exit handlers. Nothing is
        // allocated and no lock is taken between the fork and this.
        ::fork::Fork::Child => loop {
            let _ = raise(Signal::SIGKILL);
            pause();
        },
    }
}
