//! Pairs of open and close, in each of the cases.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use fdtable::{Files, Rcu};
use serde::Serialize;

use super::allocators::{Allocator, Apart, MutexSlab, ShardedSlab, TwoAdds};
use crate::any_free::AnyFree;
use crate::baseline::{RwLockBitmap, RwLockVec};
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
    fn name(&self) -> &'static str;
    /// Runs pairs on the threads of the case; returns the nanoseconds per pair and busy CPU.
    fn turn(&self, case: Case, turn: Duration) -> anyhow::Result<f64>;
}

/// An allocator with some allocated keys, and an object for each thread.
struct Filled<N: Allocator> {
    allocator: N,
    objects: Vec<N::Ref>,
}

/// Lists every subject in each of its cases: all of them with nothing else open; those whose size
/// is configurable also with `most` open.
pub(super) fn all(most: u32) -> anyhow::Result<Vec<(Box<dyn Pairs>, Case)>> {
    let mut entries = Vec::new();
    entries.extend(empty_and_full::<Files<Rcu<Apart>>>(most)?);
    entries.extend(empty_and_full::<AnyFree<Apart>>(most)?);
    entries.extend(empty_and_full::<MutexSlab>(most)?);
    entries.extend(empty_and_full::<ShardedSlab>(most)?);
    entries.extend(empty_and_full::<RwLockVec<Apart>>(most)?);
    entries.extend(empty_and_full::<RwLockBitmap<Apart>>(most)?);
    entries.extend(cases::<TwoAdds>(1, &[1, THREADS])?);
    Ok(entries)
}

fn empty_and_full<N: Allocator>(most: u32) -> anyhow::Result<Vec<(Box<dyn Pairs>, Case)>> {
    let mut entries = cases::<N>(1, &[1, THREADS])?;
    entries.extend(cases::<N>(most, &[1])?);
    Ok(entries)
}

/// Creates one allocator with `open` keys, and lists both kinds of work on it.
fn cases<N: Allocator>(
    open: u32,
    threads: &[usize],
) -> anyhow::Result<Vec<(Box<dyn Pairs>, Case)>> {
    let filled = Arc::new(Filled::<N>::new(open)?);
    let case = |&threads: &usize| {
        [Work::Move, Work::Clone].map(|work| {
            let case = Case {
                work,
                open,
                threads,
            };
            (Box::new(Arc::clone(&filled)) as Box<dyn Pairs>, case)
        })
    };
    Ok(threads.iter().flat_map(case).collect())
}

impl<N: Allocator> Filled<N> {
    /// Allocates `open` keys and frees the middle one, which a pair will get.
    fn new(open: u32) -> anyhow::Result<Self> {
        let allocator = N::with_room(open);
        let object = N::object()?;
        let mut keys = Vec::with_capacity(open as usize);
        for _ in 0..open {
            let key = allocator.open(object.clone());
            keys.push(key.with_context(|| format!("{}: {open} open", N::NAME))?);
        }
        let middle = keys.swap_remove((keys.len() - 1) / 2);
        allocator
            .take(middle)
            .with_context(|| format!("{}: the middle one is not open", N::NAME))?;
        let objects = (0..THREADS)
            .map(|_| N::object())
            .collect::<anyhow::Result<_>>()?;
        Ok(Filled { allocator, objects })
    }

    fn worker(&self, nth: usize, work: Work) -> Worker<'_> {
        let object = &self.objects[nth % self.objects.len()];
        match work {
            Work::Move => {
                let mut object = Some(object.clone());
                Box::new(move || {
                    object = object.take().and_then(|it| self.move_pairs(it));
                    if object.is_some() { CHUNK } else { 0 }
                })
            }
            Work::Clone => Box::new(move || match self.clone_pairs(object) {
                Some(()) => CHUNK,
                None => 0,
            }),
        }
    }

    /// Moves the reference in and out: the measured loop.
    #[inline(never)]
    fn move_pairs(&self, mut object: N::Ref) -> Option<N::Ref> {
        for _ in 0..CHUNK {
            let key = self.allocator.open(object)?;
            object = self.allocator.take(black_box(key))?;
        }
        Some(object)
    }

    /// Opens with a reference of the table's own and drops it: the measured loop.
    #[inline(never)]
    fn clone_pairs(&self, object: &N::Ref) -> Option<()> {
        for _ in 0..CHUNK {
            let key = self.allocator.open(object.clone())?;
            drop(self.allocator.take(black_box(key))?);
        }
        Some(())
    }
}

impl<N: Allocator> Pairs for Arc<Filled<N>> {
    fn name(&self) -> &'static str {
        N::NAME
    }

    fn turn(&self, case: Case, turn: Duration) -> anyhow::Result<f64> {
        turn::turn(case.threads, turn, &|nth| self.worker(nth, case.work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn the_free_descriptor_of_a_full_table_is_in_the_middle() {
        let filled = Filled::<Files<Rcu<Apart>>>::new(101).unwrap();
        assert_eq!(filled.allocator.open_count(), 100);
        let object = <Files<Rcu<Apart>> as Allocator>::object().unwrap();
        assert_eq!(Table::open(&filled.allocator, object), Ok(50));
    }

    #[test]
    fn a_chunk_leaves_the_table_as_it_was() {
        for work in [Work::Move, Work::Clone] {
            let filled = Filled::<Files<Rcu<Apart>>>::new(7).unwrap();
            assert_eq!(filled.worker(0, work)(), CHUNK);
            assert_eq!(filled.allocator.open_count(), 6);
        }
    }

    #[test]
    fn failed_opens_count_nothing() {
        let filled = Filled::<Files<Rcu<Apart>>>::new(1).unwrap();
        filled.allocator.set_limit(0);
        for work in [Work::Move, Work::Clone] {
            let mut worker = filled.worker(0, work);
            assert_eq!((worker(), worker()), (0, 0));
        }
    }

    #[test]
    fn every_subject_has_both_kinds_of_work() {
        let entries = all(3).unwrap();
        // Six with three cases of each kind, one with two.
        assert_eq!(entries.len(), 6 * 6 + 4);
    }
}
