//! Models of a death: an operation that ends at any of its steps, beside a thread that overwrites
//! its name, and a burial; and a pin beside the last put.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize as Executions};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::{JoinHandle, spawn};

use crate::death::die_after;
use crate::platform::AtomicU64;
use crate::platform::Ordering::{Acquire, Relaxed};
use crate::platform::{address, after_locked};
use crate::records::{Header, PinLine, Record};
use crate::{Count, Records, Thread, count, pins, release};

/// What is no part of a model: whether a thread died in any order.
type Flag = std::sync::Arc<AtomicBool>;

/// Runs `model` in every order with so many interruptions of a thread that could go on, or as many
/// as the environment allows. Reports how many orders there were.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = builder.max_branches.max(20_000);
    builder.preemption_bound = builder.preemption_bound.max(Some(preemptions));
    let executions = std::sync::Arc::new(Executions::new(0));
    builder.check({
        let executions = executions.clone();
        move || {
            executions.fetch_add(1, SeqCst);
            model();
        }
    });
    println!("{} executions", executions.load(SeqCst));
}

/// Shared memory: records, one object, and places that may refer to it; and the count of another.
struct World {
    header: Header,
    records: [Record; 3],
    pins: [PinLine; 3],
    count: Count,
    spare: Count,
    places: [AtomicU64; 5],
    /// Reading it is a use of the object, writing it its release.
    object: UnsafeCell<u32>,
}

// SAFETY: that accesses to the cell do not meet is what the checker checks.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    /// A world with one object, to which the first `references` places refer.
    fn new(references: usize) -> Arc<Self> {
        let world = Arc::new(Self {
            header: Header::default(),
            records: Default::default(),
            pins: Default::default(),
            count: Count::with_references(references as u64),
            spare: Count::with_references(1),
            places: Default::default(),
            object: UnsafeCell::new(0),
        });
        for place in &world.places[..references] {
            place.store(address(&world.count), Relaxed);
        }
        world
    }

    fn records(&self) -> Records<'_> {
        Records::of(&self.header, &self.records, &self.pins)
    }

    /// A thread of a process of its own.
    fn thread(&self) -> Thread<'_> {
        let claim = self.records().claim_process().unwrap();
        // SAFETY: it was claimed for this caller.
        unsafe { self.records().adopt(claim) }.unwrap()
    }

    /// Counts one more reference, at an empty place.
    fn get(&self, thread: &Thread<'_>, place: usize) -> bool {
        let value = address(&self.count);
        self.count.get(thread, &self.places[place], value)
    }

    fn put(&self, thread: &Thread<'_>, place: usize) {
        self.count.put(thread, &self.places[place], 0);
        self.release(thread.index());
    }

    /// Pins the object of a place, and uses it.
    fn use_pinned(&self, thread: &Thread<'_>, place: usize) {
        // SAFETY: places are references.
        if let Some(pin) = unsafe { thread.pin(&self.places[place]) } {
            self.look();
            pin.unpin();
        }
        self.release(thread.index());
    }

    fn look(&self) {
        // SAFETY: the checker reports it if a release meets this read.
        let released = self.object.with(|object| unsafe { *object });
        assert_eq!(released, 0, "the object was released");
    }

    /// Releases what a record has claimed.
    fn release(&self, index: u32) {
        let releases = &self.records[index as usize].releases;
        if releases.load(Relaxed) != 0 {
            // SAFETY: the checker reports it if a use meets this write.
            self.object.with_mut(|object| unsafe { *object += 1 });
            releases.store(self.count.link(), Relaxed);
        }
    }

    /// Buries a thread that has ended: the steps that concern counts and pins.
    fn bury(&self, index: u32) {
        let record = &self.records[index as usize];
        record.section.swap(1, Relaxed);
        after_locked();
        count::complete(self.records(), index);
        release::check(self.records(), index);
        for pin in &self.pins[index as usize].0 {
            let pinned = pin.load(Relaxed);
            if pinned != 0 && pins::unpin(record, pin, pinned) {
                release::check(self.records(), index);
            }
        }
        self.release(index);
    }

    /// Checks the count, and that the object was released if it has no reference.
    fn judge(&self) {
        let places = self.places.iter();
        let references = places.filter(|place| place.load(Acquire) != 0).count();
        assert_eq!(self.count.references(), references as u64);
        // SAFETY: all threads have ended.
        let released = self.object.with(|object| unsafe { *object });
        assert_eq!(released, u32::from(references == 0));
    }
}

