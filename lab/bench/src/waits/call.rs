//! The calls, and the tables on which they are made.

use std::hint;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fdtable::{Error, FdFlags, FileRef, Files};

const NONE: FdFlags = FdFlags::empty();

/// The row of a thread that makes no call.
pub(super) const NOTHING: &str = "nothing, for a millisecond";

/// A call with its argument.
pub(super) struct Call {
    pub(super) name: &'static str,
    /// True if its documentation says that it holds the lock longer for a larger argument.
    pub(super) grows: bool,
    /// Makes the table on which the call is made once.
    pub(super) prepare: fn(u32) -> anyhow::Result<Files<u32>>,
    pub(super) run: fn(&Files<u32>, u32) -> anyhow::Result<()>,
}

const fn call(
    name: &'static str,
    prepare: fn(u32) -> anyhow::Result<Files<u32>>,
    run: fn(&Files<u32>, u32) -> anyhow::Result<()>,
) -> Call {
    Call {
        name,
        grows: false,
        prepare,
        run,
    }
}

/// Lists all calls.
pub(super) fn all() -> Vec<Call> {
    vec![
        call(NOTHING, full, |_, _| {
            let end = Instant::now() + Duration::from_millis(1);
            while Instant::now() < end {
                hint::spin_loop();
            }
            Ok(())
        }),
        call(
            "open above descriptors opened by name",
            by_name,
            |files, _| {
                files.open(file(), NONE)?;
                Ok(())
            },
        ),
        call("open_any above them", by_name, |files, _| {
            files.open_any(file(), NONE)?;
            Ok(())
        }),
        call("dup_min above them", by_name, |files, _| {
            files.dup_min(0, 100, NONE)?;
            Ok(())
        }),
        call("open_pair around them", by_name_but_one, |files, _| {
            files.open_pair((file(), file()), NONE)?;
            Ok(())
        }),
        call("open in a child, above them", child_by_name, |files, _| {
            files.open(file(), NONE)?;
            Ok(())
        }),
        call("reserve_many, all", empty, |files, count| {
            // Released by the row below.
            std::mem::forget(files.reserve_many(count as usize, NONE)?);
            Ok(())
        }),
        call("reserve_many, all, and the drop", empty, |files, count| {
            drop(files.reserve_many(count as usize, NONE)?);
            Ok(())
        }),
        call(
            "reserve_many that fails at the last",
            one_too_few,
            |files, count| {
                let refused = files.reserve_many(count as usize, NONE).map(drop);
                ensure!(refused == Err(Error::TooManyFiles), "one is missing");
                Ok(())
            },
        ),
        call("reserve_many, one in each leaf", holes, |files, count| {
            std::mem::forget(files.reserve_many(count as usize / 64, NONE)?);
            Ok(())
        }),
        call("set_cloexec_range, all", full, |files, _| {
            Ok(files.set_cloexec_range(0, u32::MAX)?)
        }),
        call("close_range, all", full, |files, _| {
            Ok(files.close_range(0, u32::MAX, drop)?)
        }),
        call("close_range in a child, all", child, |files, _| {
            Ok(files.close_range(0, u32::MAX, drop)?)
        }),
        call("exec, every other", every_other_on_exec, |files, _| {
            Ok(files.close_on_exec(drop)?)
        }),
        call("fork", full, |files, _| {
            files.fork()?;
            Ok(())
        }),
        Call {
            grows: true,
            ..call(
                "fork with one reserved in each leaf",
                reserved,
                |files, _| {
                    files.fork()?;
                    Ok(())
                },
            )
        },
        call("fork_keeping, three", full, |files, _| {
            files.fork_keeping(|fd, _, _| fd.raw() < 3)?;
            Ok(())
        }),
        call(
            "set_quarantine(0), all that wait",
            quarantined,
            |files, _| {
                files.set_quarantine(0)?;
                Ok(())
            },
        ),
        call(
            "dup_to with all in quarantine",
            quarantined,
            |files, count| {
                files.dup3(0, (count - 1).cast_signed(), NONE)?;
                Ok(())
            },
        ),
        call("set_limit", full, |files, count| {
            files.set_limit(count / 2);
            files.set_limit(count * 2);
            Ok(())
        }),
    ]
}

fn file() -> FileRef<u32> {
    FileRef::new(0)
}

fn empty(count: u32) -> anyhow::Result<Files<u32>> {
    Ok(Files::with_limit(count))
}

fn one_too_few(count: u32) -> anyhow::Result<Files<u32>> {
    let files = Files::with_limit(count);
    files.open(file(), NONE)?;
    Ok(files)
}

/// All opened as the lowest, so that searches have marked the leaves as full.
fn full(count: u32) -> anyhow::Result<Files<u32>> {
    let files = Files::with_limit(u32::MAX);
    for _ in 0..count {
        files.open(file(), NONE)?;
    }
    Ok(files)
}

fn child(count: u32) -> anyhow::Result<Files<u32>> {
    Ok(full(count)?.fork()?)
}

/// All opened at chosen descriptors, so that no search has seen the leaves.
fn by_name(count: u32) -> anyhow::Result<Files<u32>> {
    let files = Files::with_limit(u32::MAX);
    let first = files.open(file(), NONE)?;
    for fd in 1..count.next_multiple_of(64) {
        files.dup3(first, fd.cast_signed(), NONE)?;
    }
    Ok(files)
}

fn by_name_but_one(count: u32) -> anyhow::Result<Files<u32>> {
    let files = by_name(count)?;
    drop(files.close(5)?);
    Ok(files)
}

fn child_by_name(count: u32) -> anyhow::Result<Files<u32>> {
    Ok(by_name(count)?.fork()?)
}

/// The last slot of each leaf is free.
fn holes(count: u32) -> anyhow::Result<Files<u32>> {
    let files = full(count.next_multiple_of(64))?;
    for fd in (63..count).step_by(64) {
        drop(files.close(fd.cast_signed())?);
    }
    Ok(files)
}

/// The last slot of each leaf is reserved.
fn reserved(count: u32) -> anyhow::Result<Files<u32>> {
    let files = holes(count)?;
    let all = files.reserve_many(count as usize / 64, NONE);
    std::mem::forget(all.context("enough are free")?);
    Ok(files)
}

fn every_other_on_exec(count: u32) -> anyhow::Result<Files<u32>> {
    let files = full(count)?;
    for fd in (0..count).step_by(2) {
        files.set_fd_flags(fd.cast_signed(), FdFlags::CLOEXEC)?;
    }
    Ok(files)
}

/// The quarantine is full, with each descriptor in a leaf of its own as far as possible.
fn quarantined(count: u32) -> anyhow::Result<Files<u32>> {
    let files = full(count)?;
    files.set_quarantine(u32::MAX)?;
    for fd in (1..count).rev().step_by(64).chain([count - 1]) {
        // The last one may be closed already.
        let closed = files.close(fd.cast_signed()).map(drop);
        closed.or_else(|error| match error {
            Error::BadFd => Ok(()),
            error => Err(error),
        })?;
    }
    Ok(files)
}
