//! A count that several CPUs want, counted by CPU.
//!
//! Two threads that take references to one object move the cache line of its count between their
//! CPUs: 50 ns each time. So a count that several CPUs want is *spread*: each CPU counts in a
//! *part* of its own, on lines that no other CPU writes. The price is that a put no longer finds
//! the last reference. That is paid by a rule about slots:
//!
//! > A count is spread only while a slot has a reference to the object. A reference that leaves its
//! > slot, to be put or to be kept, *gathers* the count first.
//!
//! So the count is in one word again when the last slot is closed, and the last put finds that by
//! the word, in the very call, as for every [`RefCount`]. A slot is a place that has a reference
//! from a store until an exchange, such as that of a descriptor.
//!
//! # The steps
//!
//! The word of a spread count has a *bias* of 2^62 in it, so it is never close to -1. A part is a
//! word that counts from [`OPEN`], or around [`SEALED`], below zero, where counts are not read.
//!
//! | | a thread that spreads | | a slot's put, or its reference that is kept |
//! |---|---|---|---|
//! | (A) | add the bias by compare-and-swap, if the word is a small live count; acquire | (X) | empty the slot |
//! | (B) | swap [`OPEN`] into each part | (P) | subtract the reference from the word (or 0, if it is kept), release and acquire. Without a bias: as any put |
//! | (C) | mark the count as spread, release | (E) | take the mark off by compare-and-swap, acquire. Without one: done |
//! | (D) | add 0 to the word, release and acquire; then look whether the slot still has the object; if not, (E) to (H) | (F) | swap [`SEALED`] into each part, acquire, and sum up what was there |
//! | | | (G) | add the sum, less the bias, to the word, release |
//! | | | (H) | if that is -1, bury the object, as the last put does |
//!
//! *Getting* reads the mark, acquire, and adds one to the part of this CPU. If that was open, the
//! get has a reference. If it was sealed, or there is no mark, it is done by the word. *Putting* is
//! the same with a subtraction, which releases. The CPU is a hint: any part is right, since only
//! the sum counts; a part may fall below [`OPEN`].
//!
//! # Why the last reference is found
//!
//! Take a count that is spread, and the (P) of the slot that (D) looked at. Both are atomic
//! operations on the word, one after the other.
//!
//! *(P) before (D).* (D) has acquired what (P) released, so the look that follows sees the empty
//! slot, or a later reference there, to which the same applies. If it does not find the object, the
//! thread that spreads gathers.
//!
//! *(D) before (P).* (P) has acquired the mark. Either the mark is still there and this thread
//! takes it off, or another thread has taken it off, and gathers. That one's (G) comes after this
//! (P) or before it. If after, then (G) includes it. If before, then (P) is a put in a plain
//! word.
//!
//! So after the last slot's (P) the count gets gathered, by a thread that is dropping or keeping a
//! reference at that time, and (G) or a later put takes the word to -1 when there is none left. The
//! bias keeps the word from it in between, whatever order puts come in.
//!
//! *A leaf that is dropped* puts the references of its slots without emptying them. It was unlinked
//! before: the look at the slot is a new walk from the root, so for (D) an unlinked leaf is as an
//! empty slot.
//!
//! # Why no reference is lost or counted twice
//!
//! A part changes by atomic operations alone between (B) and (F), so (F) sums up each get and put
//! that met an open part. One that met a sealed part has seen that, and takes the word; what it
//! leaves in the part is overwritten by the next (B). The bias is a lock: no thread comes to (A)
//! until (G), whose release pairs with the acquire of (A). So a (B) comes after the (F) before it.
//!
//! A get that has read the mark may be late. Its part may be sealed by then: then it has the word.
//! Or the count was gathered and spread again: then its part counts again. An object keeps its
//! number until its block is freed, so the part that a get in a section adds to is that of the
//! object that it has found.
//!
//! # Detection
//!
//! Costs nothing where one CPU uses an object: a get that finds no reference beside that of the
//! slot looks no further. Others compare the CPU with that of the last such get. A thread that
//! sees [many](pace) of them in a short time spreads the count that it has just got.
//!
//! # Cost and bounds
//!
//! An object has no word more for it: its number and the last CPU are in four bytes that its header
//! had left. Parts are a line for each CPU and number: a page for each CPU serves 64 hot objects.
//! [`NUMBERS`] objects can have a number at a time, and [`ROWS`] CPUs a row. Others use the word.
//! Spreading and gathering take a store or a swap for each CPU; neither waits. Only 64-bit machines
//! spread: the bias needs room in the word.
//!
//! With `std` on Unix the rows are mapped by [`prepare`], 16 KiB for each CPU, and a page takes
//! memory when it is first used. Without rows no count is spread. A lookup that spreads makes no
//! system call. Elsewhere the rows are in the program's image. No row is freed.

