//! Sleep on a word that handlers interrupt: `futex(2)` and `futex_waitv(2)`. `errno` is preserved.

use core::sync::atomic::AtomicU32;
use core::time::Duration;

use fdtable_sync::platform::futex::{self, AGES, keeping_errno, scope, timespec};

use super::Restart;

/// Sleeps as [`futex::wait`] does, and returns true if a signal handler has ended that.
pub(super) fn wait(word: &AtomicU32, value: u32, time: Option<Duration>, restart: Restart) -> bool {
    let error = match (restart, time) {
        (Restart::Allowed, None) => futex::wait(word, value, None),
        (Restart::Allowed, Some(time)) => match wait_restarted(word, value, time) {
            // An old kernel, or a filter of system calls. Every handler ends the sleep then.
            libc::ENOSYS | libc::EPERM | libc::EACCES | libc::EINVAL => {
                futex::wait(word, value, Some(time))
            }
            error => error,
        },
        (Restart::Never, time) => futex::wait(word, value, time.or(Some(AGES))),
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
