//! The lock of the update side. It sleeps on Linux with `std`. Elsewhere it looks again and again,
//! and yields its CPU in between.

use super::const_fn;
#[cfg(all(not(loom), feature = "std", target_os = "linux"))]
use super::sleeping::{self, Mutex as Raw, MutexGuard as RawGuard};
#[cfg(not(loom))]
use super::{LONG, WAITS, keep_away};
#[cfg(all(not(loom), not(all(feature = "std", target_os = "linux"))))]
use crate::spin::{SpinGuard as RawGuard, SpinLock as Raw};
#[cfg(loom)]
use loom::sync::{Mutex as Raw, MutexGuard as RawGuard};

/// A lock for the update side. It is held for a bounded number of steps and never while a
/// caller's code runs.
pub struct Mutex<T>(Raw<T>);

/// The right to use what a [`Mutex`] guards.
pub struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    /// Absent only inside [`MutexGuard::let_others`].
    raw: Option<RawGuard<'a, T>>,
}

/// Panic message of a guard that is used inside of its own method.
const HELD: &str = "the lock is held outside of let_others";

impl<T> MutexGuard<'_, T> {
    /// Releases the lock if a thread may sleep on it, and takes it again. The guarded value may
    /// have changed.
    ///
    /// A thread that only released and took the lock would keep it: the others look for it too
    /// rarely to find it free. With `std` this thread yields its CPU in between, where one may
    /// sleep; another thread may still be first. Without `std` it is free briefly, each time.
    pub fn let_others(&mut self) {
        #[cfg(all(not(loom), feature = "std", target_os = "linux"))]
        if !sleeping::may_have_sleepers(&self.lock.0) {
            return;
        }
        self.raw = None;
        #[cfg(all(not(loom), feature = "std"))]
        std::thread::yield_now();
        #[cfg(all(not(loom), not(feature = "std")))]
        super::relax(0);
        self.raw = self.lock.lock().raw.take();
    }
}

impl<T> core::ops::Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.raw.as_ref().expect(HELD)
    }
}

impl<T> core::ops::DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.raw.as_mut().expect(HELD)
    }
}

impl<T> Mutex<T> {
    const_fn! {
        /// Makes an unlocked lock around `value`.
        pub fn new(value: T) -> Self {
            Self(Raw::new(value))
        }
    }

    /// Waits for the lock and takes it. May sleep; never call it inside a read-side section
    /// that the holder of the lock may wait for.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(loom)]
        return self.guard(
            self.0
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
        #[cfg(not(loom))]
        return self.try_lock().unwrap_or_else(|| self.wait());
    }

    /// Keeps away a few times before it sleeps. A holder nearly always runs on, and is done before
    /// this thread could be suspended and woken. And where more threads run than there are CPUs, a
    /// thread that yields its CPU at each contention waits for all others. The first wait is longer
    /// than for a lock of one word, since a search takes longer than a change in a leaf.
    #[cfg(not(loom))]
    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        for attempts in LONG..WAITS {
            keep_away(attempts);
            if let Some(guard) = self.try_lock() {
                return guard;
            }
        }
        self.guard(self.0.lock())
    }

    /// Takes the lock if no thread holds it. Never waits.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(loom)]
        return self.0.try_lock().ok().map(|raw| self.guard(raw));
        #[cfg(not(loom))]
        return self.0.try_lock().map(|raw| self.guard(raw));
    }

    #[inline]
    fn guard<'a>(&'a self, raw: RawGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            lock: self,
            raw: Some(raw),
        }
    }

    /// Borrows the value. No other thread can, as `self` is borrowed exclusively.
    pub fn get_mut(&mut self) -> &mut T {
        #[cfg(loom)]
        return self
            .0
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        #[cfg(not(loom))]
        return self.0.get_mut();
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}
