//! The word of a parker, on which the kernel lets its owner sleep.

#[cfg(not(loom))]
mod spin;

#[cfg(not(loom))]
use core::cell::Cell;
#[cfg(not(loom))]
use core::ptr;
#[cfg(not(loom))]
use core::time::Duration;
#[cfg(not(loom))]
use std::time::Instant;

use super::{Restart, Wake};
use crate::platform::atomic::AtomicU32;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
#[cfg(not(loom))]
use crate::platform::futex::{self, AGES};
#[cfg(not(loom))]
use crate::platform::shared::is_shared;

/// The owner must wake.
const NOTIFIED: u32 = 1;

/// The owner sleeps, or is about to.
const PARKED: u32 = 2;

/// A handler without `SA_RESTART` has run.
const INTERRUPTED: u32 = 4;

/// A handler with `SA_RESTART` has run.
const RESTARTED: u32 = 8;

#[derive(Debug)]
pub(super) struct Word {
    word: AtomicU32,
    #[cfg(loom)]
    queue: Queue,
}

#[cfg(not(loom))]
std::thread_local! {
    /// The word on which the thread is about to sleep, or null. A handler may use it: its value is
    /// a constant at first, and it has no destructor.
    static CURRENT: Cell<*const Word> = const { Cell::new(ptr::null()) };
}

/// A sleep that handlers interrupt, until this is dropped.
#[cfg(not(loom))]
pub(super) struct Began {
    /// That of the sleep which the handler has interrupted that begins this one.
    before: *const Word,
}

/// Reports that a handler has run on the calling thread: its sleep does not begin, or ends.
/// `restarts` says whether the handler is installed with `SA_RESTART`. Does nothing if the thread
/// is not in [`Parker::park`](super::Parker::park). For signal handlers: neither blocks nor
/// allocates, and preserves `errno`.
#[cfg(not(loom))]
pub fn interrupt(restarts: bool) {
    // In a destructor of the thread there may be none.
    let current = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: `park` has set it on this thread, and borrows the word until it sets it back. A
    // handler that has left `park` by a jump has left the owner of the word alive, with the frame
    // that it jumped over.
    if let Some(word) = unsafe { current.as_ref() } {
        word.interrupt(restarts);
    }
}

impl Word {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            #[cfg(loom)]
            queue: Queue::new(),
        }
    }

    /// Begins a sleep: from here on handlers reach it.
    #[cfg(not(loom))]
    pub(super) fn begin(&self) -> Began {
        self.forget_handlers();
        let before = CURRENT.try_with(|current| current.replace(self));
        Began {
            before: before.unwrap_or(ptr::null()),
        }
    }

    /// Clears what handlers before this sleep have set, or a sleep that a handler has left by a
    /// jump.
    pub(super) fn forget_handlers(&self) {
        // Relaxed: a wake-up stays set, with what it releases.
        self.word.fetch_and(NOTIFIED, Relaxed);
    }

    /// Sleeps until the word changes. Returns true if a handler has interrupted that.
    pub(super) fn wait(
        &self,
        #[cfg(not(loom))] deadline: Option<Instant>,
        restart: Restart,
    ) -> bool {
        #[cfg(not(loom))]
        if spin::until(|| self.word.load(Relaxed) != 0) {
            return false;
        }
        // Relaxed, both: `finish` acquires.
        let parked = self.word.compare_exchange(0, PARKED, Relaxed, Relaxed);
        #[cfg(not(loom))]
        return parked.is_ok() && spin::noted(|| sleep(&self.word, deadline, restart));
        #[cfg(loom)]
        {
            let _ = restart;
            if parked.is_ok() {
                self.queue.sleep(&self.word);
            }
            false
        }
    }

    /// Ends a sleep, and takes what is set.
    pub(super) fn finish(&self, interrupted: bool, restart: Restart) -> Wake {
        // Acquire: pairs with the release in `notify`, so the owner sees what the waking thread has
        // written before.
        let word = self.word.swap(0, Acquire);
        let handled = word & (INTERRUPTED | RESTARTED);
        let is_interrupted = match restart {
            Restart::Allowed if handled == RESTARTED => false,
            Restart::Allowed => interrupted || handled & INTERRUPTED != 0,
            Restart::Never => interrupted || handled != 0,
        };
        Wake {
            notified: word & NOTIFIED != 0,
            interrupted: is_interrupted,
        }
    }

    pub(super) fn notify(&self) {
        // Release: pairs with the acquire in `finish`.
        let before = self.word.fetch_or(NOTIFIED, Release);
        if before & PARKED != 0 {
            #[cfg(not(loom))]
            futex::wake(&self.word, 1);
            #[cfg(loom)]
            self.queue.wake();
        }
    }

    pub(super) fn interrupt(&self, restarts: bool) {
        let bit = if restarts { RESTARTED } else { INTERRUPTED };
        // Relaxed: for the thread itself, and for the kernel's comparison on it.
        self.word.fetch_or(bit, Relaxed);
    }
}

