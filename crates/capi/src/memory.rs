//! Values in the caller's memory. An address on the first page is `EFAULT`; all others are trusted.

use crate::errno::Errno;

/// Lowest valid address.
const FIRST: usize = 4096;

/// Checks that a value can be at an address.
///
/// # Errors
/// `EFAULT` if not.
#[inline]
pub(crate) fn check<T>(at: *const T) -> Result<(), Errno> {
    if at.addr() < FIRST {
        return Err(Errno::EFAULT);
    }
    Ok(())
}

/// Checks an optional place for a result, so that a call that fails changes nothing.
///
/// # Errors
/// `EFAULT` if it is not null and cannot be an address.
pub(crate) fn check_if_any<T>(at: *const T) -> Result<(), Errno> {
    if at.is_null() {
        return Ok(());
    }
    check(at)
}

/// Reads an optional value: null means none.
///
/// # Errors
/// `EFAULT` if `at` is not null and cannot be an address.
///
/// # Safety
/// If `at` can be an address, a `T` is there.
pub(crate) unsafe fn get_if_any<T: Copy>(at: *const T) -> Result<Option<T>, Errno> {
    if at.is_null() {
        return Ok(None);
    }
    check(at)?;
    // SAFETY: as the caller promises.
    Ok(Some(unsafe { at.read_unaligned() }))
}

/// Writes an optional result.
///
/// # Safety
/// [`check_if_any`] has found no error, and there is room for a `T` unless `at` is null.
pub(crate) unsafe fn put_if_any<T>(at: *mut T, value: T) {
    if !at.is_null() {
        // SAFETY: as the caller promises.
        unsafe { at.write_unaligned(value) };
    }
}
