//! A place in a leaf that holds a counted object, or nothing. Readers take no lock.
//!
//! The steps of lookup, install and removal, with letters that stand at the same steps in the
//! code. The writer holds the lock of the leaf:
//!
//! | | reader | | writer |
//! |---|---|---|---|
//! | (L) | load the pointer, acquire | (I) | store a pointer to an object that is complete, release |
//! | (M) | borrowed: use it until the section ends | (X) | store null, or the next object |
//! | (N) | owned: add to the count | (P) | put the slot's reference; the last one queues the free |
//! | (O) | the add met a dead count: walk again | | |
//!
//! *Install against lookup.* (I) and (L) pair: a reader that sees the pointer sees the object.
//!
//! *Removal against a borrowed lookup.* (L) before (X): the pointer was found inside a section
//! that began before (P), so the grace period that follows (P) waits for it (see
//! [`rcu`](fdtable_sync::rcu)). (L) after (X): nothing is found.
//!
//! *Removal against an owned lookup.* If (N) comes before the burial in (P), the reader has a
//! reference, and the put was not the last. If it comes after, the count is dead, the slot has been
//! emptied before, and (O) finds it empty or with its next object.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

#[cfg(not(loom))]
use crate::object;
use crate::object::{Borrowed, RawObject, Ref};
use fdtable_sync::platform::atomic::AtomicPtr;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::rcu::Guard;

/// A place for a counted object. It has a reference of its own, which the leaf puts: dropping a slot
/// puts nothing.
pub(super) struct Slot<T: ?Sized> {
    anchor: AtomicPtr<RawObject>,
    owns: PhantomData<Ref<T>>,
    /// Both takes and returns references: invariant in `T`.
    exchanges: PhantomData<fn(Ref<T>) -> Ref<T>>,
}

impl<T: ?Sized> Slot<T> {
    /// Makes an empty slot.
    pub(super) fn new() -> Self {
        Self {
            anchor: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
            exchanges: PhantomData,
        }
    }

    /// Returns true if the slot holds nothing. A hint, unless the caller keeps writers away.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        // Relaxed: the pointer is not dereferenced.
        self.anchor.load(Relaxed).is_null()
    }

    /// Like [`is_empty`](Self::is_empty). If true, writes before the slot was emptied are visible.
    #[inline]
    pub(super) fn is_empty_acquire(&self) -> bool {
        // Acquire: pairs with the release in (X).
        self.anchor.load(Acquire).is_null()
    }

    /// Borrows the object without taking a reference. Neither blocks nor allocates.
    #[inline(always)]
    pub(super) fn borrow<'g>(&self, guard: &'g Guard<'_>) -> Option<Borrowed<'g, T>> {
        // (L) Acquire: pairs with the release in (I).
        let anchor = NonNull::new(self.anchor.load(Acquire))?;
        // (M)
        // SAFETY: the object was in the slot, which holds a reference, inside the section.
        Some(unsafe { Borrowed::new(anchor, guard) })
    }
}

/// For the holder of a lock that keeps other writers away: no exchange is needed then.
impl<T: ?Sized> Slot<T> {
    /// Replaces the object of the slot, or removes it, and returns the old one. The caller drops the
    /// old reference outside of its locks.
    ///
    /// # Safety
    /// No other thread writes the slot meanwhile, and the slot holds its own reference.
    #[inline(always)]
    pub(super) unsafe fn exchange(&self, object: Option<Ref<T>>) -> Option<Ref<T>> {
        let new = object.map_or(ptr::null_mut(), |object| object.into_raw().as_ptr());
        // Relaxed: the lock orders this with the store of the previous writer.
        let old = self.anchor.load(Relaxed);
        // (I), (X) Release: the object and its header are complete before the pointer is visible.
        self.anchor.store(new, Release);
        // SAFETY: the slot held this reference, and the caller alone has taken it.
        NonNull::new(old).map(|old| unsafe { Ref::from_raw(old) })
    }

    /// Puts an object into an empty slot, without reading the slot: its line may come later.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange).
    #[inline(always)]
    pub(super) unsafe fn put(&self, object: Ref<T>) {
        debug_assert!(self.is_empty(), "an object in the slot would leak");
        // (I) Release: as above.
        self.anchor.store(object.into_raw().as_ptr(), Release);
    }

    /// Puts an object into an empty slot that no reader can reach yet.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange).
    #[inline(always)]
    pub(super) unsafe fn fill(&self, object: Ref<T>) {
        // Relaxed: whatever publishes the slot publishes the object.
        self.anchor.store(object.into_raw().as_ptr(), Relaxed);
    }

    /// Prefetches the line of the object's count. In models that would be a useless extra step.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        // Relaxed: the pointer is not dereferenced.
        #[cfg(not(loom))]
        object::prefetch_count(self.anchor.load(Relaxed));
    }

    /// Takes the slot's reference, and leaves the pointer for readers.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange); and from here on the slot holds no reference, and is
    /// neither written nor dropped.
    pub(super) unsafe fn disown(&self) -> Option<Ref<T>> {
        // Acquire: pairs with the release in (I); the object is dereferenced.
        let anchor = NonNull::new(self.anchor.load(Acquire))?;
        // SAFETY: the slot held this reference, and the caller takes it once.
        Some(unsafe { Ref::from_raw(anchor) })
    }

    /// Takes another reference to the slot's object.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange).
    pub(super) unsafe fn share(&self) -> Option<Ref<T>> {
        // Acquire: pairs with the release in (I); the object is dereferenced.
        let anchor = NonNull::new(self.anchor.load(Acquire))?;
        // SAFETY: the slot's own reference, which stays where it is.
        let own = ManuallyDrop::new(unsafe { Ref::<T>::from_raw(anchor) });
        Some((*own).clone())
    }
}
