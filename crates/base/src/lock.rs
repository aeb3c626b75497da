//! A lock of one word, for a few instructions at a time.
//!
//! Taking it is one exchange, and giving it back is a plain store: on most processors half of
//! what a lock costs that has to look for sleepers when it is given back. Nobody sleeps on this
//! one. Who finds it taken looks again: at first at once, then after giving its processor away,
//! and at last after a short sleep, so that even a thread of a higher priority lets the holder
//! go on. So it is for sections of some tens of instructions without a call that could wait or
//! run foreign code, where meeting another thread is rare.

use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::relax;

const FREE: u32 = 0;
const TAKEN: u32 = 1;

/// The word of the lock. What it guards stands beside it.
#[derive(Debug)]
pub(crate) struct RawLock(AtomicU32);

impl RawLock {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Waits for the lock and takes it.
    #[inline(always)]
    pub(crate) fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the release in `unlock`; what the last holder wrote is seen.
        // Relaxed on failure: nothing that is guarded is looked at.
        self.0
            .compare_exchange(FREE, TAKEN, Acquire, Relaxed)
            .is_ok()
    }

    #[cold]
    fn wait(&self) {
        let mut attempts = 0;
        loop {
            // Relaxed: a look, so that waiting does not take the line from the holder.
            if self.0.load(Relaxed) == FREE && self.try_lock() {
                return;
            }
            relax(attempts);
            attempts = attempts.saturating_add(1);
        }
    }

    /// Gives the lock back. For the holder alone.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        // Release: pairs with the acquire in `try_lock`.
        self.0.store(FREE, Release);
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_at_a_time() {
        let (lock, inside) = (RawLock::new(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        lock.lock();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        lock.unlock();
                    }
                });
            }
        });
    }
}
