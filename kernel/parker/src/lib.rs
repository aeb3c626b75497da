//! A thread that sleeps until it is woken, or until a signal handler interrupts it.
//!
//! `thread::park` of the standard library continues after a signal handler. A call that must return
//! `EINTR` needs to know that one has run.
//!
//! # How it works
//!
//! A parker is one word. Its owner sets `PARKED` if the word is 0, and sleeps in `futex(2)` while
//! the word has that value. A wake-up sets `NOTIFIED` first, and then wakes the owner if it has
//! parked. So a wake-up before the sleep, or beside its beginning, ends it: either the exchange or
//! the kernel's comparison fails. When the owner continues, it clears the word and takes what is
//! set there, so a wake-up that comes while the sleep is interrupted is reported with it.
//!
//! A thread whose last sleeps were short, less than 20 µs, looks at the word for as long before it
//! sleeps: where two threads answer each other, neither has to be put to sleep and woken. A longer
//! sleep ends that.
//!
//! # Handlers
//!
//! The kernel interrupts the sleep for a handler, and restarts it if [`Restart`] and the handler's
//! `SA_RESTART` allow that. Which of its forms is used decides:
//!
//! | sleep | call | the kernel |
//! |---|---|---|
//! | may be restarted, without a deadline | `FUTEX_WAIT` | restarts it as the handler says |
//! | may be restarted, with a deadline | `futex_waitv(2)` | restarts it as the handler says |
//! | never restarted | `FUTEX_WAIT` with a time | always ends it |
//!
//! A handler that runs after the thread has decided to sleep, and before it is in the kernel, does
//! not interrupt anything there. A handler that calls [`interrupt`] changes the word, so the sleep
//! does not begin.
//!
//! A thread sleeps in a [blocking section](fdtable_sync::host_fork::blocking_section).
//!
//! Elsewhere than on Linux no sleep is interrupted.

#[cfg(all(target_os = "linux", not(loom)))]
mod interruptible;
#[cfg(not(all(target_os = "linux", not(loom))))]
#[path = "uninterrupted.rs"]
mod interruptible;
mod spin;

use core::cell::Cell;
use core::ptr;
use core::time::Duration;
use std::time::Instant;

use fdtable_sync::host_fork;
use fdtable_sync::platform::atomic::AtomicU32;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::futex;
use fdtable_sync::platform::shared::is_shared;

/// The owner must wake.
const NOTIFIED: u32 = 1;

/// The owner sleeps, or is about to.
const PARKED: u32 = 2;

/// A handler without `SA_RESTART` has run.
const INTERRUPTED: u32 = 4;

/// A handler with `SA_RESTART` has run.
const RESTARTED: u32 = 8;

/// A place where one thread sleeps, and from which others wake it.
#[derive(Debug)]
pub struct Parker {
    word: AtomicU32,
}

/// Choice of what a sleep does after a handler that is installed with `SA_RESTART`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// It continues after such a handler, and ends after any other.
    Allowed,
    /// Every handler ends it, as for `poll(2)`.
    Never,
}

/// Why a sleep has ended. It may also end spuriously, or at its deadline: then neither is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// [`Parker::unpark`] was called. The owner sees what was written before that.
    pub notified: bool,
    /// A signal handler has interrupted the sleep.
    pub interrupted: bool,
}

std::thread_local! {
    /// The parker in which the thread is about to sleep, or null. A handler may use it: its value
    /// is a constant at first, and it has no destructor.
    static CURRENT: Cell<*const Parker> = const { Cell::new(ptr::null()) };
}

/// Reports that a handler has run on the calling thread: its sleep does not begin, or ends.
/// `restarts` says whether the handler is installed with `SA_RESTART`. Does nothing if the thread
/// is not in [`Parker::park`]. For signal handlers: neither blocks nor allocates, and preserves
/// `errno`.
pub fn interrupt(restarts: bool) {
    // In a destructor of the thread there may be none.
    let current = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: `park` has set it on this thread, and borrows the parker until it sets it back. A
    // handler that has left `park` by a jump has left the owner of the parker alive, with the frame
    // that it jumped over.
    if let Some(parker) = unsafe { current.as_ref() } {
        parker.interrupt(restarts);
    }
}

