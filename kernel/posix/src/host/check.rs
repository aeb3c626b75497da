//! The steps around a call of the C library: errno, cancellation, and the freezer.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use fdtable::host_fork;
use fdtable_vfs::Errno;

/// Converts a return value of the C library to a result.
pub(crate) fn check<N: Copy + PartialEq + From<i8>>(result: N) -> Result<N, Errno> {
    if result == N::from(-1) {
        return Err(errno());
    }
    Ok(result)
}

/// Like [`check`], of a call that returns 0 on success.
pub(crate) fn done<N: Copy + PartialEq + From<i8>>(result: N) -> Result<(), Errno> {
    check(result).map(drop)
}

/// Returns the value that a call stores, if it succeeds.
///
/// # Safety
/// The call takes the address of a `T`, and stores one there unless it returns -1.
pub(crate) unsafe fn stored<T>(call: impl FnOnce(*mut T) -> c_int) -> Result<T, Errno> {
    let mut place = MaybeUninit::zeroed();
    check(call(place.as_mut_ptr()))?;
    // SAFETY: as the caller promises.
    Ok(unsafe { place.assume_init() })
}

/// Runs a call that may block. Reads errno before entering the freezer again, which may change
/// errno.
pub(crate) fn blocking<R>(call: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    let _out = host_fork::blocking_section();
    without_cancellation(call)
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// State that the `libc` crate does not define.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Runs a call of the C library with thread cancellation disabled. A thread that is cancelled in
/// the call would unwind through functions of this library, which aborts the process.
pub(crate) fn without_cancellation<R>(call: impl FnOnce() -> R) -> R {
    let mut before = 0;
    // SAFETY: there is room for the previous state.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
    let result = call();
    // SAFETY: it restores the previous state.
    unsafe { pthread_setcancelstate(before, &raw mut before) };
    result
}

/// Sets errno of the calling thread.
#[cold]
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the C library keeps one errno for each thread, valid while the thread runs.
    unsafe { *libc::__errno_location() = errno.errno() };
}

/// Returns errno of the calling thread, after a host call that failed.
pub(crate) fn errno() -> Errno {
    // SAFETY: as above.
    Errno::from_raw(unsafe { *libc::__errno_location() })
}
