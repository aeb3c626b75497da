//! An object with a reference count, whose memory outlives its readers.
//!
//! When the last [`Ref`] goes, the object's *release hook* runs, at once and on that thread (or on
//! one that is dropping a reference at the same time). Then the value is dropped, at a time that
//! depends on the [kind] of the object:
//!
//! - *Prompt*, a `Ref<T>`: right after the hook, by the same thread, as that of an `Arc`.
//! - *Late*, a `Ref<Rcu<T>>`: when the read-side sections that were under way have ended. A reader
//!   that [borrowed](Borrowed) the object without a reference may look at it until then.
//!
//! The memory of both kinds is freed when those sections have ended: a lookup that comes too late
//! finds the count dead, and must find it.
//!
//! The hook can also run early: [`Ref::revoke`] runs it while references still exist. Their holders
//! can [ask](Ref::is_revoked) whether that happened. Their references still keep the value, and the
//! hook does not run again when the last of them goes.
//!
//! Objects of any type stand behind one thin pointer, also those of types that the reader does not
//! know (`dyn`). If the object's type is sized, a reader that borrows it touches nothing else.
//!
//! # What keeps a block alive
//!
//! A block is freed by its RCU callback. The thread that puts the last reference queues it, once.
//! So a raw pointer is valid
//! - while a `Ref` to it exists, since then the last reference has not been put;
//! - inside a read-side section in which it was found published with a reference of its own,
//!   since that reference was put later than the section began, or never; and
//! - inside a read-side section in which a [weak reference](Weak) had its address, since the
//!   callback is queued after that address is gone.
//!
//! # The block
//!
//! ```text
//!   | padding | Prefix | object | Header | value | hook |
//!                                      ^ raw pointer
//! ```
//!
//! All code knows a block by its *raw pointer*, the address of its value. In front of the value is
//! the [`Header`], which is the same for all types. In front of that is the pointer to the object,
//! if it is of a type with wide pointers (`dyn`); and in front of that is the [`Prefix`]: nothing,
//! or the links of the list that the object is on. Code that knows the object's type `T` finds all
//! of these. Only the header's one function, made for this block, knows what `T` does not
//! determine: the sizes of the value and of the hook.
//!
//! # Lookups and revocations
//!
//! One word, [`REVOCATIONS`], counts the objects in the process that are revoked and not yet freed.
//! Most programs revoke nothing, and then a lookup does not have to read the object's block. The
//! block's state is on the cache line of the count, and every thread that takes a reference writes
//! that line. So lookups read the word first, which stays in every CPU's cache.
//!
//! *Why no thread misses a revocation.* A revocation is counted before the state of its object says
//! that it is revoked, and no longer once its block is freed. A thread knows that the revocation
//! has begun because it was informed, or because it found the object revoked. So it has
//! synchronised with the revocation, and finds the word as the revocation left it, or as later
//! revocations and frees have left it. The object's own free is not among those while a thread can
//! ask: it has a reference, or is in a section in which the object was found. Until then the word
//! includes at least this revocation.
//!
//! A lookup that takes a reference may read the word between the load of the slot and the add to
//! the count. A thread that put the object into the slot after the revocation has passed on what it
//! knows with the pointer; and what it knows otherwise, it knew before the lookup.

mod convert;
pub mod kind;
pub(crate) mod make;
mod weak;

pub use kind::{Kind, Late, Prompt, Rcu};
pub use make::{Hook, NoHook, try_make, try_make_dyn};

use core::fmt;
use core::marker::PhantomData;
use core::mem::{self, ManuallyDrop};
use core::ops::Deref;
use core::ptr::NonNull;

use crossbeam_utils::CachePadded;

use fdtable_sync::hint::cold_path;
use fdtable_sync::platform::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use fdtable_sync::platform::atomic::{AtomicU32, AtomicUsize};
use fdtable_sync::platform::{const_fn, global};
#[cfg(not(loom))]
use fdtable_sync::prefetch::prefetch;
use fdtable_sync::rcu::{self, Effect, Guard};
use fdtable_sync::refcount::RefCount;
use fdtable_sync::refcount::spread::{Place, Spread};
use fdtable_sync::unwind;

pub use weak::Weak;

/// Why the hook of an object runs: how its use ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// The last reference has gone.
    Released,
    /// The object was taken from threads that still hold references. They may be using it.
    Revoked,
}

/// Set in the pointer of a reference that is counted in a part of a
/// [spread](mod@fdtable_sync::refcount::spread) count, and best dropped there: a hint, so that
/// other references need not look at the block first. Values have a larger alignment.
pub(crate) const IN_PART: usize = 1;

