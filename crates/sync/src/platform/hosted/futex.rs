//! Sleep on a word, and the wake-up: `futex(2)`. `errno` is preserved.

use core::ptr;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use crate::platform::shared::is_shared;

/// A time that does not end: 30 years.
pub const AGES: Duration = Duration::from_secs(1_000_000_000);

/// Returns the flag of a word that no other process can have. `FUTEX2_PRIVATE` of the kernel is the
/// same.
#[must_use]
pub fn scope() -> libc::c_int {
    if is_shared() {
        0
    } else {
        libc::FUTEX_PRIVATE_FLAG
    }
}

/// Sleeps while the word has this value, at most for a time. Returns the error, or 0.
pub fn wait(word: &AtomicU32, value: u32, time: Option<Duration>) -> libc::c_int {
    let limit = time.map(timespec);
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let operation = libc::FUTEX_WAIT | scope();
    // SAFETY: the word is alive during the call, and the limit is null or a valid time.
    keeping_errno(|| unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, limit)
    })
}

/// Wakes so many threads that sleep on the word.
pub fn wake(word: &AtomicU32, count: i32) {
    let operation = libc::FUTEX_WAKE | scope();
    // SAFETY: the call only compares the address of the word.
    keeping_errno(|| unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, count) });
}

/// Converts a time. One that is too long becomes 30 years.
#[must_use]
pub fn timespec(time: Duration) -> libc::timespec {
    let time = time.min(AGES);
    libc::timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: time.subsec_nanos() as libc::c_long,
    }
}

/// Returns the error of a system call, or 0. `errno` stays as it was.
pub fn keeping_errno(call: impl FnOnce() -> libc::c_long) -> libc::c_int {
    // SAFETY: it takes nothing.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the C library keeps one for each thread, for as long as that runs.
    let before = unsafe { errno.read() };
    let failed = call() < 0;
    // SAFETY: as above.
    let error = unsafe { errno.read() };
    // SAFETY: as above.
    unsafe { errno.write(before) };
    if failed { error } else { 0 }
}
