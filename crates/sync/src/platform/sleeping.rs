//! A lock that sleeps on its own word, in memory that processes may share.
//!
//! The first word of a [`RawMutex`] has the number of the thread that holds it. A thread that finds
//! it taken looks again for some microseconds, as a holder is nearly always done by then. (The lock
//! of the library [keeps away](Owners::AWAY) before.) Then it sets the second word, the *mark*,
//! looks once more for a while, and sleeps on the mark. An unlock that finds the mark clears it and
//! wakes one thread, which sets it again before it looks. If the mark is cleared while no thread
//! sleeps yet, the one that is about to finds another value, and looks.
//!
//! A thread that sleeps wakes ten times a second, if processes [share memory](super::shared), to
//! look whether the owner still lives. If not, it takes the lock: what the lock guards is as the
//! owner has left it. So guards are not `Send`. Elsewhere a lock is never taken from its owner, and
//! all threads have one number.
//!
//! An unlock stores to the first word, and loads the mark. An exchange would wait until all stores
//! of the thread are visible: the most expensive instruction of a write to a pipe whose memory
//! another CPU has used. So a CPU may execute the load before others see the store, and a thread
//! that sleeps is not woken. But stores become visible within a microsecond, and the thread has
//! looked about as long after it has set the mark. If that was too short, its naps, which begin
//! with a millisecond and become longer, end the wait.

use core::hint;
use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, compiler_fence, fence};
use core::time::Duration;

use super::shared::registered;
use super::{WAITS, futex, keep_away};

/// Names the threads that take a lock.
///
/// # Safety
/// `caller` is not 0. Where `has_ended` ever returns true, no two living threads have one number,
/// and it returns true for a thread alone that has ended, whose guards' references are no longer
/// used.
pub unsafe trait Owners {
    /// Returns the number of the calling thread.
    fn caller() -> u32;

    /// Returns true if the lock may be taken from the thread with this number.
    fn has_ended(number: u32) -> bool;

    /// The steps of a waiting thread in which it does nothing, before it looks all the time.
    const AWAY: Range<u32> = 0..0;
}

/// The threads of processes that [share memory](super::shared); elsewhere all have one number.
#[derive(Debug)]
pub enum Registered {}

// SAFETY: as `register` was promised. Without shared memory no thread has ended.
unsafe impl Owners for Registered {
    #[inline]
    fn caller() -> u32 {
        registered().map_or(1, |hooks| (hooks.thread)())
    }

    fn has_ended(number: u32) -> bool {
        registered().is_some_and(|hooks| (hooks.has_ended)(number))
    }

    // A holder nearly always runs on, and is done before this thread could be suspended and woken.
    // And where more threads run than there are CPUs, a thread that yields its CPU at each
    // contention waits for all others. The first step is longer than for a lock of one word, since
    // a search takes longer than a change in a leaf: four microseconds, of a wait of 28.
    const AWAY: Range<u32> = 2..WAITS;
}

/// The words of a lock. It must not be freed before an unlock has returned.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct RawMutex<O> {
    /// The number of the owner, or 0.
    owner: AtomicU32,
    /// 1 if a thread may sleep on this word, or 0.
    mark: AtomicU32,
    owners: PhantomData<fn(O)>,
}

/// How often a thread looks before it sleeps, some microseconds in all.
const LOOKS: u32 = 100;

/// How often it looks after it has said that it may sleep, a microsecond in all.
const LAST_LOOKS: u32 = 25;

/// How long a thread sleeps at most before it asks whether the owner lives.
pub const NAP: Duration = Duration::from_millis(100);

/// The first nap of a thread, as its wake-up may be lost. The next ones are four times as long.
const FIRST_NAP: Duration = Duration::from_millis(1);

// SAFETY: of all threads that exchange 0 for their number, which `Owners` promises not to be 0, one
// succeeds. The word keeps the others out until `unlock`, or until that thread has ended.
unsafe impl<O: Owners> lock_api::RawMutex for RawMutex<O> {
    const INIT: Self = Self {
        owner: AtomicU32::new(0),
        mark: AtomicU32::new(0),
        owners: PhantomData,
    };

    // A lock is taken from an owner that has ended, so no guard outlives its thread.
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
            .compare_exchange(0, O::caller(), Acquire, Relaxed)
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

impl<O: Owners> RawMutex<O> {
    /// Returns true if a thread may sleep on the lock.
    #[inline]
    pub(super) fn may_have_sleepers(&self) -> bool {
        // Relaxed: a hint.
        self.mark.load(Relaxed) != 0
    }

    #[cold]
    fn wake_one(&self) {
        // Orders the store of the owner with the exchange: the thread that is woken, or finds the
        // mark cleared, sees that the lock is free.
        fence(SeqCst);
        // Relaxed: as above.
        if self.mark.swap(0, Relaxed) != 0 {
            futex::wake(&self.mark, 1);
        }
    }

    #[cold]
    fn wait(&self) {
        let is_taken_after = |attempts| {
            keep_away(attempts);
            lock_api::RawMutex::try_lock(self)
        };
        let mut away = O::AWAY;
        if away.any(is_taken_after) || self.is_taken_within(LOOKS) {
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
            if owner == 0 {
                continue;
            }
            match futex::wait(&self.mark, 1, Some(nap)) {
                // A signal may come more often than the naps end.
                libc::ETIMEDOUT | libc::EINTR => {}
                // Woken, and another thread was first.
                0 => {
                    nap = FIRST_NAP;
                    continue;
                }
                _ => continue,
            }
            if nap == NAP
                && O::has_ended(owner)
                // Acquire: the owner's stores come before its end, which `has_ended` has seen.
                && self
                    .owner
                    .compare_exchange(owner, O::caller(), Acquire, Relaxed)
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
