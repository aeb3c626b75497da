//! The records of all threads: what each of them has announced.
//!
//! A record belongs to one thread. Only this thread and a burial write it, except for *done*, which
//! other threads raise (see [`count`](crate::count)). A thread dies between two instructions, so
//! its stores need program order alone.
//!
//! # The life of a record
//!
//! ```text
//! free --claim--> starting --adopt--> alive --burial--> dying --> free
//!                    +----abort----> dying     +----retire----> dying
//! ```
//!
//! Only the record of the first thread of a process is ever dying, and names the thread that buries
//! the process then. It becomes free when the process has ended, so no two processes give the same
//! [life sign](crate::Kernel::is_alive). Records of other threads go to free from any state.
//!
//! One word has the state, the process and the generation, which counts the lives. A process is
//! named by the index of the record of its first thread. So a claim is one exchange. A thread that
//! dies before it has claimed nothing; one that dies after leaves a record that a burial of its
//! process finds, if it was for a thread. A record for another process stays *starting* until its
//! child adopts it, or an undertaker aborts it. The adoption and the abort are exchanges too, so
//! one of them takes place.
//!
//! Sequence numbers continue when a record is used again, so the names of operations never recur.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ops::Range;
#[cfg(not(loom))]
use core::ptr::NonNull;

use crate::death::die_here;
use crate::platform::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::platform::{AtomicU32, AtomicU64, address, light_fence, program_order, size};

/// How many objects a thread can have pinned.
pub const PINS: usize = size(8, 2);

/// How many locks a thread can hold.
pub const LOCKS: usize = size(16, 2);

/// How many references of a thread can be on their way.
pub const TRANSIT: usize = size(4, 1);

/// How many stores a journal has.
pub const STORES: usize = size(12, 2);

/// The bits of an index.
pub(crate) const INDEX_BITS: u32 = 22;

/// The highest number of records: the word of a lock has an index plus one.
pub const MOST: usize = (1 << INDEX_BITS) - 2;

const STATE: u64 = 3;
const INDEX_SHIFT: u32 = 2;
const GENERATION_SHIFT: u32 = INDEX_SHIFT + INDEX_BITS;

/// The state of a record, in the lowest bits of its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum State {
    Free,
    Starting,
    Alive,
    Dying,
}

/// The word of a record: state, an index, generation. The index is that of the process; in a dying
/// record it is that of the burier plus one, or 0 if none is at it. No index is used again so often
/// that a word recurs. So an exchange succeeds only in that life of the record in which its caller
/// has read the word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Status(u64);

impl Status {
    pub(crate) fn state(self) -> State {
        match self.0 & STATE {
            0 => State::Free,
            1 => State::Starting,
            2 => State::Alive,
            _ => State::Dying,
        }
    }

    fn index(self) -> u32 {
        (self.0 >> INDEX_SHIFT) as u32 & ((1 << INDEX_BITS) - 1)
    }

    /// The process of the record `index`, which has this word.
    pub(crate) fn process(self, index: u32) -> u32 {
        match self.state() {
            State::Dying => index,
            _ => self.index(),
        }
    }

    /// The thread that buries the process.
    pub(crate) fn burier(self) -> Option<u32> {
        match self.state() {
            State::Dying => self.index().checked_sub(1),
            _ => None,
        }
    }

    fn with(self, state: State, index: u32) -> Self {
        let generation = self.0 >> GENERATION_SHIFT << GENERATION_SHIFT;
        Self(generation | u64::from(index) << INDEX_SHIFT | state as u64)
    }

    /// The word of this record while `burier` buries its process.
    pub(crate) fn dying(self, burier: Option<u32>) -> Self {
        self.with(State::Dying, burier.map_or(0, |burier| burier + 1))
    }

    fn freed(self) -> Self {
        let next = (self.0 >> GENERATION_SHIFT) + 1;
        Self(next << GENERATION_SHIFT | State::Free as u64)
    }
}

/// An operation on a count that is under way: see [`count`](crate::count).
#[derive(Debug, Default)]
pub(crate) struct Operation {
    /// The address of the count, and the kind of operation in its lowest bits: 0 if none is under
    /// way. Stored last.
    pub(crate) word: AtomicU64,
    /// The number of this operation, or of the last one.
    pub(crate) sequence: AtomicU64,
    pub(crate) place: AtomicU64,
    pub(crate) value: AtomicU64,
}

/// Several stores that are under way: see [`journal`](crate::journal).
#[derive(Debug, Default)]
pub(crate) struct Stores {
    /// How many of them are valid. Stored last.
    pub(crate) count: AtomicU64,
    pub(crate) stores: [(AtomicU64, AtomicU64); STORES],
}

