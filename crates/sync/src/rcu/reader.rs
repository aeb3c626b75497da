//! The read side: one record for each reader, and the guard that stands for a section.

use crate::hint::cold_path;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicIsize as UnmodelledOffset;
use core::sync::atomic::AtomicU32 as UnmodelledName;
use core::sync::atomic::AtomicUsize as Unmodelled;

#[cfg(not(loom))]
use alloc::alloc::{Layout, handle_alloc_error};
use alloc::boxed::Box;
use crossbeam_utils::CachePadded;

use crate::fallible::{OutOfMemory, try_box};
use crate::fence;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
use crate::platform::{enter_lock, global, leave_lock, own, relax, shared};
use crate::sequence::Area;

/// The low bits of a word of a section count the nesting.
const DEPTH: u64 = (1 << 15) - 1;

/// The depth of a section that begins. Kept beside the number of the grace period, so that a
/// reader stores what it has loaded.
const BEGUN: u64 = 1;

/// Marks the word of a record that is claimed for a single section.
const TRANSIENT: u64 = 1 << 15;

/// Set while readers must take a full fence. Kept beside the number of the grace period, so that
/// a reader has both with one load.
const FENCED: u64 = 1 << 16;

/// One step of the number of grace periods, in the bits above.
pub(super) const NUMBER: u64 = 1 << 17;

/// The number of the grace period that began last, whether readers must fence, and [`BEGUN`].
///
/// Every reader reads it at every section, so it has its own cache line. Only the beginning of a
/// grace period writes it.
pub(super) struct Started(CachePadded<AtomicU64>);

global! {
    /// The grace period of this process that began last.
    pub(super) static STARTED: Started = Started::new();
}

impl Started {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self(CachePadded::new(AtomicU64::new(FENCED | BEGUN)))
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self(CachePadded::new(AtomicU64::new(FENCED | BEGUN)))
    }

    /// Returns the word of a section that begins: the number of the grace period that began last,
    /// [`BEGUN`], and [`FENCED`] or not.
    #[inline(always)]
    fn now(&self) -> u64 {
        // Acquire: pairs with the release in `start`. A reader that carries the number of a
        // grace period is not waited for by it, so it must see what was unpublished before.
        self.0.load(Acquire)
    }

    /// Lets readers pass without a fence from now on: heavy fences reach them.
    fn free_readers_of_fences(&self) {
        // Relaxed, both: a reader that still sees the bit takes a fence too many. The exchange
        // has a place among those of `start`, and passes on what they release.
        if self.0.load(Relaxed) & FENCED != 0 {
            self.0.fetch_and(!FENCED, Relaxed);
        }
    }

    /// (N) Begins the next grace period.
    pub(super) fn advance(&self) {
        // Release: to the readers that will carry this number, with what came before the tickets.
        self.0.fetch_add(NUMBER, Release);
    }

    /// Returns the number of the grace period that began last. For the holder of the right to begin
    /// one.
    pub(super) fn number(&self) -> u64 {
        // Relaxed: the number is written under the lock that the caller holds.
        number_of(self.0.load(Relaxed))
    }
}

/// The plain word of a record that cannot begin a plain section. It is in no section.
const NOT_PLAIN: u64 = FENCED;

/// The words that the reader alone writes, on one cache line of its own.
#[derive(Debug)]
struct Own {
    /// The plain section: see [`Section`]. Zero outside. Inside: the number of the grace period
    /// that had begun last when the section began, and [`BEGUN`]. Or [`NOT_PLAIN`].
    plain: AtomicU64,
    /// All others. Zero outside. Inside: how many there are, and the number of the grace period
    /// that had begun last when the first of them began.
    counted: AtomicU64,
    /// The address of the [big-reader lock](crate::brlock) whose read side the thread holds, or 0.
    brlock: AtomicUsize,
    /// Address of the thread's rseq area: see [`sequence_area`]; 0 if it has none. Only the owner
    /// uses it, so it is not part of what is modelled.
    area: UnmodelledOffset,
    /// The nesting depth of the thread in the [freezer](crate::host_fork), and 0 outside.
    #[cfg(feature = "std")]
    freezer: AtomicUsize,
    /// Not 0 if a signal handler has put something off until the thread is outside of the freezer.
    /// Only the owner and its handlers use it, so it is not part of what is modelled.
    #[cfg(feature = "std")]
    put_off: Unmodelled,
    /// Per-thread state; `std` builds use thread-locals. Only the owner uses it.
    #[cfg(not(feature = "std"))]
    local: ThreadState,
}

/// The state of a thread beside its sections.
#[cfg(not(feature = "std"))]
#[derive(Debug)]
pub(crate) struct ThreadState {
    /// How many sections of the thread are not on its own record.
    unowned: UnmodelledOffset,
    /// Not 0 while the thread runs a callback.
    pub(crate) inside_callback: Unmodelled,
    /// How often counts have [changed their CPU](crate::refcount::spread::pace), since when.
    pub(crate) changed: [Unmodelled; 2],
    /// How often a spread count was looked for in vain, since when.
    pub(crate) looked: [Unmodelled; 2],
}

