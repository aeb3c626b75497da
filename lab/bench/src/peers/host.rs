//! The kernel's own table, by system calls, and an empty system call beside it.

use std::fs::File;
use std::hint::black_box;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::ensure;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::eventfd::EventFd;
use nix::unistd::{dup, getppid};

use super::case::{Case, LOOKUPS_BETWEEN, Work};
use super::rival::{Feature, Features, Rival, Side};
use crate::host;
use crate::tail::{Durations, Tail};
use crate::turn::{self, Worker};

/// Pairs of calls between two reads of the clock.
const PAIRS: usize = 64;

/// Lookups between two reads of the clock.
const LOOKUPS: usize = 128;

pub(super) fn all() -> Vec<Box<dyn Rival>> {
    vec![Box::new(Host), Box::new(EmptyCall)]
}

/// Looks up with `fcntl`, opens with `dup`, and creates the smallest object, an `eventfd`. It
/// returns no reference to the program, so it has no owned lookup.
struct Host;

impl Rival for Host {
    fn name(&self) -> &'static str {
        "the host, by system calls"
    }

    fn features(&self) -> Features {
        Features {
            lowest_free: Feature::Yes,
            any_free: Feature::No,
            dup: Feature::Yes,
            fork: Feature::With("copy"),
            enumeration: Feature::With("/proc"),
            stale_refused: Feature::No,
            borrowed: Feature::With("call"),
            owned: Feature::No,
            shared: Feature::Yes,
            grows_without_stall: Feature::No,
        }
    }

    fn turn(&mut self, case: Case, length: Duration, _round: usize) -> anyhow::Result<Option<f64>> {
        if case.work == Work::Owned {
            return Ok(None);
        }
        let file = File::open("/dev/null")?;
        let open: Vec<OwnedFd> = (0..case.open())
            .map(|_| dup(&file))
            .collect::<Result<_, _>>()?;
        let sequences = case.sequences();
        let prepare = |nth: usize| {
            let at = |&place: &i32| open[place as usize].as_fd();
            let fds: Vec<_> = sequences[nth].iter().take(LOOKUPS).map(at).collect();
            worker(case.work, fds)
        };
        let ns = turn::turn(case.threads, length, &prepare)?;
        ensure!(ns.is_finite(), "the host refuses a call");
        Ok(Some(ns))
    }

    /// Grows a table of its own, which ends with the thread. None where the host refuses that, or
    /// allows fewer descriptors.
    fn growth(&mut self, most: u32) -> anyhow::Result<Option<Tail>> {
        if host::raise_limit()? < most {
            return Ok(None);
        }
        host::with_own_table(|| {
            let file = File::open("/dev/null")?;
            let mut open = Vec::with_capacity(most as usize);
            let mut durations = Durations::new()?;
            for _ in 0..most {
                let began = Instant::now();
                let opened = dup(&file);
                durations.record(began.elapsed());
                open.push(opened?);
            }
            Ok(durations.tail())
        })
    }

    /// The host does not report its memory.
    fn footprint(&mut self, _live: u32) -> anyhow::Result<Option<f64>> {
        Ok(None)
    }
}

fn worker(work: Work, fds: Vec<BorrowedFd<'_>>) -> Worker<'_> {
    let file = fds[0];
    match work {
        Work::Borrowed | Work::Owned => Box::new(move || look_up(&fds)),
        Work::OpenClose => Box::new(move || {
            repeat(|| {
                drop(dup(file).ok()?);
                Some(())
            })
        }),
        Work::OpenCloseNew => Box::new(|| {
            repeat(|| {
                drop(EventFd::new().ok()?);
                Some(())
            })
        }),
        Work::Mixed => Box::new(move || {
            let mut operations = 0;
            for block in fds.chunks_exact(2 * LOOKUPS_BETWEEN) {
                let (before, between) = block.split_at(LOOKUPS_BETWEEN);
                operations += look_up(before);
                let Ok(opened) = dup(file) else { return 0 };
                operations += look_up(between);
                drop(black_box(opened));
                operations += 2;
            }
            operations
        }),
    }
}

/// Looks up all of them and returns how many were found.
fn look_up(fds: &[BorrowedFd<'_>]) -> usize {
    fds.iter()
        .filter(|fd| black_box(fcntl(fd, FcntlArg::F_GETFD)).is_ok())
        .count()
}

/// Repeats an open and a close, and returns how often both succeeded.
fn repeat(pair: impl Fn() -> Option<()>) -> usize {
    (0..PAIRS).filter_map(|_| pair()).count()
}

/// As many calls as [`Host`] makes, each of which only reads the parent's process ID: the C library
/// does not cache it.
struct EmptyCall;

impl Rival for EmptyCall {
    fn name(&self) -> &'static str {
        "floor: empty system calls"
    }

    fn side(&self) -> Side {
        Side::Floor
    }

    fn features(&self) -> Features {
        Features::NONE
    }

    fn turn(&mut self, case: Case, length: Duration, _round: usize) -> anyhow::Result<Option<f64>> {
        let calls = match case.work {
            Work::Owned => return Ok(None),
            Work::Borrowed | Work::Mixed => 1,
            Work::OpenClose | Work::OpenCloseNew => 2,
        };
        let worker = || {
            for _ in 0..PAIRS * calls {
                black_box(getppid());
            }
            PAIRS
        };
        turn::turn(case.threads, length, &|_| Box::new(worker)).map(Some)
    }

    fn growth(&mut self, _most: u32) -> anyhow::Result<Option<Tail>> {
        Ok(None)
    }

    fn footprint(&mut self, _live: u32) -> anyhow::Result<Option<f64>> {
        Ok(None)
    }
}
