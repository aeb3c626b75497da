//! The read side: sections in the words of a thread, and the guard that stands for one.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::announce::{
    FENCED, RECORDS, Record, Word, count_unowned_section, keep, own_or_none, own_record,
    unowned_sections, with_made_state,
};
use crate::fence;
use crate::hint::cold_path;
use crate::platform::atomic::AtomicU64;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::{global, keep_cpu};

/// The low bits of a word of a section count the nesting.
const DEPTH: u64 = (1 << 15) - 1;

/// The depth of a section that begins. Kept beside the number of the grace period, so that a
/// reader stores what it has loaded.
const BEGUN: u64 = 1;

/// Marks the word of a record that is claimed for a single section.
const TRANSIENT: u64 = 1 << 15;

/// One step of the number of grace periods, in the bits above.
pub(super) const NUMBER: u64 = 1 << 17;

/// The number of the grace period that began last, and [`BEGUN`].
///
/// Every reader reads it at every section, so it has its own cache line. The beginning of a grace
/// period writes it.
pub(super) struct Started(CachePadded<AtomicU64>);

global! {
    /// The grace period of this process that began last.
    pub(super) static STARTED: Started = Started(CachePadded::new(AtomicU64::new(BEGUN)));
}

impl Started {
    /// Returns the word of a section that begins: the number of the grace period that began last,
    /// and [`BEGUN`].
    #[inline(always)]
    fn now(&self) -> u64 {
        // Acquire: pairs with the release in `start`. A reader that carries the number of a
        // grace period is not waited for by it, so it must see what was unpublished before.
        self.0.load(Acquire)
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
    pub(super) fn counted(record: &'static Record) -> Self {
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

    /// Ends a counted section that no other is in, and begins the next one with a single store.
    ///
    /// # Safety
    /// This thread has entered it, and uses nothing more that it found in it.
    #[inline(always)]
    pub(super) unsafe fn renew(self) {
        // (D) of the old section, and (A) and (B) of the new one.
        self.record().begin_counted(0);
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
    /// and the thread has a record. One test covers all three.
    #[inline(always)]
    fn can_begin_plain(&self) -> bool {
        self.words.plain.get() == 0
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
        // (A) as in `begin_counted`.
        self.words.plain.set(STARTED.now());
        // (B) pairs with the heavy fence (Q) of a grace period.
        fence::light();
    }

    /// (D) Publishes the end of the plain section.
    #[inline(always)]
    fn end_plain(&self) {
        // An updater that sees the end sees all of the section's reads done.
        self.words.plain.set(0);
    }

    /// Enters a counted section.
    pub(super) fn enter_counted(&'static self) -> Section {
        match self.words.counted.get() {
            0 => self.begin_counted(0),
            word => self.nest(word),
        }
        Section::counted(self)
    }

    #[inline(always)]
    fn begin_counted(&self, marks: u64) {
        // (A) `now` is an acquire load: a reader that sees the number of a grace period sees what
        // was unpublished for it. An updater that sees this section knows that the one before it
        // has ended, and sees all of that one's reads done.
        self.words.counted.set(STARTED.now() | marks);
        // (B) pairs with the heavy fence (Q) of a grace period.
        self.fence();
    }

    /// Returns true if the thread must take full fences.
    #[inline(always)]
    fn is_fenced(&self) -> bool {
        self.words.plain.get() == FENCED
    }

    /// Takes the fence that the thread needs.
    #[inline(always)]
    fn fence(&self) {
        if self.is_fenced() {
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
            self.words.counted.set(word + 1);
        }
    }

    /// Leaves a counted section.
    #[cold]
    fn leave_counted(&self) {
        let word = self.end_counted();
        // A record that was claimed for this section.
        if word & DEPTH == 1 && word & TRANSIENT != 0 {
            self.unclaim();
            count_unowned_section(-1);
        }
    }

    /// Goes one level up; the last leave ends the section. Returns the word before.
    #[inline(always)]
    fn end_counted(&self) -> u64 {
        let word = self.words.counted.get();
        match word & DEPTH {
            DEPTH => {}
            // (D)
            1 => self.words.counted.set(0),
            _ => self.words.counted.set(word - 1),
        }
        word
    }

    /// Returns true if the owner is inside a section. For the owner itself.
    fn is_inside(&self) -> bool {
        self.words.plain.get() & DEPTH != 0 || self.words.counted.get() != 0
    }

    /// Calls `announce`, and enters a section whose fence (B) is that of the announcement too.
    /// Refuses, before the call, inside of two sections, at a thread's first section, and where
    /// readers take full fences. Calls nothing else.
    #[inline(always)]
    pub(crate) fn try_enter_with(&'static self, announce: impl FnOnce(&Self)) -> Option<Section> {
        if self.can_begin_plain() {
            announce(self);
            self.begin_plain();
            return Some(Section::plain(self));
        }
        if self.is_fenced() || self.words.counted.get() != 0 {
            cold_path();
            return None;
        }
        announce(self);
        // (A), (B) as in `begin_counted`.
        self.words.counted.set(STARTED.now());
        fence::light();
        Some(Section::counted(self))
    }

    /// As [`try_enter_with`](Self::try_enter_with), where there may be sections already.
    #[cold]
    pub(crate) fn enter_with(&'static self, announce: impl FnOnce(&Self)) -> Section {
        announce(self);
        match self.words.counted.get() {
            0 => self.begin_counted(0),
            word => {
                self.nest(word);
                // weaken: fence-of-a-reader-without-membarrier
                // weaken: light-fence-of-a-reader
                self.fence();
            }
        }
        Section::counted(self)
    }
}

/// The updaters' side.
impl Record {
    /// (R) Returns true if the reader is outside of every section that had begun when the grace
    /// period of `number` did. Only after the heavy fence of that grace period.
    pub(super) fn is_past(&self, number: u64) -> bool {
        let is_past = |section: &Word| {
            let word = section.seen();
            // weaken: number-of-a-section-ignored
            word & DEPTH == 0 || number_of(word) == number
        };
        // A section stays in one of the words for its whole life.
        // weaken: look-at-the-counted-sections
        // weaken: look-at-the-plain-section
        is_past(&self.words.plain) && is_past(&self.words.counted)
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
/// Never blocks. A thread's first section allocates, and takes a
/// [heavy fence](crate::fence::heavy), as each section of a thread that is ending does. Others cost
/// a load and a store of the thread's own memory where `membarrier(2)` works, a full fence more
/// elsewhere.
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

/// Claims the record of a thread that has none, if it can keep one.
#[cold]
pub(crate) fn first_record() -> Option<&'static Record> {
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
    let keeps_cpu = keep_cpu();
    let (record, is_kept) = match own_record() {
        // It has done so before.
        Some(record) => (record, true),
        None => {
            let record = RECORDS.claim();
            (record, keep(record))
        }
    };
    drop(keeps_cpu);
    if is_kept {
        return record
            .try_enter_plain()
            .unwrap_or_else(|| record.enter_counted());
    }
    record.begin_counted(TRANSIENT);
    count_unowned_section(1);
    Section::counted(record)
}

/// Returns true if the calling thread is inside a section, as far as can be known.
pub(crate) fn inside_section() -> bool {
    inside_read_lock() || unowned_sections() > 0
}

/// Returns true if the library knows whether its caller is inside a section.
pub(super) fn knows_caller() -> bool {
    with_made_state(|_| ()).is_some()
}

/// Returns true if the calling thread is inside a section that [`read_lock`] began, as far as can
/// be known.
pub(super) fn inside_read_lock() -> bool {
    own_record().is_some_and(Record::is_inside)
}

/// Returns true if no thread is inside a section, or can still find what the calling thread has
/// unpublished: it is outside of sections, and the only thread that reads.
#[inline(always)]
pub(super) fn is_without_readers() -> bool {
    let own = own_or_none();
    // weaken: lone-thread-that-frees-inside-of-a-plain-section
    // weaken: lone-thread-that-frees-inside-of-a-counted-section
    own.can_begin_plain() && own.words.counted.get() == 0 && own.is_alone()
}

/// Returns the number of a grace period that a word carries.
fn number_of(word: u64) -> u64 {
    word & !(NUMBER - 1)
}