/// What a thread has announced. All zero is a free record.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) operation: Operation,
    /// A count that may have to be released: see [`release`](crate::release).
    pub(crate) check: AtomicU64,
    /// The first of the objects that this thread has to release.
    pub(crate) releases: AtomicU64,
    /// The lock about to be taken.
    pub(crate) wants: AtomicU64,
    /// 1 inside a read-side section.
    pub(crate) section: AtomicU64,
    // Threads that overwrite names read the next line, and would slow down stores to the first.
    /// The highest number of an operation that is known to have changed its count.
    pub(crate) done: AtomicU64,
    status: AtomicU64,
    pub(crate) stores: Stores,
    /// The locks that this thread holds.
    pub(crate) holds: [AtomicU64; LOCKS],
    /// References on their way.
    pub(crate) transit: [AtomicU64; TRANSIT],
}

/// What a thread has pinned.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct PinLine(pub(crate) [AtomicU64; PINS]);

/// The beginning of the memory of the records.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Header {
    /// No record from this index on was ever claimed.
    used: AtomicU32,
}

impl Record {
    pub(crate) fn status(&self) -> Status {
        // Acquire: pairs with the release that made the record dying or alive.
        Status(self.status.load(Acquire))
    }

    /// Changes the status, if it is `from`.
    pub(crate) fn change(&self, from: Status, to: Status) -> bool {
        // Release: what the record has is there for the thread that acts by its new state.
        self.status
            .compare_exchange(from.0, to.0, AcqRel, Acquire)
            .is_ok()
    }

    /// Frees the record, which has nothing left.
    pub(crate) fn free(&self) {
        // No operation of this record is under way, so its numbers up to here are done.
        let last = self.operation.sequence.load(Relaxed);
        self.done.store(last, Relaxed);
        program_order();
        die_here!(0);
        let status = self.status();
        self.change(status, status.freed());
    }

    /// Returns true if the thread is outside of operations, locks, releases and sections.
    pub(crate) fn is_empty(&self) -> bool {
        let words = [
            &self.operation.word,
            &self.check,
            &self.releases,
            &self.wants,
            &self.section,
            &self.stores.count,
        ];
        words
            .into_iter()
            .chain(&self.holds)
            .chain(&self.transit)
            .all(|word| word.load(Relaxed) == 0)
    }
}

/// The records of all threads of all processes. A handle, which each process copies with its
/// memory.
#[derive(Clone, Copy, Debug)]
pub struct Records<'m> {
    header: &'m Header,
    records: &'m [Record],
    pins: &'m [PinLine],
    /// The addresses of shared memory.
    shared: &'m [Range<usize>],
}

/// A record that was claimed, and has no thread yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the record stays claimed until a thread adopts it or it is aborted"]
pub struct Claim {
    index: u32,
    status: Status,
}

/// The calling thread: its record, and the right to use it.
#[derive(Debug)]
pub struct Thread<'m> {
    pub(crate) records: Records<'m>,
    pub(crate) record: &'m Record,
    pub(crate) pins: &'m PinLine,
    pub(crate) index: u32,
    /// One thread uses it.
    thread: PhantomData<*const ()>,
}

impl<'m> Records<'m> {
    /// The memory for `capacity` records.
    ///
    /// # Panics
    /// If `capacity` is more than [`MOST`].
    #[must_use]
    pub fn layout(capacity: usize) -> Layout {
        assert!(capacity <= MOST, "more records than an index can name");
        let size = size_of::<Header>() + capacity * (size_of::<Record>() + size_of::<PinLine>());
        Layout::from_size_align(size, align_of::<Header>()).expect("far below the limit")
    }

