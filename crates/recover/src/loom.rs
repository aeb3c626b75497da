//! Models of a death: an operation that ends at any of its steps, beside a thread that overwrites
//! its name, and a burial; and a pin beside the last put. An object that is released is freed after
//! a grace period, and the checker reports an access to its count that comes later.
//!
//! And models of buriers, which meet each other and a waiter.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize as Executions};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool as LoomBool, fence};
use loom::thread::{JoinHandle, spawn, yield_now};

use crate::death::die_after;
use crate::lock::NO_REPAIR;
use crate::platform::AtomicU64;
use crate::platform::Ordering::{Acquire, Relaxed, Release};
use crate::platform::{address, swap};
use crate::records::{Header, PinLine, Record};
use crate::{Burial, Claim, Count, Kernel, Lock, Records, Thread, count, pins, release};

/// What is no part of a model: whether a thread died in any order.
type Flag = std::sync::Arc<AtomicBool>;

/// Runs `model` in every order with so many interruptions of a thread that could go on, or as many
/// as the environment allows. Returns how many orders there were.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) -> usize {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = builder.max_branches.max(20_000);
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    let executions = std::sync::Arc::new(Executions::new(0));
    builder.check({
        let executions = executions.clone();
        move || {
            executions.fetch_add(1, SeqCst);
            model();
        }
    });
    executions.load(SeqCst)
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
        // SAFETY: the thread has a reference or a pin, and the place.
        unsafe { self.count.get(thread, &self.places[place], value) }
    }

    fn put(&self, thread: &Thread<'_>, place: usize) {
        // SAFETY: the place is a reference of the thread.
        unsafe { self.count.put(thread, &self.places[place], 0) };
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

    /// Releases what a record has claimed, and frees it after a grace period.
    fn release(&self, index: u32) {
        let releases = &self.records[index as usize].releases;
        if releases.load(Relaxed) != 0 {
            // SAFETY: the checker reports it if a use meets this write.
            self.object.with_mut(|object| unsafe { *object += 1 });
            releases.store(self.count.link(), Relaxed);
            fence(SeqCst);
            for index in 0..self.records().most_claimed() {
                while self.records().is_in_section(index) {
                    yield_now();
                }
            }
            self.count.free();
        }
    }

    /// Buries a thread that has ended: the steps that concern counts and pins.
    fn bury(&self, index: u32) {
        let record = &self.records[index as usize];
        swap(&record.section, 1, Relaxed);
        count::complete(self.records(), index);
        release::check(self.records(), index);
        for pin in &self.pins[index as usize].0 {
            let pinned = pin.load(Relaxed);
            if pinned != 0 && pins::unpin(record, pin, pinned) {
                release::check(self.records(), index);
            }
        }
        record.section.store(0, Release);
        self.release(index);
    }

    /// Checks the count, and that the object was released if it has no reference.
    fn judge(&self) {
        let places = self.places.iter();
        let references = places.filter(|place| place.load(Acquire) != 0).count();
        // SAFETY: all threads have ended.
        let released = self.object.with(|object| unsafe { *object });
        assert_eq!(released, u32::from(references == 0));
        if references > 0 {
            assert_eq!(self.count.references(), references as u64);
        }
    }
}