const _: () = assert!(align_of::<Header>() > IN_PART);

/// A counted reference to an object.
pub struct Ref<T: ?Sized> {
    /// The raw pointer of the block; with [`IN_PART`] or without.
    raw: NonNull<RawObject>,
    owns: PhantomData<T>,
}

/// An object that a reader found inside a read-side section, without a reference. The reader can
/// look at it if it is an [`Rcu`], and upgrade it if it is of either kind.
///
/// A prompt object may be dropped meanwhile, so it cannot be looked at. This does not compile:
///
/// ```compile_fail,E0599
/// # use fdtable_objects::object::{Rcu, Borrowed};
/// fn len(found: Borrowed<'_, String>) -> usize {
///     found.object().len()
/// }
/// ```
///
/// ```
/// # use fdtable_objects::object::{Rcu, Borrowed};
/// fn len(found: Borrowed<'_, Rcu<String>>) -> usize {
///     found.object().len()
/// }
/// ```
pub struct Borrowed<'g, T: ?Sized> {
    raw: NonNull<RawObject>,
    section: PhantomData<&'g T>,
}

// SAFETY: a `Ref` is to its object what an `Arc` is: it shares `&T` between threads, and the last
// one, on any thread, releases and drops the object. `T` and everything else in the block are `Send
// + Sync`, as the constructors demand.
unsafe impl<T: ?Sized + Send + Sync> Send for Ref<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for Ref<T> {}

/// Moving a reference moves no object.
impl<T: ?Sized> Unpin for Ref<T> {}

impl<T: ?Sized> Ref<T> {
    /// Returns true if both refer to the same object. `Eq` and `Hash` would be those of the object,
    /// and are not implemented.
    #[must_use]
    pub fn ptr_eq(a: &Self, b: &Self) -> bool {
        a.block() == b.block()
    }

    /// Returns how many references to the object there are, at least 1. A hint: others take and
    /// drop them at any time, and some may be missing while the count is spread. A saturated count
    /// answers `usize::MAX`.
    #[must_use]
    pub fn references(this: &Self) -> usize {
        let header = this.header();
        header.spread.references(&header.count).unwrap_or(0).max(1)
    }

    /// Returns how many references to the object there are at one moment, or nothing while some may
    /// be counted by CPU.
    #[must_use]
    pub fn all_references(this: &Self) -> Option<usize> {
        this.header().count.all_references()
    }

    /// Takes the object from its holders: runs its hook now, with [`ReleaseReason::Revoked`], and
    /// not when the last reference goes. Returns true if this call did; if not, another has, and
    /// its hook may still be running.
    ///
    /// A thread that holds a reference, or has borrowed the object, may still use it, also while
    /// the hook runs; it is the hook that makes the object useless. May run on any thread, and may
    /// be called inside of sections if the hook may.
    pub fn revoke(this: &Self) -> bool {
        // SAFETY: a reference keeps its block.
        unsafe { revoke(this.block()) }
    }

    /// Returns true if the object was [revoked](Self::revoke).
    #[inline(always)]
    #[must_use]
    pub fn is_revoked(this: &Self) -> bool {
        this.header().is_revoked()
    }

    /// Drops the reference, for a holder that expects that it is the last one. Costs one
    /// compare-and-swap then, and one atomic add more if it is not.
    #[inline(always)]
    pub fn put_as_last(this: Self) {
        let raw = this.into_raw();
        // SAFETY: the reference, which is put below, keeps the block.
        if unsafe { Header::of(raw) }.put_as_last() {
            // SAFETY: this was the last reference, and only one holder learns that.
            unsafe { release(raw) };
        }
    }

    /// Converts the reference into a raw pointer.
    pub(crate) fn into_raw(self) -> NonNull<RawObject> {
        let raw = self.block();
        mem::forget(self);
        raw
    }

    /// Converts a raw pointer back into the reference.
    ///
    /// # Safety
    /// `raw` came from [`into_raw`](Self::into_raw) of this type, and is taken back once.
    pub(crate) unsafe fn from_raw(raw: NonNull<RawObject>) -> Self {
        Self {
            raw,
            owns: PhantomData,
        }
    }

    /// Represents a reference that was counted in this place.
    #[inline(always)]
    fn new_counted(raw: NonNull<RawObject>, place: Place) -> Self {
        let raw = match place {
            Place::Word => raw,
            Place::Part => raw.map_addr(|address| address | IN_PART),
        };
        Self {
            raw,
            owns: PhantomData,
        }
    }

