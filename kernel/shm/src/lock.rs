//! Locks that sleep on their own word, in memory that processes may share.
//!
//! A [`Mutex`] is that of the library, with the threads of this program: see
//! [`sleeping`](fdtable_sync::platform::sleeping). A guard that is leaked ends with its thread: no
//! reference that it gave out may be used after that, as the caller of [`begin`](crate::begin)
//! promises. Before that call a lock is never taken from its owner.
//!
//! A [`RwLock`] counts its readers, and has no names of theirs: a reader that dies keeps it. A
//! waiting thread keeps new readers away.

use std::hint;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use fdtable_sync::platform::futex;
use fdtable_sync::platform::sleeping::{NAP, Owners, RawMutex};

use crate::thread::{self, is_shared};

/// The threads of all processes.
#[derive(Debug)]
pub enum Threads {}

// SAFETY: the id of a thread is not 0, and that of no other living thread. `begin` was promised
// that the references of a leaked guard end with its thread.
unsafe impl Owners for Threads {
    #[inline]
    fn caller() -> u32 {
        thread::id()
    }

    fn has_ended(id: u32) -> bool {
        is_shared() && thread::has_died(id)
    }
}

/// A lock: see [`parking_lot::Mutex`](https://docs.rs/parking_lot), whose interface it has.
pub type Mutex<T> = lock_api::Mutex<RawMutex<Threads>, T>;
/// The right to use what a [`Mutex`] guards.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex<Threads>, T>;
/// A lock with many readers or one writer.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// The right to read what a [`RwLock`] guards.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// The right to write what a [`RwLock`] guards.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// The word of a [`RwLock`]: 0; or the number of readers; or [`WRITER`]. And [`SLEEPERS`] or not.
#[derive(Debug)]
pub struct RawRwLock(AtomicU32);

/// Some thread may sleep on the word.
const SLEEPERS: u32 = 1 << 31;

/// A thread writes. Its id is in the bits below.
const WRITER: u32 = 1 << 30;

/// How often a thread looks before it sleeps, some microseconds in all.
const LOOKS: u32 = 100;

// SAFETY: a writer exchanges 0 for its word, and readers count up only where there is no writer.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = Self(AtomicU32::new(0));

    // As for a mutex: a lock is taken from a writer that has died.
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        if !self.try_lock_shared() {
            self.wait(|| self.try_lock_shared());
        }
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        // Relaxed: the exchange decides.
        let word = self.0.load(Relaxed);
        // A thread that reads while another one waits would let that one wait forever.
        word & (WRITER | SLEEPERS) == 0
            // Acquire: pairs with the release of the last writer. Relaxed on failure, as above.
            && self
                .0
                .compare_exchange(word, word + 1, Acquire, Relaxed)
                .is_ok()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // Release: pairs with the acquire of the next writer, whose stores come after the reads.
        if self.0.fetch_sub(1, Release) == SLEEPERS | 1 {
            self.wake_all();
        }
    }

    #[inline]
    fn lock_exclusive(&self) {
        if !self.try_lock_exclusive() {
            self.wait(|| self.try_lock_exclusive());
        }
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        // Acquire: pairs with the releases of the last writer and readers. Relaxed on failure, as
        // above.
        self.0
            .compare_exchange(0, WRITER | thread::id(), Acquire, Relaxed)
            .is_ok()
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // Release: pairs with the acquire of the next reader or writer.
        if self.0.swap(0, Release) & SLEEPERS != 0 {
            futex::wake(&self.0, i32::MAX);
        }
    }
}

impl RawRwLock {
    #[cold]
    fn wait(&self, try_lock: impl Fn() -> bool) {
        for looks in 0_u32.. {
            if try_lock() {
                return;
            }
            if looks < LOOKS {
                hint::spin_loop();
                continue;
            }
            // Relaxed: the exchange decides.
            let word = self.0.load(Relaxed);
            let marked = word | SLEEPERS;
            if word == SLEEPERS {
                self.wake_all();
                continue;
            }
            if word == 0
                // Relaxed, both: the word publishes nothing but itself here.
                || self.0.compare_exchange(word, marked, Relaxed, Relaxed).is_err()
            {
                continue;
            }
            if futex::wait(&self.0, marked, Some(NAP)) == libc::ETIMEDOUT
                && marked & WRITER != 0
                && Threads::has_ended(marked & !(WRITER | SLEEPERS))
                // Acquire: the writer's stores come before its end, which `has_ended` has seen.
                && self.0.compare_exchange(marked, 0, Acquire, Relaxed).is_ok()
            {
                futex::wake(&self.0, i32::MAX);
            }
        }
    }

    /// Frees a lock without readers for the threads that sleep.
    #[cold]
    fn wake_all(&self) {
        // Relaxed, both: the last reader has released. It fails if a thread has come in between,
        // which wakes them.
        if self
            .0
            .compare_exchange(SLEEPERS, 0, Relaxed, Relaxed)
            .is_ok()
        {
            futex::wake(&self.0, i32::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// A leaked guard may have given out a reference, to another thread too.
    #[test]
    fn a_lock_without_shared_memory_stays_with_a_dead_owner() {
        static LOCK: Mutex<u8> = Mutex::new(0);
        let owner = std::thread::spawn(|| {
            let leaked: &'static mut u8 = MutexGuard::leak(LOCK.lock());
            (leaked, thread::id())
        });
        let (kept, id) = owner.join().unwrap();
        // The host lets a thread be joined a little before.
        while !thread::has_died(id) {
            std::thread::yield_now();
        }
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(*LOCK.lock()));
        let taken = receiver.recv_timeout(Duration::from_millis(500));
        assert_eq!(taken, Err(mpsc::RecvTimeoutError::Timeout));
        *kept = 1;
    }

    /// A lock whose owner has died is taken from it, so a guard that outlived its thread would be a
    /// second one. The compiler checks that no guard is `Send`: if one were, two implementations
    /// would give `answer`.
    #[test]
    fn guards_stay_on_their_thread() {
        trait Sent<Which> {
            fn answer() {}
        }
        impl<T> Sent<()> for T {}
        impl<T: Send> Sent<u8> for T {}
        <MutexGuard<'_, ()> as Sent<_>>::answer();
        <RwLockReadGuard<'_, ()> as Sent<_>>::answer();
        <RwLockWriteGuard<'_, ()> as Sent<_>>::answer();
    }
}
