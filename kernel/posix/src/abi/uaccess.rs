//! Access to the caller's memory: slices, strings and values behind pointers.
//!
//! Memory that cannot be accessed is `EFAULT`, as on the host: values are copied by a routine whose
//! faults are caught, and slices are probed, one access for each page (see
//! [`faults`](super::faults)). An address on the first page or above the address space of a process
//! is refused without an access. A slice is used in place after the probe, so memory that another
//! thread unmaps during the call is read or written nevertheless.
//!
//! A transfer whose buffer can be accessed in part moves that part: see
//! [`partial`](crate::fs::partial).

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::slice;

use fdtable_vfs::Errno;

use crate::abi::faults;

/// Maximum bytes of one transfer: as on Linux, the whole pages below 2^31.
pub(crate) const MAX_RW_COUNT: usize = 0x7fff_f000;

/// Distance between two probes: no page is smaller.
const PAGE: usize = 4096;

/// Lowest valid address.
const MMAP_MIN_ADDR: usize = 4096;

/// Exclusive upper bound of valid addresses.
const TASK_SIZE_MAX: usize = 1 << 56;

/// Returns the bytes that a call reads, at most [`MAX_RW_COUNT`].
///
/// # Errors
/// `EFAULT` if not all of them can be read, or there are more than an address space has.
///
/// # Safety
/// The bytes that can be read do not change during the call.
#[inline]
pub(crate) unsafe fn bytes<'a>(at: *const c_void, count: usize) -> Result<&'a [u8], Errno> {
    let count = transferable(at, count)?;
    if count == 0 {
        return Ok(&[]);
    }
    if at.addr() < MMAP_MIN_ADDR || faults::readable(at.cast(), count) < count {
        return Err(Errno::EFAULT);
    }
    // SAFETY: they can be read; the rest as the caller promises.
    Ok(unsafe { slice::from_raw_parts(at.cast(), count) })
}

/// Returns the bytes that a call writes, at most [`MAX_RW_COUNT`].
///
/// # Errors
/// `EFAULT` if not all of them can be written, or there are more than an address space has.
///
/// # Safety
/// Nothing else accesses the bytes that can be written during the call. They may be uninitialized:
/// calls only write to them.
#[inline]
pub(crate) unsafe fn bytes_mut<'a>(at: *mut c_void, count: usize) -> Result<&'a mut [u8], Errno> {
    // SAFETY: as the caller promises.
    unsafe { bytes_mut_probed(at, count, count) }
}

/// Returns the bytes that a call writes, like [`bytes_mut`], but probes only the first `probed`.
/// The call writes to no others.
///
/// # Errors
/// Errors of [`bytes_mut`].
///
/// # Safety
/// The conditions of [`bytes_mut`] hold.
#[inline]
pub(crate) unsafe fn bytes_mut_probed<'a>(
    at: *mut c_void,
    count: usize,
    probed: usize,
) -> Result<&'a mut [u8], Errno> {
    let count = transferable(at, count)?;
    let probed = probed.min(count);
    if probed == 0 {
        // There is nothing to write, wherever the buffer is.
        return Ok(&mut []);
    }
    // SAFETY: as the caller promises.
    if unsafe { writable_prefix(at, probed) } < probed {
        return Err(Errno::EFAULT);
    }
    // SAFETY: they can be written; the rest as the caller promises.
    Ok(unsafe { slice::from_raw_parts_mut(at.cast(), count) })
}

/// Returns how many bytes from `at` on can be read, at most `count`.
pub(crate) fn readable_prefix(at: *const c_void, count: usize) -> usize {
    if count == 0 || check(at.cast::<u8>(), count).is_err() {
        return 0;
    }
    faults::readable(at.cast(), count)
}

/// Returns how many bytes from `at` on can be written, at most `count`.
///
/// # Safety
/// As for [`bytes_mut`].
#[inline]
pub(crate) unsafe fn writable_prefix(at: *mut c_void, count: usize) -> usize {
    if count == 0 || check(at.cast::<u8>(), count).is_err() {
        return 0;
    }
    // SAFETY: as the caller promises.
    unsafe { faults::writable(at.cast(), count) }
}

