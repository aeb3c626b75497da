//! A reference count that is changed by operations with a name, so that each happens once.
//!
//! A count has two words, which change together: the references, a state and the *name* of the last
//! operation. A name is the index of a record and a sequence number of that record; no two
//! operations have the same. With letters that stand at the same steps in the code:
//!
//! | | operation *s* of record *R* |
//! |---|---|
//! | (A) | announce it in the record: the place, its value, *s*, and last the count |
//! | (P) | a put clears the place |
//! | (L) | load the count, which has the name (*X*, *x*) |
//! | (D) | unless *X* is *R*: raise *done* of record *X* to *x* |
//! | (C) | exchange what (L) loaded by the new count with the name (*R*, *s*), or begin again at (L) |
//! | (G) | a get fills the place |
//! | (E) | raise *done* of *R* to *s*, and end the announcement |
//!
//! The burial of *R* finds an announced operation *s*, and has to know whether (C) happened:
//!
//! | | burial |
//! |---|---|
//! | (1) | a section of *R*, with a full fence |
//! | (2) | *done* of *R* is *s* or more: (C) happened. It does not look at the count |
//! | (3) | load the count, both words at once: it has the name (*R*, *s*), so (C) happened |
//! | (4) | *done* of *R* is *s* or more: (C) happened |
//! | (5) | otherwise do (D) and (C), with the name (*R*, *s*), or begin again at (2) |
//! | (6) | do (P) or (G), and (E) |
//!
//! # Why it happens once
//!
//! *done* is *s* or more only if (C) of *s* happened: a thread raises it in (D) after it has seen
//! the name in a count, or in (E). Numbers of a record grow, and it begins one operation after
//! another.
//!
//! A name that is overwritten is done: (D) comes before (C), and (C) fails if the name is another
//! one by then. A thread that dies between (D) and (C) has done no harm: the operation that it
//! raised to did happen.
//!
//! Let (C) of *s* have happened before (3). Either the count still has its name, which (3) finds;
//! or it was overwritten before (3), and raised to before that, which (4) finds. Let it happen
//! after (3): only another burial of *R* can do it, since the thread is dead; then (5) fails, since
//! a count never has the same two words again. Thus (4) has to follow (3): with the one look of
//! (2), an operation that had happened, and whose name is overwritten between (2) and (3), would
//! happen a second time.
//!
//! A name in a count may be that of a record which was used again. Its number is done since the
//! burial or the end of its thread, and numbers continue, so the cases above hold.
//!
//! # Halves that do not belong together
//!
//! (L) loads one word after the other. If they are of two times, (C) fails. But (D) must not raise
//! to a name that never was, so it loads both at once before it raises. It seldom has to: (E) has
//! raised *done* for each operation that has ended.
//!
//! # Why a burial never reads a freed count
//!
//! If *done* is less than *s* at (2), then (C) did not happen, or no other operation has followed
//! on this count. In the first case the thread has what allowed its operation: its reference, which
//! is still counted, or a pin or a section. In the second the count has references; or it is dead,
//! and its release, if it is already claimed, was claimed by *R*, which raises *done* first: see
//! [`release`](crate::release). So at (2) its memory is not freed, and the section of (1) keeps it
//! until the burial clears that.
//!
//! # What a death costs
//!
//! A put: the place is cleared and the reference is gone. A get: both, or neither if the count was
//! dead. The place is written again in (6), which is why no other thread may write it meanwhile.

use crate::death::die_here;
use crate::pair::{Halves, Pair};
use crate::platform::Ordering::{Relaxed, Release};
use crate::platform::{AtomicU64, address, object, program_order};
use crate::records::{INDEX_BITS, Record, Records, Thread};

const REFERENCES_BITS: u32 = 64 - INDEX_BITS - 2;
const REFERENCES: u64 = (1 << REFERENCES_BITS) - 1;

/// Whether an object is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// It has references.
    Live,
    /// It has none, and never has again. A thread may have pinned it.
    Dead,
    /// One record has claimed its release.
    Claimed,
}

/// What a count is at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Value(Halves);

impl Value {
    fn new(references: u64, state: State, index: u32, high: u64) -> Self {
        let low = references | (state as u64) << REFERENCES_BITS;
        Self([low | u64::from(index) << (REFERENCES_BITS + 2), high])
    }

    /// A claimed count: see [`release`](crate::release).
    pub(crate) fn claimed(index: u32, link: u64) -> Self {
        Self::new(0, State::Claimed, index, link)
    }

    fn references(self) -> u64 {
        self.0[0] & REFERENCES
    }

    pub(crate) fn state(self) -> State {
        match self.0[0] >> REFERENCES_BITS & 3 {
            0 => State::Live,
            1 => State::Dead,
            _ => State::Claimed,
        }
    }

    /// The record of the last operation.
    pub(crate) fn index(self) -> u32 {
        (self.0[0] >> (REFERENCES_BITS + 2)) as u32
    }

    /// The number of the last operation, or the link of a claimed count.
    pub(crate) fn high(self) -> u64 {
        self.0[1]
    }
}

