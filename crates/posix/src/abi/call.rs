//! The frame of every call: errno, panics, and forks of the host process.
//!
//! A call runs inside the [freezer](fdtable::freezer), so that a fork of the host process by another
//! thread waits for its end, or for its sleep.

use std::ffi::{c_int, c_long};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fdtable::freezer;
use fdtable_vfs::Errno;

use crate::abi::system::{System, system};

/// Result of a C function, which has a value that says "look at errno".
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

/// Runs the body of a POSIX call. An error goes to errno.
#[inline(always)]
pub(crate) fn call<R: ReturnValue>(body: impl FnOnce(&'static System) -> Result<R, Errno>) -> R {
    with_errno(|| body(system()))
}

/// Runs the body of a call that is not about the process. An error goes to errno.
#[inline(always)]
pub(crate) fn with_errno<R: ReturnValue>(body: impl FnOnce() -> Result<R, Errno>) -> R {
    let answer = guarded(body);
    match answer {
        Ok(answer) => answer,
        Err(errno) => {
            set_errno(errno);
            R::FAILED
        }
    }
}

/// Runs the body of a call that answers the error's number, and leaves errno alone.
pub(crate) fn call_returning_errno(
    body: impl FnOnce(&'static System) -> Result<(), Errno>,
) -> c_int {
    match guarded(|| body(system())) {
        Ok(()) => 0,
        Err(errno) => errno.errno(),
    }
}

/// Runs a body inside the freezer. A panic is an error as others.
#[inline(always)]
pub(crate) fn guarded<R>(body: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    let inside = || {
        let _inside = freezer::enter();
        body()
    };
    match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(answer) => answer,
        Err(panic) => Err(forget(panic)),
    }
}

type Panic = Box<dyn std::any::Any + Send>;

/// Leaks what a panic carries: to drop it could panic again.
#[cold]
fn forget(panic: Panic) -> Errno {
    mem::forget(panic);
    Errno::EIO
}

/// Sets the calling thread's errno.
#[cold]
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the C library keeps one for each thread, for as long as that runs.
    unsafe { *libc::__errno_location() = errno.errno() };
}

/// Returns the calling thread's errno, after a call of the host that has failed.
pub(crate) fn errno() -> Errno {
    // SAFETY: as above.
    Errno::from_raw(unsafe { *libc::__errno_location() })
}
