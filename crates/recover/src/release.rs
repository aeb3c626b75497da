//! How one thread claims the release of an object, and a death does not lose it.
//!
//! A count without references is *dead*, and never lives again. Threads may still have
//! [pinned](crate::pins) the object. The put that makes it dead, and each unpin that finds it dead,
//! *checks* it:
//!
//! | | |
//! |---|---|
//! | (K) | the thread's word *check* names the count: before the put ends its announcement, or the unpin gives up its pin |
//! | (S) | look at the pins of all threads: if one has the object, leave it to the unpin of that thread |
//! | (C) | exchange the count for *claimed*, with the index of the record, and a link in place of the number |
//! | (T) | append it to the record's list of objects to be released: *releases* |
//! | (N) | clear *check* |
//!
//! # One claims it
//!
//! The exchange (C) happens once, as nothing changes a claimed count. That one of them claims it is
//! the full fence of three locked instructions: of the put that made it dead, of an unpin, and of a
//! pin. Of two threads that give up the object one after the other, the later one sees the count
//! dead and no pin: see [`pins`](crate::pins). A pin that was found but fails its second look ends
//! as an unpin, so it checks too.
//!
//! A scan that has found no pin remains right: a pin that comes later fails its second look, since
//! no slot has the object.
//!
//! # A thread dies
//!
//! - Before (K): the put is still announced, and its burial sets *check*; or the pin is still
//!   there, and its burial is an unpin.
//! - After (K), before (C): the burial checks the count in the name of the dead record.
//! - After (C): the count is claimed by this record, so the burial does (T), unless it finds the
//!   count at one of the two places where (T) puts it. A record looks at a count no more after it
//!   has claimed it, so it does not mistake an earlier claim for this one.
//! - After (T), before (N): the same; after (N) the object is in the list. The burial releases what
//!   is there.
//!
//! Other threads may claim, release and free the object while *check* still names it. The thread is
//! in a section from before (K) until after (N), which keeps the memory. A burial enters one in the
//! name of the dead record.
//!
//! # The list
//!
//! It is linked through the counts themselves, which nothing else changes. The first object is
//! being released. A release that takes the last reference of another object appends it behind the
//! first, so the release of the first ends with one store. Thus there is no limit to what hangs on
//! one object, and no recursion. A release that dies runs a second time, in the burial. The memory
//! is freed together with that store: a release that ran again on memory in use would be that of
//! another object.

use crate::burial::Kernel;
use crate::count::{Count, State, Value};
use crate::death::die_here;
use crate::platform::Ordering::Relaxed;
use crate::platform::{object, program_order};
use crate::records::{Record, Records, Thread};

impl Thread<'_> {
    /// Releases the objects that this thread has claimed, each by [`Kernel::release`]. A caller
    /// does this at the end of each call in which it [put](Count::put) a reference or
    /// [pinned](Thread::pin) an object, outside of sections and locks.
    #[inline]
    pub fn release_all(&self, kernel: &impl Kernel) {
        if self.record.releases.load(Relaxed) != 0 {
            self.release_all_of(self.record, kernel);
        }
    }

    /// Releases what a record has claimed: that of this thread, or that of a dead one.
    #[cold]
    pub(crate) fn release_all_of(&self, record: &Record, kernel: &impl Kernel) {
        loop {
            let first = record.releases.load(Relaxed);
            if first == 0 {
                return;
            }
            // SAFETY: an object in the list has its memory until its release has ended.
            let count: &Count = unsafe { object(first) };
            kernel.release(self, count);
            program_order();
            die_here!(26);
            kernel.free(self, count, (&record.releases, count.link()));
            program_order();
            die_here!(27);
        }
    }

    /// (S) to (N) for this thread.
    pub(crate) fn check(&self) {
        check(self.records, self.index);
    }
}

/// (S) to (N), for the count that the *check* of a record names, if any. The record is in a
/// section, and the calling thread has executed a locked instruction since the count was dead or
/// the pin was given up.
#[cold]
pub(crate) fn check(records: Records<'_>, index: u32) {
    let record = records.record(index);
    let address = record.check.load(Relaxed);
    if address == 0 {
        return;
    }
    // SAFETY: the section of the record keeps its memory.
    let count: &Count = unsafe { object(address) };
    if claim(records, index, address, count) {
        append(record, address); // (T)
        program_order();
        die_here!(28);
    }
    record.check.store(0, Relaxed); // (N)
    program_order();
    die_here!(29);
}

/// (S), (C). Returns true if the record has claimed the object, now or before its thread died.
fn claim(records: Records<'_>, index: u32, address: u64, count: &Count) -> bool {
    let record = records.record(index);
    loop {
        let now = count.halves();
        match now.state() {
            State::Live => return false,
            State::Claimed => return now.index() == index,
            State::Dead => {}
        }
        // (S)
        if records.is_pinned(address) {
            return false;
        }
        die_here!(30);
        let link = match record.releases.load(Relaxed) {
            0 => 0,
            // SAFETY: an object in the list has its memory until its release has ended.
            first => unsafe { object::<Count>(first) }.link(),
        };
        // (C)
        if count.exchange(records, index, now, Value::claimed(index, link)) {
            program_order();
            die_here!(31);
            return true;
        }
    }
}

/// (T), unless that was done.
fn append(record: &Record, address: u64) {
    let first = record.releases.load(Relaxed);
    if first == 0 {
        record.releases.store(address, Relaxed);
        return;
    }
    // SAFETY: an object in the list has its memory until its release has ended.
    let first_count: &Count = unsafe { object(first) };
    if first != address && first_count.link() != address {
        first_count.set_link(address);
    }
}
