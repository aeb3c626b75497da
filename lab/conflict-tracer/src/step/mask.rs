//! The mask of signals: a thread that blocks `SIGTRAP` would be killed by its first step.

use std::io;
use std::mem::MaybeUninit;

use crate::error::Error;

/// Guard during which the thread does not block `SIGTRAP`.
pub(super) struct Unblocked {
    was_blocked: bool,
}

impl Unblocked {
    /// Unblocks it.
    pub(super) fn new() -> Result<Self, Error> {
        let former = change(libc::SIG_UNBLOCK)?;
        // SAFETY: `former` is a set of signals.
        let blocked = unsafe { libc::sigismember(&raw const former, libc::SIGTRAP) };
        Ok(Self {
            was_blocked: blocked == 1,
        })
    }
}

impl Drop for Unblocked {
    fn drop(&mut self) {
        if self.was_blocked {
            // The same change succeeded before.
            let _ = change(libc::SIG_BLOCK);
        }
    }
}

/// Blocks or unblocks `SIGTRAP` for this thread, and returns what it blocked before.
fn change(how: libc::c_int) -> Result<libc::sigset_t, Error> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: a valid place.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set was made by the line above.
    unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGTRAP) };
    let mut former = MaybeUninit::uninit();
    // SAFETY: as above, and a valid place.
    let errno = unsafe { libc::pthread_sigmask(how, set.as_ptr(), former.as_mut_ptr()) };
    if errno != 0 {
        let error = io::Error::from_raw_os_error(errno);
        return Err(Error::System("pthread_sigmask", error));
    }
    // SAFETY: the call succeeded and wrote it.
    Ok(unsafe { former.assume_init() })
}
