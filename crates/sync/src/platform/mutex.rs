//! The lock of the update side. It sleeps on Linux with `std`. Elsewhere it looks again and again,
//! and yields its CPU in between.

#[cfg(loom)]
mod loom;

#[cfg(loom)]
use loom::Raw;

use super::{YIELDS, relax};

/// The words of the lock.
#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
pub(super) type Raw = super::sleeping::RawMutex<super::sleeping::Registered>;
/// The words of the lock.
#[cfg(not(any(loom, all(feature = "std", target_os = "linux"))))]
pub(super) type Raw = crate::spin::RawSpin;

/// A lock for the update side. It is held for a bounded number of steps and never while a
/// caller's code runs. Not to be waited for inside a read-side section that the holder of the lock
/// may wait for.
pub type Mutex<T> = lock_api::Mutex<Raw, T>;

/// The right to use what a [`Mutex`] guards.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, Raw, T>;

/// Releases the lock if a thread may sleep on it, and takes it again. The guarded value may have
/// changed.
///
/// A thread that only released and took the lock would keep it: the others look for it too
/// rarely to find it free. With `std` this thread yields its CPU in between; another thread may
/// still be first. Where no thread sleeps on locks, it is free briefly, each time.
pub fn let_others<T>(guard: &mut MutexGuard<'_, T>) {
    // SAFETY: the word is only read.
    let raw = unsafe { MutexGuard::mutex(guard).raw() };
    if raw.may_have_sleepers() {
        // A model explores that no other thread runs in between.
        MutexGuard::unlocked(guard, || {
            if !cfg!(loom) {
                relax(if cfg!(feature = "std") { YIELDS } else { 0 });
            }
        });
    }
}