    /// Returns the raw pointer of the block.
    #[inline(always)]
    fn block(&self) -> NonNull<RawObject> {
        let raw = self.raw.as_ptr().map_addr(|address| address & !IN_PART);
        // SAFETY: without the hint it is a raw pointer, which is not null.
        unsafe { NonNull::new_unchecked(raw) }
    }

    /// Takes a reference to a block, unless its last one has gone.
    ///
    /// # Safety
    /// The block is one of a `T`, and alive for the duration of the call.
    pub(crate) unsafe fn try_from_raw(raw: NonNull<RawObject>) -> Option<Self> {
        // SAFETY: as the caller promises.
        let taken = unsafe { Header::of(raw) }.get();
        // Made only after the increment succeeded: dropping a reference decrements.
        taken.map(|place| Self::new_counted(raw, place))
    }

    /// Returns true if the count should be [spread](Self::spread), since many CPUs take references,
    /// after `cpu` has taken this one and found others.
    #[inline(always)]
    pub(crate) fn note_taker(this: &Self, cpu: impl FnOnce() -> usize) -> bool {
        this.header().spread.note_taker(cpu())
    }

    /// Spreads the count. `is_in_slot` looks, by a new walk, whether a slot has a reference to the
    /// object.
    pub(crate) fn spread(this: &Self, is_in_slot: impl FnOnce(NonNull<RawObject>) -> bool) {
        let header = this.header();
        header
            .spread
            .spread(&header.count, || is_in_slot(this.block()));
    }

    /// Makes the reference that was taken by adding one to the count of a block, or to its part for
    /// a CPU, unless the last one had gone or the part is sealed. `before` is what the add found.
    ///
    /// # Safety
    /// `raw` is a block of a `T`, with [`IN_PART`] if the add was to a part. It existed when the
    /// caller added. The caller calls this once for that.
    #[inline(always)]
    pub(crate) unsafe fn of_add(raw: NonNull<RawObject>, before: isize) -> Option<Self> {
        // An open part counts as high.
        if !RefCount::is_plainly_live(before) {
            cold_path();
            // Nothing keeps a block whose count was dead: it is not touched. A sealed part has
            // given no reference either, and another walk finds a count that is not spread.
            if raw.addr().get() & IN_PART != 0 || RefCount::is_dead(before) {
                // weaken: repair-of-a-dead-count-after-a-sequence
                return None;
            }
            // SAFETY: the add has taken a reference, which keeps the block.
            // weaken: completion-of-a-revival-after-a-sequence
            unsafe { Header::of(raw) }.count.complete_get(before);
        }
        Some(Self {
            raw,
            owns: PhantomData,
        })
    }

    fn header(&self) -> &Header {
        // SAFETY: a reference keeps its block.
        unsafe { Header::of(self.block()) }
    }
}

impl<T: ?Sized> Deref for Ref<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: a reference keeps its block.
        unsafe { object(self.block()) }
    }
}

impl<T: ?Sized> Clone for Ref<T> {
    #[inline]
    fn clone(&self) -> Self {
        let taken = self.header().get();
        debug_assert!(taken.is_some(), "a holder's object cannot be dead");
        Self::new_counted(self.block(), taken.unwrap_or(Place::Word))
    }
}

impl<T: ?Sized> Drop for Ref<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let block = self.block();
        if block != self.raw {
            // SAFETY: a reference keeps its block, and this one is dropped here alone.
            unsafe { put_in_part(block) };
            return;
        }
        // SAFETY: as above.
        unsafe { put_in_word(block) };
    }
}

/// Drops a reference.
///
/// # Safety
/// The caller has a reference to the block, and does not use it after that.
#[inline(always)]
unsafe fn put_in_word(block: NonNull<RawObject>) {
    // SAFETY: the reference keeps the block.
    if unsafe { Header::of(block) }.count.put() {
        // SAFETY: this was the last reference, and only one holder learns that.
        unsafe { release(block) };
    }
}

/// Drops a reference in the part of this CPU, if the count is spread.
///
/// # Safety
/// As for [`put_in_word`].
#[inline(never)]
unsafe fn put_in_part(block: NonNull<RawObject>) {
    // A separate function: a call on the way would need a frame, whose stores the atomic
    // operation would wait for.
    #[cold]
    #[inline(never)]
    unsafe fn put_otherwise(block: NonNull<RawObject>) {
        // SAFETY: the reference keeps the block.
        let header = unsafe { Header::of(block) };
        if header.spread.put(&header.count) {
            // SAFETY: this was the last reference, and only one holder learns that.
            unsafe { release(block) };
        }
    }
    // SAFETY: the reference keeps the block.
    if !unsafe { Header::of(block) }.spread.try_put_in_part() {
        // SAFETY: the caller still has its reference.
        unsafe { put_otherwise(block) };
    }
}

