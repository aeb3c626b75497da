//! A lock of one word, for a few instructions at a time.
//!
//! Taking it is one exchange, and releasing it is a plain store: on most CPUs half of what a lock
//! costs that has to look for sleepers at its release. No thread sleeps on this one. A thread that
//! finds it taken keeps away for a while and looks again: twice as long each time, then after
//! yielding its CPU, and at last after a short sleep, so that even a thread of a higher priority
//! lets the holder proceed. (Without `std` it only looks.) So it is for sections of some tens of
//! instructions without a call that could wait or run foreign code, where contention is rare.
//!
//! *Why a waiter keeps away at once, and for longer than a holder takes.* Contention tends to
//! repeat, since both threads work on what the lock guards. Each look takes the line of the lock
//! from the holder, and a waiter that gets the lock at the first chance takes the lines of what it
//! guards too. Then each operation of both threads waits for lines, which takes ten times as long
//! as the operation. A waiter that keeps away lets the other thread do some dozens of operations on
//! lines that it has, and then does as many itself. That costs a microsecond where two threads meet
//! by chance.
//!
//! The word also has a *name* for what it guards. A thread that was led to it by a hint takes the
//! lock under the name that it expects, and so checks the hint in the same step.

mod spin;

pub use spin::{SpinGuard, SpinLock};

use crate::platform::atomic::AtomicU32;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::back_off;

/// Set while a thread holds the lock. The name is in the bits above.
const TAKEN: u32 = 1;

/// What a lock guards: a number below 2^31 that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockTag(u32);

impl LockTag {
    /// Names something by its index.
    #[inline(always)]
    pub const fn of(index: usize) -> Self {
        Self((index as u32) << 1)
    }
}

/// The word of the lock. The guarded value is stored beside it.
#[derive(Debug)]
pub struct RawLock(AtomicU32);

impl RawLock {
    /// Makes a free lock.
    #[cfg(not(loom))]
    pub const fn new(name: LockTag) -> Self {
        Self(AtomicU32::new(name.0))
    }

    /// Makes a free lock.
    #[cfg(loom)]
    pub fn new(name: LockTag) -> Self {
        Self(AtomicU32::new(name.0))
    }

    /// Returns true if this is the lock of that name.
    #[inline(always)]
    pub fn is(&self, name: LockTag) -> bool {
        // Relaxed: the name never changes.
        self.0.load(Relaxed) & !TAKEN == name.0
    }

    /// Waits for the lock and takes it. Its name must be right.
    #[inline(always)]
    pub fn lock(&self, name: LockTag) {
        debug_assert!(self.is(name), "the name is right, so the wait can end");
        if !self.try_lock(name) {
            self.wait(name);
        }
    }

    /// Takes the lock if it is free, and has this name.
    #[inline(always)]
    pub fn try_lock(&self, name: LockTag) -> bool {
        // Acquire: pairs with the release in `unlock`, so this thread sees what the last holder
        // wrote. Relaxed on failure: nothing that is guarded is read.
        self.0
            .compare_exchange(name.0, name.0 | TAKEN, Acquire, Relaxed)
            .is_ok()
    }

    #[cold]
    fn wait(&self, name: LockTag) {
        let mut attempts = 0;
        loop {
            // Relaxed: only a look, so that waiting does not take the line from the holder.
            if self.0.load(Relaxed) == name.0 && self.try_lock(name) {
                return;
            }
            back_off(attempts);
            attempts = attempts.saturating_add(1);
        }
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds it, under this name, and no longer uses what it guards.
    #[inline(always)]
    pub unsafe fn unlock(&self, name: LockTag) {
        // Release: pairs with the acquire in `try_lock`.
        self.0.store(name.0, Release);
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_at_a_time() {
        let name = LockTag::of(7);
        let (lock, inside) = (RawLock::new(name), AtomicUsize::new(0));
        assert!(lock.is(name) && !lock.is(LockTag::of(8)));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        lock.lock(name);
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        // SAFETY: taken above.
                        unsafe { lock.unlock(name) };
                    }
                });
            }
        });
    }
}