#[cfg(not(feature = "std"))]
impl ThreadState {
    const fn new() -> Self {
        Self {
            unowned: UnmodelledOffset::new(0),
            inside_callback: Unmodelled::new(0),
            changed: [const { Unmodelled::new(0) }; 2],
            looked: [const { Unmodelled::new(0) }; 2],
        }
    }

    /// Returns that of the calling thread, claiming a record if it has none. `None` if the library
    /// does not know its threads.
    pub(crate) fn of_caller() -> Option<&'static Self> {
        let record = own_record().or_else(thread::claim)?;
        Some(&record.own.local)
    }
}

/// Message of one reader to the updaters. Records are never freed; another reader may claim them.
#[derive(Debug)]
pub(crate) struct Record {
    /// Written by the reader that claimed the record, read by updaters.
    own: CachePadded<Own>,
    claimed: AtomicBool,
    /// The process that claimed it, where processes share their records, or 0. It is not part of
    /// what is modelled.
    process: UnmodelledName,
    /// The [name](thread::name) of the thread that claimed it, or 0. Only a child of a fork reads
    /// it. It is not part of what is modelled.
    owner: Unmodelled,
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

/// A section that a thread is in, and how the thread leaves it.
///
/// Guards may be dropped in any order, so a thread that leaves a section cannot restore the word to
/// what it was before. The *plain* section of a record has its own word: leaving it is one store,
/// whatever other sections there are. It is nearly always the outermost section of a thread.
/// Sections that begin while there is a plain one share the other word, which counts them. Loading,
/// changing and storing a word costs several times as much as the rest of a lookup.
///
/// Holds the record's address and one bit for the kind, in one word: guards are passed through C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section(NonNull<Record>);

/// Set in the address of the record of a counted section. Records have a larger alignment.
const COUNTED: usize = 1;

impl Section {
    #[inline(always)]
    fn plain(record: &'static Record) -> Self {
        Self(NonNull::from(record))
    }

    #[inline(always)]
    fn counted(record: &'static Record) -> Self {
        Self(NonNull::from(record).map_addr(|address| address | COUNTED))
    }

    #[inline(always)]
    fn is_counted(self) -> bool {
        self.0.addr().get() & COUNTED != 0
    }

    #[inline(always)]
    pub(crate) fn record(self) -> &'static Record {
        let record = self.0.as_ptr().map_addr(|address| address & !COUNTED);
        // SAFETY: made of a reference, with that bit or without.
        unsafe { &*record }
    }

    /// (D)
    ///
    /// # Safety
    /// This thread has entered it, leaves it once, and uses nothing more that it found in it.
    #[inline(always)]
    pub(crate) unsafe fn leave(self) {
        if self.is_counted() {
            cold_path();
            self.record().leave_counted();
        } else {
            self.record().end_plain();
        }
    }

    /// Leaves a section of a record that the thread keeps, as [`leave`](Self::leave) does, and
    /// calls nothing. (D)
    ///
    /// # Safety
    /// As for `leave`; and it was entered with the read side of a [big-reader
    /// lock](crate::brlock).
    #[inline(always)]
    pub(crate) unsafe fn leave_kept(self) {
        if self.is_counted() {
            self.record().end_counted();
        } else {
            self.record().end_plain();
        }
    }
}

/// The reader's side.
impl Record {
    /// Returns true if a plain section can begin: there is none, the reader takes no full fences,
    /// and the record is not [`NO_RECORD`]. One test covers all three.
    #[inline(always)]
    fn can_begin_plain(&self) -> bool {
        // Relaxed: a thread sees its own stores.
        self.own.plain.load(Relaxed) == 0
    }

    /// Enters the plain section, if it can begin.
    #[inline(always)]
    fn try_enter_plain(&'static self) -> Option<Section> {
        if !self.can_begin_plain() {
            cold_path();
            return None;
        }
        self.begin_plain();
        Some(Section::plain(self))
    }

    /// Begins the plain section, which [can begin](Self::can_begin_plain).
    #[inline(always)]
    fn begin_plain(&self) {
        // (A) as in `begin_counted`. No `FENCED` in it: the claim of this record found it cleared,
        // or cleared it.
        self.own.plain.store(STARTED.now(), Release);
        // (B) pairs with the heavy fence (Q) of a grace period.
        fence::light();
    }

    /// (D) Publishes the end of the plain section.
    #[inline(always)]
    fn end_plain(&self) {
        // Release: pairs with the acquire in (R). An updater that sees the end sees all of the
        // section's reads done.
        self.own.plain.store(0, Release);
    }

    /// Enters a counted section.
    fn enter_counted(&'static self) -> Section {
        // Relaxed: a thread sees its own stores.
        match self.own.counted.load(Relaxed) {
            0 => self.begin_counted(0),
            word => self.nest(word),
        }
        Section::counted(self)
    }