    /// The records in `memory`, all of them free at first. Returns none if this CPU has no
    /// `cmpxchg16b`.
    ///
    /// # Panics
    /// If `capacity` is more than [`MOST`].
    ///
    /// `shared` are the addresses of all memory that the processes share, with that of the records.
    /// Debug builds check that the addresses that get into the records are among them.
    ///
    /// # Safety
    /// `memory` has the [layout](Self::layout) of so many records. It is shared and zero at first,
    /// and nothing else uses it. All processes have it at the same address for `'m`.
    #[must_use]
    #[cfg(not(loom))]
    pub unsafe fn place(
        memory: NonNull<u8>,
        capacity: usize,
        shared: &'m [Range<usize>],
    ) -> Option<Self> {
        const CMPXCHG16B: u32 = 1 << 13;
        assert!(capacity <= MOST, "more records than an index can name");
        #[allow(
            unused_unsafe,
            reason = "later compilers know that every such CPU has it"
        )]
        // SAFETY: every CPU of x86-64 has the instruction.
        let features = unsafe { core::arch::x86_64::__cpuid(1) };
        if features.ecx & CMPXCHG16B == 0 {
            return None;
        }
        let header = memory.cast::<Header>();
        // SAFETY: the layout begins with a header, then records, then pins, each a multiple of the
        // alignment of all three.
        let records = unsafe { header.add(1) }.cast::<Record>();
        // SAFETY: as above.
        let pins = unsafe { records.add(capacity) }.cast::<PinLine>();
        // SAFETY: zero is a valid value, of atomics, that the caller keeps for `'m`.
        let header = unsafe { header.as_ref() };
        // SAFETY: as above.
        let records = unsafe { NonNull::slice_from_raw_parts(records, capacity).as_ref() };
        // SAFETY: as above.
        let pins = unsafe { NonNull::slice_from_raw_parts(pins, capacity).as_ref() };
        Some(Self {
            header,
            records,
            pins,
            shared,
        })
    }

    #[cfg(all(test, loom))]
    #[allow(clippy::single_range_in_vec_init, reason = "it is a list of one range")]
    pub(crate) fn of(header: &'m Header, records: &'m [Record], pins: &'m [PinLine]) -> Self {
        Self {
            header,
            records,
            pins,
            shared: &[0..usize::MAX],
        }
    }

    /// The address of a shared object, for a record.
    #[inline(always)]
    pub(crate) fn address<T>(self, object: &T) -> u64 {
        let address = address(object);
        debug_assert!(
            self.shared
                .iter()
                .any(|range| range.contains(&(address as usize))),
            "{address:#x} is not in shared memory"
        );
        address
    }

    pub(crate) fn record(self, index: u32) -> &'m Record {
        &self.records[index as usize]
    }

    pub(crate) fn pins(self, index: u32) -> &'m PinLine {
        &self.pins[index as usize]
    }

    /// The records that were ever claimed, with their indexes.
    pub(crate) fn used(self) -> impl Iterator<Item = (u32, &'m Record)> {
        // Relaxed: a record that a burial looks for was claimed before its thread died.
        (0..).zip(&self.records[..self.header.used.load(Relaxed) as usize])
    }

    /// Returns true if any thread has pinned the object with this address. The caller has just
    /// executed a locked instruction.
    pub(crate) fn is_pinned(self, object: u64) -> bool {
        // Relaxed: see the head of `pins`. A thread's record counts as used before it pins
        // anything, so the fence of its pin orders both.
        let used = self.header.used.load(Relaxed) as usize;
        self.pins[..used]
            .iter()
            .flat_map(|line| &line.0)
            // Acquire: pairs with the release of an unpin, so that use comes before the release.
            .any(|pin| pin.load(Acquire) == object)
    }

    /// Claims the lowest free record for the first thread of a process: of this one, or of a child
    /// that is about to be forked. Returns none if all are claimed.
    pub fn claim_process(self) -> Option<Claim> {
        self.claim(|index| index)
    }

    fn claim(self, process: impl Fn(u32) -> u32) -> Option<Claim> {
        for (index, record) in (0..).zip(self.records) {
            let status = record.status();
            if status.state() != State::Free {
                continue;
            }
            // Before the claim: scans reach each claimed record. Relaxed: see `is_pinned`.
            self.header.used.fetch_max(index + 1, Relaxed);
            let claimed = status.with(State::Starting, process(index));
            die_here!(1);
            // Acquire: pairs with the release of the burial that freed it.
            let exchange = record
                .status
                .compare_exchange(status.0, claimed.0, AcqRel, Relaxed);
            if exchange.is_ok() {
                die_here!(2);
                return Some(Claim {
                    index,
                    status: claimed,
                });
            }
        }
        None
    }

    /// Makes a claimed record that of the calling thread. Returns none if it was
    /// [aborted](Self::abort): then the caller ends its process.
    ///
    /// The first thread of a process gives its [life sign](crate::Kernel::is_alive) before. An
    /// aborted child that wakes late may have the sign of this index, or find that a later child
    /// has it: so a child that finds the sign taken waits for it while its claim is
    /// [pending](Self::is_pending), and ends its process otherwise.
    ///
    /// # Safety
    /// The calling thread has no other record, and is the one for which this was claimed. The rules
    /// of the [crate] hold.
    #[must_use]
    pub unsafe fn adopt(self, claim: Claim) -> Option<Thread<'m>> {
        let record = self.record(claim.index);
        let alive = claim.status.with(State::Alive, claim.status.index());
        if !record.change(claim.status, alive) {
            return None;
        }
        Some(Thread {
            records: self,
            record,
            pins: self.pins(claim.index),
            index: claim.index,
            thread: PhantomData,
        })
    }

    /// Returns false if the claim was adopted or aborted.
    #[must_use]
    pub fn is_pending(self, claim: Claim) -> bool {
        self.record(claim.index).status() == claim.status
    }

    /// Gives up a claim that no thread has adopted: for a fork that failed, or a child that did not
    /// come up in time. Returns false if it was adopted. The record of a process is dying then, so
    /// a [burial](Thread::bury) frees it and what the process has; that of a thread is free.
    pub fn abort(self, claim: Claim) -> bool {
        let aborted = if claim.status.index() == claim.index {
            claim.status.dying(None)
        } else {
            claim.status.freed()
        };
        self.record(claim.index).change(claim.status, aborted)
    }

    /// The claims for processes that no child has adopted yet. An undertaker aborts one whose
    /// parent has died before the fork.
    pub fn claims(self) -> impl Iterator<Item = Claim> {
        self.used().filter_map(|(index, record)| {
            let status = record.status();
            let is_claim = status.state() == State::Starting && status.index() == index;
            is_claim.then_some(Claim { index, status })
        })
    }

    /// The process to which a record belongs: the index of the record of its first thread.
    #[must_use]
    pub fn process_of(self, index: u32) -> u32 {
        self.record(index).status().process(index)
    }

    /// Returns the number of records that are not free.
    #[must_use]
    pub fn claimed(self) -> usize {
        self.used()
            .filter(|(_, record)| record.status().state() != State::Free)
            .count()
    }

    /// Returns the number of records that were ever claimed: their indexes are below it.
    #[must_use]
    pub fn most_claimed(self) -> u32 {
        self.header.used.load(Relaxed)
    }

    /// Returns true if the thread with this index is in a read-side section.
    #[must_use]
    pub fn is_in_section(self, index: u32) -> bool {
        // Acquire: pairs with the release in `leave`, so what the section has read was read before.
        self.record(index).section.load(Acquire) != 0
    }
}