/// A reference that was in a slot. Probably it is the last one: dropping it costs one
/// compare-and-swap then. If not, it gathers the count if that is
/// [spread](mod@fdtable_sync::refcount::spread).
///
/// Each reference that leaves a slot is one of these: an object whose slot's reference is dropped
/// as a [`Ref`] may never be released.
pub struct SlotRef<T: ?Sized>(ManuallyDrop<Ref<T>>);

impl<T: ?Sized> SlotRef<T> {
    /// Represents a reference that was in a slot, or could be put into one.
    #[inline(always)]
    #[must_use]
    pub fn new(object: Ref<T>) -> Self {
        Self(ManuallyDrop::new(object))
    }

    /// Returns the reference, to keep the object.
    #[inline]
    #[must_use]
    pub fn into_ref(self) -> Ref<T> {
        let header = self.0.header();
        header.spread.unslot(&header.count);
        self.into_slot()
    }

    /// Returns the reference, for another slot.
    #[inline(always)]
    #[must_use]
    pub fn into_slot(self) -> Ref<T> {
        let raw = self.0.block();
        mem::forget(self);
        // SAFETY: the reference that this was made of, which it does not drop any more.
        unsafe { Ref::from_raw(raw) }
    }
}

impl<T: ?Sized> Deref for SlotRef<T> {
    type Target = Ref<T>;

    #[inline(always)]
    fn deref(&self) -> &Ref<T> {
        &self.0
    }
}

impl<T: ?Sized> Drop for SlotRef<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let raw = self.0.block();
        // SAFETY: the reference, which is dropped below, keeps the block.
        let is_last = unsafe { Header::of(raw) }.put_if_last() || {
            let _section = rcu::read_lock();
            // SAFETY: there is a reference now. The block stays until the section ends, since its
            // callback is queued later than the section began.
            let header = unsafe { Header::of(raw) };
            header.spread.put_of_slot(&header.count)
        };
        if is_last {
            // SAFETY: this was the last reference, and only one holder learns that.
            unsafe { release(raw) };
        }
    }
}

impl<'g, T: ?Sized> Borrowed<'g, T> {
    /// Represents an object that was found in a section.
    ///
    /// # Safety
    /// `raw` was published, with a reference to a `T` of its own, inside the section of the
    /// guard.
    #[inline(always)]
    pub(crate) unsafe fn new(raw: NonNull<RawObject>, _guard: &'g Guard<'_>) -> Self {
        Self {
            raw,
            section: PhantomData,
        }
    }

    /// Takes a reference, which outlives the section, unless the last one has gone. One atomic
    /// add; neither blocks nor allocates.
    #[inline(always)]
    #[must_use]
    pub fn upgrade(self) -> Option<Ref<T>> {
        // SAFETY: the section, which lasts for 'g, keeps the block.
        let header = unsafe { Header::of(self.raw) };
        // Made only after the increment succeeded: dropping a reference decrements.
        let place = header.get()?;
        // Made only after the increment succeeded: dropping a reference decrements.
        Some(Ref::new_counted(self.raw, place))
    }

    /// Takes a reference as [`upgrade`](Self::upgrade) does. Also returns true if others have
    /// references beside that of a slot: a hint.
    pub(crate) fn upgrade_noting_others(self) -> Option<(Ref<T>, bool)> {
        // SAFETY: the section, which lasts for 'g, keeps the block.
        let header = unsafe { Header::of(self.raw) };
        let (place, has_others) = header.spread.get_noting_others(&header.count)?;
        // Made only after the increment succeeded: dropping a reference decrements.
        Some((Ref::new_counted(self.raw, place), has_others))
    }

    /// Returns true if this is the object of a block.
    pub(crate) fn is_of(self, raw: NonNull<RawObject>) -> bool {
        self.raw == raw
    }

    /// Returns true if the object was [revoked](Ref::revoke).
    #[inline(always)]
    #[must_use]
    pub fn is_revoked(self) -> bool {
        // SAFETY: the section, which lasts for 'g, keeps the block.
        unsafe { Header::of(self.raw) }.is_revoked()
    }
}

impl<'g, T: ?Sized> Borrowed<'g, Rcu<T>> {
    /// Returns the object, for as long as the section lasts.
    #[inline(always)]
    #[must_use]
    pub fn object(self) -> &'g T {
        // SAFETY: the section, which lasts for 'g, keeps the block, and what its object is (see
        // `kind`).
        unsafe { object::<Rcu<T>>(self.raw) }
    }
}

