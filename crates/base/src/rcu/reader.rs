//! The read side: one record for each reader, and the guard that stands for a section.

use core::marker::PhantomData;
use core::ptr;

use alloc::boxed::Box;
use crossbeam_utils::CachePadded;

use super::grace::GRACE;
use crate::fence;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
use crate::sync::{global, relax};

/// The low bits of a record's word count the nesting.
const DEPTH: u64 = (1 << 15) - 1;

/// Marks the word of a record that is claimed for a single section. Kept in the word so that
/// leaving a section tests it together with the depth.
const TRANSIENT: u64 = 1 << 15;

/// Set while readers must take a full fence. Kept beside the number of the grace period, so that
/// a reader has both with one load.
pub(super) const FENCED: u64 = 1 << 16;

/// One step of the number of grace periods, in the bits above.
pub(super) const NUMBER: u64 = 1 << 17;

/// The words that the reader alone writes, on one cache line of its own.
#[derive(Debug)]
struct Own {
    /// Zero outside of sections. Inside: the depth, and the number of the grace period that had
    /// begun last when the section began.
    section: AtomicU64,
    /// The address of the [gate](crate::gate) that the reader is inside of, or 0.
    gate: AtomicUsize,
}

/// What one reader tells the updaters. Records are never freed, only claimed by another reader.
#[derive(Debug)]
pub(crate) struct Record {
    /// Written by the reader that claimed the record, read by updaters.
    own: CachePadded<Own>,
    claimed: AtomicBool,
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

/// The reader's side. The fast paths store constants, so that one section does not wait for the
/// store of the one before it: a depth that is loaded, changed and stored costs as much as the
/// rest of a lookup several times over.
impl Record {
    /// Enters a section, or nests one more.
    #[inline(always)]
    fn enter(&self) {
        // Relaxed: a thread sees its own stores.
        let word = self.own.section.load(Relaxed);
        if word != 0 {
            return self.nest(word);
        }
        self.begin_section(1);
    }

    #[inline(always)]
    fn begin_section(&self, depth: u64) {
        let now = GRACE.now();
        // (A) `now` is an acquire load: who sees the number of a grace period sees what was
        // unpublished for it. Release: whoever sees this section knows that the one before it
        // has ended, and sees all of that one's reads done; pairs with the acquire in (R).
        self.own.section.store(now | depth, Release);
        // (B) pairs with the heavy fence (Q) of `Grace::start`.
        if now & FENCED == 0 {
            fence::light();
        } else {
            fence::full();
        }
    }

    /// Leaves a section; the outermost one ends.
    #[inline(always)]
    fn exit(&self) {
        // Relaxed: a thread sees its own stores.
        let word = self.own.section.load(Relaxed);
        if word & (DEPTH | TRANSIENT) != 1 {
            return self.unnest(word);
        }
        self.end_section();
    }

    /// (D) Publishes the end of the outermost section.
    #[inline(always)]
    fn end_section(&self) {
        // Release: pairs with the acquire in (R). Whoever sees the end sees all of the
        // section's reads done.
        self.own.section.store(0, Release);
    }

    /// Goes one level deeper. At a depth that cannot be counted any more the word stays as it is:
    /// the reader then never leaves, and memory is kept, not freed early. It takes 32,767 guards
    /// at once, alive or leaked.
    #[cold]
    fn nest(&self, word: u64) {
        if word & DEPTH != DEPTH {
            // Release: as in `begin_section`, whose store this one hides from the updater.
            self.own.section.store(word + 1, Release);
        }
    }

    #[cold]
    fn unnest(&self, word: u64) {
        match word & DEPTH {
            DEPTH => {}
            // A record that was claimed for this section.
            1 => {
                self.end_section();
                self.unclaim();
                thread::count_unowned_section(-1);
            }
            // Release: as in `nest`.
            _ => self.own.section.store(word - 1, Release),
        }
    }

    /// Tells whether the owner is inside a section. For the owner itself.
    fn is_inside(&self) -> bool {
        // Relaxed: a thread sees its own stores.
        self.own.section.load(Relaxed) != 0
    }
}

/// The half of a [gate](crate::gate) that touches the record.
impl Record {
    /// Says which gate the reader is inside of, and fences. Refuses if it is inside of one.
    #[inline(always)]
    fn go_inside(&self, gate: usize) -> bool {
        // Relaxed: a thread sees its own stores.
        if self.own.gate.load(Relaxed) != 0 {
            return false;
        }
        // (E) Release: whoever sees the reader inside of this gate knows that it has left the one
        // before, and sees what it did there; pairs with the acquire in (W). The fence orders it
        // with what follows.
        self.own.gate.store(gate, Release);
        // (F) Relaxed: the section's own word, which says what fence its readers take.
        if self.own.section.load(Relaxed) & FENCED == 0 {
            fence::light();
        } else {
            fence::full();
        }
        true
    }

    #[inline(always)]
    fn go_outside(&self) {
        // (J) Release: pairs with the acquire in (W).
        self.own.gate.store(0, Release);
    }

