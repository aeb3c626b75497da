//! The cases: work on objects, and its timing.

use std::hint::black_box;
use std::time::Duration;

use anyhow::ensure;
use serde::Serialize;

use super::footprint::{self, Footprint};
use super::objects::{Objects, Words};
use crate::handover;
use crate::turn::{self, Worker};

/// Pairs between two reads of the clock.
const CHUNK: usize = 1024;

/// Objects of a batch.
const BATCH: usize = 1000;

/// Seed of the order in which a batch is freed: the same one for all subjects.
const SEED: u64 = 7;

named! {
    /// The work of the threads, named as in tables.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Case {
        /// One thread allocates and frees.
        Pair = "1 thread",
        /// The same, with the object written in between.
        PairWritten = "1 thread, written",
        /// Two threads do pairs.
        PairTwoThreads = "2 threads",
        /// One thread allocates 1,000 and frees them in that order.
        Batch = "1,000 in order",
        /// The same in a shuffled order.
        BatchShuffled = "1,000 shuffled",
        /// One thread allocates, another frees.
        Handover = "handover",
        /// The same, with the object written by the first.
        HandoverWritten = "handover, written",
    }
}

/// An allocator as the experiment sees it.
pub(super) trait Subject {
    fn name(&self) -> &'static str;
    /// Returns the size of an object.
    fn bytes(&self) -> usize;
    /// Runs the threads of the case. Returns the nanoseconds per object and busy CPU; in a
    /// handover, in which both CPUs work on each object, those of wall time.
    fn turn(&self, case: Case, turn: Duration) -> anyhow::Result<f64>;
    /// Fills it with `live` objects and measures its memory; none where the system does not report
    /// it. Exact only in a process that did nothing before.
    fn measure_memory(&self, live: usize) -> anyhow::Result<Option<Footprint>>;
}

/// An allocator of objects of `N` words.
pub(super) struct Store<O, const N: usize>(O);

impl<O: Objects<Words<N>>, const N: usize> Store<O, N> {
    pub(super) fn new() -> anyhow::Result<Self> {
        O::new().map(Store)
    }
}

impl<O: Objects<Words<N>>, const N: usize> Subject for Store<O, N> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn bytes(&self) -> usize {
        size_of::<Words<N>>()
    }

    fn turn(&self, case: Case, turn: Duration) -> anyhow::Result<f64> {
        let objects = &self.0;
        let (bare, written) = (|_| Words::uninit(), |n| Words::new([n; N]));
        let ns = match case {
            Case::Pair => turn::turn(1, turn, &|_| warm(move || pairs(objects, bare))),
            Case::PairWritten => turn::turn(1, turn, &|_| warm(move || pairs(objects, written))),
            Case::PairTwoThreads => turn::turn(2, turn, &|_| warm(move || pairs(objects, bare))),
            Case::Batch => turn::turn(1, turn, &|_| batches(objects, (0..BATCH).collect())),
            Case::BatchShuffled => turn::turn(1, turn, &|_| batches(objects, shuffled())),
            Case::Handover => handed_over(objects, bare, turn),
            Case::HandoverWritten => handed_over(objects, written, turn),
        }?;
        ensure!(ns.is_finite(), "there was no memory for an object");
        Ok(ns)
    }

    fn measure_memory(&self, live: usize) -> anyhow::Result<Option<Footprint>> {
        footprint::measure_memory(&self.0, live)
    }
}

/// Runs a worker's first chunk before the start, so that the thread's caches are filled.
fn warm<'a>(mut worker: impl FnMut() -> usize + 'a) -> Worker<'a> {
    worker();
    Box::new(worker)
}

/// Allocates and frees: the measured loop. Returns the number of pairs.
#[inline(never)]
fn pairs<T, O: Objects<T>>(objects: &O, make: impl Fn(u64) -> T) -> usize {
    for n in 0..CHUNK {
        let Some(held) = objects.insert(make(n as u64)) else {
            return 0;
        };
        objects.remove(black_box(held));
    }
    CHUNK
}

/// Allocates on one thread and frees on another.
fn handed_over<T, O: Objects<T>>(
    objects: &O,
    make: impl Fn(u64) -> T + Send,
    turn: Duration,
) -> anyhow::Result<f64> {
    handover::turn(
        move |n| objects.insert(make(n)),
        |held| objects.remove(held),
        turn,
    )
}

/// Prepares batches that are freed in the order of `order`.
fn batches<const N: usize, O: Objects<Words<N>>>(objects: &O, order: Vec<usize>) -> Worker<'_> {
    let mut slots: Vec<_> = order.iter().map(|_| None).collect();
    warm(move || batch(objects, &mut slots, &order))
}

/// Allocates a batch and frees it: the measured loop. Returns the number of objects.
#[inline(never)]
fn batch<'a, const N: usize, O: Objects<Words<N>>>(
    objects: &'a O,
    slots: &mut [Option<O::Held<'a>>],
    order: &[usize],
) -> usize {
    for slot in &mut *slots {
        *slot = objects.insert(Words::uninit());
        if slot.is_none() {
            return 0;
        }
    }
    for &place in order {
        if let Some(held) = slots[place].take() {
            objects.remove(held);
        }
    }
    order.len()
}

fn shuffled() -> Vec<usize> {
    let mut order: Vec<_> = (0..BATCH).collect();
    fastrand::Rng::with_seed(SEED).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// An allocator that counts live objects, and holds at most `ROOM`.
    struct Counted<const ROOM: usize>(AtomicUsize);

    impl<T, const ROOM: usize> Objects<T> for Counted<ROOM> {
        type Held<'a> = usize;
        const NAME: &'static str = "counted";

        fn new() -> anyhow::Result<Self> {
            Ok(Counted(AtomicUsize::new(0)))
        }

        fn insert(&self, _value: T) -> Option<usize> {
            let before = self.0.fetch_add(1, Ordering::Relaxed);
            (before < ROOM).then_some(before)
        }

        fn remove(&self, _held: usize) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn every_case_frees_what_it_allocates() {
        for case in Case::ALL {
            let store = Store::<Counted<{ usize::MAX }>, 8>::new().unwrap();
            let ns = store.turn(case, Duration::from_millis(1)).unwrap();
            assert!(ns > 0.0, "{case:?}");
            assert_eq!(store.0.0.into_inner(), 0, "{case:?}");
        }
    }

    #[test]
    fn an_allocator_without_memory_is_an_error() {
        for case in Case::ALL {
            let store = Store::<Counted<0>, 8>::new().unwrap();
            let turned = store.turn(case, Duration::from_millis(1));
            assert!(turned.is_err(), "{case:?}");
        }
    }

    #[test]
    fn a_shuffled_batch_is_a_whole_batch_in_another_order() {
        let mut order = shuffled();
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert!(order.into_iter().eq(0..BATCH));
    }
}
