//! Access to the caller's memory: slices, strings and values behind pointers.
//!
//! An address that is null, on the first page, or above the address space of a process is `EFAULT`,
//! as on the host. Any other address is trusted.

use std::ffi::{CStr, c_char, c_void};
use std::slice;

use fdtable_vfs::Errno;

/// Maximum bytes of one transfer: as on Linux, the whole pages below 2^31.
pub(crate) const MAX_RW_COUNT: usize = 0x7fff_f000;

/// Lowest valid address.
const MMAP_MIN_ADDR: usize = 4096;

/// Exclusive upper bound of valid addresses.
const TASK_SIZE_MAX: usize = 1 << 56;

/// Returns the bytes that a call reads, at most [`MAX_RW_COUNT`].
///
/// # Errors
/// `EFAULT`, also if there are more than an address space has.
///
/// # Safety
/// If `at` can be an address, `count` bytes are there, and they do not change during the call.
#[inline]
pub(crate) unsafe fn bytes<'a>(at: *const c_void, count: usize) -> Result<&'a [u8], Errno> {
    let count = transferable(at, count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { slice::from_raw_parts(at.cast(), count) })
}

/// Returns the bytes that a call writes, at most [`MAX_RW_COUNT`].
///
/// # Errors
/// `EFAULT`, also if there are more than an address space has.
///
/// # Safety
/// If `at` can be an address, `count` bytes are there, and nothing else accesses them during the
/// call. They may be uninitialized: calls only write to them.
#[inline]
pub(crate) unsafe fn bytes_mut<'a>(at: *mut c_void, count: usize) -> Result<&'a mut [u8], Errno> {
    let count = transferable(at, count)?;
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { slice::from_raw_parts_mut(at.cast(), count) })
}

/// Copies an array of the caller. It may be unaligned.
///
/// # Errors
/// `EFAULT`; `ENOMEM`.
///
/// # Safety
/// If `at` can be an address, `count` values are there.
pub(crate) unsafe fn values<T: Copy>(at: *const T, count: usize) -> Result<Vec<T>, Errno> {
    if count == 0 {
        return Ok(Vec::new());
    }
    check(at, count)?;
    let mut values = vec_with_capacity(count)?;
    // SAFETY: as the caller promises; the index is below `count`.
    values.extend((0..count).map(|index| unsafe { at.add(index).read_unaligned() }));
    Ok(values)
}

/// Creates an empty vector with a capacity that the caller chooses.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn vec_with_capacity<T>(count: usize) -> Result<Vec<T>, Errno> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
    Ok(list)
}

/// Returns a path or name of the caller.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// If `at` can be an address, a null-terminated string is there for the whole call.
#[inline]
pub(crate) unsafe fn string<'a>(at: *const c_char) -> Result<&'a CStr, Errno> {
    check(at, 1)?;
    // SAFETY: as the caller promises.
    Ok(unsafe { CStr::from_ptr(at) })
}

/// Reads a value.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// If `at` can be an address, a `T` is there.
pub(crate) unsafe fn get<T: Copy>(at: *const T) -> Result<T, Errno> {
    check(at, 1)?;
    // SAFETY: as the caller promises; the read may be unaligned.
    Ok(unsafe { at.read_unaligned() })
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
    // SAFETY: as the caller promises.
    unsafe { get(at) }.map(Some)
}

/// Writes a value.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// If `at` can be an address, there is room for a `T`.
pub(crate) unsafe fn put<T>(at: *mut T, value: T) -> Result<(), Errno> {
    check(at, 1)?;
    // SAFETY: as the caller promises; the write may be unaligned.
    unsafe { at.write_unaligned(value) };
    Ok(())
}

/// Checks that an array of `count` values can be at `at`.
///
/// # Errors
/// `EFAULT` if not.
#[inline]
pub(crate) fn check<T>(at: *const T, count: usize) -> Result<(), Errno> {
    let (first, length) = (at.addr(), count.saturating_mul(size_of::<T>()));
    if first < MMAP_MIN_ADDR || first.saturating_add(length) > TASK_SIZE_MAX {
        return Err(Errno::EFAULT);
    }
    Ok(())
}

/// Checks that an array of `count` values does not reach above the address space. The later access
/// checks the rest.
///
/// # Errors
/// `EFAULT` if it does.
pub(crate) fn check_range_end<T>(at: *const T, count: usize) -> Result<(), Errno> {
    let length = count.saturating_mul(size_of::<T>());
    if at.addr().saturating_add(length) > TASK_SIZE_MAX {
        return Err(Errno::EFAULT);
    }
    Ok(())
}

#[inline]
fn transferable(at: *const c_void, count: usize) -> Result<usize, Errno> {
    if count > 0 {
        // Check the whole length, not only the part that one transfer moves.
        check(at.cast::<u8>(), count)?;
    }
    Ok(count.min(MAX_RW_COUNT))
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn an_impossible_address_is_efault() {
        let refused = |address: usize| {
            // SAFETY: none of these can be an address, so nothing is read.
            unsafe { get(ptr::without_provenance::<u64>(address)) }
        };
        for address in [0, 1, 4095, 1 << 56, usize::MAX, usize::MAX - 7] {
            assert_eq!(refused(address), Err(Errno::EFAULT), "{address:x}");
        }
    }

    #[test]
    fn an_empty_slice_may_be_at_any_address() {
        // SAFETY: there are no bytes.
        let nothing = unsafe { bytes(ptr::null(), 0) };
        assert_eq!(nothing, Ok(&[][..]));
        // SAFETY: null is refused.
        let something = unsafe { bytes(ptr::null(), 1) };
        assert_eq!(something, Err(Errno::EFAULT));
    }

    #[test]
    fn a_negative_length_is_efault_and_a_large_one_is_shortened() {
        let there = [0_u8; 8];
        // SAFETY: the count is refused.
        let negative = unsafe { bytes(there.as_ptr().cast(), usize::MAX) };
        assert_eq!(negative, Err(Errno::EFAULT));
        assert_eq!(
            transferable(there.as_ptr().cast(), 1 << 40),
            Ok(MAX_RW_COUNT)
        );
    }
}
