//! The entry and exit of every C function: the process, and errno.

use std::ffi::{c_int, c_long};

use fdtable_vfs::Errno;

use crate::abi::boot::system;
use crate::abi::guard::guarded;
use crate::abi::system::System;
use crate::host;

/// Return value of a C function. One value means "see errno".
pub(crate) trait ReturnValue {
    const FAILED: Self;
}

impl ReturnValue for c_int {
    const FAILED: Self = -1;
}

impl ReturnValue for isize {
    const FAILED: Self = -1;
}

impl ReturnValue for c_long {
    const FAILED: Self = -1;
}

impl<T> ReturnValue for *mut T {
    const FAILED: Self = std::ptr::null_mut();
}

/// Runs the body of a POSIX call. An error is stored in errno.
#[inline(always)]
pub(crate) fn call<R: ReturnValue>(body: impl FnOnce(&'static System) -> Result<R, Errno>) -> R {
    with_errno(|| body(system()))
}

/// Runs the body of a call that does not use the process. An error is stored in errno.
#[inline(always)]
pub(crate) fn with_errno<R: ReturnValue>(body: impl FnOnce() -> Result<R, Errno>) -> R {
    let result = guarded(body);
    match result {
        Ok(result) => result,
        Err(errno) => {
            host::set_errno(errno);
            R::FAILED
        }
    }
}

/// Runs the body of a call that returns the error number. errno is left unchanged.
pub(crate) fn call_returning_errno(
    body: impl FnOnce(&'static System) -> Result<(), Errno>,
) -> c_int {
    match guarded(|| body(system())) {
        Ok(()) => 0,
        Err(errno) => errno.errno(),
    }
}