impl<T: ?Sized> Clone for Borrowed<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Borrowed<'_, T> {}

impl<T: ?Sized> Deref for Borrowed<'_, Rcu<T>> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.object()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Borrowed<'_, Rcu<T>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The value of a block, of a type that only the maker of the block knows. Never made; exists only
/// behind pointers.
pub(crate) enum RawObject {}

/// The header, directly in front of every value.
#[repr(C)]
pub(super) struct Header {
    /// First, so that its address is that of the header. Its function takes the next step to the
    /// object's end: see `destroy_step` in [`make`].
    rcu: rcu::Head,
    state: State,
    /// The count by CPU, if several CPUs want it.
    spread: Spread,
    /// Last, so that it shares a cache line with the beginning of most values.
    count: RefCount,
}

/// How far the object is on the way to its end, and the word that its list keeps here.
#[derive(Debug)]
pub(super) struct State(AtomicU32);

impl State {
    /// The object was taken from its holders: its hook has run, or is running.
    const REVOKED: u32 = 1;
    /// The last reference has gone.
    const RELEASED: u32 = 2;
    /// Nothing is left to do before the callback. In a new block: the last put has nothing to do.
    /// The first [weak reference](weak) clears it.
    const QUIET: u32 = 4;
    /// The callback drops the value and the hook, and not the last put: the block is of the
    /// [late](Late) kind.
    const LATE: u32 = 8;
    /// It is late, and the drop does something.
    const DROPS_LATE: u32 = 16;
    /// The value has a size: the byte at its address is in the block.
    const HAS_BYTES: u32 = 32;
    /// It is not the state of a block: the function in the header is asked for the value's type.
    const ASKS_TYPE: u32 = 64;
    /// The value was moved out: the last put does not drop it.
    const TAKEN: u32 = 128;
    /// The lowest bit of the word that a [`Prefix`] keeps here.
    const LIST_WORD: u32 = 8;

    /// Makes the state of a new block, of some of the bits above.
    fn new(bits: u32) -> Self {
        Self(AtomicU32::new(bits))
    }

    /// Adds bits, for the thread that put the last reference.
    fn add(&self, bits: u32) {
        // No exchange: without references no other thread writes it, and the thread that invokes
        // the callback has synchronised with the queue. Release: a thread that reads a revocation
        // from this store sees that it is counted, as from the one in `revoke`, which this thread
        // has synchronised with.
        self.0.store(self.0.load(Relaxed) | bits, Release);
    }

    /// Returns true if the object was revoked. The block is not read while no object in the process
    /// is revoked: the state stands beside the count, which others write.
    #[inline(always)]
    pub(super) fn is_revoked(&self) -> bool {
        REVOCATIONS.any() && self.says_revoked()
    }

    #[cold]
    fn says_revoked(&self) -> bool {
        // Acquire: pairs with the release in `revoke`, so the count of that revocation is visible
        // too, and a thread that has once found the object revoked finds it so again. A thread that
        // knows that a revocation is over has synchronised with it, and sees the bit in any case.
        self.0.load(Acquire) & Self::REVOKED != 0
    }

    /// Returns true if there is nothing to do before the callback.
    fn is_quiet(&self) -> bool {
        // Relaxed: a thread that made the block less quiet had a reference, and its put comes
        // before the last one.
        self.0.load(Relaxed) & Self::QUIET != 0
    }

    /// Returns true if the callback has something to drop.
    fn drops_late(&self) -> bool {
        // Relaxed: it was written before the block was known to others.
        self.0.load(Relaxed) & Self::DROPS_LATE != 0
    }

    /// Returns the word that the prefix keeps here, below 2^24.
    pub(crate) fn list_word(&self) -> u32 {
        // Relaxed: it was written before the block was known to others.
        self.0.load(Relaxed) >> Self::LIST_WORD
    }

    /// Stores the word of the prefix, once. For the maker of a block, before any other thread knows
    /// the block.
    fn set_list_word(&self, list_word: u32) {
        // Relaxed, both: no other thread has written it, and whatever makes the block known to
        // others makes this known.
        let bits = self.0.load(Relaxed);
        self.0.store(bits | list_word << Self::LIST_WORD, Relaxed);
    }
}

/// The part in front of a header. For an object that must leave a list before its memory is freed.
///
/// # Safety
/// Its size is a multiple of a header's alignment, and it needs no drop.
pub(crate) unsafe trait Prefix {
    /// True if leaving does nothing.
    const IS_NONE: bool = false;

