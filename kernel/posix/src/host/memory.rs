//! Memory of the host.

use std::ffi::{c_int, c_void};

use fdtable_vfs::Errno;

use super::check::{check, check_pointer, errno};
use super::process::sysconf;

/// Maps anonymous memory.
pub(crate) fn map_anonymous(
    at: *mut c_void,
    length: usize,
    flags: c_int,
) -> Result<*mut c_void, Errno> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = flags & !libc::MAP_SHARED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the program chose the address, as with the host's own `mmap`.
    let place = unsafe { libc::mmap(at, length, protection, flags, -1, 0) };
    if place == libc::MAP_FAILED {
        return Err(errno());
    }
    Ok(place)
}

/// Sets the protection of memory.
pub(crate) fn protect(at: *mut c_void, length: usize, protection: c_int) -> Result<(), Errno> {
    // SAFETY: the memory was mapped for this purpose.
    check(unsafe { libc::mprotect(at, length, protection) }).map(drop)
}

/// Unmaps memory.
pub(crate) fn unmap(at: *mut c_void, length: usize) {
    // SAFETY: this library mapped it, and nothing else uses it.
    unsafe { libc::munmap(at, length) };
}

/// Allocates memory with `malloc`, for the program to free.
pub(crate) fn allocate(size: usize) -> Result<*mut c_void, Errno> {
    // SAFETY: any size is valid.
    check_pointer(unsafe { libc::malloc(size) })
}

/// Frees memory of `malloc`.
pub(crate) fn free(place: *mut c_void) {
    // SAFETY: `allocate` returned it, and nothing else uses it.
    unsafe { libc::free(place) };
}

/// Returns the page size.
pub(crate) fn page_size() -> i64 {
    sysconf(libc::_SC_PAGESIZE)
}

/// Returns half of the host's memory in bytes: the limit of a `tmpfs` of the host.
pub(crate) fn half_of_memory() -> u64 {
    let pages = sysconf(libc::_SC_PHYS_PAGES).max(0).cast_unsigned();
    pages.saturating_mul(page_size().cast_unsigned()) / 2
}