use super::RefCount;
use crate::percpu;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU16, AtomicUsize};
use crate::platform::own;
use crate::platform::shared::is_shared;
use core::ptr::{self, NonNull};

pub(crate) mod pace;

/// How many CPUs have parts, at most. A library that does not know its CPUs never spreads a count.
const ROWS: usize = by_host(512, 64);

/// How many counts can have parts at a time.
const NUMBERS: usize = by_host(256, 32);

/// Chooses by the place of the rows: models have 2 of each. Rows in an image take 128 KiB.
const fn by_host(mapped: usize, in_image: usize) -> usize {
    if cfg!(loom) {
        2
    } else if cfg!(all(feature = "std", unix)) {
        mapped
    } else if cfg!(any(feature = "std", feature = "platform")) {
        in_image
    } else {
        1
    }
}

/// The mark of a spread count, beside its number.
const MARK: u16 = 1 << 15;

/// Value from which an open part counts: far from both ends of its range.
const OPEN: isize = isize::MAX / 4;

/// Value from which a sealed part counts.
const SEALED: isize = isize::MIN / 2;

/// State of a count beside its word that lets it be spread, in four bytes.
///
/// It belongs to one [`RefCount`], the one that each method gets. Dropping it frees its number for
/// another count; if it is leaked, no other count gets that number.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Spread {
    /// The number of the parts, from 1; 0 if it has none yet. And [`MARK`] while gets and puts are
    /// to use them.
    home: AtomicU16,
    /// The CPU of the last get that found other references.
    taker: AtomicU16,
}

/// Share of one CPU in one count. It has a line of its own: a gather writes the parts of all
/// CPUs, and must not disturb those that use other counts.
#[repr(align(64))]
struct Part(AtomicIsize);

/// Place in which a reference is counted when it is taken. It may be dropped elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the word of the count.
    Word,
    /// In the part of a CPU.
    Part,
}

/// The parts of one CPU.
type Row = [Part; NUMBERS];

/// The parts of all counts.
#[repr(C, align(64))]
pub(super) struct Parts {
    /// Keeps the next fields at offsets in their line that no part has: some machines take a load
    /// for one of what was just stored at the same offset of another page, and wait.
    _distance: usize,
    /// How many rows there are: the CPUs, rounded up to a power of two. Zero until they are made.
    used: AtomicUsize,
    /// The first row; the others follow. Null until they are made.
    rows: AtomicPtr<Row>,
}

// The static memory of programs whose rows are mapped.
const _: () = assert!(size_of::<Parts>() <= 64 || cfg!(loom));

own! {
    /// The parts of this process.
    pub(super) static PARTS: Parts = Parts {
        _distance: 0,
        used: AtomicUsize::new(0),
        rows: AtomicPtr::new(ptr::null_mut()),
    };
}

own! {
    /// The numbers that have an owner.
    pub(super) static DRAWN: Drawn = Drawn::new();
}

/// Makes the parts of this process, unless there are some, or no memory for them. Without parts no
/// count is spread. Code that makes slots calls it. Does not enter the global allocator, and may
/// change errno. Callable anywhere.
#[inline]
pub fn prepare() {
    if !PARTS.are_made() {
        PARTS.make();
    }
}

impl Parts {
    #[inline]
    fn are_made(&self) -> bool {
        // Acquire: pairs with the release in `make`, so that a thread that reads the mark that
        // follows sees the number of rows.
        !self.rows.load(Acquire).is_null()
    }