impl Claim {
    /// The index of the record. That of a first thread is the name of its process.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }
}

impl<'m> Thread<'m> {
    /// All records.
    #[must_use]
    pub fn records(&self) -> Records<'m> {
        self.records
    }

    /// The index of the record.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The index of the record of the process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.records.process_of(self.index)
    }

    /// Claims a record for a new thread of this process.
    pub fn claim_thread(&self) -> Option<Claim> {
        let process = self.process();
        self.records.claim(|_| process)
    }

    /// Places for references that are on their way, each 0 or the address of a
    /// [count](crate::Count): taken, and not yet where they belong. A burial
    /// [puts](crate::Count::put) what is there.
    ///
    /// An operation on two counts has a reference here in between. So a `dup2` gets the new file
    /// here, exchanges it with the one in the slot by a [journal](Self::store_together), and puts
    /// what is here then.
    ///
    /// # Safety
    /// The caller stores nothing else there.
    #[must_use]
    pub unsafe fn transit(&self) -> &[AtomicU64; TRANSIT] {
        &self.record.transit
    }

    /// Gives up the record of a thread that ends in order. That of the first thread of a process is
    /// free after the end of the process and a [burial](Self::bury).
    ///
    /// # Panics
    /// If the thread still holds a lock, a pin or a reference on its way, or is inside an
    /// operation.
    pub fn retire(self) {
        let is_empty =
            self.record.is_empty() && self.pins.0.iter().all(|pin| pin.load(Relaxed) == 0);
        assert!(is_empty, "a thread ends inside an operation");
        let status = self.record.status();
        if status.process(self.index) == self.index {
            self.record.change(status, status.dying(None));
        } else {
            self.record.free();
        }
    }

    /// Enters a read-side section, or stays in one. Returns what [`leave`](Self::leave) needs.
    ///
    /// The fence between this store and the loads of the section is that of the grace period.
    #[inline(always)]
    pub(crate) fn enter(&self) -> u64 {
        // Relaxed: only this thread writes it.
        let outside = self.record.section.load(Relaxed);
        self.record.section.store(1, Relaxed);
        light_fence();
        outside
    }

    /// Leaves the section, if `outside` says that the thread entered it then.
    #[inline(always)]
    pub(crate) fn leave(&self, outside: u64) {
        // Release: the section's loads come before.
        self.record.section.store(outside, Release);
    }

    /// Runs `read` inside a read-side section: objects that it finds keep their memory meanwhile.
    #[inline]
    pub fn section<R>(&self, read: impl FnOnce() -> R) -> R {
        /// Leaves the section, also if `read` panics.
        struct Inside<'t, 'm>(&'t Thread<'m>, u64);
        impl Drop for Inside<'_, '_> {
            fn drop(&mut self) {
                self.0.leave(self.1);
            }
        }
        let _inside = Inside(self, self.enter());
        read()
    }
}
