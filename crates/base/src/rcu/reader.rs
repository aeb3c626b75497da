//! The read side: one record for each reader, and the guard that stands for a section.

use core::marker::PhantomData;
use core::ptr;

use alloc::boxed::Box;
use crossbeam_utils::CachePadded;

use crate::fence;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
use crate::sync::global;

/// The low half of a record's word counts the nesting.
const DEPTH_BITS: u32 = usize::BITS / 2;

/// Marks the word of a record that is claimed for a single section. Kept in the word so that
/// leaving a section tests it together with the depth.
const TRANSIENT: usize = 1 << (DEPTH_BITS - 1);

const DEPTH: usize = TRANSIENT - 1;

/// One step of the sequence number, in the high half.
const SEQUENCE: usize = 1 << DEPTH_BITS;

/// What one reader tells the updaters. Records are never freed, only claimed by another reader.
#[derive(Debug)]
pub(crate) struct Record {
    /// Depth and sequence. Written by the reader that claimed the record, read by updaters.
    section: CachePadded<AtomicUsize>,
    claimed: AtomicBool,
    /// The word in which the grace period that runs saw this reader inside; 0 if it did not.
    /// Guarded by the lock of the grace period.
    watched: AtomicUsize,
    /// The record that was published before this one. Set before this one is published.
    next: AtomicPtr<Record>,
}

/// All records of the process, newest first.
pub(crate) struct Records {
    newest: AtomicPtr<Record>,
}

global! {
    /// The records of this process.
    pub(crate) static RECORDS: Records = Records::new();
}

impl Record {
    /// Enters a section, or nests one more.
    #[inline(always)]
    fn enter(&self) {
        // Relaxed load: only this reader writes the word.
        let word = self.section.load(Relaxed);
        if word & DEPTH == DEPTH {
            too_deep();
        }
        // (A) Relaxed: the fence below orders it before the section.
        self.section.store(word + 1, Relaxed);
        // (B) pairs with the heavy fence (Q) of `Grace::start`.
        fence::light();
    }

    /// Leaves a section; the outermost one ends.
    #[inline(always)]
    fn exit(&self) {
        // Relaxed load: only this reader writes the word.
        let word = self.section.load(Relaxed);
        match word & (DEPTH | TRANSIENT) {
            1 => self.end_section(word - 1),
            depth if depth & TRANSIENT == 0 => {
                // Relaxed: an inner section ends nothing that anybody waits for.
                self.section.store(word - 1, Relaxed);
            }
            _ => self.exit_transient(word),
        }
    }

    /// (D) Publishes the end of the outermost section.
    #[inline(always)]
    fn end_section(&self, word: usize) {
        // Release: pairs with the acquire loads (R) and (S). Whoever sees the new sequence sees
        // all of the section's reads done.
        self.section.store(word.wrapping_add(SEQUENCE), Release);
    }

    /// Claims this record if it is free.
    fn try_claim(&self) -> bool {
        // Acquire: pairs with the release in `unclaim`, so that the former reader's last word
        // is the one that this reader goes on from.
        // Relaxed on failure: nothing of the record is used then. The plain load first keeps
        // the line shared while others search.
        !self.claimed.load(Relaxed)
            && self
                .claimed
                .compare_exchange(false, true, Acquire, Relaxed)
                .is_ok()
    }

    fn unclaim(&self) {
        // Release: pairs with the acquire in `try_claim`.
        self.claimed.store(false, Release);
    }

    #[cold]
    fn exit_transient(&self, word: usize) {
        self.end_section(word & !(DEPTH | TRANSIENT));
        self.unclaim();
    }

    /// Enters the only section of a record that was claimed for it.
    fn enter_transient(&self) {
        // Relaxed: only the claimant writes the word, and the fence in `enter` orders it.
        self.section
            .store(self.section.load(Relaxed) | TRANSIENT, Relaxed);
        self.enter();
    }

    /// Tells whether the owner is inside a section. For the owner itself.
    fn is_inside(&self) -> bool {
        // Relaxed: a thread sees its own stores.
        self.section.load(Relaxed) & DEPTH != 0
    }

    /// (R) Notes the section that the reader is in, if any. Only under the lock of the grace
    /// period, after its heavy fence.
    pub(super) fn watch(&self) {
        // Acquire: if the reader has left, this is where its section's reads come before us.
        let word = self.section.load(Acquire);
        let inside = word & DEPTH != 0;
        // Relaxed: the lock of the grace period orders all users of `watched`.
        self.watched.store(if inside { word } else { 0 }, Relaxed);
    }