    /// Makes the rows. The parts are of this process: where processes share counts, there are none.
    #[cold]
    fn make(&self) {
        if is_shared() {
            return;
        }
        let count = if cfg!(loom) {
            ROWS
        } else {
            percpu::copies().min(ROWS)
        };
        let Some(rows) = memory::map(count) else {
            return;
        };
        // Relaxed: every thread stores the same, and the exchange publishes it.
        self.used.store(count, Relaxed);
        // Release: pairs with the acquire in `are_made`, so the number of rows is visible there.
        // Relaxed on failure: nothing is read.
        let made = self
            .rows
            .compare_exchange(ptr::null_mut(), rows.as_ptr(), Release, Relaxed);
        if made.is_err() {
            // SAFETY: mapped above, and no other thread has seen it.
            unsafe { memory::unmap(rows, count) };
        }
    }

    /// Returns the part of a CPU for the count with the number of `home`, if the CPU has a row.
    #[inline(always)]
    fn of(&self, home: u16, cpu: usize) -> Option<&'static AtomicIsize> {
        // Relaxed, both: the acquire of the mark comes before.
        if cpu >= self.used.load(Relaxed) {
            return None;
        }
        let first = NonNull::new(self.rows.load(Relaxed))?;
        // SAFETY: there are as many rows as `used` says, whatever thread has mapped them.
        let row = unsafe { first.add(cpu) };
        // SAFETY: rows stay. All their bytes were zero at first, which is a valid part.
        let row = unsafe { row.as_ref() };
        row.get(usize::from(home & !MARK) - 1).map(|part| &part.0)
    }

    /// Returns the parts of all CPUs for the count with this number.
    fn all_of(&self, number: u16) -> impl Iterator<Item = &'static AtomicIsize> {
        // Relaxed: as in `of`, or the number was drawn after the rows were made.
        (0..self.used.load(Relaxed)).filter_map(move |cpu| self.of(number, cpu))
    }
}

/// The memory of the rows, mapped.
#[cfg(all(feature = "std", unix, not(loom)))]
mod memory {
    use super::Row;
    use core::ptr::{self, NonNull};

    /// Maps so many rows, all zero. They are private to the process, also after a fork.
    pub(super) fn map(count: usize) -> Option<NonNull<Row>> {
        let size = count * size_of::<Row>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: a new mapping, of which nothing is known yet.
        let place = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(place.cast())
    }

    /// Unmaps the rows.
    ///
    /// # Safety
    /// [`map`] has returned them for this count, and they are not used.
    pub(super) unsafe fn unmap(rows: NonNull<Row>, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { libc::munmap(rows.as_ptr().cast(), count * size_of::<Row>()) };
    }
}

/// The memory of the rows, in the image.
#[cfg(not(all(feature = "std", unix, not(loom))))]
mod memory {
    use super::{Part, ROWS, Row};
    use crate::platform::atomic::AtomicIsize;
    use crate::platform::own;
    use core::ptr::NonNull;

    /// All rows.
    pub(super) struct Image([Row; ROWS]);

    impl Image {
        #[cfg(not(loom))]
        const fn new() -> Self {
            Self([const { [const { Part(AtomicIsize::new(0)) }; super::NUMBERS] }; ROWS])
        }

        #[cfg(loom)]
        fn new() -> Self {
            let part = |_| Part(AtomicIsize::new(0));
            Self([(); ROWS].map(|()| core::array::from_fn(part)))
        }
    }

    own! {
        pub(super) static IMAGE: Image = Image::new();
    }

    /// Returns the first row.
    pub(super) fn map(_count: usize) -> Option<NonNull<Row>> {
        Some(NonNull::from(&IMAGE.0).cast())
    }

    /// Does nothing: the image stays.
    pub(super) unsafe fn unmap(_rows: NonNull<Row>, _count: usize) {}
}

/// Which numbers are drawn, from 1.
pub(super) struct Drawn([AtomicBool; NUMBERS]);

impl Drawn {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self([const { AtomicBool::new(false) }; NUMBERS])
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicBool::new(false)))
    }

    /// Draws a number, from 1, if there is one, and there are parts.
    fn draw(&self) -> Option<u16> {
        if !PARTS.are_made() {
            return None;
        }
        debug_assert!(!is_shared(), "a tree was made before");
        let draw = |drawn: &AtomicBool| {
            // Relaxed: a hint.
            // Acquire: pairs with the release in `free`, so the parts' former use is over.
            !drawn.load(Relaxed) && !drawn.swap(true, Acquire)
        };
        let index = self.0.iter().position(draw)?;
        u16::try_from(index + 1).ok()
    }

    fn free(&self, number: u16) {
        // Release: pairs with the acquire in `draw`.
        self.0[usize::from(number) - 1].store(false, Release);
    }
}

