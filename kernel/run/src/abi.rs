//! Words of system calls, calls of the host, and their results.

use std::ffi::c_void;
use std::ptr;

pub(crate) use fdtable_posix::runner::exchange_mask;
use fdtable_posix::runner::host_call;

/// Calls a function of the C interface with words of a system call, of which the kernel uses as
/// many bytes as the parameters have. Returns what the guest gets.
macro_rules! call {
    ($function:ident($($word:expr),*)) => {{
        // SAFETY: the guest's own call, with what it passed.
        #[allow(unused_unsafe, reason = "some functions take no pointer")]
        #[allow(clippy::unnecessary_cast, reason = "some are words already")]
        let result = unsafe { $function($($word as _),*) as i64 };
        $crate::abi::result_of(result)
    }};
}

pub(crate) use call;

/// Converts a result of the C interface, where -1 means that `errno` says why.
pub(crate) fn checked(result: i64) -> Result<i64, i32> {
    match result {
        -1 => Err(errno()),
        result => Ok(result),
    }
}

/// Converts the address that a mapping returns.
pub(crate) fn checked_address(place: *mut c_void) -> Result<u64, i32> {
    if place == libc::MAP_FAILED {
        return Err(errno());
    }
    Ok(place.expose_provenance() as u64)
}

/// Returns the error of the last call of a C function.
pub(crate) fn errno() -> i32 {
    // SAFETY: the C library has one for each thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the error of the calling thread, to what it was before a handler.
pub(crate) fn set_errno(errno: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno }
}

/// Returns what the guest gets for the result of a C function.
pub(crate) fn result_of(result: i64) -> i64 {
    answer(checked(result))
}

/// Returns what the guest gets for a result.
pub(crate) fn answer(result: Result<i64, i32>) -> i64 {
    result.unwrap_or_else(|errno| -i64::from(errno))
}

/// Makes a call of the host that does not block.
pub(crate) fn host_now(number: i64, a: [i64; 6]) -> i64 {
    let [a, b, c, d, e, f] = a;
    // SAFETY: the guest's own call with what it passed, or a call of the runner's own.
    result_of(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}

/// Makes a call of the guest that neither the runner nor a function of the C interface serves.
pub(crate) fn on_host(number: i64, a: [i64; 6]) -> i64 {
    // SAFETY: the guest's own call, with what it passed.
    result_of(unsafe { host_call(number, a) })
}

/// Returns true if the result of a call that returns an address is an error.
pub(crate) fn is_error(result: i64) -> bool {
    (-4095..0).contains(&result)
}

/// Returns the address of a value, for the host.
pub(crate) fn address_of<T>(value: &T) -> i64 {
    ptr::from_ref(value).expose_provenance() as i64
}

/// Returns the id of this process.
pub(crate) fn process_id() -> i32 {
    // SAFETY: it takes nothing.
    unsafe { libc::getpid() }
}

/// Returns the id of the calling thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: it takes nothing.
    unsafe { libc::gettid() }
}
