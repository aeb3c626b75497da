//! A box in the general caches.

use core::alloc::Layout;
use core::mem;
use core::ops::Deref;
use core::ptr::NonNull;

use super::general;
use crate::fallible::OutOfMemory;

/// A value in memory of the general caches. Dropping this drops the value and frees the memory.
pub(crate) struct SlabBox<T>(NonNull<T>);

impl<T> SlabBox<T> {
    /// Allocates a value.
    pub(crate) fn try_new(value: T) -> Result<Self, OutOfMemory> {
        let place = general::alloc(Layout::new::<T>()).ok_or(OutOfMemory)?;
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

impl<T> Deref for SlabBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the box owns the value.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for SlabBox<T> {
    fn drop(&mut self) {
        /// Memory without a value. It is freed even if the value's drop panics.
        struct Memory<T>(NonNull<T>);
        impl<T> Drop for Memory<T> {
            fn drop(&mut self) {
                // SAFETY: `try_new` took it with this layout, and it is no longer used.
                unsafe { general::free(self.0.cast(), Layout::new::<T>()) };
            }
        }
        let _memory = Memory(self.0);
        // SAFETY: the box owns the value, which is no longer used.
        unsafe { self.0.drop_in_place() };
    }
}