impl Spread {
    /// Makes what a count has that was never spread.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a reference like [`RefCount::get`], on the part of this CPU if the count is spread.
    /// Returns where it is counted.
    #[inline(always)]
    #[must_use = "without a reference the object must not be touched"]
    pub fn get(&self, count: &RefCount) -> Option<Place> {
        self.get_noting_others(count).map(|(place, _)| place)
    }

    /// Takes a reference like [`get`](Self::get). Also returns true if others have references
    /// beside that of a slot, and the count is not spread: a hint.
    #[inline(always)]
    pub fn get_noting_others(&self, count: &RefCount) -> Option<(Place, bool)> {
        // Relaxed: `get_in_part` reads it again.
        if self.home.load(Relaxed) & MARK != 0 && self.get_in_part() {
            return Some((Place::Part, false));
        }
        let before = count.add();
        let is_taken = RefCount::is_plainly_live(before) || count.get_outside_live_zone(before);
        is_taken.then(|| (Place::Word, RefCount::has_others(before)))
    }

    /// Takes a reference on the part of this CPU, if the count is spread. A function of its own:
    /// most counts are not spread, and get their reference in fewer registers.
    #[inline(never)]
    fn get_in_part(&self) -> bool {
        // Relaxed: as in `RefCount::get`.
        self.part_of(this_cpu)
            .is_some_and(|part| part.fetch_add(1, Relaxed) >= 0)
    }

    /// Drops a reference like [`RefCount::put`], on the part of this CPU if the count is spread.
    /// Not for that of a slot.
    #[inline(always)]
    #[must_use = "the thread that puts the last reference releases the object"]
    pub fn put(&self, count: &RefCount) -> bool {
        !self.put_in_part_of(this_cpu) && count.put()
    }

    /// Drops a reference in the part of this CPU, if the count is spread, and the memory of the
    /// thread tells its CPU. Returns true if it did: it was not the last one. If not, the caller
    /// [puts](Self::put) it.
    #[inline(always)]
    #[must_use = "the caller still has the reference otherwise"]
    pub fn try_put_in_part(&self) -> bool {
        self.put_in_part_of(percpu::try_current)
    }

    #[inline(always)]
    fn put_in_part_of(&self, cpu: impl FnOnce() -> Option<usize>) -> bool {
        // Release: as in `RefCount::put`; pairs with the acquire of (F). In a sealed part nothing
        // is dropped.
        self.part_of(cpu)
            // weaken: sealed-part-that-counts
            .is_some_and(|part| part.fetch_sub(1, Release) >= 0)
    }

