//! How a dead process is buried: what its threads had announced is completed.
//!
//! Any living thread can do it. An exchange of the status word of the process names this thread as
//! the *burier*, until the exchange that frees the record. The order:
//!
//! | | of each thread of the process |
//! |---|---|
//! | (1) | enter a section in its name. Complete its [operation](crate::count) or its [journal], of which it has one at most. Then repair what its [locks](crate::lock) guard |
//! | (2) | free these locks, then give up the burials that it had begun |
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
//! Then its own process is recovered first, by (1) and (2). These complete what the burier had
//! begun *in its own name*, such as a put of (5); after that its burials have no burier, and the
//! next thread begins them from (1). Each step in the name of the dead record is one that it can do
//! again: operations and claims happen once, stores are values, and a record that is free no longer
//! belongs to the process.
//!
//! So a word names a burier only in the life in which that has begun the burial. It begins after
//! the death of the process, so each burier dies later than what it buries: to recover the process
//! of a dead burier, and that of its dead burier, and so on, ends.
//!
//! # A waiter
//!
//! A thread that waits for a lock of a dead process holds locks itself, so it does (1) and (2)
//! alone: [`Thread::recover`]. They take no lock, and wait for nothing. If another thread is at the
//! burial, and lives, the waiter looks at its lock again. The rest is for a thread that holds
//! nothing.

use core::time::Duration;

use crate::count;
use crate::count::Count;
use crate::death::die_here;
use crate::journal;
use crate::lock::{self, Lock, NO_REPAIR};
use crate::pins;
use crate::platform::Ordering::{Relaxed, Release};
use crate::platform::{AtomicU64, object, program_order, swap};
use crate::records::{Record, Records, State, Thread};
use crate::release;

/// What the crate asks of the kernel that uses it.
///
/// # Safety
/// A burial writes what a dead thread has announced, and frees what it had. So
/// [`is_alive`](Self::is_alive) returns false only for a process that is dead for good, and the
/// other functions do as they say.
pub unsafe trait Kernel {
    /// How long a thread sleeps on a lock before it asks whether the owner lives.
    fn patience(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Returns true if the process lives, which is named by the index of its first record.
    ///
    /// A process gives its *life sign* before it [adopts](Records::adopt) its first record, and
    /// keeps it until none of its threads executes another instruction. No two processes give the
    /// same one at a time.
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

/// What came of a burial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Burial {
    /// The records are free.
    Done,
    /// The process lives, or there is none.
    NotDead,
    /// A living thread is at it. That may do [only its first part](Thread::recover), so the caller
    /// tries again.
    Underway,
}

impl Thread<'_> {
    /// Buries a process that is dead, and was adopted or [aborted](Records::abort) before. The
    /// caller holds no lock.
    pub fn bury(&self, process: u32, kernel: &impl Kernel) -> Burial {
        let records = self.records;
        if let Err(found) = self.begin(process, kernel) {
            return found;
        }
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
                    let count: &Count = unsafe { object(address) };
                    // SAFETY: only this burial still writes the place, which is one of a record.
                    unsafe { count.put(self, place, 0) };
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
        Burial::Done
    }

    /// Frees the locks of a dead process: the steps (1) and (2) of its burial. Returns false if it
    /// is alive or was buried, or a living thread is at that.
    pub fn recover(&self, process: u32, kernel: &impl Kernel) -> bool {
        if self.begin(process, kernel).is_err() {
            return false;
        }
        recover_all(self.records, process, kernel);
        give_up(self.records.record(process));
        true
    }

    /// Makes this thread the burier of a process.
    fn begin(&self, process: u32, kernel: &impl Kernel) -> Result<(), Burial> {
        if process == self.process() {
            return Err(Burial::NotDead);
        }
        let first = self.records.record(process);
        loop {
            let status = first.status();
            let is_process = match status.state() {
                State::Free | State::Starting => false,
                State::Alive | State::Dying => status.process(process) == process,
            };
            if !is_process || status.burier().is_none() && kernel.is_alive(process) {
                return Err(Burial::NotDead);
            }
            if let Some(burier) = status.burier() {
                let is_recovered = self.recover(self.records.process_of(burier), kernel);
                // If it is the same, `burier` is still in the life in which it began.
                if !is_recovered && first.status() == status {
                    return Err(Burial::Underway);
                }
            } else if first.change(status, status.dying(Some(self.index))) {
                die_here!(58);
                return Ok(());
            }
        }
    }
}

/// Ends a burial that is not complete, and has a burier.
fn give_up(first: &Record) {
    let status = first.status();
    first.change(status, status.dying(None));
    die_here!(59);
}

/// The records of a process.
fn members(records: Records<'_>, process: u32) -> impl Iterator<Item = (u32, &Record)> {
    records.used().filter(move |(index, record)| {
        let status = record.status();
        status.state() != State::Free && status.process(*index) == process
    })
}

/// (1), (2)
fn recover_all(records: Records<'_>, process: u32, kernel: &impl Kernel) {
    for (index, record) in members(records, process) {
        // A locked instruction, so a full fence: a grace period that begins after it waits for this
        // section. Relaxed: only its fence matters.
        swap(&record.section, 1, Relaxed);
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
    for (_, first) in records.used() {
        let burier = first.status().burier();
        if burier.is_some_and(|burier| records.process_of(burier) == process) {
            give_up(first);
        }
    }
}