    #[inline(always)]
    fn begin_counted(&self, marks: u64) {
        let now = STARTED.now();
        // (A) `now` is an acquire load: a reader that sees the number of a grace period sees what
        // was unpublished for it. Release: an updater that sees this section knows that the one
        // before it has ended, and sees all of that one's reads done; pairs with the acquire in
        // (R).
        self.own.counted.store(now | marks, Release);
        // (B) pairs with the heavy fence (Q) of a grace period.
        Self::fence(now);
    }

    /// Takes the fence that a word asks for.
    #[inline(always)]
    fn fence(word: u64) {
        if word & FENCED != 0 {
            cold_path();
            fence::full();
        } else {
            fence::light();
        }
    }

    /// Goes one level deeper. At a depth that cannot be counted any more the word stays as it is:
    /// then the reader never leaves, and memory is kept, not freed early. That takes 32,767 guards
    /// at once, alive or leaked.
    #[cold]
    fn nest(&self, word: u64) {
        if word & DEPTH != DEPTH {
            // Release: as in `begin_counted`, whose store this one hides from the updater.
            self.own.counted.store(word + 1, Release);
        }
    }

    /// Leaves a counted section.
    #[cold]
    fn leave_counted(&self) {
        let word = self.end_counted();
        // A record that was claimed for this section.
        if word & DEPTH == 1 && word & TRANSIENT != 0 {
            self.unclaim();
            thread::count_unowned_section(-1);
        }
    }

    /// Goes one level up; the last leave ends the section. Returns the word before.
    #[inline(always)]
    fn end_counted(&self) -> u64 {
        // Relaxed: a thread sees its own stores.
        let word = self.own.counted.load(Relaxed);
        match word & DEPTH {
            DEPTH => {}
            // (D) Release: as in `end_plain`.
            1 => self.own.counted.store(0, Release),
            // Release: as in `nest`.
            _ => self.own.counted.store(word - 1, Release),
        }
        word
    }

    /// Returns true if the owner is inside a section or the freezer. For the owner itself.
    #[cfg(feature = "std")]
    fn is_in_use(&self) -> bool {
        // Relaxed: a thread sees its own stores.
        self.is_inside() || self.own.freezer.load(Relaxed) != 0
    }

    /// Returns true if the owner is inside a section. For the owner itself.
    fn is_inside(&self) -> bool {
        // Relaxed, both: a thread sees its own stores.
        self.own.plain.load(Relaxed) & DEPTH != 0 || self.own.counted.load(Relaxed) != 0
    }
}

/// Part of the record that the [freezer](crate::host_fork) needs.
#[cfg(feature = "std")]
impl Record {
    /// Returns the word of the freezer. Only the owner writes it.
    #[inline(always)]
    pub(crate) fn freezer(&self) -> &AtomicUsize {
        &self.own.freezer
    }

    /// Returns true if the record is that of a thread of the process with this name. Where
    /// processes do not share them, all records are: each has the name 0.
    pub(crate) fn is_of(&self, process: u32) -> bool {
        // Acquire: pairs with the release in `unclaim`, so that what the thread has done inside
        // comes before, if this finds its record released.
        self.process.load(Acquire) == process
    }

    /// Returns the word of what is put off. Only the owner and its signal handlers write it.
    #[inline(always)]
    pub(crate) fn put_off(&self) -> &Unmodelled {
        &self.own.put_off
    }

    /// Returns the calling thread's record, claimed now if it had none; and true if the thread only
    /// borrows it, as it is ending. It is then to be [returned](Self::return_lent).
    pub(crate) fn own_or_lent() -> (&'static Self, bool) {
        if let Some(record) = own_record() {
            return (record, false);
        }
        let record = RECORDS.claim();
        let is_lent = !thread::keep(record);
        if is_lent {
            thread::lend(record);
        }
        (record, is_lent)
    }

    /// Lends a record to the calling thread, which has none, as if it were ending.
    #[cfg(any(test, not(loom)))]
    pub(crate) fn lent() -> &'static Self {
        let record = RECORDS.claim();
        thread::lend(record);
        record
    }

    /// Releases the record that a thread borrowed while it was ending. If the thread is still
    /// inside a section, it keeps the record.
    pub(crate) fn return_lent(&self) {
        if !self.is_in_use() {
            thread::forget_own_record();
            self.unclaim();
        }
    }
}

/// The half of a [big-reader lock](crate::brlock) that touches the record.
impl Record {
    /// Enters a section, and announces the thread as a reader of the lock. Refuses if it reads a
    /// lock already.
    #[inline(always)]
    fn enter_brlock(&'static self, lock: usize) -> Option<Section> {
        self.enter_brlock_plainly(lock)
            .or_else(|| self.enter_brlock_counted(lock))
    }

    /// Like `enter_brlock`, for a plain section, or the first counted one inside of a plain one.
    #[inline(always)]
    fn enter_brlock_plainly(&'static self, lock: usize) -> Option<Section> {
        // Relaxed, all: a thread sees its own stores. The thread may read a lock in a counted
        // section.
        if self.own.brlock.load(Relaxed) != 0 {
            cold_path();
            return None;
        }
        if self.can_begin_plain() {
            self.announce(lock);
            // (F) is the fence (B) of the section.
            self.begin_plain();
            return Some(Section::plain(self));
        }
        if self.own.plain.load(Relaxed) == NOT_PLAIN || self.own.counted.load(Relaxed) != 0 {
            cold_path();
            return None;
        }
        self.announce(lock);
        // (F), as above.
        self.begin_counted(0);
        Some(Section::counted(self))
    }

