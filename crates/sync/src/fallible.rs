//! Allocation that can fail: the standard collections abort instead.

use alloc::alloc::{Layout, alloc};
use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::platform::atomic::AtomicPtr;
use crate::platform::atomic::Ordering::{Acquire, Release};
use crate::platform::{const_fn, shared};

/// The error of an allocation that failed. Callers of the table see it as `ENOMEM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl core::error::Error for OutOfMemory {}

/// Puts a value in a box.
///
/// # Errors
/// [`OutOfMemory`] if the allocator has no memory; the value is dropped.
///
/// ```
/// let boxed = fdtable_sync::fallible::try_box([7; 64])?;
/// assert_eq!(boxed.len(), 64);
/// # Ok::<(), fdtable_sync::fallible::OutOfMemory>(())
/// ```
pub fn try_box<T>(value: T) -> Result<Box<T>, OutOfMemory> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        // A box of nothing does not allocate.
        return Ok(Box::new(value));
    }
    let _shared = shared::allocate();
    // SAFETY: the size is not zero.
    let place = unsafe { alloc(layout) }.cast::<T>();
    if place.is_null() {
        return Err(OutOfMemory);
    }
    // SAFETY: the memory is fresh, and as large and aligned as `T` asks for.
    unsafe { place.write(value) };
    // SAFETY: the memory came from the global allocator with the layout of `T`, as a box's
    // does, and holds a `T`.
    Ok(unsafe { Box::from_raw(place) })
}

/// A place for one boxed value. The value is made once, when it is first needed.
#[derive(Debug)]
pub struct OnceBox<T> {
    /// Null at first; then a leaked box, for the life of this.
    place: AtomicPtr<T>,
    /// The pointer keeps the compiler from making this `Sync` for every `T` that is.
    owns: PhantomData<(T, *mut T)>,
}

// SAFETY: it owns a `T`, as a box does.
unsafe impl<T: Send> Send for OnceBox<T> {}
// SAFETY: it shares `&T` between threads, and one may make the value that another drops.
unsafe impl<T: Send + Sync> Sync for OnceBox<T> {}

impl<T> OnceBox<T> {
    const_fn! {
        /// Makes an empty place.
        pub fn new() -> Self {
            Self {
                place: AtomicPtr::new(ptr::null_mut()),
                owns: PhantomData,
            }
        }
    }

    /// Returns the value, if it was made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // Acquire: pairs with the release in `get_or_try_init`, so the whole value is visible.
        // SAFETY: null, or a box that was leaked and stays as long as `self`.
        unsafe { self.place.load(Acquire).as_ref() }
    }

    /// Returns the value, and makes it if it is not there. If two threads make it at once, one of
    /// the values is dropped. Never blocks; allocates if it makes the value.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for the value, or `make` returns it.
    pub fn get_or_try_init(
        &self,
        make: impl FnOnce() -> Result<T, OutOfMemory>,
    ) -> Result<&T, OutOfMemory> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let new = NonNull::from(Box::leak(try_box(make()?)?));
        // Release: pairs with the acquire in `get`, so the value is complete there. Acquire on
        // failure: pairs with this release of the winner, so the value that the loser uses is
        // complete.
        let there = self
            .place
            .compare_exchange(ptr::null_mut(), new.as_ptr(), Release, Acquire);
        let value = match there {
            Ok(_) => new.as_ptr(),
            Err(there) => {
                // SAFETY: leaked above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new.as_ptr()) });
                there
            }
        };
        // SAFETY: a box that was leaked and stays as long as `self`.
        Ok(unsafe { &*value })
    }
}

impl<T> Default for OnceBox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        // Acquire: a value that another thread made is visible as a whole.
        if let Some(value) = NonNull::new(self.place.load(Acquire)) {
            // SAFETY: leaked in `get_or_try_init`, and no thread uses it any more.
            drop(unsafe { Box::from_raw(value.as_ptr()) });
        }
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// One thread would make it, and another drop it. The compiler checks that the box is not
    /// `Sync` then: if it were, two implementations would give `answer`.
    #[test]
    fn a_value_that_may_not_be_sent_is_not_shared_in_a_box() {
        trait Shared<Which> {
            fn answer() {}
        }
        impl<T> Shared<()> for T {}
        impl<T: Sync> Shared<u8> for T {}
        <OnceBox<std::sync::MutexGuard<'static, ()>> as Shared<_>>::answer();
    }

    #[test]
    fn nothing_and_something_can_be_boxed() {
        assert_eq!(try_box(()).as_deref(), Ok(&()));
        assert_eq!(try_box([1_u64; 100]).as_deref(), Ok(&[1; 100]));
    }
}
