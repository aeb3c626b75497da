//! Locks that sleep on their own word, in memory that processes may share.
//!
//! The first word of a [`Mutex`] has the id of the thread that holds it. A thread that finds it
//! taken looks again for some microseconds, as a holder is nearly always done by then. Then it sets
//! the second word, the *mark*, looks once more for a while, and sleeps on the mark. An unlock that
//! finds the mark clears it and wakes one thread, which sets it again before it looks. If the mark
//! is cleared while no thread sleeps yet, the one that is about to finds another value, and looks.
//!
//! With shared memory, a thread that sleeps wakes ten times a second to look whether the owner
//! still lives. If not, it takes the lock: what the lock guards is as the owner has left it. So
//! guards are not `Send`. A guard that is leaked ends with its thread: no reference that it gave
//! out may be used after that, as the caller of [`begin`](crate::begin) promises. Before that call
//! a lock is never taken from its owner.
//!
//! An unlock stores to the first word, and loads the mark. An exchange would wait until all stores
//! of the thread are visible: the most expensive instruction of a write to a pipe whose memory
//! another CPU has used. So a CPU may execute the load before others see the store, and a thread
//! that sleeps is not woken. But stores become visible within a microsecond, and the thread has
//! looked about as long after it has set the mark. If that was too short, its naps, which begin
//! with a millisecond and become longer, end the wait.
//!
//! A [`RwLock`] counts its readers, and has no names of theirs: a reader that dies keeps it. A
//! waiting thread keeps new readers away.

use std::hint;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, compiler_fence, fence};

use crate::mapping::is_shared;
use crate::thread;

/// A lock: see [`parking_lot::Mutex`](https://docs.rs/parking_lot), whose interface it has.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// The right to use what a [`Mutex`] guards.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// A lock with many readers or one writer.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// The right to read what a [`RwLock`] guards.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// The right to write what a [`RwLock`] guards.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// The words of a [`Mutex`]. It must not be freed before an unlock has returned.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct RawMutex {
    /// The id of the owner, or 0.
    owner: AtomicU32,
    /// 1 if a thread may sleep on this word, or 0.
    mark: AtomicU32,
}

/// The word of a [`RwLock`]: 0; or the number of readers; or [`WRITER`]. And [`SLEEPERS`] or not.
#[derive(Debug)]
pub struct RawRwLock(AtomicU32);

/// Some thread may sleep on the word.
const SLEEPERS: u32 = 1 << 31;

/// A thread writes. Its id is in the bits below.
const WRITER: u32 = 1 << 30;

/// How often a thread looks before it sleeps, some microseconds in all.
const LOOKS: u32 = 100;

/// How often it looks after it has said that it may sleep, a microsecond in all.
const LAST_LOOKS: u32 = 25;

/// How long a thread sleeps at most before it asks whether the owner lives, in nanoseconds.
const NAP: libc::c_long = 100_000_000;

/// The first nap of a thread, as its wake-up may be lost. The next ones are four times as long.
const FIRST_NAP: libc::c_long = 1_000_000;

// SAFETY: of all threads that exchange 0 for their id, one succeeds, and the word keeps the others
// out until `unlock`, or until that thread is dead.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self {
        owner: AtomicU32::new(0),
        mark: AtomicU32::new(0),
    };

    // A lock is taken from an owner that has died, so no guard outlives its thread.
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the release in `unlock`, so this thread sees what the last owner
        // wrote. Relaxed on failure: nothing that is guarded is read.
        self.owner
            .compare_exchange(0, thread::id(), Acquire, Relaxed)
            .is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // Release: pairs with the acquire of the next owner.
        self.owner.store(0, Release);
        // The CPU may exchange the two: see the head of this file.
        compiler_fence(SeqCst);
        // Relaxed: nothing is read that the mark publishes.
        if self.mark.load(Relaxed) != 0 {
            self.wake_one();
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.owner.load(Relaxed) != 0
    }
}