    /// Like `enter_brlock`, where there may be a section already.
    #[cold]
    fn enter_brlock_counted(&'static self, lock: usize) -> Option<Section> {
        // Relaxed, both: a thread sees its own stores.
        if self.own.brlock.load(Relaxed) != 0 {
            return None;
        }
        self.announce(lock);
        let word = self.own.counted.load(Relaxed);
        // (F) is the fence (B) of a section that begins.
        if word == 0 {
            self.begin_counted(0);
        } else {
            self.nest(word);
            // weaken: fence-of-a-reader-without-membarrier
            // weaken: light-fence-of-a-reader
            Self::fence(word);
        }
        Some(Section::counted(self))
    }

    #[inline(always)]
    fn announce(&self, lock: usize) {
        // (E) Release: a writer that sees the thread as a reader of this lock knows that it has
        // left the lock before, and sees what it did there; pairs with the acquire in (W). The
        // fence orders it with what follows.
        self.own.brlock.store(lock, Release);
    }

    /// Announces that the thread reads no lock.
    ///
    /// # Safety
    /// It is the calling thread's record, and the thread writes nothing more of what the lock
    /// guards.
    #[inline(always)]
    pub(crate) unsafe fn leave_brlock(&self) {
        // (J) Release: pairs with the acquire in (W).
        self.own.brlock.store(0, Release);
    }

    fn is_reading(&self, lock: usize) -> bool {
        // (W) Acquire: pairs with the release in (J), or with that of the next (E), which hides it.
        self.own.brlock.load(Acquire) == lock
    }
}

/// Waits until no thread reads a lock that excludes readers.
pub(crate) fn wait_for_readers(lock: usize) {
    // (G)
    fence_for_claimed();
    for record in RECORDS.iter() {
        let mut attempts = 0;
        while record.is_reading(lock) {
            relax(attempts);
            attempts = attempts.saturating_add(1);
        }
    }
}

/// Runs the heavy fence, or only a full one when there is no other record to order with.
///
/// A thread needs no fence to see its own stores. Another thread that claims a record passes a
/// full fence before it stores anything there (`Records::claim`): if the search below does not find
/// its claim, that fence comes after this one, and it sees what the caller stored before.
pub(crate) fn fence_for_claimed() {
    fence_for_claimed_by(|_| true);
}

/// Runs the fence of [`fence_for_claimed`] for what the threads of one process alone order with:
/// those of others, with which it shares the records, have no part in it. A claim names the process
/// before its fence, so the same holds of a claim by a thread of this process.
#[cfg(feature = "std")]
pub(crate) fn fence_for_claimed_of(process: u32) {
    fence_for_claimed_by(|record| record.is_of(process));
}

fn fence_for_claimed_by(has_part: impl Fn(&Record) -> bool) {
    fence::full();
    if !RECORDS.only_own_claimed(has_part) {
        fence::heavy();
    }
}

/// The updaters' side.
impl Record {
    #[cfg(not(loom))]
    const fn new_claimed(plain: u64) -> Self {
        Self {
            own: CachePadded::new(Own {
                plain: AtomicU64::new(plain),
                counted: AtomicU64::new(0),
                brlock: AtomicUsize::new(0),
                area: UnmodelledOffset::new(0),
                #[cfg(feature = "std")]
                freezer: AtomicUsize::new(0),
                #[cfg(feature = "std")]
                put_off: Unmodelled::new(0),
                #[cfg(not(feature = "std"))]
                local: ThreadState::new(),
            }),
            claimed: AtomicBool::new(true),
            process: UnmodelledName::new(0),
            owner: Unmodelled::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[cfg(loom)]
    fn new_claimed(plain: u64) -> Self {
        Self {
            own: CachePadded::new(Own {
                plain: AtomicU64::new(plain),
                counted: AtomicU64::new(0),
                brlock: AtomicUsize::new(0),
                area: UnmodelledOffset::new(0),
                #[cfg(feature = "std")]
                freezer: AtomicUsize::new(0),
                #[cfg(feature = "std")]
                put_off: Unmodelled::new(0),
                #[cfg(not(feature = "std"))]
                local: ThreadState::new(),
            }),
            claimed: AtomicBool::new(true),
            process: UnmodelledName::new(0),
            owner: Unmodelled::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
        }
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
        // It is not that of a process until another thread has claimed it. Release: pairs with the
        // acquire in `is_of`.
        self.process.store(0, Release);
        // Relaxed: as in `claim`.
        self.owner.store(0, Relaxed);
        // Release: pairs with the acquire in `try_claim`.
        self.claimed.store(false, Release);
    }

    /// (R) Returns true if the reader is outside of every section that had begun when the grace
    /// period of `number` did. Only after the heavy fence of that grace period.
    pub(super) fn is_past(&self, number: u64) -> bool {
        // Acquire: pairs with the release (D) or (A) that is seen, so that the reads of the section
        // before it come before whatever the updater does next.
        let is_past = |section: &AtomicU64| {
            let word = section.load(Acquire);
            // weaken: number-of-a-section-ignored
            word & DEPTH == 0 || number_of(word) == number
        };
        // A section stays in one of the words for its whole life.
        // weaken: look-at-the-counted-sections
        // weaken: look-at-the-plain-section
        is_past(&self.own.plain) && is_past(&self.own.counted)
    }
}

/// Makes a claimed record. Where there is no memory, returns one of a few reserved records: a
/// lookup cannot fail for it.
fn new_record() -> &'static Record {
    match try_box(Record::new_claimed(0)) {
        Ok(record) => Box::leak(record),
        Err(OutOfMemory) => kept_record(),
    }
}

/// Returns a record that was made with the program. Ends the process when all are used.
#[cfg(not(loom))]
#[cold]
fn kept_record() -> &'static Record {
    /// How many threads may need their first record while there is no memory.
    const KEPT: usize = 64;
    global! {
        pub(super) static KEPT_RECORDS: [Record; KEPT] = [const { Record::new_claimed(0) }; KEPT];
    }
    global! {
        pub(super) static USED: AtomicUsize = AtomicUsize::new(0);
    }
    // Relaxed: each index is drawn once, and nothing else depends on it.
    let drawn = USED.fetch_add(1, Relaxed);
    KEPT_RECORDS
        .get(drawn)
        .unwrap_or_else(|| handle_alloc_error(Layout::new::<Record>()))
}

