//! Pairs of open and close, in each of the cases.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use super::allocators::{self, Allocator, with_room};
use crate::subject::{File, Subject};
use crate::turn::{self, Worker};

/// Pairs between two reads of the clock.
const CHUNK: usize = 1024;

/// Most threads that do pairs at once.
const THREADS: usize = 2;

/// The work of a thread, and its circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Case {
    pub(super) work: Work,
    /// Descriptors that are open besides that of a pair.
    pub(super) open: u32,
    pub(super) threads: usize,
}

/// Ownership of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Work {
    /// The same reference moves in and out.
    Move,
    /// The table gets a reference of its own, which is dropped at the close.
    Clone,
}

/// An allocator of descriptors as the experiment sees it.
pub(super) trait Pairs {
    /// Runs pairs on the threads of the case; returns the nanoseconds per pair and busy CPU.
    fn turn(&self, case: Case, turn: Duration) -> anyhow::Result<f64>;
}

/// An allocator with some allocated keys.
pub(super) struct Filled<S>(S);

/// An allocator with its name in one of its cases.
pub(super) type Entry = (&'static str, Rc<dyn Pairs>, Case);

/// Lists every subject in each of its cases: with nothing else open, and with `most` open.
pub(super) fn all(most: u32) -> anyhow::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for Allocator { name, fill, .. } in allocators::all() {
        for (open, threads) in [(1, &[1, THREADS][..]), (most, &[1])] {
            let filled = fill(open).context(name)?;
            let cases = threads.iter().flat_map(|&threads| {
                [Work::Move, Work::Clone].map(|work| Case {
                    work,
                    open,
                    threads,
                })
            });
            entries.extend(cases.map(|case| (name, Rc::clone(&filled), case)));
        }
    }
    Ok(entries)
}

impl<S: Subject> Filled<S> {
    /// Allocates `open` keys and frees the middle one, which a pair will get.
    pub(super) fn new(open: u32) -> anyhow::Result<Self> {
        let allocator: S = with_room(open);
        let object = S::File::new(0);
        let mut keys = Vec::with_capacity(open as usize);
        for _ in 0..open {
            let key = allocator.open(object.another());
            keys.push(key.with_context(|| format!("{open} open"))?);
        }
        let middle = keys[(keys.len() - 1) / 2];
        let taken = allocator.take(middle);
        taken.context("the middle one is not open")?;
        Ok(Filled(allocator))
    }

    fn worker(&self, nth: usize, work: Work) -> Worker<'_> {
        // Created by the thread, so that no two threads write to a common line.
        let object = S::File::new(nth as u64);
        match work {
            Work::Move => {
                let mut object = Some(object);
                Box::new(move || {
                    object = object.take().and_then(|it| self.move_pairs(it));
                    if object.is_some() { CHUNK } else { 0 }
                })
            }
            Work::Clone => Box::new(move || match self.clone_pairs(&object) {
                Some(()) => CHUNK,
                None => 0,
            }),
        }
    }

    /// Moves the reference in and out: the measured loop.
    #[inline(never)]
    fn move_pairs(&self, mut object: S::File) -> Option<S::File> {
        for _ in 0..CHUNK {
            let key = self.0.open(object)?;
            object = self.0.take(black_box(key))?;
        }
        Some(object)
    }

    /// Opens with a reference of the table's own and drops it: the measured loop.
    #[inline(never)]
    fn clone_pairs(&self, object: &S::File) -> Option<()> {
        for _ in 0..CHUNK {
            let key = self.0.open(object.another())?;
            drop(self.0.take(black_box(key))?);
        }
        Some(())
    }
}

impl<S: Subject> Pairs for Filled<S> {
    fn turn(&self, case: Case, turn: Duration) -> anyhow::Result<f64> {
        turn::turn(case.threads, turn, &|nth| self.worker(nth, case.work))
    }
}

#[cfg(test)]
mod tests {
    use fdtable::{Files, Rcu};

    use super::*;
    use crate::lookup::Padded;

    #[test]
    fn the_free_descriptor_of_a_full_table_is_in_the_middle() {
        let filled = Filled::<Files<Rcu<Padded>>>::new(101).unwrap();
        assert_eq!(filled.0.open_count(), 100);
        let object = File::new(0);
        assert_eq!(Subject::open(&filled.0, object), Some(50));
    }

    #[test]
    fn a_chunk_leaves_the_table_as_it_was() {
        for work in [Work::Move, Work::Clone] {
            let filled = Filled::<Files<Rcu<Padded>>>::new(7).unwrap();
            assert_eq!(filled.worker(0, work)(), CHUNK);
            assert_eq!(filled.0.open_count(), 6);
        }
    }

    #[test]
    fn failed_opens_count_nothing() {
        let filled = Filled::<Files<Rcu<Padded>>>::new(1).unwrap();
        filled.0.set_limit(0);
        for work in [Work::Move, Work::Clone] {
            let mut worker = filled.worker(0, work);
            assert_eq!((worker(), worker()), (0, 0));
        }
    }

    #[test]
    fn every_subject_has_both_kinds_of_work() {
        let entries = all(3).unwrap();
        // Three cases of each kind.
        assert_eq!(entries.len(), 6 * 6);
    }
}