/// Starts a thread with a record of its own. Returns the index of the record.
fn spawn_thread(
    world: &Arc<World>,
    run: impl FnOnce(&World, &Thread<'_>) + 'static,
) -> (JoinHandle<()>, u32) {
    let claim = world.records().claim_process().unwrap();
    let world = world.clone();
    let thread = spawn(move || {
        // SAFETY: it was claimed for this thread.
        run(&world, &unsafe { world.records().adopt(claim) }.unwrap());
    });
    (thread, claim.index())
}

/// Runs `run` until it dies after so many steps. Returns true if it did not end before.
fn dies_after(step: u32, run: impl FnOnce()) -> bool {
    die_after(step);
    let end = catch_unwind(AssertUnwindSafe(run));
    die_after(u32::MAX);
    end.is_err()
}

/// The object has `references`, at the places 0 and so on. A thread does `dying`, and dies at any
/// of its steps; meanwhile another does `other`; then the first is buried, beside the other.
fn dies_beside(
    references: usize,
    dying: impl Fn(&World, &Thread<'_>) + Copy + Send + Sync + 'static,
    other: impl Fn(&World, &Thread<'_>) + Copy + Send + Sync + 'static,
) {
    let mut executions = 0;
    for step in 0.. {
        let has_died = Flag::default();
        let died = has_died.clone();
        executions += explore(3, move || {
            let world = World::new(references);
            let died = died.clone();
            let (dead, index) = spawn_thread(&world, move |world, thread| {
                died.fetch_or(dies_after(step, || dying(world, thread)), SeqCst);
            });
            let (other, _) = spawn_thread(&world, other);
            dead.join().unwrap();
            world.bury(index);
            other.join().unwrap();
            world.judge();
        });
        if !has_died.load(SeqCst) {
            println!("{executions} executions, {step} steps");
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
    let executions = explore(2, || {
        let world = World::new(1);
        let pins = [(); 2].map(|()| {
            let (thread, _) = spawn_thread(&world, |world, thread| world.use_pinned(thread, 0));
            thread
        });
        world.put(&world.thread(), 0);
        for pin in pins {
            pin.join().unwrap();
        }
        world.judge();
    });
    println!("{executions} executions");
}

/// A thread loads the record of one name and the number of the next one. The first record has an
/// operation of this number under way: that did not happen.
#[test]
fn halves_of_two_names_are_no_name() {
    let executions = explore(3, || {
        let world = World::new(1);
        let dead = world.thread();
        assert!(world.get(&dead, 1));
        let (other, _) = spawn_thread(&world, |world, thread| {
            // SAFETY: the object is one of the world, and no burial of this thread writes the
            // place.
            unsafe { world.spare.get(thread, &AtomicU64::new(0), 1) };
            world.get(thread, 3);
        });
        // It has announced its second operation.
        let has_died = dies_after(1, || {
            world.get(&dead, 2);
        });
        assert!(has_died);
        let (third, _) = spawn_thread(&world, |world, thread| {
            world.get(thread, 4);
        });
        for thread in [other, third] {
            thread.join().unwrap();
        }
        world.bury(dead.index());
        world.judge();
    });
    println!("{executions} executions");
}

/// Shared memory of processes with one thread each: records, and two locks.
#[derive(Default)]
struct Processes {
    header: Header,
    records: [Record; 4],
    pins: [PinLine; 4],
    is_dead: [LoomBool; 4],
    /// The first process dies with it. It is repaired.
    broken: Lock,
    /// Its burial needs this one.
    other: Lock,
    /// How often it was buried, up to the end of its release.
    burials: UnsafeCell<u32>,
}

// SAFETY: that accesses to the cell do not meet is what the checker checks.
unsafe impl Send for Processes {}
// SAFETY: as above.
unsafe impl Sync for Processes {}

impl Processes {
    /// Processes, of which the first is dead.
    fn new() -> Arc<Self> {
        let processes = Arc::new(Self::default());
        let dead = processes.thread(processes.claim());
        // SAFETY: the lock lives as long as the records.
        std::mem::forget(unsafe { processes.broken.lock(&dead, 0, &*processes) });
        processes.is_dead[0].store(true, Release);
        processes
    }

    fn records(&self) -> Records<'_> {
        Records::of(&self.header, &self.records, &self.pins)
    }

    fn claim(&self) -> Claim {
        self.records().claim_process().unwrap()
    }

    fn thread(&self, claim: Claim) -> Thread<'_> {
        // SAFETY: it was claimed for this caller.
        unsafe { self.records().adopt(claim) }.unwrap()
    }

    /// Starts a process. It dies after so many steps, or at its end.
    fn spawn(
        processes: &Arc<Self>,
        step: u32,
        run: impl FnOnce(&Self, &Thread<'_>) + 'static,
    ) -> JoinHandle<bool> {
        let (processes, claim) = (processes.clone(), processes.claim());
        spawn(move || {
            let thread = processes.thread(claim);
            let has_died = dies_after(step, || run(&processes, &thread));
            processes.is_dead[claim.index() as usize].store(true, Release);
            has_died
        })
    }

    /// Buries all, and checks that nothing is left.
    fn judge(&self) {
        let thread = self.thread(self.claim());
        for process in (0..self.records().most_claimed()).filter(|it| *it != thread.index()) {
            assert_ne!(thread.bury(process, self), Burial::Underway);
        }
        assert_eq!(self.records().claimed(), 1);
        for lock in [&self.broken, &self.other] {
            // SAFETY: the lock lives as long as the records.
            assert!(unsafe { lock.try_lock(&thread, NO_REPAIR) }.is_some());
        }
    }
}

// SAFETY: a process is dead after its last step.
unsafe impl Kernel for Processes {
    fn is_alive(&self, process: u32) -> bool {
        !self.is_dead[process as usize].load(Acquire)
    }

    fn repair(&self, _: &Lock, _: u8) {
        // SAFETY: the checker reports it if two buriers meet.
        self.burials.with_mut(|burials| unsafe { *burials += 0 });
    }

    fn release(&self, _: &Thread<'_>, _: &Count) {}

    fn free(&self, _: &Thread<'_>, _: &Count, _: (&AtomicU64, u64)) {}

    fn drop_process(&self, thread: &Thread<'_>, process: u32) {
        if process == 0 {
            // SAFETY: the lock lives as long as the records.
            let other = unsafe { self.other.lock(thread, NO_REPAIR, self) };
            // A thread that dies in a model drops what it has, but does not release a lock.
            let other = ManuallyDrop::new(other);
            // SAFETY: the checker reports it if two buriers meet.
            self.burials.with_mut(|burials| unsafe { *burials += 1 });
            drop(ManuallyDrop::into_inner(other));
        }
    }
}

#[test]
fn two_buriers_meet() {
    let executions = explore(2, || {
        let processes = Processes::new();
        let buriers = [(); 2].map(|()| {
            Processes::spawn(&processes, u32::MAX, |processes, thread| {
                let _ = thread.bury(0, processes);
            })
        });
        for burier in buriers {
            burier.join().unwrap();
        }
        processes.judge();
        // SAFETY: all threads have ended.
        assert_eq!(processes.burials.with(|burials| unsafe { *burials }), 1);
    });
    println!("{executions} executions");
}

#[test]
fn a_burier_dies_beside_another() {
    let mut executions = 0;
    for step in 0.. {
        let has_died = Flag::default();
        let died = has_died.clone();
        executions += explore(1, move || {
            let processes = Processes::new();
            let [first, second] = [step, u32::MAX].map(|step| {
                Processes::spawn(&processes, step, |processes, thread| {
                    let _ = thread.bury(0, processes);
                })
            });
            died.fetch_or(first.join().unwrap(), SeqCst);
            second.join().unwrap();
            processes.judge();
        });
        if !has_died.load(SeqCst) {
            println!("{executions} executions, {step} steps");
            return;
        }
    }
}

/// The waiter holds a lock that the burier needs.
#[test]
fn a_waiter_meets_a_burier() {
    let executions = explore(2, || {
        let processes = Processes::new();
        let waiter = Processes::spawn(&processes, u32::MAX, |processes, thread| {
            // SAFETY: the locks live as long as the records.
            let _other = unsafe { processes.other.lock(thread, NO_REPAIR, processes) };
            // SAFETY: as above.
            let _broken = unsafe { processes.broken.lock(thread, NO_REPAIR, processes) };
        });
        let burier = Processes::spawn(&processes, u32::MAX, |processes, thread| {
            let _ = thread.bury(0, processes);
        });
        for thread in [waiter, burier] {
            thread.join().unwrap();
        }
        processes.judge();
    });
    println!("{executions} executions");
}