#[cfg(loom)]
fn kept_record() -> &'static Record {
    unreachable!("models have memory")
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
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Record> {
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

    /// Claims a record that no other reader uses. Allocates when all are claimed.
    pub(super) fn claim(&self) -> &'static Record {
        let plain = if fence::prepare() {
            STARTED.free_readers_of_fences();
            0
        } else {
            // weaken: plain-section-of-a-reader-that-fences
            NOT_PLAIN
        };
        let record = match self.iter().find(|record| record.try_claim()) {
            Some(free) => free,
            None => self.publish(new_record()),
        };
        // Skipped if an earlier claim stored the same answer. Relaxed: a thread that claims a
        // record sees the last value of its words.
        if record.own.plain.load(Relaxed) != plain {
            // Relaxed: updaters treat both values alike. No section came before in a record that is
            // new, and after a fork its reader does not exist: there is no end that this store
            // could hide.
            record.own.plain.store(plain, Relaxed);
        }
        // Relaxed: read by a child of a fork, which has one thread and a copy of its memory.
        record.owner.store(thread::name(), Relaxed);
        // Relaxed: the fence below is before each entry to the freezer, whose holder reads it.
        record.process.store(shared::process(), Relaxed);
        // Relaxed: only this thread reads it.
        record.own.area.store(area_of_thread(), Relaxed);
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

    /// Returns true if no record that has a part is claimed except, maybe, the calling thread's
    /// own. Only after a full fence; see `claim`.
    pub(super) fn only_own_claimed(&self, has_part: impl Fn(&Record) -> bool) -> bool {
        let own = own_record();
        // The fences on both sides order this with a claim. Acquire: pairs with the release in
        // `unclaim`, so that the sections of a reader that released its record come before whatever
        // the caller does next.
        self.iter()
            .filter(|record| record.claimed.load(Acquire) && has_part(record))
            .all(|claimed| own.is_some_and(|own| ptr::eq(own, claimed)))
    }
}

#[cfg(feature = "std")]
impl Records {
    /// Releases all records but those of the calling thread. They say then that no thread is inside
    /// of anything.
    ///
    /// # Safety
    /// The threads that claimed them do not exist.
    pub(super) unsafe fn forget_others(&self) {
        let own = thread::name();
        // Relaxed, all: there is one thread, and it starts the others.
        let others = self
            .iter()
            .filter(|record| record.owner.load(Relaxed) != own);
        for record in others {
            record.own.plain.store(0, Relaxed);
            record.own.counted.store(0, Relaxed);
            record.own.brlock.store(0, Relaxed);
            record.own.freezer.store(0, Relaxed);
            record.own.put_off.store(0, Relaxed);
            record.unclaim();
        }
    }
}

#[cfg(feature = "std")]
impl Records {
    /// Releases the records of a process. They say then that no thread is inside of anything.
    ///
    /// # Safety
    /// The process has ended.
    pub(super) unsafe fn forget_process(&self, process: u32) {
        // Relaxed: the threads are dead, and the caller has learned of that from the system.
        let of_process = |record: &&Record| {
            record.claimed.load(Relaxed) && record.process.load(Relaxed) == process
        };
        for record in self.iter().filter(of_process) {
            // Release, all: as at the ends of the sections and of the read side.
            record.own.plain.store(0, Release);
            record.own.counted.store(0, Release);
            record.own.brlock.store(0, Release);
            record.own.freezer.store(0, Release);
            record.own.put_off.store(0, Relaxed);
            record.unclaim();
        }
    }
}

