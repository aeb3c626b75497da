//! How a dead process is buried: what its threads had announced is completed.
//!
//! Any living thread can do it. The burial lock of the process is in the record of its first
//! thread; the thread that holds it is the *burier*. The order:
//!
//! | | of each thread of the process |
//! |---|---|
//! | (1) | mark the record as dying. Enter a section in its name. Complete its [operation](crate::count), then its [journal], then repair what its [locks](crate::lock) guard |
//! | (2) | free these locks |
//! | (3) | give up its [pins], each as an unpin, and clear its section |
//! | (4) | put its references that were [on their way](Thread::transit), and [release] what it had claimed |
//! | (5) | drop what the process had: [`Kernel::drop_process`] |
//! | (6) | free the records, that of the first thread last |
//!
//! Locks are freed after the last repair, or other threads would change what a journal stores
//! again. Pins and sections come after the locks, since a lock has its memory by them. Objects are
//! released after that: a release is ordinary code, which may take locks.
//!
//! # A burier dies
//!
//! The next one finds the burial lock with a dead owner, and has to take it from that one by a
//! burial, or by its steps (1) and (2) alone: these complete what the first burier had begun *in
//! its own name*, such as a put of (5). Only then it continues, from (1). Each step in the name of
//! the dead record is one that it can do again: operations and claims happen once, stores are
//! values, and a record that is free no longer belongs to the process.
//!
//! These waits can go round in a circle: two processes that die with the burial locks of each other
//! are never buried. The design page lists this among the known faults, with its mend.
//!
//! # A waiter
//!
//! A thread that waits for a lock of a dead process holds locks itself, so it does (1) and (2)
//! alone: [`Thread::recover`]. They take no other lock than that of the burial. The rest is for a
//! thread that holds nothing.

use core::time::Duration;

use crate::count;
use crate::count::Count;
use crate::death::die_here;
use crate::journal;
use crate::lock::{self, Guard, Lock, NO_REPAIR};
use crate::pins;
use crate::platform::Ordering::{Relaxed, Release};
use crate::platform::{AtomicU64, after_locked, object, program_order};
use crate::records::{Record, Records, State, Thread};
use crate::release;

/// What the crate asks of the kernel that uses it.
pub trait Kernel {
    /// How long a thread sleeps on a lock before it asks whether the owner lives.
    fn patience(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Returns true if the process lives, which is named by the index of its first record.
    ///
    /// A process gives its life sign before it [adopts](Records::adopt) its first record, and keeps
    /// it until none of its threads executes another instruction.
    fn is_alive(&self, process: u32) -> bool;

    /// Repairs what a lock guards, after a thread died with it. Runs again if the burier dies.
    /// Takes no lock, and waits for nothing.
    fn repair(&self, lock: &Lock, kind: u8);

    /// Releases an object that has no reference and no pin, except for its memory. Runs again if
    /// the thread dies. It may [put](Count::put) references that the object holds, at their places
    /// in the object, and leaves their release to the caller: it does not call
    /// [`release_all`](Thread::release_all).
    fn release(&self, thread: &Thread<'_>, count: &Count);

    /// Frees the memory of an object that is released, and makes the store `end`, which takes it
    /// off the list of the thread. Both in [one journal](Thread::store_together), if no death may
    /// leak the memory; otherwise the store comes first.
    fn free(&self, thread: &Thread<'_>, count: &Count, end: (&AtomicU64, u64));

    /// Drops the references that a dead process had at places of its own, and wakes threads that
    /// wait for it. Runs again if the thread dies.
    fn drop_process(&self, thread: &Thread<'_>, process: u32);
}

impl Thread<'_> {
    /// Buries a process, if it is dead or its record was [aborted](Records::abort). Returns true if
    /// its records are free now. The caller holds no lock.
    pub fn bury(&self, process: u32, kernel: &impl Kernel) -> bool {
        let records = self.records;
        let Some(_burier) = self.begin(process, kernel) else {
            return false;
        };
        recover_all(records, process, kernel);
        // (3)
        for (index, record) in members(records, process) {
            release::check(records, index);
            for pin in &records.pins(index).0 {
                let pinned = pin.load(Relaxed);
                if pinned != 0 && pins::unpin(record, pin, pinned) {
                    release::check(records, index);
                }
            }
            // Release: what the burial has read in this section comes before.
            record.section.store(0, Release);
            die_here!(51);
        }
        // (4)
        for (_, record) in members(records, process) {
            for place in &record.transit {
                let address = place.load(Relaxed);
                if address != 0 {
                    // SAFETY: the place is a reference.
                    unsafe { object::<Count>(address) }.put(self, place, 0);
                }
            }
            self.release_all_of(record, kernel);
            self.release_all(kernel);
        }
        // (5)
        kernel.drop_process(self, process);
        self.release_all(kernel);
        die_here!(52);
        // (6)
        for (index, record) in members(records, process) {
            if index != process {
                record.free();
                die_here!(53);
            }
        }
        records.record(process).free();
        die_here!(54);
        true
    }

    /// Frees the locks of a dead process: the steps (1) and (2) of its burial. Returns false if it
    /// is alive, or was buried.
    pub fn recover(&self, process: u32, kernel: &impl Kernel) -> bool {
        let Some(_burier) = self.begin(process, kernel) else {
            return false;
        };
        recover_all(self.records, process, kernel);
        true
    }

    /// Takes the burial lock of a process. Returns none if it is not dead, or was buried.
    fn begin<'a>(&'a self, process: u32, kernel: &impl Kernel) -> Option<Guard<'a>> {
        let first = self.records.record(process);
        let burier = first.burial.lock(self, NO_REPAIR, kernel);
        let status = first.status();
        if status.process() != process {
            return None;
        }
        match status.state() {
            State::Dying => Some(burier),
            // If the record was used again since `status`, the exchange fails.
            State::Alive if !kernel.is_alive(process) => {
                first.change(status, State::Dying).then_some(burier)
            }
            State::Alive | State::Free | State::Starting => None,
        }
    }
}

/// The records of a process.
fn members(records: Records<'_>, process: u32) -> impl Iterator<Item = (u32, &Record)> {
    records.used().filter(move |(_, record)| {
        let status = record.status();
        status.state() != State::Free && status.process() == process
    })
}

/// (1), (2)
fn recover_all(records: Records<'_>, process: u32, kernel: &impl Kernel) {
    for (index, record) in members(records, process) {
        let status = record.status();
        if status.state() != State::Dying {
            // No other thread changes it: its process is dead.
            record.change(status, State::Dying);
        }
        // A locked instruction, so a full fence: a grace period that begins after it waits for this
        // section. Relaxed: only its fence matters.
        record.section.swap(1, Relaxed);
        after_locked();
        die_here!(55);
        count::complete(records, index);
        journal::complete(record);
        for (lock, kind) in lock::held(record, index) {
            if kind != NO_REPAIR {
                kernel.repair(lock, kind);
                program_order();
                die_here!(56);
            }
        }
    }
    for (index, record) in members(records, process) {
        lock::free_all(record, index);
    }
}
