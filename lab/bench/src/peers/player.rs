//! A table of this process as a rival: creates it, fills it, and runs the measured loops.

use std::hint::black_box;
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::case::{Case, LOOKUPS_BETWEEN, Work};
use super::rival::{Rival, Side};
use crate::memory::bytes_in_use;
use crate::subject::{BATCH, File, Memory, Subject, sum};
use crate::tail::{Durations, Tail};
use crate::turn::{self, Worker};

/// Pairs of an open and a close between two reads of the clock.
const PAIRS: usize = 512;

/// Descriptors of a table in turns: a few more than are open, for threads that reserve some.
const ROOM: u32 = 4096;

/// Rival in this process.
pub(super) struct Player<S> {
    name: &'static str,
    side: Side,
    subject: PhantomData<fn() -> S>,
}

/// Table with some descriptors open, and the lookups.
struct Filled<S: Subject> {
    table: S,
    sequences: Vec<Vec<S::Key>>,
}

impl<S: Subject> Player<S> {
    /// Makes a rival that is ready to be measured.
    pub(super) fn boxed(name: &'static str, side: Side) -> Box<dyn Rival> {
        Box::new(Player {
            name,
            side,
            subject: PhantomData::<fn() -> S>,
        })
    }
}

impl<S: Subject> Rival for Player<S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn side(&self) -> Side {
        self.side
    }

    fn turn(&mut self, case: Case, length: Duration, round: usize) -> anyhow::Result<Option<f64>> {
        let filled = Filled::<S>::new(case)?;
        let prepare = |nth| filled.worker(case.work, nth, round);
        let ns = turn::turn(case.threads, length, &prepare)?;
        ensure!(ns.is_finite(), "a table did not accept its own key");
        drop(filled);
        S::run_deferred()?;
        Ok(Some(ns))
    }

    fn growth(&mut self, most: u32) -> anyhow::Result<Option<Tail>> {
        let table = S::with_room(most.saturating_add(ROOM));
        let file = S::File::new(0);
        let ready: Vec<_> = (0..most).map(|_| file.clone()).collect();
        let mut durations = Durations::new()?;
        for file in ready {
            let file = black_box(file);
            let began = Instant::now();
            let opened = table.open(file);
            let took = began.elapsed();
            ensure!(opened.is_some(), "it is full");
            durations.record(took);
        }
        drop(table);
        S::run_deferred()?;
        Ok(Some(durations.tail()))
    }

    fn footprint(&mut self, live: u32) -> anyhow::Result<Option<f64>> {
        if S::MEMORY == Memory::Mapped {
            return Ok(None);
        }
        let file = S::File::new(0);
        let Some(before) = bytes_in_use()? else {
            return Ok(None);
        };
        // Boxed, so that the table itself is in the heap too.
        let table = Box::new(S::with_room(live.saturating_add(ROOM)));
        for _ in 0..live {
            table.open(file.clone()).context("it is full")?;
        }
        let used = bytes_in_use()?.unwrap_or(f64::NAN) - before;
        drop(table);
        S::run_deferred()?;
        Ok(Some(used / f64::from(live) - S::File::IN_PLACE as f64))
    }
}

impl<S: Subject> Filled<S> {
    fn new(case: Case) -> anyhow::Result<Self> {
        let table = S::with_room(case.open() + ROOM);
        let open = |number| table.open(S::File::new(u64::from(number)));
        let keys: Vec<S::Key> = (0..case.open())
            .map(open)
            .collect::<Option<_>>()
            .context("it is full")?;
        let of_thread = |places: Vec<RawFd>| places.iter().map(|&at| keys[at as usize]).collect();
        let sequences = case.sequences().into_iter().map(of_thread).collect();
        let expected = u64::from(case.open() * (case.open() - 1) / 2);
        let found = [
            sum(&keys, |key| table.borrowed(key)),
            sum(&keys, |key| table.owned(key)),
        ];
        ensure!(found == [expected; 2], "it finds the wrong objects");
        Ok(Filled { table, sequences })
    }