/// Frees the records of the model's execution before this one: the threads of this one may still
/// release theirs.
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
                // SAFETY: `claim` leaked a box; when this one is dropped, after the next execution,
                // no thread uses the record any more.
                unsafe { Box::from_raw(ptr::from_ref(record).cast_mut()) }
            });
            BEFORE.set(records.collect());
        }
    }
}

/// A read-side critical section: the objects that a reader found in it stay until the guard drops.
///
/// It belongs to the thread that made it. A thread can have 32,766 at once; leaking one leaves the
/// thread inside the section: then grace periods never end, and memory is kept, not freed early.
#[derive(Debug)]
#[must_use = "the read-side section ends when the guard is dropped"]
pub struct Guard<'a> {
    /// The section to leave. A guard of a quiescent-state reader leaves nothing.
    section: Option<Section>,
    /// Borrows the reader it came from, if any, and stays on its thread.
    reader: PhantomData<(&'a (), *const ())>,
}

impl Guard<'_> {
    /// Makes a guard that leaves the section when it is dropped. Without a section, it stands for
    /// one that the caller has entered by other means and borrows for as long.
    ///
    /// # Safety
    /// This thread has entered the section, which nothing else leaves; or it is inside of another
    /// one for as long as the lifetime says.
    #[inline(always)]
    pub(crate) unsafe fn of(section: Option<Section>) -> Self {
        Self {
            section,
            reader: PhantomData,
        }
    }
}

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(section) = self.section {
            // SAFETY: as `of` was promised. References that were found in it borrow this guard.
            unsafe { section.leave() };
        }
    }
}

/// Enters a read-side critical section of this thread. Sections nest.
///
/// Never blocks. Allocates only at a thread's first section. Costs a load and a store of the
/// thread's own memory where `membarrier(2)` works, a full fence more elsewhere.
///
/// ```
/// use fdtable_sync::rcu;
///
/// let guard = rcu::read_lock();
/// // What was published before is safe to read here.
/// drop(guard);
/// ```
#[doc(alias = "rcu_read_lock")]
#[inline(always)]
pub fn read_lock() -> Guard<'static> {
    let record = own_or_none();
    let section = match record.try_enter_plain() {
        Some(section) => section,
        None => enter_otherwise(),
    };
    // SAFETY: entered above.
    unsafe { Guard::of(Some(section)) }
}

/// Enters a section where no plain one can begin.
#[cold]
#[inline(never)]
fn enter_otherwise() -> Section {
    match own_record() {
        Some(record) => record.enter_counted(),
        None => first_section(),
    }
}

/// Enters a section, and takes the read side of a [big-reader lock](crate::brlock) with it, unless
/// the thread holds one.
#[inline(always)]
pub(crate) fn enter_brlock(lock: usize) -> Option<Section> {
    let record = own_record().or_else(first_record)?;
    record.enter_brlock(lock)
}

/// As [`enter_brlock`], for a thread that has a record, is in at most one section, and takes no
/// full fences: without a call.
#[inline(always)]
pub(crate) fn enter_brlock_plainly(lock: usize) -> Option<Section> {
    own_or_none().enter_brlock_plainly(lock)
}

/// Claims the record of a thread that has none, if it can keep one.
#[cold]
fn first_record() -> Option<&'static Record> {
    let section = first_section();
    // SAFETY: entered above, and nothing was looked at.
    unsafe { section.leave() };
    own_record()
}

/// Enters the first section of a thread: claims its record, or one for this section alone where
/// the thread can keep none.
#[cold]
fn first_section() -> Section {
    // An interrupt handler that used the library in between would keep a record that is lost here.
    enter_lock();
    let (record, is_kept) = match own_record() {
        // It has done so before.
        Some(record) => (record, true),
        None => {
            let record = RECORDS.claim();
            (record, thread::keep(record))
        }
    };
    // SAFETY: entered above.
    unsafe { leave_lock() };
    if is_kept {
        return record
            .try_enter_plain()
            .unwrap_or_else(|| record.enter_counted());
    }
    record.begin_counted(TRANSIENT);
    thread::count_unowned_section(1);
    Section::counted(record)
}

/// Returns where the calling thread has its rseq area, if a [restartable
/// sequence](mod@crate::sequence) of it can stand for a read-side section: then the heavy fence
/// of each grace period restarts it. Neither blocks nor allocates. Returns nothing in a thread
/// that has not entered a section yet.
///
/// The argument is that of a section, without a word for it in memory. Take a sequence that
/// commits without being restarted, and the heavy fence (Q) of a grace period. *The fence
/// interrupts it before its first load*, or it begins later: then its loads see (P), and it does
/// not find the object. *It commits before the fence reaches it*: then the commit is visible to
/// the updater after (Q), and comes before (T). A fence in between restarts it. There is such a
/// fence in each grace period: without one, no other thread has a record, and a thread that
/// claims one passes a full fence after which it sees (P).
#[inline(always)]
#[must_use]
pub fn sequence_area() -> Option<Area> {
    // Relaxed: a thread sees its own stores.
    // weaken: sequence-of-a-thread-without-a-record
    Area::with_offset(own_or_none().own.area.load(Relaxed))
}

