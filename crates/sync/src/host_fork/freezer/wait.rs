//! Waits for bits of a word to be cleared.
//!
//! On Linux it uses `futex(2)`, which keeps the waiting threads in the kernel: a child of a fork
//! has none of them in its memory.

use crate::platform::atomic::AtomicU32;
use crate::platform::atomic::Ordering::Relaxed;

/// Waits until none of `bits` is set. They may be set again at once.
#[cold]
pub(super) fn until_clear(word: &AtomicU32, bits: u32) {
    let mut attempts = 0;
    loop {
        // Relaxed: only a look. A thread that has waited looks again, with an ordering.
        let now = word.load(Relaxed);
        if now & bits == 0 {
            return;
        }
        sleep(word, now, attempts);
        attempts = attempts.saturating_add(1);
    }
}

/// Sleeps until [`wake_all`], if the word is still `now`; may also return spuriously. Preserves
/// `errno`: the caller may be a signal handler, or step in after a call of the host whose error has
/// not been read yet.
#[cfg(all(target_os = "linux", not(loom)))]
fn sleep(word: &AtomicU32, now: u32, _attempts: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let forever = core::ptr::null::<libc::timespec>();
    // SAFETY: it takes nothing.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the C library keeps one for each thread, for as long as that runs.
    let before = unsafe { errno.read() };
    // SAFETY: the word is alive during the call, and the timeout is null.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, now, forever) };
    // SAFETY: as above.
    unsafe { errno.write(before) };
}

/// Wakes all threads that wait for the word to change.
#[cfg(all(target_os = "linux", not(loom)))]
pub(super) fn wake_all(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is alive during the call, which only compares its address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, i32::MAX) };
}

/// Sleeps briefly.
#[cfg(any(not(target_os = "linux"), loom))]
fn sleep(_word: &AtomicU32, _now: u32, attempts: u32) {
    crate::platform::relax(attempts);
}

/// Does nothing: every sleep is short.
#[cfg(any(not(target_os = "linux"), loom))]
pub(super) fn wake_all(_word: &AtomicU32) {}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::*;
    use std::io::Error;

    /// A signal handler enters, or a thread steps in after a call of the host that has failed.
    #[test]
    fn an_error_of_the_host_is_there_after_a_wait() {
        let word = AtomicU32::new(1);
        // SAFETY: no descriptor has this number.
        unsafe { libc::close(-1) };
        // The kernel answers `EAGAIN`.
        sleep(&word, 2, 0);
        assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::EBADF));
    }
}
