//! The entry and exit of every call: errno, panics, and forks of the host process.
//!
//! A call runs inside the [freezer](host_fork). A fork of the host process by another thread
//! waits until the call ends or sleeps.

use std::ffi::{c_int, c_long};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fdtable::host_fork;
use fdtable_vfs::Errno;

use crate::abi::system::{System, system};
use crate::host;
use crate::process::keeper::end_of_call;

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

/// Runs a body inside the freezer. A panic becomes an error.
#[inline(always)]
pub(crate) fn guarded<R>(body: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    let inside = || {
        let _inside = (host_fork::enter(), fdtable_shm::enter());
        body()
    };
    let result = match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(result) => result,
        Err(panic) => Err(forget(panic)),
    };
    end_of_call();
    result
}

type Panic = Box<dyn std::any::Any + Send>;

/// Leaks the payload of a panic, because dropping it could panic again.
#[cold]
fn forget(panic: Panic) -> Errno {
    mem::forget(panic);
    Errno::EIO
}