/// Returns true if the calling thread is inside a section, as far as can be known.
pub(crate) fn inside_section() -> bool {
    inside_read_lock() || thread::unowned_sections() > 0
}

/// Returns true if the library knows whether its caller is inside a section.
pub(super) fn knows_caller() -> bool {
    #[cfg(any(feature = "std", loom))]
    return true;
    #[cfg(not(any(feature = "std", loom)))]
    ThreadState::of_caller().is_some()
}

/// Returns true if the calling thread is inside a section that [`read_lock`] began, as far as can
/// be known.
pub(super) fn inside_read_lock() -> bool {
    own_record().is_some_and(Record::is_inside)
}

/// Leaves the record of the calling thread to the parent of its process, and claims another one.
#[cfg(feature = "std")]
pub(super) fn leave_to_parent() {
    thread::forget_own_record();
    let record = RECORDS.claim();
    if !thread::keep(record) {
        record.unclaim();
    }
}

/// Names the calling thread, as far as can be known.
pub(crate) fn thread_name() -> usize {
    thread::name()
}

/// Returns the record that the calling thread keeps, if it keeps one.
#[inline(always)]
pub(crate) fn own_record() -> Option<&'static Record> {
    let record = own_or_none();
    (!ptr::eq(record, no_record())).then_some(record)
}

/// As [`own_record`], with [`NO_RECORD`] for none.
#[inline(always)]
fn own_or_none() -> &'static Record {
    thread::own_or_none()
}

own! {
    /// The record of a thread that has none. It cannot begin a plain section: so the test for
    /// that also finds that the thread has no record. No updater knows it, and no thread
    /// writes it.
    pub(super) static NO_RECORD: Record = Record::new_claimed(NOT_PLAIN);
}

fn no_record() -> &'static Record {
    &NO_RECORD
}

/// Returns the calling thread's record to the others, and runs the callbacks that are queued unless
/// a reader is in the way. A kernel calls it on each thread that ends: else the record is lost, and
/// a few hundred bytes with it. With `std` this happens by itself, and the call does nothing.
///
/// May run callbacks: the caller holds no lock that one of them takes. Inside a section or a
/// callback it does nothing, and the record stays: then the section never ends. A thread that
/// continues gets another record, and so does one that an interrupt handler with a use of the
/// library interrupts after the call: see
/// [`Platform::set_thread_word`](crate::platform::kernel::Platform::set_thread_word). A handler
/// itself never calls this.
pub fn end_thread() {
    #[cfg(not(any(feature = "std", loom)))]
    {
        if inside_section() || super::callbacks::inside_callback() {
            return;
        }
        super::callbacks::drain_briefly();
        if let Some(record) = own_record() {
            thread::forget_own_record();
            record.unclaim();
        }
    }
}

/// Returns the offset of the calling thread's rseq area if it can run restartable sequences, or 0.
fn area_of_thread() -> isize {
    Area::offset_of_thread()
}

/// Returns the number of a grace period that a word carries.
fn number_of(word: u64) -> u64 {
    word & !(NUMBER - 1)
}

/// The half of a quiescent-state reader that touches its record.
impl Record {
    pub(super) fn claim_online() -> &'static Self {
        let record = RECORDS.claim();
        record.go_online();
        record
    }

    pub(super) fn go_online(&'static self) {
        // Left by `go_offline`.
        self.enter_counted();
        #[cfg(not(feature = "std"))]
        ThreadState::of_caller();
        thread::count_unowned_section(1);
    }

    /// Ends the section of a reader.
    ///
    /// # Safety
    /// The record is the calling thread's reader's, and online; nothing that was found in the
    /// section is used any more.
    pub(super) unsafe fn go_offline(&self) {
        self.leave_counted();
        thread::count_unowned_section(-1);
    }

    /// Ends a section and begins the next one with a single store.
    ///
    /// # Safety
    /// As for [`go_offline`](Self::go_offline).
    pub(super) unsafe fn quiesce(&self) {
        // (D) of the old section, and (A) and (B) of the new one.
        self.begin_counted(0);
    }

    /// Gives the record of a reader to others.
    ///
    /// # Safety
    /// It is the calling thread's reader's, and offline; the reader does not use it any more.
    pub(super) unsafe fn retire(&self) {
        self.unclaim();
    }

    /// Returns a guard for the section that the reader is in.
    ///
    /// # Safety
    /// The record is the calling thread's, and stays online for as long as it is borrowed.
    pub(super) unsafe fn borrow_online(&self) -> Guard<'_> {
        // SAFETY: as the caller promises.
        unsafe { Guard::of(None) }
    }
}

/// The thread's own state.
#[cfg(any(feature = "std", loom))]
mod thread {
    use super::{Record, no_record};
    use core::cell::Cell;

    #[cfg(loom)]
    use loom::thread_local;
    #[cfg(not(loom))]
    use std::thread_local;