    /// Leaves. Called once, after the hook.
    ///
    /// # Safety
    /// The block is alive, and `T` is its type.
    unsafe fn leave<T: ?Sized>(raw: NonNull<RawObject>);
}

// SAFETY: it has no size.
unsafe impl Prefix for () {
    const IS_NONE: bool = true;

    unsafe fn leave<T: ?Sized>(_raw: NonNull<RawObject>) {}
}

/// Returns true if a pointer to a `T` is only an address.
pub(super) const fn is_thin<T: ?Sized>() -> bool {
    size_of::<NonNull<T>>() == size_of::<usize>()
}

/// Returns how far in front of the value the header begins, or the pointer to the object if there
/// is one.
const fn front_distance<T: ?Sized>() -> usize {
    let object = if is_thin::<T>() {
        0
    } else {
        size_of::<NonNull<T>>()
    };
    object + size_of::<Header>()
}

/// Returns how far in front of the value of a `T` its prefix begins.
const fn prefix_distance<T: ?Sized, L>() -> usize {
    front_distance::<T>() + size_of::<L>()
}

/// Finds the prefix of a block.
///
/// # Safety
/// The block is one of a `T` with an `L` in front.
pub(crate) unsafe fn prefix<T: ?Sized, L: Prefix>(raw: NonNull<RawObject>) -> NonNull<L> {
    let place = raw.as_ptr().wrapping_byte_sub(prefix_distance::<T, L>());
    // SAFETY: the front of the block is before its value, so that is not at the lowest addresses.
    unsafe { NonNull::new_unchecked(place.cast()) }
}

/// Finds the block of a prefix.
///
/// # Safety
/// The prefix is that of a block of a `T`.
pub(crate) unsafe fn block_of<T: ?Sized, L: Prefix>(prefix: NonNull<L>) -> NonNull<RawObject> {
    let place = prefix.as_ptr().wrapping_byte_add(prefix_distance::<T, L>());
    // SAFETY: the value follows the prefix in its allocation.
    unsafe { NonNull::new_unchecked(place.cast()) }
}

impl Header {
    /// Returns the header in front of a value.
    ///
    /// # Safety
    /// The block is alive for all of `'a`.
    #[inline(always)]
    pub(super) unsafe fn of<'a>(raw: NonNull<RawObject>) -> &'a Self {
        // SAFETY: a header is in front of every value, in the same allocation.
        let header = unsafe { raw.cast::<Self>().sub(1) };
        // SAFETY: it was written before any other code knew the block; the block is alive.
        unsafe { header.as_ref() }
    }

    #[inline(always)]
    pub(super) fn is_revoked(&self) -> bool {
        self.state.is_revoked()
    }

    /// Takes a reference, unless the last one has gone, and returns where it is counted.
    #[inline(always)]
    fn get(&self) -> Option<Place> {
        self.spread.get(&self.count)
    }

    /// Drops a reference that no slot has, for a holder that expects that it is the last.
    #[inline(always)]
    pub(super) fn put_as_last(&self) -> bool {
        self.count.put_if_last() || self.spread.put(&self.count)
    }

    /// Drops a reference that no slot has if it is the last.
    #[inline(always)]
    pub(super) fn put_if_last(&self) -> bool {
        self.count.put_if_last()
    }
}

/// Uncounts the revocation of a block that is freed, if it was revoked.
fn uncount_revocation(header: &Header) {
    if header.state.says_revoked() {
        REVOCATIONS.end();
    }
}

/// Returns the word that the block's prefix keeps in its header.
///
/// # Safety
/// The block is alive.
pub(crate) unsafe fn list_word(raw: NonNull<RawObject>) -> u32 {
    // SAFETY: as the caller promises.
    unsafe { Header::of(raw) }.state.list_word()
}

/// Prefetches the line of a block's count, which is right before its value. There does not have to
/// be a block.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn prefetch_count(raw: *const RawObject) {
    prefetch(raw.wrapping_byte_sub(size_of::<RefCount>()));
}

/// Adds one to the count of a block, and returns the word before: a step of a modelled sequence.
///
/// # Safety
/// The block is alive.
#[cfg(loom)]
pub(crate) unsafe fn add(raw: NonNull<RawObject>) -> isize {
    // SAFETY: as the caller promises.
    unsafe { Header::of(raw) }.count.add()
}

/// Returns the number and the mark of the count of a block, for a model of a sequence.
///
/// # Safety
/// The block is alive.
#[cfg(loom)]
pub(crate) unsafe fn home(raw: NonNull<RawObject>) -> u16 {
    // SAFETY: as the caller promises.
    unsafe { Header::of(raw) }.spread.home()
}