/// Starts a thread that dies after so many steps of `run`. The record has the returned index.
fn spawn_dying(
    world: &Arc<World>,
    step: u32,
    run: impl FnOnce(&World, &Thread<'_>) + 'static,
    has_died: &Flag,
) -> (JoinHandle<()>, u32) {
    let claim = world.records().claim_process().unwrap();
    let (world, index, has_died) = (world.clone(), claim.index(), has_died.clone());
    let thread = spawn(move || {
        // SAFETY: it was claimed for this thread.
        let thread = unsafe { world.records().adopt(claim) }.unwrap();
        die_after(step);
        let death = catch_unwind(AssertUnwindSafe(|| run(&world, &thread)));
        die_after(u32::MAX);
        has_died.fetch_or(death.is_err(), SeqCst);
    });
    (thread, index)
}

/// The object has `references`, at the places 0 and so on. A thread does `dying`, and dies at any
/// of its steps; meanwhile another does `other`; then the first is buried, beside the other.
fn dies_beside(
    references: usize,
    dying: impl Fn(&World, &Thread<'_>) + Copy + Send + Sync + 'static,
    other: impl Fn(&World, &Thread<'_>) + Copy + Send + Sync + 'static,
) {
    for step in 0.. {
        let has_died = Flag::default();
        let died = has_died.clone();
        explore(3, move || {
            let world = World::new(references);
            let (dead, index) = spawn_dying(&world, step, dying, &died);
            let other = {
                let world = world.clone();
                let claim = world.records().claim_process().unwrap();
                spawn(move || {
                    // SAFETY: it was claimed for this thread.
                    let thread = unsafe { world.records().adopt(claim) }.unwrap();
                    other(&world, &thread);
                })
            };
            dead.join().unwrap();
            world.bury(index);
            other.join().unwrap();
            world.judge();
        });
        if !has_died.load(SeqCst) {
            return;
        }
    }
}

#[test]
fn a_get_dies_beside_a_get_and_a_put() {
    dies_beside(
        2,
        |world, thread| {
            world.get(thread, 2);
        },
        |world, thread| {
            world.get(thread, 3);
            world.put(thread, 3);
        },
    );
}

#[test]
fn a_put_dies_beside_the_last_put() {
    dies_beside(
        2,
        |world, thread| world.put(thread, 0),
        |world, thread| world.put(thread, 1),
    );
}

#[test]
fn a_put_dies_beside_a_put_and_a_get() {
    dies_beside(
        3,
        |world, thread| world.put(thread, 0),
        |world, thread| {
            world.put(thread, 1);
            world.get(thread, 3);
        },
    );
}

#[test]
fn a_pin_dies_beside_the_last_put() {
    dies_beside(
        1,
        |world, thread| world.use_pinned(thread, 0),
        |world, thread| world.put(thread, 0),
    );
}

#[test]
fn the_last_put_dies_beside_a_pin() {
    dies_beside(
        1,
        |world, thread| world.put(thread, 0),
        |world, thread| world.use_pinned(thread, 0),
    );
}

#[test]
fn two_pins_meet_the_last_put() {
    explore(2, || {
        let world = World::new(1);
        let use_pinned = || {
            let world = world.clone();
            let claim = world.records().claim_process().unwrap();
            spawn(move || {
                // SAFETY: it was claimed for this thread.
                let thread = unsafe { world.records().adopt(claim) }.unwrap();
                world.use_pinned(&thread, 0);
            })
        };
        let pins = [use_pinned(), use_pinned()];
        world.put(&world.thread(), 0);
        for pin in pins {
            pin.join().unwrap();
        }
        world.judge();
    });
}

/// A thread loads the record of one name and the number of the next one. The first record has an
/// operation of this number under way: that did not happen.
#[test]
fn halves_of_two_names_are_no_name() {
    explore(3, || {
        let world = World::new(1);
        let dead = world.thread();
        assert!(world.get(&dead, 1));
        let spawn_get = |operations, place| {
            let world = world.clone();
            let claim = world.records().claim_process().unwrap();
            spawn(move || {
                // SAFETY: it was claimed for this thread.
                let thread = unsafe { world.records().adopt(claim) }.unwrap();
                let elsewhere = AtomicU64::new(0);
                for _ in 0..operations {
                    world.spare.get(&thread, &elsewhere, 1);
                }
                world.get(&thread, place);
            })
        };
        // It has announced its second operation.
        die_after(1);
        let death = catch_unwind(AssertUnwindSafe(|| world.get(&dead, 2)));
        die_after(u32::MAX);
        assert!(death.is_err());
        let threads = [spawn_get(1, 3), spawn_get(0, 4)];
        for thread in threads {
            thread.join().unwrap();
        }
        world.bury(dead.index());
        world.judge();
    });
}
