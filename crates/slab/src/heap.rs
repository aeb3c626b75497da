//! Memory from the global allocator: of layouts that have no class, and all memory of models. They
//! have enough to explore, and the caches have models of their own.

use alloc::alloc::{Layout, alloc as global_alloc, dealloc};
use core::ptr::{self, NonNull};

use fdtable_sync::platform::shared;

/// Takes memory for a layout. `None` if there is none.
#[inline]
pub(super) fn alloc(layout: Layout) -> Option<NonNull<u8>> {
    if layout.size() == 0 {
        return NonNull::new(ptr::without_provenance_mut(layout.align()));
    }
    let _shared = shared::allocate();
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { global_alloc(layout) })
}

/// Frees memory.
///
/// # Safety
/// It was allocated by [`alloc`](fn@alloc) with the same layout, and not freed since; it is no
/// longer used.
#[inline]
pub(super) unsafe fn free(place: NonNull<u8>, layout: Layout) {
    if layout.size() > 0 {
        // SAFETY: taken from the global allocator with this layout.
        unsafe { dealloc(place.as_ptr(), layout) };
    }
}
