//! Memory for objects and nodes: slabs, or the global allocator where the table does without them.

use core::alloc::Layout;
use core::mem;
use core::ops::Deref;
use core::ptr::NonNull;

use fdtable_sync::fallible::OutOfMemory;

#[cfg(feature = "slab")]
pub(crate) use fdtable_slab::general::{alloc, free};
#[cfg(not(feature = "slab"))]
pub(crate) use global::{alloc, free};

/// Memory from the global allocator.
#[cfg(not(feature = "slab"))]
mod global {
    use alloc::alloc::{Layout, alloc as global_alloc, dealloc};
    use core::ptr::NonNull;

    /// Takes memory for the layout of a block or a node. `None` if there is none.
    #[inline]
    pub(crate) fn alloc(layout: Layout) -> Option<NonNull<u8>> {
        debug_assert!(layout.size() > 0, "it has a head");
        // SAFETY: the size is not zero, as each has a head.
        NonNull::new(unsafe { global_alloc(layout) })
    }

    /// Frees memory.
    ///
    /// # Safety
    /// It was allocated by [`alloc`] with the same layout, and not freed since; it is no longer
    /// used.
    #[inline]
    pub(crate) unsafe fn free(place: NonNull<u8>, layout: Layout) {
        // SAFETY: taken from the global allocator with this layout.
        unsafe { dealloc(place.as_ptr(), layout) };
    }
}

/// A value in such memory. Dropping this drops the value and frees the memory.
pub(crate) struct MemoryBox<T>(NonNull<T>);

impl<T> MemoryBox<T> {
    /// Allocates a value.
    pub(crate) fn try_new(value: T) -> Result<Self, OutOfMemory> {
        let place = alloc(Layout::new::<T>()).ok_or(OutOfMemory)?;
        let place = place.cast::<T>();
        // SAFETY: no other thread has the memory, and it is as large and aligned as `T` asks for.
        unsafe { place.write(value) };
        Ok(Self(place))
    }

    /// Converts the box to a raw pointer.
    pub(crate) fn into_raw(self) -> NonNull<T> {
        let place = self.0;
        mem::forget(self);
        place
    }

    /// Converts a raw pointer back to the box.
    ///
    /// # Safety
    /// The pointer came from [`into_raw`](Self::into_raw) of this type, and is converted back once.
    pub(crate) unsafe fn from_raw(place: NonNull<T>) -> Self {
        Self(place)
    }
}

impl<T> Deref for MemoryBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the box owns the value.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for MemoryBox<T> {
    fn drop(&mut self) {
        /// Memory without a value. It is freed even if the value's drop panics.
        struct Memory<T>(NonNull<T>);
        impl<T> Drop for Memory<T> {
            fn drop(&mut self) {
                // SAFETY: `try_new` took it with this layout, and it is no longer used.
                unsafe { free(self.0.cast(), Layout::new::<T>()) };
            }
        }
        let _memory = Memory(self.0);
        // SAFETY: the box owns the value, which is no longer used.
        unsafe { self.0.drop_in_place() };
    }
}