/// Copies an array of the caller. It may be unaligned.
///
/// # Errors
/// `EFAULT`; `ENOMEM`.
///
/// # Safety
/// Memory that can be read from `at` on holds valid values of `T`.
pub(crate) unsafe fn values<T: Copy>(at: *const T, count: usize) -> Result<Vec<T>, Errno> {
    if count == 0 {
        return Ok(Vec::new());
    }
    check(at, count)?;
    let mut values = vec_with_capacity::<T>(count)?;
    let (to, bytes) = (values.as_mut_ptr().cast(), count * size_of::<T>());
    // SAFETY: the vector has room for them, and `check` has seen that the length does not overflow.
    unsafe { faults::copy(to, at.cast(), bytes) }?;
    // SAFETY: the copy has initialized them; valid as the caller promises.
    unsafe { values.set_len(count) };
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
/// `EFAULT`; `ENAMETOOLONG` if it has more than 4,095 bytes.
///
/// # Safety
/// Memory that can be read from `at` on does not change during the call.
#[inline]
pub(crate) unsafe fn string<'a>(at: *const c_char) -> Result<&'a CStr, Errno> {
    // SAFETY: as the caller promises.
    unsafe { string_below(at, libc::PATH_MAX as usize) }?.ok_or(Errno::ENAMETOOLONG)
}

/// Returns a string of the caller, or `None` if there is no terminator in the first `limit` bytes.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// As for [`string`].
#[inline]
pub(crate) unsafe fn string_below<'a>(
    at: *const c_char,
    limit: usize,
) -> Result<Option<&'a CStr>, Errno> {
    check(at, 1)?;
    let mut length = 0;
    // One page after the other: the string may end before memory that cannot be accessed.
    while length < limit {
        let next = at.wrapping_add(length);
        let here = (PAGE - next.addr() % PAGE).min(limit - length);
        if faults::readable(next.cast(), here) < here {
            return Err(Errno::EFAULT);
        }
        // SAFETY: these bytes can be read.
        let found = unsafe { libc::strnlen(next, here) };
        length += found;
        if found < here {
            // SAFETY: all of them can be read, and the terminator follows.
            let bytes = unsafe { slice::from_raw_parts(at.cast::<u8>(), length + 1) };
            // SAFETY: as `strnlen` found; the bytes do not change, as the caller promises.
            return Ok(Some(unsafe { CStr::from_bytes_with_nul_unchecked(bytes) }));
        }
    }
    Ok(None)
}

/// Reads a value.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// If the memory at `at` can be read, it holds a valid `T`.
#[inline]
pub(crate) unsafe fn get<T: Copy>(at: *const T) -> Result<T, Errno> {
    check(at, 1)?;
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: there is room for the value.
    unsafe { faults::copy(value.as_mut_ptr().cast(), at.cast(), size_of::<T>()) }?;
    // SAFETY: the copy has initialized it; valid as the caller promises.
    Ok(unsafe { value.assume_init() })
}

/// Reads an optional value: null means none.
///
/// # Errors
/// `EFAULT` if `at` is not null and cannot be read.
///
/// # Safety
/// As for [`get`].
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
/// If `at` can be written, there is room for a `T`.
#[inline]
pub(crate) unsafe fn put<T: Copy>(at: *mut T, value: T) -> Result<(), Errno> {
    check(at, 1)?;
    // SAFETY: as the caller promises; the source is a value.
    unsafe { faults::copy(at.cast(), (&raw const value).cast(), size_of::<T>()) }
}

/// Writes bytes.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// If `at` can be written, there is room for the bytes.
pub(crate) unsafe fn put_bytes(at: *mut c_void, bytes: &[u8]) -> Result<(), Errno> {
    if bytes.is_empty() {
        return Ok(());
    }
    check(at.cast::<u8>(), bytes.len())?;
    // SAFETY: as the caller promises; the source is a slice.
    unsafe { faults::copy(at.cast(), bytes.as_ptr(), bytes.len()) }
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
    // Check the whole length, not only the part that one transfer moves.
    check_range_end(at.cast::<u8>(), count)?;
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