    fn worker(&self, work: Work, nth: usize, round: usize) -> Worker<'_> {
        let keys = &self.sequences[nth];
        let mut reader = S::reader();
        // Created by the thread, so that no two threads write to a common line.
        let mut file = Some(S::File::new(nth as u64));
        let mut worker: Worker<'_> = match work {
            Work::Borrowed => Box::new(move || {
                black_box(self.sum_borrowed(&mut reader, black_box(keys)));
                keys.len()
            }),
            Work::Owned => Box::new(move || {
                black_box(self.sum_owned(black_box(keys)));
                keys.len()
            }),
            Work::OpenClose => Box::new(move || {
                file = file.take().and_then(|it| self.move_pairs(it));
                counted(file.is_some(), PAIRS)
            }),
            Work::OpenCloseClone => Box::new(move || {
                let pairs = file.as_ref().and_then(|it| self.clone_pairs(it));
                counted(pairs.is_some(), PAIRS)
            }),
            Work::OpenCloseNew => {
                Box::new(move || counted(self.new_pairs(round as u64).is_some(), PAIRS))
            }
            Work::Mixed => Box::new(move || {
                file = file
                    .take()
                    .and_then(|it| self.mix(&mut reader, black_box(keys), it));
                counted(file.is_some(), operations_of_mix(keys))
            }),
        };
        // Creates the table's per-thread state, and warms the code.
        worker();
        worker
    }

    /// Looks up without references: the measured loop.
    #[inline(never)]
    fn sum_borrowed(&self, reader: &mut S::Reader, keys: &[S::Key]) -> u64 {
        keys.chunks(BATCH).fold(0, |sum: u64, batch| {
            sum.wrapping_add(self.table.sum_borrowed(reader, batch))
        })
    }

    /// Takes and drops references: the measured loop.
    #[inline(never)]
    fn sum_owned(&self, keys: &[S::Key]) -> u64 {
        sum(keys, |key| self.table.owned(key))
    }

    /// Moves the reference in and out: the measured loop.
    #[inline(never)]
    fn move_pairs(&self, mut file: S::File) -> Option<S::File> {
        for _ in 0..PAIRS {
            let key = self.table.open(file)?;
            file = self.table.take(black_box(key))?;
        }
        Some(file)
    }

    /// Opens a further reference and closes it: the measured loop.
    #[inline(never)]
    fn clone_pairs(&self, file: &S::File) -> Option<()> {
        for _ in 0..PAIRS {
            let key = self.table.open(file.clone())?;
            self.table.close(black_box(key))?;
        }
        Some(())
    }

    /// Creates an object, opens it, and closes it: the measured loop.
    #[inline(never)]
    fn new_pairs(&self, value: u64) -> Option<()> {
        for _ in 0..PAIRS {
            let key = self.table.open(S::File::new(value))?;
            self.table.close(black_box(key))?;
        }
        Some(())
    }

    /// Lookups, with an open or a close after each block: the measured loop.
    #[inline(never)]
    fn mix(&self, reader: &mut S::Reader, keys: &[S::Key], mut file: S::File) -> Option<S::File> {
        let mut sum: u64 = 0;
        for block in keys.chunks_exact(2 * LOOKUPS_BETWEEN) {
            let (before, between) = block.split_at(LOOKUPS_BETWEEN);
            sum = sum.wrapping_add(self.table.sum_borrowed(reader, before));
            let key = self.table.open(file)?;
            sum = sum.wrapping_add(self.table.sum_borrowed(reader, between));
            file = self.table.take(black_box(key))?;
        }
        black_box(sum);
        Some(file)
    }
}

/// Returns the operations of [`Filled::mix`] over `keys`: the lookups, an open and a close for each
/// block.
fn operations_of_mix<K>(keys: &[K]) -> usize {
    keys.len() / (2 * LOOKUPS_BETWEEN) * (2 * LOOKUPS_BETWEEN + 2)
}

/// Returns the number of operations, or 0 after a failure: then the turn has no time per operation.
fn counted(done: bool, operations: usize) -> usize {
    if done { operations } else { 0 }
}
