//! Files and directories with unique names: `mkstemp`, `mkdtemp` and their variants.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use fdtable_vfs::Errno;

use crate::abi::call::{call, errno};
use crate::abi::uaccess;
use crate::fs::names::fdt_mkdir;
use crate::fs::open::fdt_open;
use crate::host;

/// Creates and opens a file, replacing the final `XXXXXX` of the template: `mkstemp(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mkstemp(template: *mut c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_mkostemps(template, 0, 0) }
}

/// Like `mkstemp`, with flags: `mkostemp(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mkostemp(template: *mut c_char, flags: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_mkostemps(template, 0, flags) }
}

/// Like `mkstemp`, with `suffix` bytes after the `XXXXXX`: `mkstemps(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mkstemps(template: *mut c_char, suffix: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_mkostemps(template, suffix, 0) }
}

/// Like `mkstemps`, with flags: `mkostemps(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mkostemps(
    template: *mut c_char,
    suffix: c_int,
    flags: c_int,
) -> c_int {
    let flags = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    // SAFETY: as the caller promises; each name that is tried is a C string.
    call(|_| unsafe { try_names(template, suffix, |path| fdt_open(path, flags, 0o600)) })
}

/// Creates a directory, replacing the final `XXXXXX` of the template: `mkdtemp(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mkdtemp(template: *mut c_char) -> *mut c_char {
    // SAFETY: as above.
    let result = call(|_| unsafe { try_names(template, 0, |path| fdt_mkdir(path, 0o700)) });
    if result < 0 {
        ptr::null_mut()
    } else {
        template
    }
}

/// Letters of a name.
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Maximum number of names that are tried, as in glibc.
const TMP_MAX: usize = 62 * 62 * 62;

/// Tries names until one is free.
///
/// # Errors
/// `EINVAL` if the template does not have the six letters; `EEXIST` if all names exist; those of
/// `make`.
///
/// # Safety
/// If `template` can be an address, a C string is there, and nothing else accesses it during the
/// call.
unsafe fn try_names(
    template: *mut c_char,
    suffix: c_int,
    mut make: impl FnMut(*const c_char) -> c_int,
) -> Result<c_int, Errno> {
    // SAFETY: as the caller promises.
    let length = unsafe { uaccess::string(template) }.map(CStr::count_bytes)?;
    let suffix = usize::try_from(suffix).map_err(|_| Errno::EINVAL)?;
    let start = length
        .checked_sub(suffix)
        .and_then(|end| end.checked_sub(6));
    let start = start.ok_or(Errno::EINVAL)?;
    // SAFETY: as the caller promises; the six letters are within the string.
    let letters = unsafe { uaccess::bytes_mut(template.add(start).cast(), 6) }?;
    if letters != b"XXXXXX" {
        return Err(Errno::EINVAL);
    }
    for _ in 0..TMP_MAX {
        let mut random = host::random();
        for letter in letters.iter_mut() {
            *letter = LETTERS[(random % 62) as usize];
            random /= 62;
        }
        let result = make(template);
        if result >= 0 {
            return Ok(result);
        }
        if errno() != Errno::EEXIST {
            return Err(errno());
        }
    }
    Err(Errno::EEXIST)
}
