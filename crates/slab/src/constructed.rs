//! Caches of objects that stay constructed while they are free.

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::cache::{Callbacks, Plan, RawCache};
use super::handle::CacheBox;
use super::info::Info;
use super::options::Options;
use super::shape::{MAX_ALIGN, MAX_SIZE};
use fdtable_sync::fallible::OutOfMemory;

/// A cache of objects of one type, which are constructed with their slab and destroyed with it. An
/// object is fresh, or as its last user left it: for objects whose construction costs more than
/// their use, such as locks, lists and buffers.
///
/// ```
/// use fdtable_slab::ConstructedCache;
///
/// let cache = ConstructedCache::new("buffers", || Vec::<u8>::with_capacity(4096))?;
/// let mut buffer = cache.take()?;
/// buffer.extend_from_slice(b"some bytes");
/// buffer.clear();
/// drop(buffer);
/// assert!(cache.take()?.capacity() >= 4096, "nothing was allocated again");
/// # Ok::<(), fdtable_sync::fallible::OutOfMemory>(())
/// ```
///
/// The objects of a slab are constructed all at once, so the first `take` constructs 64 KiB of
/// them (a page without `std`). They are destroyed after a grace period, by any thread.
pub struct ConstructedCache<T> {
    raw: CacheBox,
    constructor: fn() -> T,
    owns: PhantomData<T>,
    /// Takes objects back as they were left, and returns them again: invariant in `T`.
    exchanges: PhantomData<fn(T) -> T>,
}

/// An object of a [`ConstructedCache`]. Dropping this frees it as it is.
///
/// Its contents stay for the next user, so it is invariant in its type:
///
/// ```compile_fail
/// # use fdtable_slab::Constructed;
/// fn shorten<'c, 'a>(object: Constructed<'c, &'static str>) -> Constructed<'c, &'a str> {
///     object
/// }
/// ```
pub struct Constructed<'c, T> {
    pub(super) place: NonNull<T>,
    cache: &'c RawCache,
    /// Invariant in `T`.
    lends: PhantomData<&'c mut T>,
}

// SAFETY: one thread at a time accesses a free object; the constructor of the cache requires a `T`
// that allows this.
unsafe impl<T: Send> Sync for ConstructedCache<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for ConstructedCache<T> {}
// SAFETY: an object is to its value what a mutable reference is; the cache takes it back from any
// thread.
unsafe impl<T: Send> Send for Constructed<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Constructed<'_, T> {}

impl<T: Send + 'static> ConstructedCache<T> {
    /// Makes a cache without objects, with the [usual options](Options::new). Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new(name: &'static str, constructor: fn() -> T) -> Result<Self, OutOfMemory> {
        Self::with(name, Options::new(), constructor)
    }

    /// Like [`new`](Self::new), with other options.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn with(
        name: &'static str,
        options: Options,
        constructor: fn() -> T,
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
            destroy: Some(destroy::<T>),
            callbacks: Callbacks::Run,
        };
        Ok(Self {
            raw: CacheBox::try_new(plan, options)?,
            constructor,
            owns: PhantomData,
            exchanges: PhantomData,
        })
    }

    /// Takes an object. Usually a few instructions on memory of the CPU; sometimes it takes a lock,
    /// asks the system for memory, and calls the constructor, without a lock. May be called inside
    /// a read-side section.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    ///
    /// # Panics
    /// If the constructor does; the objects of the slab that it had constructed are destroyed. With
    /// [checks](super::Checks::Full), if the memory around the object was written.
    #[inline]
    pub fn take(&self) -> Result<Constructed<'_, T>, OutOfMemory> {
        let constructor = self.constructor;
        // SAFETY: the cache asks for each object of a new slab once, with a place that is as large
        // and aligned as `T` asks for.
        let construct = |place: NonNull<u8>| unsafe { place.cast::<T>().write(constructor()) };
        let place = self.raw.alloc(&construct).ok_or(OutOfMemory)?;
        Ok(Constructed {
            place: place.cast(),
            cache: &self.raw,
            lends: PhantomData,
        })
    }

    /// Frees the memory of all unused objects, after a grace period at the latest: the one of
    /// [`rcu::barrier`](fdtable_sync::rcu::barrier). Returns how many bytes that is. Takes locks,
    /// and may run RCU callbacks that are due.
    #[doc(alias = "kmem_cache_shrink")]
    pub fn shrink(&self) -> usize {
        self.raw.shrink()
    }

    /// Returns the figures of the cache. Takes locks.
    pub fn info(&self) -> Info {
        self.raw.info()
    }
}

/// Destroys an object whose slab is freed.
///
/// # Safety
/// There is a `T`, and it is not used after this.
unsafe fn destroy<T>(object: NonNull<u8>) {
    // SAFETY: as the caller promises.
    unsafe { object.cast::<T>().drop_in_place() };
}

impl<T> Deref for Constructed<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: constructed with its slab, which stays while an object is in use, and owned by
        // `self`.
        unsafe { self.place.as_ref() }
    }
}

impl<T> DerefMut for Constructed<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.place.as_mut() }
    }
}

impl<T> Drop for Constructed<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken from this cache, and owned by `self`. It stays constructed.
        unsafe { self.cache.free(self.place.cast()) };
    }
}

impl<T: fmt::Debug> fmt::Debug for Constructed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Send + 'static> fmt::Debug for ConstructedCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info().fmt(f)
    }
}
