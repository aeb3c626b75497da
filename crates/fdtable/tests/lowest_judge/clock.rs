//! Stamps of one round.
//!
//! *Why there is a fence at both ends.* A store may wait in the store buffer when the call that
//! made it has returned. The fence before the stamp of the end drains it, so what the call did is
//! visible to all CPUs at the stamp. A load may run before an instruction that reads the counter;
//! the fence after the stamp of the start keeps it back. Both are outside of the call: within it,
//! loads and stores are reordered as in a program.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;
use std::time::Instant;

/// How far a stamp may be off. On x86-64 the fences make it exact, and the kernel uses the counter
/// only where it agrees on all CPUs. Elsewhere a fence need not wait for what it orders.
const DOUBT: u64 = if cfg!(target_arch = "x86_64") {
    0
} else {
    1000
};

/// Nanoseconds since the round began, from 1 on.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    fn read(self) -> u64 {
        self.origin.elapsed().as_nanos() as u64 + 1
    }

    /// Returns a moment before everything that follows in this thread.
    #[inline(always)]
    pub(crate) fn start(self) -> u64 {
        let now = self.read();
        fence(SeqCst);
        now
    }

    /// Returns a moment after everything that this thread has done, when all CPUs see it.
    #[inline(always)]
    pub(crate) fn end(self) -> u64 {
        fence(SeqCst);
        // The nanosecond that was read is not over yet.
        self.read() + 1 + DOUBT
    }
}
