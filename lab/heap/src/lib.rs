//! A box in a heap that its type names, like the unstable `Box::new_in`.
//!
//! A program that compares heaps needs several, and only one can be the global one. A heap is a
//! constant of its type, so a box is one pointer and knows the heap that frees its memory.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::alloc::{GlobalAlloc, Layout};

use fdtable_sync::fallible::OutOfMemory;

/// A heap beside the global one.
///
/// ```
/// use std::alloc::System;
///
/// struct Libc;
///
/// impl fdtable_heap::Heap for Libc {
///     type Allocator = System;
///     const ALLOCATOR: &'static System = &System;
/// }
/// ```
pub trait Heap: 'static {
    /// Type of the allocator.
    type Allocator: GlobalAlloc + Sync;
    /// The allocator: a constant, so the one that frees is the one that allocated.
    const ALLOCATOR: &'static Self::Allocator;
}

/// Value in the heap `H`, which is dropped and freed with the box.
pub struct HeapBox<T, H: Heap>(Place<T, H>);

// SAFETY: the box owns its value, as a `Box` does; the allocator may be called by every thread.
unsafe impl<T: Send, H: Heap> Send for HeapBox<T, H> {}
// SAFETY: a shared box returns shared references to its value, nothing else.
unsafe impl<T: Sync, H: Heap> Sync for HeapBox<T, H> {}

impl<T, H: Heap> HeapBox<T, H> {
    /// Puts `value` in the heap. May block in the allocator.
    ///
    /// # Errors
    /// [`OutOfMemory`] (`ENOMEM`) if the heap has no memory; the value is dropped.
    ///
    /// ```
    /// # use std::alloc::System;
    /// # struct Libc;
    /// # impl fdtable_heap::Heap for Libc {
    /// #     type Allocator = System;
    /// #     const ALLOCATOR: &'static System = &System;
    /// # }
    /// use fdtable_heap::HeapBox;
    ///
    /// let boxed = HeapBox::<_, Libc>::try_new([7; 64])?;
    /// assert_eq!(boxed.len(), 64);
    /// # Ok::<(), fdtable_sync::fallible::OutOfMemory>(())
    /// ```
    #[inline]
    pub fn try_new(value: T) -> Result<Self, OutOfMemory> {
        let place = Place::new()?;
        // SAFETY: nothing else uses the place, which has the size and alignment of `T`.
        unsafe { place.0.write(value) };
        Ok(HeapBox(place))
    }
}

impl<T, H: Heap> Deref for HeapBox<T, H> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `try_new` wrote a value, which stays until the drop.
        unsafe { self.0.0.as_ref() }
    }
}

impl<T, H: Heap> DerefMut for HeapBox<T, H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the box is exclusively borrowed.
        unsafe { self.0.0.as_mut() }
    }
}

impl<T, H: Heap> Drop for HeapBox<T, H> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `try_new` wrote a value, and nothing uses it any more. The place is freed
        // afterwards, as a field, even if the value's drop panics.
        unsafe { self.0.0.drop_in_place() };
    }
}

impl<T: fmt::Debug, H: Heap> fmt::Debug for HeapBox<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Memory for a `T`, without a value. It dangles if a `T` needs none.
struct Place<T, H: Heap>(NonNull<T>, PhantomData<(T, H)>);

impl<T, H: Heap> Place<T, H> {
    #[inline]
    fn new() -> Result<Self, OutOfMemory> {
        let layout = Layout::new::<T>();
        let place = if layout.size() == 0 {
            NonNull::dangling()
        } else {
            // SAFETY: the size is not zero.
            let place = unsafe { H::ALLOCATOR.alloc(layout) };
            NonNull::new(place.cast()).ok_or(OutOfMemory)?
        };
        Ok(Place(place, PhantomData))
    }
}

impl<T, H: Heap> Drop for Place<T, H> {
    #[inline]
    fn drop(&mut self) {
        let layout = Layout::new::<T>();
        if layout.size() != 0 {
            // SAFETY: the memory came from this allocator with this layout, and is freed once.
            unsafe { H::ALLOCATOR.dealloc(self.0.as_ptr().cast(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A heap that counts allocated bytes, and refuses allocations larger than a page.
    struct Counted(AtomicUsize);

    // SAFETY: all memory is the system's, with the same layouts.
    unsafe impl GlobalAlloc for Counted {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if layout.size() > 4096 {
                return null_mut();
            }
            self.0.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
            self.0.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: the caller's promise; the memory is from `alloc`.
            unsafe { System.dealloc(place, layout) };
        }
    }

    /// Creates a heap for one test, since tests run at the same time.
    macro_rules! heap {
        () => {{
            static COUNTED: Counted = Counted(AtomicUsize::new(0));
            struct Own;
            impl Heap for Own {
                type Allocator = Counted;
                const ALLOCATOR: &'static Counted = &COUNTED;
            }
            (Own, || COUNTED.0.load(Ordering::Relaxed))
        }};
    }

    fn boxed<T, H: Heap>(_: &H, value: T) -> Result<HeapBox<T, H>, OutOfMemory> {
        HeapBox::try_new(value)
    }

    #[test]
    fn a_value_is_in_its_heap_until_it_is_dropped() {
        let (heap, given) = heap!();
        let mut boxed = boxed(&heap, vec![1, 2]).unwrap();
        boxed.push(3);
        assert_eq!((given(), &**boxed), (1, &[1, 2, 3][..]));
        drop(boxed);
        assert_eq!(given(), 0);
    }

    #[test]
    fn a_value_without_a_size_needs_no_memory() {
        let (heap, given) = heap!();
        let nothing = boxed(&heap, ()).unwrap();
        assert_eq!((given(), *nothing), (0, ()));
    }

    #[test]
    fn a_heap_without_memory_is_an_error() {
        let (heap, given) = heap!();
        assert_eq!(boxed(&heap, [0_u8; 4097]).err(), Some(OutOfMemory));
        assert_eq!(given(), 0);
    }

    #[test]
    fn a_drop_that_panics_frees_the_memory() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("as expected");
            }
        }
        let (heap, given) = heap!();
        let boxed = boxed(&heap, (Panics, 7_u64)).unwrap();
        assert_eq!(given(), 1);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(boxed))).is_err());
        assert_eq!(given(), 0);
    }
}