/// A sleep that handlers interrupt, until this is dropped.
struct Began {
    /// That of the sleep which the handler has interrupted that begins this one.
    before: *const Parker,
}

impl Drop for Began {
    fn drop(&mut self) {
        let _ = CURRENT.try_with(|current| current.set(self.before));
    }
}

impl Parker {
    /// Makes the parker of the calling thread. Does not allocate.
    #[must_use]
    pub fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
        }
    }

    /// Sleeps until [`unpark`](Self::unpark), until a signal handler ends the sleep, or until
    /// `deadline`. May return spuriously. Only the thread that made the parker calls it.
    ///
    /// `before` runs just before the sleep, in its blocking section. A handler that `before` lets
    /// in, and that calls [`interrupt`], counts for this sleep. On Linux, `errno` is preserved.
    /// Blocks; the caller holds no lock and is not in a read-side section.
    ///
    /// ```
    /// use fdtable_parker::{Parker, Restart};
    ///
    /// let parker = Parker::new();
    /// parker.unpark();
    /// assert!(parker.park(None, Restart::Allowed, || ()).notified);
    /// ```
    pub fn park(&self, deadline: Option<Instant>, restart: Restart, before: impl FnOnce()) -> Wake {
        self.forget_handlers();
        // From here on handlers reach it.
        let began = Began {
            before: CURRENT
                .try_with(|own| own.replace(self))
                .unwrap_or(ptr::null()),
        };
        let outside = host_fork::blocking_section();
        before();
        let interrupted = self.sleep(deadline, restart);
        // First, so that a handler that runs from now on is put off to the next sleep, if handlers
        // are put off.
        drop(outside);
        drop(began);
        self.finish(interrupted, restart)
    }

    /// Clears what handlers before this sleep have set, or a sleep that a handler has left by a
    /// jump.
    fn forget_handlers(&self) {
        // Relaxed: a wake-up stays set, with what it releases.
        self.word.fetch_and(NOTIFIED, Relaxed);
    }

    /// Sleeps until the word changes, or until `deadline`. Returns true if a handler has
    /// interrupted that. Preserves `errno`: a call that sleeps and succeeds leaves it unchanged.
    fn sleep(&self, deadline: Option<Instant>, restart: Restart) -> bool {
        /// How long a thread sleeps before it looks for itself, where the thread that is to wake it
        /// may be that of a process that has died.
        const NAP: Duration = Duration::from_secs(1);
        if spin::until(|| self.word.load(Relaxed) != 0) {
            return false;
        }
        // Relaxed, both: `finish` acquires.
        let parked = self.word.compare_exchange(0, PARKED, Relaxed, Relaxed);
        if parked.is_err() {
            return false;
        }
        spin::noted(|| {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let left = match is_shared() {
                true => Some(left.map_or(NAP, |left| left.min(NAP))),
                false => left,
            };
            interruptible::wait(&self.word, PARKED, left, restart)
        })
    }

    /// Ends a sleep, and takes what is set.
    fn finish(&self, interrupted: bool, restart: Restart) -> Wake {
        // Acquire: pairs with the release in `unpark`, so the owner sees what the waking thread has
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

    /// Wakes the owner. If it does not sleep, its next sleep ends at once. Never blocks.
    pub fn unpark(&self) {
        // Release: pairs with the acquire in `finish`.
        let before = self.word.fetch_or(NOTIFIED, Release);
        if before & PARKED != 0 {
            futex::wake(&self.word, 1);
        }
    }

    fn interrupt(&self, restarts: bool) {
        let bit = if restarts { RESTARTED } else { INTERRUPTED };
        // Relaxed: for the thread itself, and for the kernel's comparison on it.
        self.word.fetch_or(bit, Relaxed);
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom), target_os = "linux"))]
mod tests;
