//! Allocation that can fail: the standard collections abort instead.

use alloc::alloc::{Layout, alloc};
use alloc::boxed::Box;
use core::fmt;

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
/// let boxed = fdtable_base::fallible::try_box([7; 64])?;
/// assert_eq!(boxed.len(), 64);
/// # Ok::<(), fdtable_base::fallible::OutOfMemory>(())
/// ```
pub fn try_box<T>(value: T) -> Result<Box<T>, OutOfMemory> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        // A box of nothing does not allocate.
        return Ok(Box::new(value));
    }
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nothing_and_something_can_be_boxed() {
        assert_eq!(try_box(()).as_deref(), Ok(&()));
        assert_eq!(try_box([1_u64; 100]).as_deref(), Ok(&[1; 100]));
    }
}
