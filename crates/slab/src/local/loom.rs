//! Models of the magazines of the CPUs, both with locks and with sequences. An error shows as an
//! object with two owners, as a lost object, or as an object whose next owner does not see the
//! writes of the previous one.

use super::*;
use crate::magazine::ROUNDS;
use ::loom::cell::UnsafeCell;
use fdtable_sync::fence::model::fail_restart_after;
use fdtable_sync::model::Preemptions::AtMost;
use fdtable_sync::model::{explore, join, spawn};
use fdtable_sync::platform::Arc;
use fdtable_sync::sequence::model::{move_to, with_sequences};
use std::sync::atomic::AtomicUsize as Count;
use std::sync::atomic::Ordering::SeqCst;
use std::vec::Vec;

/// Magazines, and the objects that were put into them in the beginning.
struct World {
    local: Local,
    objects: Vec<UnsafeCell<bool>>,
    /// How many objects are in magazines that a thread has taken.
    taken: Count,
}

// SAFETY: the model checker checks that accesses to the cells do not meet.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    /// Makes magazines of so many objects, of which the last one is loaded on CPU 0.
    fn new(counts: &[usize]) -> Arc<Self> {
        let world = Self {
            local: Local::try_new().expect("there is memory"),
            objects: (0..counts.iter().sum())
                .map(|_| UnsafeCell::new(false))
                .collect(),
            taken: Count::new(0),
        };
        let mut objects = world.objects.iter();
        let mut magazines: Vec<Magazine> = Vec::new();
        for &count in counts {
            let magazine = Magazine::try_new().expect("there is memory");
            for object in objects.by_ref().take(count) {
                magazine
                    .push(NonNull::from(object).cast())
                    .expect("there is room");
            }
            magazines.push(magazine);
        }
        world.local.place(magazines);
        Arc::new(world)
    }

    /// Notes that a thread owns the object, or no longer owns it.
    fn mark(&self, object: NonNull<u8>, has: bool) {
        // SAFETY: every object is one of `objects`.
        let cell = unsafe { object.cast::<UnsafeCell<bool>>().as_ref() };
        // SAFETY: the checker reports two accesses that meet.
        let had = cell.with_mut(|cell| unsafe { cell.replace(has) });
        assert_ne!(had, has, "it has two owners");
    }

    fn pop(&self) -> Option<NonNull<u8>> {
        let object = self.local.pop()?;
        self.mark(object, true);
        Some(object)
    }

    /// Frees the object, or keeps it.
    fn push(&self, object: NonNull<u8>) {
        self.mark(object, false);
        if let Err(object) = self.local.push(object) {
            self.keep(object);
        }
    }

    /// Takes an object and frees one.
    fn pop_and_push(&self) {
        if let Some(object) = self.pop() {
            self.push(object);
        }
    }

    fn keep(&self, object: NonNull<u8>) {
        self.mark(object, true);
        self.taken.fetch_add(1, SeqCst);
    }

    /// Takes all objects out of a magazine.
    fn empty(&self, magazine: Magazine) {
        while let Some(object) = magazine.pop() {
            self.keep(object);
        }
    }

    fn drain(&self) {
        let mut drained = MagazineList::new();
        let done = self.local.drain(&mut drained);
        done.expect("no process shares it");
        while let Some(magazine) = drained.pop() {
            self.empty(magazine);
        }
    }

    /// After all others have ended.
    fn check(&self) {
        self.drain();
        assert_eq!(self.taken.load(SeqCst), self.objects.len(), "some are lost");
    }
}

/// Explores a model of two threads with locks and with sequences. Each is given the world that
/// `counts` makes.
fn explore_both(counts: &'static [usize], one: fn(&World), other: fn(&World)) {
    let model = move || {
        let world = World::new(counts);
        let thread = spawn({
            let world = world.clone();
            move || one(&world)
        });
        other(&world);
        join(thread);
        world.check();
    };
    explore(AtMost(3), model);
    with_sequences(|| explore(AtMost(3), model));
}

fn empty_magazine() -> Magazine {
    Magazine::try_new().expect("there is memory")
}

#[test]
fn two_take_and_free_on_one_cpu() {
    explore_both(&[2], World::pop_and_push, World::pop_and_push);
}

/// One thread frees where the other takes.
#[test]
fn what_was_taken_on_one_processor_is_given_back_on_another() {
    explore_both(&[1], World::pop_and_push, |world| {
        let object = world.pop();
        move_to(1);
        world.local.load(empty_magazine(), Lack::Room);
        object.into_iter().for_each(|object| world.push(object));
        world.pop_and_push();
    });
}

#[test]
fn a_take_and_a_free_meet_a_drain() {
    explore_both(&[2], World::pop_and_push, |world| {
        move_to(1);
        world.drain();
    });
}

#[test]
fn an_exchange_meets_a_drain() {
    explore_both(&[1, 0], World::pop_and_push, |world| {
        move_to(1);
        world.drain();
    });
}

/// A magazine that is displaced while the other is about to use it belongs to its displacer.
#[test]
fn a_take_and_a_free_meet_an_exchange_with_the_depot() {
    explore_both(&[ROUNDS, ROUNDS], World::pop_and_push, |world| {
        if let Some(displaced) = world.local.load(empty_magazine(), Lack::Room) {
            world.empty(displaced);
        }
    });
}

#[test]
fn an_exchange_with_the_depot_meets_a_drain() {
    explore_both(
        &[ROUNDS, ROUNDS],
        |world| {
            if let Some(displaced) = world.local.load(empty_magazine(), Lack::Room) {
                world.empty(displaced);
            }
            world.pop_and_push();
        },
        |world| {
            move_to(1);
            world.drain();
        },
    );
}

/// A drain that fails has taken nothing, or the next one has it; until then no thread is given a
/// magazine that it might use.
#[test]
fn a_drain_fails_at_each_restart() {
    for restarts in 0..2 {
        let model = move || {
            let world = World::new(&[ROUNDS, ROUNDS]);
            let thread = spawn({
                let world = world.clone();
                move || {
                    if let Some(displaced) = world.local.load(empty_magazine(), Lack::Room) {
                        world.empty(displaced);
                    }
                    world.pop_and_push();
                }
            });
            move_to(1);
            fail_restart_after(restarts);
            let mut drained = MagazineList::new();
            assert!(world.local.drain(&mut drained).is_err() && drained.len() == 0);
            join(thread);
            world.check();
        };
        with_sequences(|| explore(AtMost(3), model));
    }
}

#[test]
fn two_drain_at_once() {
    explore_both(&[1, 1], World::drain, World::drain);
}