    #[cfg(not(loom))]
    thread_local! {
        // No destructor, so reading it is one load; `RETURN` takes the record back.
        // A pointer: Rust 1.88 refuses constants with a reference to memory that changes.
        static RECORD: Cell<*const Record> = const { Cell::new(&raw const super::NO_RECORD) };
        static UNOWNED: Cell<isize> = const { Cell::new(0) };
        static RETURN: Return = const { Return(Cell::new(None)) };
    }
    #[cfg(loom)]
    thread_local! {
        static RECORD: Cell<*const Record> = Cell::new(no_record());
        static UNOWNED: Cell<isize> = Cell::new(0);
        static RETURN: Return = Return(Cell::new(None));
    }

    /// Releases the thread's record when the thread ends.
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
            if !record.is_in_use() {
                // Sections that begin after this one claim a record each.
                forget_own_record();
                record.unclaim();
            }
        }
    }

    #[inline(always)]
    pub(super) fn own_or_none() -> &'static Record {
        let record = RECORD.try_with(Cell::get).unwrap_or_else(|_| no_record());
        // SAFETY: it comes from a `static` reference: `NO_RECORD` at first, and then what
        // `lend`, `keep` and `forget_own_record` store.
        unsafe { &*record }
    }

    /// Names the calling thread, by a nonzero number that no other living thread has. In a child of
    /// a fork the forking thread keeps its name.
    pub(in crate::rcu) fn name() -> usize {
        RECORD
            .try_with(|own| core::ptr::from_ref(own).addr())
            .unwrap_or(1)
    }

    /// Makes `record` the thread's own until it is [forgotten](forget_own_record), while the thread
    /// is ending.
    pub(super) fn lend(record: &'static Record) {
        let _ = RECORD.try_with(|own| own.set(record));
    }

    pub(super) fn forget_own_record() {
        let _ = RECORD.try_with(|own| own.set(no_record()));
    }

    /// Keeps `record` as the thread's own until the thread ends. Refuses when it is ending.
    pub(super) fn keep(record: &'static Record) -> bool {
        RETURN
            .try_with(|place| {
                let kept = RECORD.try_with(|own| own.set(record)).is_ok();
                place.0.set(kept.then_some(record));
                kept
            })
            .unwrap_or(false)
    }

    /// How many sections of this thread are not on its own record: those of online quiescent-state
    /// readers, and those that claimed a record each.
    pub(super) fn unowned_sections() -> isize {
        UNOWNED.try_with(Cell::get).unwrap_or(0)
    }

    pub(super) fn count_unowned_section(change: isize) {
        let _ = UNOWNED.try_with(|count| count.set(count.get() + change));
    }
}

/// The thread's own state where a kernel keeps a word for each thread. Where it keeps none, the
/// library knows nothing of its caller, and each section claims a record.
#[cfg(not(any(feature = "std", loom)))]
mod thread {
    use super::{RECORDS, Record, enter_lock, leave_lock, no_record, own_record};
    use crate::platform::atomic::Ordering::Relaxed;
    use crate::platform::hooks;
    use core::ptr;

    #[inline(always)]
    pub(super) fn own_or_none() -> &'static Record {
        // SAFETY: null, or what `keep` stored on this thread: records are never freed and only
        // ever shared.
        unsafe { hooks::thread_word().cast::<Record>().as_ref() }.unwrap_or_else(no_record)
    }

    /// Names the calling thread by its record; 0 if it has none.
    pub(in crate::rcu) fn name() -> usize {
        own_record().map_or(0, |record| ptr::from_ref(record).addr())
    }

    /// Keeps `record` as the thread's own until the thread ends. Refuses where there is no place.
    pub(super) fn keep(record: &'static Record) -> bool {
        let word = ptr::from_ref(record).cast_mut().cast();
        // SAFETY: the library sets it to a record or to null.
        unsafe { hooks::set_thread_word(word) };
        ptr::eq(hooks::thread_word(), word)
    }

    pub(super) fn forget_own_record() {
        // SAFETY: as in `keep`.
        unsafe { hooks::set_thread_word(ptr::null_mut()) };
    }

    /// How many sections of this thread are not on its own record: those of online quiescent-state
    /// readers.
    pub(super) fn unowned_sections() -> isize {
        // Relaxed: a thread sees its own stores.
        own_record().map_or(0, |record| record.own.local.unowned.load(Relaxed))
    }

    /// Counts nothing for a thread without a record.
    pub(super) fn count_unowned_section(change: isize) {
        if let Some(record) = own_record() {
            // Relaxed, and no exchange: as above.
            let unowned = record.own.local.unowned.load(Relaxed);
            let count = &record.own.local.unowned;
            count.store(unowned + change, Relaxed);
        }
    }

    /// Claims a record for the calling thread, which has none, if it can keep one.
    #[cold]
    pub(super) fn claim() -> Option<&'static Record> {
        enter_lock();
        // An interrupt handler may have done so before.
        let kept = own_record().or_else(|| {
            let record = RECORDS.claim();
            if keep(record) {
                return Some(record);
            }
            record.unclaim();
            None
        });
        // SAFETY: entered above.
        unsafe { leave_lock() };
        kept
    }
}
