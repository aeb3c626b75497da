//! A spin lock: a value under a [lock of one word](crate::lock).

use crate::lock::{LockTag, RawLock};

/// A lock in a `SpinLock` is found by its place, so it needs no tag of its own.
const TAG: LockTag = LockTag::of(0);

/// A value that one thread at a time may use, for a few instructions: the lock is a [`RawLock`].
pub type SpinLock<T> = lock_api::Mutex<RawSpin, T>;

/// The right to use the value. The lock is held until this is dropped.
pub type SpinGuard<'l, T> = lock_api::MutexGuard<'l, RawSpin, T>;

/// The word of a [`SpinLock`].
#[derive(Debug)]
pub struct RawSpin(RawLock);

impl RawSpin {
    /// Returns true: the lock does not know whether a thread waits for it.
    pub fn may_have_sleepers(&self) -> bool {
        true
    }
}

// SAFETY: a `RawLock` has one holder.
unsafe impl lock_api::RawMutex for RawSpin {
    const INIT: Self = Self(RawLock::new(TAG));

    // A lock is released on the thread that took it.
    type GuardMarker = lock_api::GuardNoSend;

    #[inline(always)]
    fn lock(&self) {
        self.0.lock(TAG);
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        self.0.try_lock(TAG)
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.0.unlock(TAG) };
    }
}
