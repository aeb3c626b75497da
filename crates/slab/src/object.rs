//! Caches of values of one type.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::cache::RawCache;
use super::handle::CacheBox;
use super::info::Info;
use super::shape::{Colouring, MAX_ALIGN, MAX_SIZE, Plan};
use fdtable_sync::fallible::OutOfMemory;

/// A cache of objects of one type.
///
/// ```
/// use fdtable_slab::Cache;
///
/// let cache = Cache::new("pairs")?;
/// let mut pair = cache.insert((1, 2))?;
/// pair.0 = 3;
/// assert_eq!(*pair, (3, 2));
/// assert_eq!(cache.info().in_use, 1);
/// drop(pair);
/// assert_eq!(cache.info().in_use, 0);
/// # Ok::<(), fdtable_sync::fallible::OutOfMemory>(())
/// ```
///
/// Types of more than 32 KiB, or with an alignment of more than 4 KiB, do not compile. Without
/// `std`, where a slab is a page, the limits are 2 KiB and 256 bytes:
///
/// ```compile_fail
/// let cache = fdtable_slab::Cache::<[u8; 40_000]>::new("large");
/// ```
///
/// Dropping a cache frees its memory. Objects that were [forgotten](core::mem::forget) keep their
/// slabs forever.
#[doc(alias = "kmem_cache")]
pub struct Cache<T> {
    pub(super) raw: CacheBox,
    gives: PhantomData<fn(T) -> T>,
}

/// An object of a [`Cache`]. Dropping this frees it.
pub struct Object<'c, T> {
    pub(super) place: NonNull<T>,
    pub(super) cache: &'c RawCache,
    pub(super) owns: PhantomData<T>,
}

// SAFETY: an object owns its value like a box; the cache takes it back from any thread.
unsafe impl<T: Send> Send for Object<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Object<'_, T> {}

impl<T> Cache<T> {
    /// Makes a cache without objects, whose slabs are coloured. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new(name: &'static str) -> Result<Self, OutOfMemory> {
        Self::with(name, Colouring::On)
    }

    /// Makes a cache as [`new`](Self::new) does, with colours or without.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn with(name: &'static str, colouring: Colouring) -> Result<Self, OutOfMemory> {
        Self::of_kind(name, colouring, false)
    }

    pub(super) fn of_kind(
        name: &'static str,
        colouring: Colouring,
        is_checked: bool,
    ) -> Result<Self, OutOfMemory> {
        const {
            assert!(size_of::<T>() <= MAX_SIZE, "too large for a slab");
            assert!(
                align_of::<T>() <= MAX_ALIGN,
                "too widely aligned for a slab"
            );
        }
        let plan = Plan {
            name,
            layout: Layout::new::<T>(),
            colouring,
            is_checked,
        };
        Ok(Self {
            raw: CacheBox::try_new(plan)?,
            gives: PhantomData,
        })
    }

    /// Puts a value into the memory of the cache. Usually a few instructions on memory of the CPU;
    /// sometimes it takes a lock, and asks the system for memory. May be called inside a read-side
    /// section.
    ///
    /// # Errors
    /// [`OutOfMemory`]; the value is dropped.
    #[inline]
    pub fn insert(&self, value: T) -> Result<Object<'_, T>, OutOfMemory> {
        let place = self.raw.alloc().ok_or(OutOfMemory)?.cast::<T>();
        // SAFETY: a place of the cache is as large and aligned as `T` asks for, and no other thread
        // has it.
        unsafe { place.write(value) };
        Ok(Object {
            place,
            cache: &self.raw,
            owns: PhantomData,
        })
    }

    /// Frees the memory of all unused objects. Returns how many bytes that is. Takes locks.
    #[doc(alias = "kmem_cache_shrink")]
    pub fn shrink(&self) -> usize {
        self.raw.shrink()
    }

    /// Returns the figures of the cache. Takes locks.
    pub fn info(&self) -> Info {
        self.raw.info()
    }
}

impl<T> Deref for Object<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: written when it was inserted, and owned by `self`.
        unsafe { self.place.as_ref() }
    }
}

impl<T> DerefMut for Object<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: written when it was inserted, and owned by `self`.
        unsafe { self.place.as_mut() }
    }
}

/// Memory that is freed to its cache when this is dropped, even if the destructor of its value
/// panics.
struct Place<'c> {
    place: NonNull<u8>,
    cache: &'c RawCache,
}

impl Drop for Place<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken from this cache, and owned by `self`.
        unsafe { self.cache.free(self.place) };
    }
}

impl<T> Drop for Object<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let _place = Place {
            place: self.place.cast(),
            cache: self.cache,
        };
        // SAFETY: written when it was inserted, and not used after this.
        unsafe { self.place.drop_in_place() };
    }
}
