//! Pipes: `pipe` and `pipe2`.

use std::ffi::c_int;

use fdtable::Fd;
use fdtable_vfs::{Errno, OpenFlags};

use crate::abi::call::call;
use crate::abi::system::System;
use crate::abi::uaccess;

/// Creates a pipe: `pipe(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_pipe(fds: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_pipe2(fds, 0) }
}

/// Creates a pipe with flags: `pipe2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_pipe2(fds: *mut c_int, flags: c_int) -> c_int {
    call(|system| {
        let flags = OpenFlags::from_bits_retain(flags.cast_unsigned());
        uaccess::check(fds, 2)?;
        let pair = system.process.pipe2(flags)?;
        // SAFETY: as the caller promises.
        unsafe { put_pair(system, fds, pair) }
    })
}

/// Writes two new descriptors to the caller, or closes them if that fails.
///
/// # Safety
/// If `fds` can be an address, there is room for two.
pub(crate) unsafe fn put_pair(
    system: &System,
    fds: *mut c_int,
    (one, other): (Fd, Fd),
) -> Result<(), Errno> {
    // SAFETY: as the caller promises.
    let written = unsafe { uaccess::put(fds.cast(), [one.raw(), other.raw()]) };
    written.inspect_err(|_| {
        for fd in [one, other] {
            // The descriptor was not returned yet, so the program has not closed it.
            let _ = system.process.close(fd);
        }
    })
}