#[cfg(not(loom))]
impl Drop for Began {
    fn drop(&mut self) {
        let _ = CURRENT.try_with(|current| current.set(self.before));
    }
}

/// Sleeps while the word is [`PARKED`], until `deadline`. Returns true if a handler has interrupted
/// it. Preserves `errno`: a call that sleeps and succeeds leaves it unchanged.
#[cfg(not(loom))]
fn sleep(word: &AtomicU32, deadline: Option<Instant>, restart: Restart) -> bool {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    // A process that has died may have owed a wake-up.
    let left = match is_shared() {
        true => Some(left.map_or(NAP, |left| left.min(NAP))),
        false => left,
    };
    let wait = |time| futex::wait(word, PARKED, time);
    let answer = match (left, restart) {
        (None, Restart::Allowed) => wait(None),
        (None, Restart::Never) => wait(Some(AGES)),
        (Some(left), Restart::Never) => wait(Some(left)),
        (Some(left), Restart::Allowed) => match wait_restarted(word, left) {
            // An old kernel, or a filter of system calls. Every handler ends the sleep then.
            libc::ENOSYS | libc::EPERM | libc::EACCES | libc::EINVAL => wait(Some(left)),
            answer => answer,
        },
    };
    answer == libc::EINTR
}

/// How long a thread sleeps before it looks for itself, where the thread that is to wake it may be
/// that of a process that has died.
#[cfg(not(loom))]
const NAP: Duration = Duration::from_secs(1);

/// Sleeps at most for a time, without giving that up when a handler restarts the call. Returns the
/// error, or 0.
#[cfg(not(loom))]
fn wait_restarted(word: &AtomicU32, time: Duration) -> libc::c_int {
    /// `struct futex_waitv` of the kernel.
    #[repr(C)]
    struct Waiter {
        value: u64,
        address: u64,
        flags: u32,
        reserved: u32,
    }
    /// `FUTEX2_SIZE_U32` of the kernel.
    const SIZE_U32: u32 = 2;
    let waiter = Waiter {
        value: PARKED.into(),
        address: word.as_ptr().addr() as u64,
        flags: SIZE_U32 | futex::scope().cast_unsigned(),
        reserved: 0,
    };
    let mut now = futex::timespec(Duration::ZERO);
    // SAFETY: there is room for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let left = futex::timespec(time);
    let mut until = libc::timespec {
        tv_sec: now.tv_sec.saturating_add(left.tv_sec),
        tv_nsec: now.tv_nsec + left.tv_nsec,
    };
    if until.tv_nsec >= NANOSECONDS {
        until.tv_sec = until.tv_sec.saturating_add(1);
        until.tv_nsec -= NANOSECONDS;
    }
    // SAFETY: the word is alive during the call, the waiter and the time are valid.
    futex::keeping_errno(|| unsafe {
        libc::syscall(
            libc::SYS_futex_waitv,
            &raw const waiter,
            1,
            0,
            &raw const until,
            libc::CLOCK_MONOTONIC,
        )
    })
}

/// Nanoseconds in a second.
#[cfg(not(loom))]
const NANOSECONDS: libc::c_long = 1_000_000_000;

/// Stand-in for the kernel, which compares the word under the lock of a queue. A wake-up takes it
/// too.
#[cfg(loom)]
#[derive(Debug)]
struct Queue {
    lock: loom::sync::Mutex<()>,
    sleeper: loom::sync::Condvar,
}

#[cfg(loom)]
impl Queue {
    fn new() -> Self {
        Self {
            lock: loom::sync::Mutex::new(()),
            sleeper: loom::sync::Condvar::new(),
        }
    }

    fn sleep(&self, word: &AtomicU32) {
        let locked = self.lock.lock().expect("no thread panics in it");
        // Relaxed: a wake-up before it was under the lock.
        if word.load(Relaxed) == PARKED {
            drop(self.sleeper.wait(locked));
        }
    }

    fn wake(&self) {
        drop(self.lock.lock());
        self.sleeper.notify_one();
    }
}