/// How far the word of a [spread](mod@fdtable_sync::refcount::spread) count, with its number, is in
/// front of the value of a block, for a sequence that reads it.
#[cfg(all(
    any(
        all(feature = "std", target_os = "linux"),
        all(feature = "platform", not(feature = "std"))
    ),
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(loom)
))]
pub(crate) const HOME_DISTANCE: usize = size_of::<Header>()
    - mem::offset_of!(Header, spread)
    - fdtable_sync::refcount::spread::layout::HOME;

/// How far the count of a block is in front of its value, for a sequence that adds to it.
#[cfg(all(
    any(
        all(feature = "std", target_os = "linux"),
        all(feature = "platform", not(feature = "std"))
    ),
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(loom)
))]
pub(crate) const COUNT_DISTANCE: usize = size_of::<Header>() - mem::offset_of!(Header, count);

/// Stores the word of the prefix, below 2^24, in the block's header. Once for each block.
///
/// # Safety
/// The block is alive, and only the caller knows it.
pub(crate) unsafe fn set_list_word(raw: NonNull<RawObject>, list_word: u32) {
    // SAFETY: as the caller promises.
    unsafe { Header::of(raw) }.state.set_list_word(list_word);
}

/// Returns the object of a block.
///
/// # Safety
/// The block is one of a `T`, and its object is alive for all of `'a`: there is a reference, or `T`
/// is an [`Rcu`] that was found in a section.
#[inline(always)]
pub(super) unsafe fn object<'a, T: ?Sized>(raw: NonNull<RawObject>) -> &'a T {
    let object: NonNull<T> = if is_thin::<T>() {
        // SAFETY: both are thin pointers, so they have the same size. The value of the block is
        // the object: nothing else coerces to a sized type.
        unsafe { mem::transmute_copy(&raw) }
    } else {
        // SAFETY: the front of such a block begins with the pointer.
        let place = unsafe { raw.byte_sub(front_distance::<T>()) };
        // SAFETY: it was written before any other code knew the block, and never changes.
        unsafe { place.cast().read() }
    };
    // SAFETY: the value, or what `coerce` found from it. It stays in place, and only shared, until
    // it is dropped.
    unsafe { object.as_ref() }
}

/// Ends a block that only its maker knows: drops its contents, and runs no hook.
///
/// # Safety
/// The block was just made, and the caller alone knows it.
pub(crate) unsafe fn abandon(raw: NonNull<RawObject>) {
    // SAFETY: as the caller promises.
    let header = unsafe { Header::of(raw) };
    // As if its callback ran, and had to drop everything. Relaxed: no other thread sees it.
    let end = State::RELEASED | State::QUIET | State::LATE;
    header.state.0.store(end, Relaxed);
    let step = header.rcu.invoke();
    // SAFETY: the header is in front of the value, in the same allocation.
    let place = unsafe { raw.cast::<Header>().sub(1) };
    // SAFETY: the function was made for this block, all of which the pointer may reach. No reader
    // waits for a grace period.
    unsafe { step(place.cast()) };
}

/// Ends the object, and frees the block after a grace period. A panic of the hook or of `Drop`
/// propagates out of the call, and keeps nothing of this from happening.
///
/// # Safety
/// The last reference to the block was just put, by the caller.
#[cold]
#[inline(never)]
pub(super) unsafe fn release(raw: NonNull<RawObject>) {
    // SAFETY: the header is in front of the value, in the same allocation.
    let header = unsafe { raw.cast::<Header>().sub(1) };
    let reclaim = Reclaim(header);
    // SAFETY: the block is kept until `reclaim` queues its callback.
    let header = unsafe { header.as_ref() };
    if !header.state.is_quiet() {
        header.state.add(State::RELEASED);
        let step = header.rcu.invoke();
        // SAFETY: the function was made for this block, which is alive. It has no references, and
        // has not been quiet.
        let end = || unsafe { step(reclaim.0.cast()) };
        // SAFETY: as the caller promises; the callback is queued later.
        unsafe { weak::detach_and(header, end) };
    }
    drop(reclaim);
}