    /// (S) Tells whether the section that [`watch`](Self::watch) saw has ended. Only under the
    /// lock of the grace period.
    pub(super) fn has_left(&self) -> bool {
        // Relaxed: the lock of the grace period orders all users of `watched`.
        let watched = self.watched.load(Relaxed);
        // Acquire: pairs with the release (D).
        if watched != 0 && self.section.load(Acquire) >> DEPTH_BITS == watched >> DEPTH_BITS {
            return false;
        }
        self.watched.store(0, Relaxed);
        true
    }
}

impl Records {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self {
            newest: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self {
            newest: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Iterates over every record that was published before the call.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'static Record> {
        // Acquire: pairs with the release in `publish`, so that the record is seen whole.
        let mut place = self.newest.load(Acquire);
        core::iter::from_fn(move || {
            // SAFETY: `place` is null or came from `publish`, which leaks a box; records are
            // never freed and only ever shared.
            let record = unsafe { place.as_ref::<'static>() }?;
            // Relaxed: set before the record was published, never changed after.
            place = record.next.load(Relaxed);
            Some(record)
        })
    }

    /// Gives the caller a record that nobody else uses. Allocates when all are claimed.
    pub(super) fn claim(&self) -> &'static Record {
        let record = match self.iter().find(|record| record.try_claim()) {
            Some(free) => free,
            None => self.publish(Box::leak(Box::new(Record::claimed()))),
        };
        // Pairs with the fence before the search for other readers in `Grace::start`: either
        // the search finds this claim, or this reader's sections see what was unpublished
        // before the search.
        fence::full();
        record
    }

    fn publish(&self, record: &'static Record) -> &'static Record {
        let new = ptr::from_ref(record).cast_mut();
        let mut newest = self.newest.load(Relaxed);
        loop {
            // Relaxed: the release below publishes it.
            record.next.store(newest, Relaxed);
            // Release: pairs with the acquire in `iter`. Relaxed on failure, and in the load
            // above: the pointer is only stored again, never followed here.
            match self
                .newest
                .compare_exchange_weak(newest, new, Release, Relaxed)
            {
                Ok(_) => return record,
                Err(now) => newest = now,
            }
        }
    }

    /// Tells whether no record is claimed but, maybe, the calling thread's own. After a full
    /// fence; see `claim`.
    pub(super) fn only_own_claimed(&self) -> bool {
        let own = own_record();
        // Relaxed: ordered by the fences on both sides.
        self.iter()
            .filter(|record| record.claimed.load(Relaxed))
            .all(|claimed| own.is_some_and(|own| ptr::eq(own, claimed)))
    }
}

impl Record {
    fn claimed() -> Self {
        Self {
            section: CachePadded::new(AtomicUsize::new(0)),
            claimed: AtomicBool::new(true),
            watched: AtomicUsize::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// A read-side critical section: what a reader found in it stays until the guard drops.
///
/// It belongs to the thread that made it. Leaking it leaves the thread inside the section: then
/// grace periods never end, and memory is kept, not freed early.
#[derive(Debug)]
#[must_use = "the read-side section ends when the guard is dropped"]
pub struct Guard<'a> {
    /// The record to leave. A guard of a quiescent-state reader leaves nothing.
    record: Option<&'static Record>,
    /// Borrows the reader it came from, if any, and stays on its thread.
    reader: PhantomData<(&'a (), *const ())>,
}

impl Guard<'_> {
    fn of(record: Option<&'static Record>) -> Self {
        Self {
            record,
            reader: PhantomData,
        }
    }
}

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(record) = self.record {
            record.exit();
        }
    }
}

/// Enters a read-side critical section of this thread. Sections nest.
///
/// Never blocks. Allocates only at a thread's first section. Costs a load and a store of the
/// thread's own memory where `membarrier(2)` works, a full fence more elsewhere.
///
/// ```
/// use fdtable_base::rcu;
///
/// let guard = rcu::read_lock();
/// // What was published before is safe to read here.
/// drop(guard);
/// ```
///
/// # Panics
/// Aborts when sections nest more than 2^31 - 1 deep (2^15 - 1 on 32-bit machines), which takes
/// as many leaked guards.
#[doc(alias = "rcu_read_lock")]
#[inline(always)]
pub fn read_lock() -> Guard<'static> {
    match own_record() {
        Some(record) => {
            record.enter();
            Guard::of(Some(record))
        }
        None => first_section(),
    }
}

/// Enters the first section of a thread: claims its record, or one for this section alone where
/// the thread can keep none.
#[cold]
fn first_section() -> Guard<'static> {
    let record = RECORDS.claim();
    if thread::keep(record) {
        record.enter();
    } else {
        record.enter_transient();
    }
    Guard::of(Some(record))
}