    fn is_inside_gate(&self, gate: usize) -> bool {
        // (W) Acquire: pairs with the release in (J), or with that of the next (E), which hides it.
        self.own.gate.load(Acquire) == gate
    }
}

/// Waits until no reader is inside of a gate that has been marked as shut.
pub(crate) fn wait_for_inside(gate: usize) {
    // (G) A reader that claims its record after this fence sees the mark. The heavy fence is for
    // those that had claimed one, and there is none most often.
    fence::full();
    if !RECORDS.only_own_claimed() {
        fence::heavy();
    }
    for record in RECORDS.iter() {
        let mut attempts = 0;
        while record.is_inside_gate(gate) {
            relax(attempts);
            attempts = attempts.saturating_add(1);
        }
    }
}

/// The updaters' side.
impl Record {
    fn new_claimed() -> Self {
        Self {
            own: CachePadded::new(Own {
                section: AtomicU64::new(0),
                gate: AtomicUsize::new(0),
            }),
            claimed: AtomicBool::new(true),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Claims this record if it is free.
    fn try_claim(&self) -> bool {
        // Acquire: pairs with the release in `unclaim`, so that the former reader's last word
        // is the one that this reader goes on from. No model sees it, since the full fence in
        // `claim` acquires too.
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

    /// (R) Tells whether the reader is outside of every section that had begun when the grace
    /// period of `number` did. Only after the heavy fence of that grace period.
    pub(super) fn is_past(&self, number: u64) -> bool {
        // Acquire: pairs with the release (D) or (A) that is seen, so that the reads of the
        // section before it come before whatever the updater does next.
        let word = self.own.section.load(Acquire);
        word == 0 || word & !(NUMBER - 1) == number
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
        if fence::prepare() {
            GRACE.free_readers_of_fences();
        }
        let record = match self.iter().find(|record| record.try_claim()) {
            Some(free) => free,
            None => self.publish(Box::leak(Box::new(Record::new_claimed()))),
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
        // The fences on both sides order this with a claim. Acquire: pairs with the release in
        // `unclaim`, so that the sections of a reader that gave its record back come before
        // whatever the caller does next.
        self.iter()
            .filter(|record| record.claimed.load(Acquire))
            .all(|claimed| own.is_some_and(|own| ptr::eq(own, claimed)))
    }
}

/// Frees the records of the model's execution before this one: the threads of this one may still
/// give theirs back.
#[cfg(loom)]
impl Drop for Records {
    fn drop(&mut self) {
        use core::cell::Cell;
        std::thread_local! {
            #[expect(clippy::vec_box, reason = "records stay where they are")]
            static BEFORE: Cell<Vec<Box<Record>>> = const { Cell::new(Vec::new()) };
        }
        if !std::thread::panicking() {
            let records = self.iter().map(|record| {
                // SAFETY: `claim` leaked a box; when this one is dropped, after the next
                // execution, nobody uses the record any more.
                unsafe { Box::from_raw(ptr::from_ref(record).cast_mut()) }
            });
            BEFORE.set(records.collect());
        }
    }
}

/// A read-side critical section: what a reader found in it stays until the guard drops.
///
/// It belongs to the thread that made it. A thread can have 32,766 at once; leaking one leaves the thread inside the section: then
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

/// The way to the record for [gates](crate::gate).
impl Guard<'_> {
    /// Says that the thread is inside of a gate, unless it is inside of one, or has no record.
    #[inline(always)]
    pub(crate) fn go_inside(&self, gate: usize) -> bool {
        self.record.is_some_and(|record| record.go_inside(gate))
    }

    #[inline(always)]
    pub(crate) fn go_outside(&self) {
        if let Some(record) = self.record {
            record.go_outside();
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
        record.begin_section(TRANSIENT | 1);
        thread::count_unowned_section(1);
    }
    Guard::of(Some(record))
}

/// Tells whether the calling thread is inside a section, as far as it can be known.
pub(crate) fn inside_section() -> bool {
    inside_read_lock() || thread::unowned_sections() > 0
}

/// Tells whether the calling thread is inside a section that [`read_lock`] began, as far as it can
/// be known.
pub(super) fn inside_read_lock() -> bool {
    own_record().is_some_and(Record::is_inside)
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
        thread::count_unowned_section(1);
    }

    pub(super) fn go_offline(&self) {
        self.exit();
        thread::count_unowned_section(-1);
    }

    /// Ends a section and begins the next one with a single store.
    pub(super) fn quiesce(&self) {
        // (D) of the old section, and (A) and (B) of the new one.
        self.begin_section(1);
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
        static UNOWNED: Cell<isize> = const { Cell::new(0) };
        static RETURN: Return = const { Return(Cell::new(None)) };
    }
    #[cfg(loom)]
    thread_local! {
        static RECORD: Cell<Option<&'static Record>> = Cell::new(None);
        static UNOWNED: Cell<isize> = Cell::new(0);
        static RETURN: Return = Return(Cell::new(None));
    }

    /// Gives the thread's record back when the thread ends.
    struct Return(Cell<Option<&'static Record>>);

    impl Drop for Return {
        fn drop(&mut self) {
            // A model that failed is gone when its threads are cleared away.
            #[cfg(loom)]
            if std::thread::panicking() {
                return;
            }
            let Some(record) = self.0.take() else {
                return;
            };
            // A thread that still has a guard, or leaked one, keeps its record.
            if !record.is_inside() {
                // Sections that begin after this one claim a record each.
                let _ = RECORD.try_with(Cell::take);
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
            .try_with(|place| {
                let kept = RECORD.try_with(|own| own.set(Some(record))).is_ok();
                place.0.set(kept.then_some(record));
                kept
            })
            .unwrap_or(false)
    }

    /// How many sections of this thread are not on its own record: those of quiescent-state
    /// readers that are online, and those that claimed a record each.
    pub(super) fn unowned_sections() -> isize {
        UNOWNED.try_with(Cell::get).unwrap_or(0)
    }

    pub(super) fn count_unowned_section(change: isize) {
        let _ = UNOWNED.try_with(|count| count.set(count.get() + change));
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

    pub(super) fn unowned_sections() -> isize {
        0
    }

    pub(super) fn count_unowned_section(_change: isize) {}
}
