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
//! if it is of a type with wide pointers (`dyn`); and in front of that is the
//! [`Prefix`](header::Prefix): nothing, or the links of the list that the object is on. Code that
//! knows the object's type `T` finds all of these. Only the header's one function, made for this
//! block, knows what `T` does not determine: the sizes of the value and of the hook.
//!
//! # Lookups and revocations
//!
//! One word, [`REVOCATIONS`](header::REVOCATIONS), counts the objects in the process that are
//! revoked and not yet freed. Most programs revoke nothing, and then a lookup does not have to read
//! the object's block. The block's state is on the cache line of the count, and every thread that
//! takes a reference writes that line. So lookups read the word first, which stays in every CPU's
//! cache.
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
pub(crate) mod end;
pub(crate) mod header;
pub mod kind;
pub(crate) mod make;
mod raw;
mod weak;

pub use kind::{Kind, Late, Prompt, Rcu};
pub use make::{Hook, NoHook, try_make, try_make_dyn};
pub use raw::FromRaw;

use core::fmt;
use core::marker::PhantomData;
use core::mem::{self, ManuallyDrop};
use core::ops::Deref;
use core::ptr::NonNull;

use fdtable_sync::rcu::{self, Guard};
use fdtable_sync::refcount::spread::Place;

pub use weak::Weak;

use end::{release, revoke};
use header::{Header, RawObject, object};

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
        this.header().state.is_revoked()
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
    pub(crate) fn note_taker(this: &Self, cpu: usize) -> bool {
        this.header().spread.note_taker(cpu)
    }

    /// Spreads the count. `is_in_slot` looks, by a new walk, whether a slot has a reference to the
    /// object.
    pub(crate) fn spread(this: &Self, is_in_slot: impl FnOnce(NonNull<RawObject>) -> bool) {
        let header = this.header();
        header
            .spread
            .spread(&header.count, || is_in_slot(this.block()));
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
        let place = header.get()?;
        // Made only after the increment succeeded: dropping a reference decrements.
        Some(Ref::new_counted(self.raw, place))
    }

    /// Takes a reference as [`upgrade`](Self::upgrade) does. Also returns true if others have
    /// references beside that of a slot: a hint.
    #[inline(always)]
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
        unsafe { Header::of(self.raw) }.state.is_revoked()
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

#[cfg(all(test, loom))]
pub(crate) mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
