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
//! The word also has a *tag* for what it guards. A thread that found it by a hint takes the lock
//! with the tag that it expects, and so checks the hint in the same step. The holder may change the
//! tag.

use crate::platform::atomic::AtomicU32;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::{back_off, const_fn, enter_lock, leave_lock};

/// Set while a thread holds the lock. The tag is in the bits above.
const TAKEN: u32 = 1;

/// Identifies what a lock guards: an index below 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockTag(u32);

impl LockTag {
    /// Makes the tag of an index.
    #[inline(always)]
    pub const fn of(index: usize) -> Self {
        Self((index as u32) << 1)
    }

    /// Returns the index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        (self.0 >> 1) as usize
    }
}

/// The word of the lock. The guarded value is stored beside it: code that accesses the value is
/// unsafe, and has to hold the lock.
#[derive(Debug)]
pub struct RawLock(AtomicU32);

impl RawLock {
    const_fn! {
        /// Makes a free lock.
        pub fn new(tag: LockTag) -> Self {
            Self(AtomicU32::new(tag.0))
        }
    }

    /// Makes a lock that is taken until its maker [releases](Self::unlock_inner) it.
    #[must_use]
    pub fn new_taken(tag: LockTag) -> Self {
        Self(AtomicU32::new(tag.0 | TAKEN))
    }

    /// Returns the tag. A hint, unless the caller keeps it from being changed.
    #[inline(always)]
    pub fn tag(&self) -> LockTag {
        // Relaxed: what the tag says is there only for a thread that takes the lock with it.
        LockTag(self.0.load(Relaxed) & !TAKEN)
    }

    /// Waits for the lock and takes it. The tag must be the lock's own: with another one this waits
    /// forever. The lock stays taken until [`unlock`](Self::unlock).
    #[inline(always)]
    pub fn lock(&self, tag: LockTag) {
        debug_assert_eq!(self.tag(), tag, "the tag is right, so the wait can end");
        if !self.try_lock(tag) {
            self.wait(|| self.try_lock(tag), tag);
        }
    }

    /// Takes the lock if it is free, and has this tag. Never waits.
    #[inline(always)]
    pub fn try_lock(&self, tag: LockTag) -> bool {
        // Before the lock is taken: its holder keeps its CPU.
        enter_lock();
        let taken = self.try_lock_inner(tag);
        if !taken {
            // SAFETY: entered above.
            unsafe { leave_lock() };
        }
        taken
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds it, with this tag, by [`lock`](Self::lock) or [`try_lock`](Self::try_lock),
    /// and no longer uses what it guards.
    #[inline(always)]
    pub unsafe fn unlock(&self, tag: LockTag) {
        // SAFETY: as the caller promises.
        unsafe { self.unlock_inner(tag) };
        // SAFETY: entered when the lock was taken.
        unsafe { leave_lock() };
    }

    /// Takes the lock as [`lock`](Self::lock) does, inside of another one, which keeps the CPU for
    /// the holder of both.
    #[inline(always)]
    pub fn lock_inner(&self, tag: LockTag) {
        debug_assert_eq!(self.tag(), tag, "the tag is right, so the wait can end");
        if !self.try_lock_inner(tag) {
            self.wait(|| self.try_lock_inner(tag), tag);
        }
    }

    /// Takes the lock as [`try_lock`](Self::try_lock) does, inside of another one.
    #[inline(always)]
    pub fn try_lock_inner(&self, tag: LockTag) -> bool {
        // Acquire: pairs with the release in `unlock_inner`, so this thread sees what the last
        // holder wrote. Relaxed on failure: nothing that is guarded is read.
        self.0
            .compare_exchange(tag.0, tag.0 | TAKEN, Acquire, Relaxed)
            .is_ok()
    }

    #[cold]
    fn wait(&self, try_lock: impl Fn() -> bool, tag: LockTag) {
        let mut attempts = 0;
        loop {
            // Relaxed: only a look, so that waiting does not take the line from the holder.
            if self.0.load(Relaxed) == tag.0 && try_lock() {
                return;
            }
            back_off(attempts);
            attempts = attempts.saturating_add(1);
        }
    }

    /// Changes the tag, for the holder.
    ///
    /// # Safety
    /// The caller holds the lock, and no thread waits for it with another tag.
    pub unsafe fn set_tag(&self, tag: LockTag) {
        // Relaxed: the release of the lock publishes it.
        self.0.store(tag.0 | TAKEN, Relaxed);
    }

    /// Releases a lock that was taken inside of another one. It has this tag from then on.
    ///
    /// # Safety
    /// The caller holds it by [`lock_inner`](Self::lock_inner),
    /// [`try_lock_inner`](Self::try_lock_inner) or [`new_taken`](Self::new_taken), and no longer
    /// uses what it guards. If the tag is another one, no thread waits for it with the one before.
    #[inline(always)]
    pub unsafe fn unlock_inner(&self, tag: LockTag) {
        // Release: pairs with the acquire in `try_lock_inner`.
        self.0.store(tag.0, Release);
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A guard undoes a state of its thread, or of the CPU that the thread keeps. The compiler
    /// checks that no guard is `Send`: if one were, two implementations would give
    /// `answer`.
    #[test]
    fn guards_stay_on_their_thread() {
        use crate::{brlock, lglock, platform, rcu, spin};
        trait Sent<Which> {
            fn answer() {}
        }
        impl<T> Sent<()> for T {}
        impl<T: Send> Sent<u8> for T {}
        <spin::SpinGuard<'_, ()> as Sent<_>>::answer();
        <platform::MutexGuard<'_, ()> as Sent<_>>::answer();
        <platform::shared::Allocating as Sent<_>>::answer();
        <lglock::GlobalGuard<'_, ()> as Sent<_>>::answer();
        <brlock::ReadGuard<'_> as Sent<_>>::answer();
        <rcu::Guard<'_> as Sent<_>>::answer();
        <rcu::qsbr::Reader as Sent<_>>::answer();
        #[cfg(feature = "std")]
        <crate::host_fork::ForkGuard as Sent<_>>::answer();
        #[cfg(feature = "std")]
        <crate::host_fork::BlockingSection as Sent<_>>::answer();
    }

    #[test]
    fn one_at_a_time() {
        let name = LockTag::of(7);
        let (lock, inside) = (RawLock::new(name), AtomicUsize::new(0));
        assert_eq!(lock.tag().index(), 7);
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
