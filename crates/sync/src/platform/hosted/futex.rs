//! Sleep on a word, and the wake-up: `futex(2)`. `errno` is preserved.

use core::ptr;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use crate::platform::shared::is_shared;

/// A time that does not end: 30 years.
const AGES: Duration = Duration::from_secs(1_000_000_000);

/// Returns the flag of a word that no other process can have. `FUTEX2_PRIVATE` of the kernel is the
/// same.
fn scope() -> libc::c_int {
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

/// Sleeps as [`wait`] does, and returns true if a signal handler has ended that. If `restarts`, the
/// kernel restarts the sleep after a handler with `SA_RESTART`; else every handler ends it.
pub(crate) fn wait_for_handler(
    word: &AtomicU32,
    value: u32,
    time: Option<Duration>,
    restarts: bool,
) -> bool {
    let error = match time {
        None if restarts => wait(word, value, None),
        Some(time) if restarts => match wait_restarted(word, value, time) {
            // An old kernel, or a filter of system calls. Every handler ends the sleep then.
            libc::ENOSYS | libc::EPERM | libc::EACCES | libc::EINVAL => {
                wait(word, value, Some(time))
            }
            error => error,
        },
        time => wait(word, value, time.or(Some(AGES))),
    };
    error == libc::EINTR
}

/// Sleeps at most for a time, without giving that up when a handler restarts the call. Returns the
/// error, or 0.
fn wait_restarted(word: &AtomicU32, value: u32, time: Duration) -> libc::c_int {
    /// `struct futex_waitv` of the kernel.
    #[repr(C)]
    struct Waiter {
        value: u64,
        address: u64,
        flags: u32,
        reserved: u32,
    }
    /// `FUTEX2_SIZE_U32` of the kernel.
    const SIZE_U32: u32 = 2;
    let waiter = Waiter {
        value: value.into(),
        address: word.as_ptr().addr() as u64,
        flags: SIZE_U32 | scope().cast_unsigned(),
        reserved: 0,
    };
    let mut now = timespec(Duration::ZERO);
    // SAFETY: there is room for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    let until = now.saturating_add(time.min(AGES));
    let until = libc::timespec {
        tv_sec: until.as_secs() as _,
        tv_nsec: until.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the word is alive during the call, the waiter and the time are valid.
    keeping_errno(|| unsafe {
        libc::syscall(
            libc::SYS_futex_waitv,
            &raw const waiter,
            1,
            0,
            &raw const until,
            libc::CLOCK_MONOTONIC,
        )
    })
}

/// Converts a time. One that is too long becomes 30 years.
fn timespec(time: Duration) -> libc::timespec {
    let time = time.min(AGES);
    libc::timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: time.subsec_nanos() as libc::c_long,
    }
}

/// Returns the error of a system call, or 0. `errno` stays as it was.
fn keeping_errno(call: impl FnOnce() -> libc::c_long) -> libc::c_int {
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
