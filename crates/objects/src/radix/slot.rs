//! A place that holds a counted object, or nothing. Readers take no lock.
//!
//! The steps of lookup, install and removal, with letters that stand at the same steps in the
//! code:
//!
//! | | reader | | writer |
//! |---|---|---|---|
//! | (L) | load the pointer, acquire | (I) | store a pointer to an object that is complete, release |
//! | (M) | borrowed: use it until the section ends | (X) | exchange it for null |
//! | (N) | owned: add to the count | (P) | put the slot's reference; the last one queues the free |
//! | (O) | the add met a dead count: (L) again | | |
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

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

#[cfg(not(loom))]
use crate::object;
use crate::object::{Borrowed, RawObject, Ref};
use fdtable_sync::platform::atomic::AtomicPtr;
use fdtable_sync::platform::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use fdtable_sync::platform::relax;
use fdtable_sync::rcu::Guard;

/// A place for a counted object. It holds a reference of its own.
///
/// ```
/// use fdtable_objects::object::Ref;
///
/// let slot = Slot::new();
/// slot.install(Ref::new("chat")).expect("the slot was empty");
/// let guard = rcu::read_lock();
/// assert_eq!(slot.borrow(&guard).as_deref(), Some(&"chat"));
/// let removed = slot.replace(None);
/// assert!(slot.is_empty() && removed.is_some());
/// ```
///
/// A `Slot` is invariant in its type, since otherwise an object of a more general type could be
/// installed through another view of the slot:
///
/// ```compile_fail
/// # use fdtable_objects::radix::slot::Slot;
/// fn generalise<'a>(slot: &'a Slot<&'static str>) -> &'a Slot<&'a str> {
///     slot
/// }
/// ```
pub struct Slot<T: ?Sized> {
    anchor: AtomicPtr<RawObject>,
    owns: PhantomData<Ref<T>>,
    /// Both takes and returns references: invariant in `T`.
    exchanges: PhantomData<fn(Ref<T>) -> Ref<T>>,
}

impl<T: ?Sized> Slot<T> {
    /// Makes an empty slot.
    #[must_use]
    pub fn new() -> Self {
        Self {
            anchor: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
            exchanges: PhantomData,
        }
    }

    /// Returns true if the slot holds nothing. A hint, unless the caller keeps writers away.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: the pointer is not dereferenced.
        self.anchor.load(Relaxed).is_null()
    }

    /// Like [`is_empty`](Self::is_empty). If true, writes before the slot was emptied are visible.
    #[inline]
    pub(crate) fn is_empty_acquire(&self) -> bool {
        // Acquire: pairs with the release in (X).
        self.anchor.load(Acquire).is_null()
    }

    /// Borrows the object without taking a reference. Neither blocks nor allocates.
    #[inline(always)]
    pub fn borrow<'g>(&self, guard: &'g Guard<'_>) -> Option<Borrowed<'g, T>> {
        // (L) Acquire: pairs with the release in (I).
        let anchor = NonNull::new(self.anchor.load(Acquire))?;
        // (M)
        // SAFETY: the object was in the slot, which holds a reference, inside the section.
        Some(unsafe { Borrowed::new(anchor, guard) })
    }

    /// Takes a reference to the object. One atomic add; neither blocks nor allocates.
    #[inline(always)]
    pub fn get(&self, guard: &Guard<'_>) -> Option<Ref<T>> {
        loop {
            // (N), (O): a dead count means that the slot has been emptied since (L).
            if let Some(object) = self.borrow(guard)?.upgrade() {
                return Some(object);
            }
            relax(0);
        }
    }

    /// Puts an object into an empty slot. Neither blocks nor allocates.
    ///
    /// # Errors
    /// Returns the object if the slot holds one already.
    #[inline]
    pub fn install(&self, object: Ref<T>) -> Result<(), Ref<T>> {
        let new = object.into_raw();
        // (I) Release: the object and its header are complete before the pointer is visible.
        // Relaxed on failure: the pointer that is there is not dereferenced.
        match self
            .anchor
            .compare_exchange(ptr::null_mut(), new.as_ptr(), Release, Relaxed)
        {
            Ok(_) => Ok(()),
            // SAFETY: converted above, and not stored.
            Err(_) => Err(unsafe { Ref::from_raw(new) }),
        }
    }

    /// Replaces the object of the slot, or removes it, and returns the old one. The caller decides
    /// when the old reference is dropped: outside of its locks.
    #[inline]
    #[must_use = "dropping the old reference may run its release hook"]
    pub fn replace(&self, object: Option<Ref<T>>) -> Option<Ref<T>> {
        let new = object.map_or(ptr::null_mut(), |object| object.into_raw().as_ptr());
        // (I), (X) AcqRel: release as in `install`; acquire pairs with the release in the (I) that
        // stored the old pointer, since the caller dereferences it.
        let old = NonNull::new(self.anchor.swap(new, AcqRel))?;
        // SAFETY: the slot held this reference, and has just passed it to this thread alone.
        Some(unsafe { Ref::from_raw(old) })
    }
}

/// For the holder of a lock that keeps other writers away: no exchange is needed then.
impl<T: ?Sized> Slot<T> {
    /// Like [`replace`](Self::replace).
    ///
    /// # Safety
    /// No other thread writes the slot meanwhile, and the slot holds its own reference.
    #[inline(always)]
    pub(crate) unsafe fn exchange(&self, object: Option<Ref<T>>) -> Option<Ref<T>> {
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
    pub(crate) unsafe fn put(&self, object: Ref<T>) {
        debug_assert!(self.is_empty(), "an object in the slot would leak");
        // (I) Release: as above.
        self.anchor.store(object.into_raw().as_ptr(), Release);
    }

    /// Puts an object into an empty slot that no reader can reach yet.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange).
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, object: Ref<T>) {
        // Relaxed: whatever publishes the slot publishes the object.
        self.anchor.store(object.into_raw().as_ptr(), Relaxed);
    }

    /// Prefetches the line of the object's count. In models that would be a useless extra step.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        // Relaxed: the pointer is not dereferenced.
        #[cfg(not(loom))]
        object::prefetch_count(self.anchor.load(Relaxed));
    }

    /// Takes the slot's reference, and leaves the pointer for readers.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange); and from here on the slot holds no reference, and is
    /// neither written nor dropped.
    pub(crate) unsafe fn disown(&self) -> Option<Ref<T>> {
        // Acquire: pairs with the release in (I); the object is dereferenced.
        let anchor = NonNull::new(self.anchor.load(Acquire))?;
        // SAFETY: the slot held this reference, and the caller takes it once.
        Some(unsafe { Ref::from_raw(anchor) })
    }

    /// Takes another reference to the slot's object.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange).
    pub(crate) unsafe fn share(&self) -> Option<Ref<T>> {
        // Acquire: pairs with the release in (I); the object is dereferenced.
        let anchor = NonNull::new(self.anchor.load(Acquire))?;
        // SAFETY: the slot's own reference, which stays where it is.
        let own = ManuallyDrop::new(unsafe { Ref::<T>::from_raw(anchor) });
        Some((*own).clone())
    }
}

impl<T: ?Sized> Default for Slot<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.replace(None));
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = {
            let guard = fdtable_sync::rcu::read_lock();
            self.get(&guard)
        };
        f.debug_tuple("Slot").field(&object).finish()
    }
}

#[cfg(all(test, loom))]
mod loom;