/// What an operation does to a count. The numbers are in the lowest bits of the announcement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Kind {
    Get = 1,
    Put = 2,
}

const KIND: u64 = 3;

impl Kind {
    /// The count after the operation with this name; none if it is refused.
    fn apply(self, now: Value, index: u32, sequence: u64) -> Option<Value> {
        if now.state() != State::Live {
            return None;
        }
        let references = match self {
            Self::Get => now.references() + 1,
            // A live count has a reference.
            Self::Put => now.references() - 1,
        };
        let state = if references == 0 {
            State::Dead
        } else {
            State::Live
        };
        Some(Value::new(references, state, index, sequence))
    }
}

/// The number of references to an object, with the name of the last operation.
#[repr(C)]
#[derive(Debug)]
pub struct Count {
    pair: Pair,
}

impl Count {
    /// A count of one reference, of an object that no other thread knows yet.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        // Operation 0 of record 0 is always done, since the first one has the number 1.
        Self {
            pair: Pair::new([1, 0]),
        }
    }

    #[cfg(all(test, loom))]
    pub(crate) fn with_references(references: u64) -> Self {
        Self {
            pair: Pair::new([references, 0]),
        }
    }

    /// Counts one more reference, and then stores `value`, which stands for it, to `place`. Returns
    /// false, without a store, if the object has no reference any more.
    ///
    /// # Safety
    /// The caller has a reference, a pin or a section that leads here, so that the object lives.
    /// The object and the place are in shared memory. No other thread writes the place before the
    /// operation has ended, or the dead thread was buried.
    #[inline]
    pub unsafe fn get(&self, thread: &Thread<'_>, place: &AtomicU64, value: u64) -> bool {
        let sequence = self.announce(thread, Kind::Get, place, value); // (A)
        let is_counted = self
            .change(thread.records, Kind::Get, thread.index, sequence)
            .is_some();
        program_order();
        die_here!(10);
        if is_counted {
            // (G) Release: a thread that finds the reference sees the object.
            place.store(value, Release);
            program_order();
            die_here!(11);
            self.end(thread.record, sequence);
        }
        thread.record.operation.word.store(0, Relaxed); // (E)
        // Before the stores of the next announcement.
        program_order();
        die_here!(12);
        is_counted
    }

    /// Stores `value` to `place`, which takes a reference out of it, and counts one less. If it was
    /// the last one, and no thread has pinned the object, this thread has to
    /// [release](Thread::release_all) it.
    ///
    /// # Safety
    /// The place is one of the references. As for [`get`](Self::get) otherwise.
    #[inline]
    pub unsafe fn put(&self, thread: &Thread<'_>, place: &AtomicU64, value: u64) {
        // From before the count is dead until the check has ended: see `release`.
        let outside = thread.enter();
        let sequence = self.announce(thread, Kind::Put, place, value); // (A)
        // (P) Release: what this thread did with the object comes before.
        place.store(value, Release);
        program_order();
        die_here!(13);
        let new = self.change(thread.records, Kind::Put, thread.index, sequence);
        program_order();
        die_here!(14);
        let is_dead = new.is_some_and(|new| new.state() == State::Dead);
        debug_assert!(new.is_some(), "a reference to an object without references");
        if is_dead {
            thread.record.check.store(address(self), Relaxed);
            program_order();
            die_here!(15);
        }
        self.end(thread.record, sequence);
        thread.record.operation.word.store(0, Relaxed); // (E)
        program_order();
        die_here!(16);
        if is_dead {
            thread.check();
        }
        thread.leave(outside);
    }

    /// Returns the number of references.
    #[must_use]
    pub fn references(&self) -> u64 {
        Value([self.pair.low(), 0]).references()
    }

    /// Returns true if the object has references.
    #[must_use]
    pub fn is_live(&self) -> bool {
        Value([self.pair.low(), 0]).state() == State::Live
    }

    /// Takes its memory away.
    #[cfg(all(test, loom))]
    pub(crate) fn free(&self) {
        self.pair.free();
    }

    /// (A)
    #[inline(always)]
    fn announce(&self, thread: &Thread<'_>, kind: Kind, place: &AtomicU64, value: u64) -> u64 {
        let operation = &thread.record.operation;
        let sequence = operation.sequence.load(Relaxed) + 1;
        operation
            .place
            .store(thread.records.address(place), Relaxed);
        operation.value.store(value, Relaxed);
        operation.sequence.store(sequence, Relaxed);
        program_order();
        die_here!(8);
        let count = thread.records.address(self);
        operation.word.store(count | kind as u64, Relaxed);
        program_order();
        die_here!(9);
        sequence
    }

    /// (L), (D), (C)
    #[inline(always)]
    fn change(&self, records: Records<'_>, kind: Kind, index: u32, sequence: u64) -> Option<Value> {
        loop {
            let now = Value(self.pair.halves());
            let new = kind.apply(now, index, sequence)?;
            if self.exchange(records, index, now, new) {
                return Some(new);
            }
            keep_away();
        }
    }

    /// (D), (C): stores `new` of record `index`, unless the count is no longer `now`, or the halves
    /// of `now` do not belong together.
    #[inline(always)]
    pub(crate) fn exchange(
        &self,
        records: Records<'_>,
        index: u32,
        now: Value,
        new: Value,
    ) -> bool {
        if now.index() != index {
            let last = records.record(now.index());
            // Relaxed: nothing but the number is read.
            if last.done.load(Relaxed) < now.high() {
                if self.load() != now {
                    return false;
                }
                raise(last, now.high());
                die_here!(17);
            }
        }
        self.pair.compare_exchange(now.0, new.0).is_ok()
    }

    /// Both halves, of one time.
    pub(crate) fn load(&self) -> Value {
        Value(self.pair.load())
    }

    /// Both halves, which need not belong together.
    pub(crate) fn halves(&self) -> Value {
        Value(self.pair.halves())
    }

    /// The next object that the record which claimed this one has to release.
    pub(crate) fn link(&self) -> u64 {
        self.halves().high()
    }

    /// Stores the [link](Self::link). Only the record that claimed this object, or its burial,
    /// does.
    pub(crate) fn set_link(&self, link: u64) {
        self.pair.set_high(link);
    }

    /// (E), its first half, by the thread of the record.
    #[inline(always)]
    fn end(&self, record: &Record, sequence: u64) {
        // A plain store: other threads raise it to earlier numbers of this record, and by an
        // exchange, which fails if it comes after this. Relaxed: nothing but the number is read.
        record.done.store(sequence, Relaxed);
        program_order();
        die_here!(18);
    }
}