/// Ends the object like [`release`], but moves the value out instead of dropping it. If the hook
/// panics, the value is dropped.
///
/// # Safety
/// The last reference to the block was just put, by the caller. The block is prompt, and its value
/// is a `T`.
#[cold]
pub(super) unsafe fn take<T>(raw: NonNull<RawObject>) -> T {
    /// A value in its place. Dropping this drops the value.
    struct Value<T>(NonNull<T>);
    impl<T> Drop for Value<T> {
        fn drop(&mut self) {
            // The hook has panicked: another panic is contained, as in a last put.
            // SAFETY: it was not moved out, and the last put does not drop it.
            unwind::run(|| unsafe { self.0.drop_in_place() });
        }
    }
    // SAFETY: the header is in front of the value, in the same allocation.
    let header = unsafe { raw.cast::<Header>().sub(1) };
    let reclaim = Reclaim(header);
    let value = Value(raw.cast::<T>());
    // SAFETY: the block is kept until `reclaim` queues its callback.
    let header = unsafe { header.as_ref() };
    if !header.state.is_quiet() {
        header.state.add(State::RELEASED | State::TAKEN);
        let step = header.rcu.invoke();
        // SAFETY: as in `release`; the step does not drop the value.
        let end = || unsafe { step(reclaim.0.cast()) };
        // SAFETY: as in `release`.
        unsafe { weak::detach_and(header, end) };
    }
    // SAFETY: readers without a reference look at the header alone. The value is not dropped.
    let taken = unsafe { value.0.read() };
    mem::forget(value);
    drop(reclaim);
    taken
}

/// Ends the object while references still exist. Returns true if it had not ended before.
///
/// # Safety
/// The caller has a reference to the block.
#[cold]
pub(super) unsafe fn revoke(raw: NonNull<RawObject>) -> bool {
    // SAFETY: the reference keeps the block.
    let header = unsafe { Header::of(raw) };
    // Before the bit, so that a thread that sees the bit also sees the count.
    REVOCATIONS.begin();
    // Release: pairs with the acquire of `says_revoked`, and with this one's: of two revoking
    // threads, the second sees that the first has counted. The reference that the caller has yet to
    // put orders this with the last put.
    if header.state.0.fetch_or(State::REVOKED, AcqRel) & State::REVOKED != 0 {
        REVOCATIONS.end();
        return false;
    }
    let step = header.rcu.invoke();
    // SAFETY: the header is in front of the value, in the same allocation.
    let place = unsafe { raw.cast::<Header>().sub(1) };
    // SAFETY: the function was made for this block, all of which the pointer may reach. It is not
    // released: there is a reference.
    unsafe { step(place.cast()) };
    true
}

/// A block without references. Dropping this queues its callback: also if the hook or `Drop`
/// panics, so that the block does not leak.
struct Reclaim(NonNull<Header>);

impl Drop for Reclaim {
    fn drop(&mut self) {
        // SAFETY: the block stays until its callback frees it.
        let state = unsafe { &(*self.0.as_ptr()).state };
        state.add(State::RELEASED | State::QUIET);
        let head = self.0.cast();
        let effect = match state.drops_late() {
            true => Effect::RunsCode,
            false => Effect::FreesMemory,
        };
        // Late by a bounded time where that can be seen: in a drop. The thread that sees to it has
        // models of its own.
        if effect == Effect::RunsCode && !cfg!(loom) {
            // SAFETY: the block stays until its callback frees it. Without references only readers
            // in sections look at it; they do not touch its RCU head. Everything in it is `Send`,
            // so any thread may drop it.
            unsafe { rcu::call_timely(head) };
        } else {
            // SAFETY: as above; without contents it is memory that no code of others is called for.
            // weaken: block-that-is-freed-by-the-last-put
            unsafe { rcu::call(effect, head) };
        }
    }
}

global! {
    pub(crate) static REVOCATIONS: Revocations = Revocations::new();
}

/// The count, on its own cache line.
pub(crate) struct Revocations(CachePadded<AtomicUsize>);

impl Revocations {
    const_fn! {
        fn new() -> Self {
            Self(CachePadded::new(AtomicUsize::new(0)))
        }
    }

    /// Returns the address of the count, for a sequence that reads it.
    #[cfg(all(
        any(
            all(feature = "std", target_os = "linux"),
            all(feature = "platform", not(feature = "std"))
        ),
        target_arch = "x86_64",
        target_pointer_width = "64",
        not(loom)
    ))]
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *const usize {
        self.0.as_ptr()
    }

    /// Returns true if any object may be revoked.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        // Relaxed: for the same reason as the read of the bit in the object's state.
        self.0.load(Relaxed) != 0
    }

    /// Counts an object that was revoked.
    fn begin(&self) {
        // Relaxed: whatever orders the bit with threads that know of the revocation orders this
        // too.
        self.0.fetch_add(1, Relaxed);
    }

    /// Uncounts an object whose block is freed.
    fn end(&self) {
        // Relaxed: no thread can ask for that object any more.
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(all(test, loom))]
pub(crate) mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
