//! A raw cache with one owner, at a stable address.

use alloc::boxed::Box;
use core::ops::Deref;
use core::ptr::NonNull;

use super::cache::RawCache;
use super::registry;
use super::shape::Plan;
use fdtable_sync::fallible::{OutOfMemory, try_box};

/// A box whose content is also pointed to by slabs and the registry: unlike that of a `Box`, its
/// owner does not claim exclusive access.
pub(super) struct CacheBox(NonNull<RawCache>);

// SAFETY: a raw cache may be shared and sent.
unsafe impl Sync for CacheBox {}
// SAFETY: as above.
unsafe impl Send for CacheBox {}

impl CacheBox {
    /// Makes a cache and registers it. Allocates.
    pub(super) fn try_new(plan: Plan) -> Result<Self, OutOfMemory> {
        let cache = try_box(RawCache::try_new(plan)?)?;
        let this = Self(NonNull::from(Box::leak(cache)));
        // SAFETY: in a box of its own, and taken off the list before that is freed.
        unsafe { registry::add(&this) };
        Ok(this)
    }
}

impl Deref for CacheBox {
    type Target = RawCache;

    #[inline(always)]
    fn deref(&self) -> &RawCache {
        // SAFETY: leaked in `try_new`, and freed by the drop of `self` alone.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for CacheBox {
    fn drop(&mut self) {
        // After this, listings of all caches no longer use it.
        // SAFETY: `try_new` has put it there.
        unsafe { registry::remove(self) };
        // SAFETY: leaked in `try_new`, and no other thread uses it: slabs that outlive it do not
        // follow their pointers.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