    /// Returns the part of this CPU, if the count is spread, and the CPU is known.
    #[inline(always)]
    fn part_of(&self, cpu: impl FnOnce() -> Option<usize>) -> Option<&'static AtomicIsize> {
        // Acquire: pairs with the release of (C), so that the part is open here, or sealed since.
        let home = self.home.load(Acquire);
        if home & MARK == 0 {
            return None;
        }
        PARTS.of(home, cpu()?)
    }

    /// Drops the reference of a slot, and gathers the count if it is spread. Returns true if it was
    /// the last one, as [`RefCount::put`] does. The slot was emptied, or cannot be found any more.
    ///
    /// The count is used after the reference is dropped: the caller is inside a section in which
    /// it does not end.
    #[must_use = "the thread that puts the last reference releases the object"]
    pub fn put_of_slot(&self, count: &RefCount) -> bool {
        // (P)
        let was_last = count.put_noting_bias();
        // weaken: put-that-does-not-gather
        was_last.unwrap_or_else(|| self.gather(count))
    }

    /// Gathers the count of a slot's reference that is kept. The slot was emptied.
    pub fn unslot(&self, count: &RefCount) {
        // (P)
        // weaken: kept-reference-that-does-not-gather
        if count.is_biased_now() {
            let was_last = self.gather(count);
            debug_assert!(!was_last, "the caller has a reference");
        }
    }

    /// Returns true if a get on `cpu`, which has found other references, is to
    /// [spread](Self::spread) the count.
    #[inline(always)]
    pub fn note_taker(&self, cpu: usize) -> bool {
        if cfg!(target_pointer_width = "32") {
            return false;
        }
        // The low bits suffice to tell most CPUs apart.
        let cpu = cpu as u16;
        // Relaxed, both: a hint.
        if self.taker.load(Relaxed) == cpu {
            return false;
        }
        self.taker.store(cpu, Relaxed);
        pace::note_change()
    }

    /// Spreads a count, if there is a number for it, and no other thread does. The caller has a
    /// reference. `is_in_slot` looks, by a new walk, whether there is a slot that has a reference
    /// to the object.
    #[cold]
    pub fn spread(&self, count: &RefCount, is_in_slot: impl FnOnce() -> bool) {
        // (A)
        if cfg!(target_pointer_width = "32") || !count.bias() {
            return;
        }
        // Relaxed, also the store: the bias is a lock.
        let number = match self.home.load(Relaxed) {
            0 => DRAWN.draw(),
            number => Some(number),
        };
        let Some(number) = number else {
            let was_last = count.unbias(0);
            debug_assert!(!was_last, "the caller has a reference");
            return;
        };
        // (B) Relaxed: the mark publishes it. A swap, and not a store: late gets and puts may still
        // change a sealed part, and models have an order of exchanges alone.
        for part in PARTS.all_of(number) {
            part.swap(OPEN, Relaxed);
        }
        // (C) Release: to the gets and puts that read the mark, with the open parts.
        // weaken: second-look-before-the-mark
        self.home.store(number | MARK, Release);
        // (D)
        // weaken: spread-that-does-not-pass-through-the-word
        count.pass();
        // weaken: second-look-before-the-mark
        // weaken: spread-without-a-second-look
        if !is_in_slot() {
            let was_last = self.gather(count);
            debug_assert!(!was_last, "the caller has a reference");
        }
    }

    /// Gathers a count, unless another thread does. Returns true if there was no reference left:
    /// then the caller releases the object.
    #[cold]
    fn gather(&self, count: &RefCount) -> bool {
        // (E) Acquire: pairs with (C), so that (F) comes after (B). Relaxed, the load and a
        // failure: another thread gathers, or the one that spreads will.
        let home = self.home.load(Relaxed);
        let unmarked = home & !MARK;
        if home == unmarked
            || self
                .home
                .compare_exchange(home, unmarked, Acquire, Relaxed)
                // weaken: gather-by-two
                .is_err()
        {
            return false;
        }
        // (F) Acquire: pairs with the release of each put, which (G) passes on.
        let sum = PARTS
            .all_of(unmarked)
            // weaken: part-that-is-read-and-then-sealed
            .map(|part| part.swap(SEALED, Acquire) - OPEN)
            .sum();
        // (G), (H)
        count.unbias(sum)
    }

    /// Returns how many references there are, as [`RefCount::references`] does. Too few while a
    /// thread gathers, or takes some on one CPU and drops others on another:
    /// [`RefCount::all_references`] is exact.
    pub fn references(&self, count: &RefCount) -> Option<usize> {
        // Relaxed, both: a hint.
        let home = self.home.load(Relaxed);
        if home & MARK == 0 {
            return count.references();
        }
        let in_parts: isize = PARTS
            .all_of(home)
            .map(|part| part.load(Relaxed))
            .filter(|&part| part >= 0)
            .map(|part| part - OPEN)
            .sum();
        count.references()?.checked_add_signed(in_parts)
    }
}

/// Frees the number. No thread uses the parts any more: each that does borrows the count.
impl Drop for Spread {
    fn drop(&mut self) {
        // Relaxed: the owner has synchronised with all threads that used it.
        let home = self.home.load(Relaxed);
        // A count that is still spread has lost the reference of a slot on its way.
        debug_assert_eq!(home & MARK, 0, "it was gathered");
        if home != 0 {
            DRAWN.free(home & !MARK);
        }
    }
}

/// Returns the CPU of this thread. Always known.
#[inline(always)]
fn this_cpu() -> Option<usize> {
    percpu::try_current().or_else(|| Some(percpu::current()))
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