#[cfg(not(loom))]
impl Default for Count {
    fn default() -> Self {
        Self::new()
    }
}

/// Waits for as long as an operation of another thread takes.
///
/// Two CPUs that repeat at once keep making each other's exchanges fail: an operation takes 110 ns
/// then, and 25 ns with this wait.
#[cold]
fn keep_away() {
    for _ in 0..16 {
        core::hint::spin_loop();
    }
}

/// Raises *done* of a record to the number of an operation that has changed its count.
#[cold]
fn raise(record: &Record, sequence: u64) {
    // Relaxed: the exchange that overwrites the name releases it.
    record.done.fetch_max(sequence, Relaxed);
}

/// Completes the operation that the dead thread of a record has announced: (2) to (6). The burial
/// has entered a section in its name.
pub(crate) fn complete(records: Records<'_>, index: u32) {
    let record = records.record(index);
    let operation = &record.operation;
    // Relaxed: all that a dead thread has stored is visible.
    let word = operation.word.load(Relaxed);
    let kind = match word & KIND {
        0 => return,
        1 => Kind::Get,
        _ => Kind::Put,
    };
    let sequence = operation.sequence.load(Relaxed);
    // SAFETY: the place lives as long as what guards it, which the dead thread still holds.
    let place: &AtomicU64 = unsafe { object(operation.place.load(Relaxed)) };
    let value = operation.value.load(Relaxed);
    if kind == Kind::Put {
        place.store(value, Release);
        die_here!(19);
    }
    if let Some(change) = change_of_dead(records, index, word & !KIND, kind, sequence) {
        if kind == Kind::Get {
            place.store(value, Release);
            die_here!(20);
        }
        if change == Change::Died {
            record.check.store(word & !KIND, Relaxed);
            program_order();
            die_here!(21);
        }
        raise(record, sequence);
        die_here!(22);
    }
    operation.word.store(0, Relaxed);
    program_order();
    die_here!(23);
}

/// What an operation did to the count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Another operation followed, or the record has already taken care of what this one left.
    Passed,
    /// It has references.
    Lives,
    /// This operation took the last one.
    Died,
}

/// (2) to (5). Returns none if the operation did not happen, and never will.
fn change_of_dead(
    records: Records<'_>,
    index: u32,
    count: u64,
    kind: Kind,
    sequence: u64,
) -> Option<Change> {
    let record = records.record(index);
    let new = loop {
        // (2) Relaxed: nothing but the number is read. The section's exchange came before.
        if record.done.load(Relaxed) >= sequence {
            return Some(Change::Passed);
        }
        // SAFETY: its memory is not freed, as the head of this file explains.
        let count: &Count = unsafe { object(count) };
        let now = count.load(); // (3)
        if now.index() == index && now.high() == sequence {
            break now;
        }
        die_here!(24);
        // (4) Relaxed: if (3) has seen the count of a thread that overwrote the name, it has
        // acquired what that thread had raised before.
        if record.done.load(Relaxed) >= sequence {
            return Some(Change::Passed);
        }
        let new = kind.apply(now, index, sequence)?;
        // (5)
        if count.exchange(records, index, now, new) {
            die_here!(25);
            break new;
        }
    };
    Some(match new.state() {
        State::Live => Change::Lives,
        State::Dead | State::Claimed => Change::Died,
    })
}