#[cold]
fn too_deep() -> ! {
    // As `Arc` does: there is no way to go on, and unwinding could run the same code again.
    #[cfg(feature = "std")]
    std::process::abort();
    #[cfg(not(feature = "std"))]
    panic!("read-side sections nest too deep");
}

/// Tells whether the calling thread is inside a section, as far as it can be known.
pub(crate) fn inside_section() -> bool {
    own_record().is_some_and(Record::is_inside) || thread::online_readers() > 0
}

#[inline(always)]
fn own_record() -> Option<&'static Record> {
    thread::own_record()
}

/// The half of a quiescent-state reader that touches its record.
impl Record {
    pub(super) fn claim_online() -> &'static Self {
        let record = RECORDS.claim();
        record.go_online();
        record
    }

    pub(super) fn go_online(&self) {
        self.enter();
        thread::count_online_reader(1);
    }

    pub(super) fn go_offline(&self) {
        self.exit();
        thread::count_online_reader(-1);
    }

    /// Ends a section and begins the next one with a single store.
    pub(super) fn quiesce(&self) {
        // Relaxed load: only this reader writes the word.
        let word = self.section.load(Relaxed);
        // (D) of the old section and (A) of the new one in one store: Release for the former,
        // the fence for the latter.
        self.section.store(word.wrapping_add(SEQUENCE), Release);
        // (B)
        fence::light();
    }

    pub(super) fn retire(&self) {
        self.unclaim();
    }

    pub(super) fn borrow_online(&self) -> Guard<'_> {
        Guard::of(None)
    }
}

/// What a thread keeps of its own.
#[cfg(any(feature = "std", loom))]
mod thread {
    use super::Record;
    use core::cell::Cell;

    #[cfg(loom)]
    use loom::thread_local;
    #[cfg(not(loom))]
    use std::thread_local;

    #[cfg(not(loom))]
    thread_local! {
        // No destructor, so reading it is one load; `RETURN` takes the record back.
        static RECORD: Cell<Option<&'static Record>> = const { Cell::new(None) };
        static ONLINE: Cell<isize> = const { Cell::new(0) };
        static RETURN: Return = const { Return };
    }
    #[cfg(loom)]
    thread_local! {
        static RECORD: Cell<Option<&'static Record>> = Cell::new(None);
        static ONLINE: Cell<isize> = Cell::new(0);
        static RETURN: Return = Return;
    }

    /// Gives the thread's record back when the thread ends.
    struct Return;

    impl Drop for Return {
        fn drop(&mut self) {
            let Ok(Some(record)) = RECORD.try_with(Cell::take) else {
                return;
            };
            // A thread that leaked a guard is inside forever; its record must stay its own.
            if !record.is_inside() {
                record.unclaim();
            }
        }
    }

    #[inline(always)]
    pub(super) fn own_record() -> Option<&'static Record> {
        RECORD.try_with(Cell::get).ok().flatten()
    }

    /// Keeps `record` as the thread's own until the thread ends. Refuses when it is ending.
    pub(super) fn keep(record: &'static Record) -> bool {
        RETURN
            .try_with(|_| RECORD.with(|own| own.set(Some(record))))
            .is_ok()
    }

    /// How many quiescent-state readers are online on this thread.
    pub(super) fn online_readers() -> isize {
        ONLINE.try_with(Cell::get).unwrap_or(0)
    }

    pub(super) fn count_online_reader(change: isize) {
        let _ = ONLINE.try_with(|online| online.set(online.get() + change));
    }
}

/// Without threads of its own the library knows nothing of its caller: each section claims a
/// record.
#[cfg(not(any(feature = "std", loom)))]
mod thread {
    use super::Record;

    pub(super) fn own_record() -> Option<&'static Record> {
        None
    }

    pub(super) fn keep(_record: &'static Record) -> bool {
        false
    }

    pub(super) fn online_readers() -> isize {
        0
    }

    pub(super) fn count_online_reader(_change: isize) {}
}