impl RawMutex {
    #[cold]
    fn wake_one(&self) {
        // Orders the store of the owner with the exchange: the thread that is woken, or finds the
        // mark cleared, sees that the lock is free.
        fence(SeqCst);
        // Relaxed: as above.
        if self.mark.swap(0, Relaxed) != 0 {
            wake(&self.mark, 1);
        }
    }

    #[cold]
    fn wait(&self) {
        if self.is_taken_within(LOOKS) {
            return;
        }
        let mut nap = FIRST_NAP;
        loop {
            // Also after a sleep: this thread does not know whether others sleep.
            self.mark.store(1, Relaxed);
            // Orders the store with the looks: an owner that reads the mark later wakes this
            // thread. One that has read it has stored before, and the looks see that.
            fence(SeqCst);
            if self.is_taken_within(LAST_LOOKS) {
                return;
            }
            // Relaxed: the mark says whether it is still so.
            let owner = self.owner.load(Relaxed);
            if owner == 0 || sleep(&self.mark, 1, nap) {
                continue;
            }
            if nap == NAP
                && has_left(owner)
                // Acquire: the owner's stores come before its end, which `has_left` has seen.
                && self
                    .owner
                    .compare_exchange(owner, thread::id(), Acquire, Relaxed)
                    .is_ok()
            {
                return;
            }
            nap = NAP.min(4 * nap);
        }
    }

    /// Looks so often whether the lock is free. Returns true if it has taken it.
    fn is_taken_within(&self, looks: u32) -> bool {
        (0..looks).any(|_| {
            hint::spin_loop();
            // Relaxed: a look, so that waiting does not take the line from the owner.
            self.owner.load(Relaxed) == 0 && lock_api::RawMutex::try_lock(self)
        })
    }
}

// SAFETY: a writer exchanges 0 for its word, and readers count up only where there is no writer.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = Self(AtomicU32::new(0));

    // As for a mutex, whose writers die likewise.
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
            wake(&self.0, i32::MAX);
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
            if !sleep(&self.0, marked, NAP)
                && marked & WRITER != 0
                && has_left(marked & !(WRITER | SLEEPERS))
                // Acquire: the writer's stores come before its end, which `has_left` has seen.
                && self.0.compare_exchange(marked, 0, Acquire, Relaxed).is_ok()
            {
                wake(&self.0, i32::MAX);
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
            wake(&self.0, i32::MAX);
        }
    }
}

/// Returns true if the owner of a lock has died, and the lock may be taken from it.
fn has_left(owner: u32) -> bool {
    is_shared() && thread::has_died(owner)
}

/// Sleeps while the word has this value, for so many nanoseconds. Returns false if they are over.
/// Preserves `errno`.
fn sleep(word: &AtomicU32, value: u32, nap: libc::c_long) -> bool {
    let limit = libc::timespec {
        tv_sec: 0,
        tv_nsec: nap,
    };
    // SAFETY: the word is alive during the call, and the limit is a valid time.
    let errno = keeping_errno(|| unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &raw const limit,
        )
    });
    errno != libc::ETIMEDOUT
}

/// Wakes so many threads that sleep on the word.
fn wake(word: &AtomicU32, count: i32) {
    // SAFETY: the call only compares the address of the word.
    keeping_errno(|| unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            count,
            ptr::null::<libc::timespec>(),
        )
    });
}

/// Returns the error of a system call, or 0. `errno` stays as it was.
fn keeping_errno(call: impl FnOnce() -> libc::c_long) -> libc::c_int {
    // SAFETY: it takes nothing.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the C library keeps one for each thread, for as long as that runs.
    let before = unsafe { errno.read() };
    let failed = call() < 0;
    // SAFETY: as above.
    let error = unsafe { errno.read() };
    // SAFETY: as above.
    unsafe { errno.write(before) };
    if failed { error } else { 0 }
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
