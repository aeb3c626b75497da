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
//! A thread sleeps in a [blocking section](crate::host_fork::blocking_section).
//!
//! Elsewhere than on Linux it is `thread::park`: no sleep is interrupted.

#[cfg(not(loom))]
use std::time::Instant;

#[cfg(not(loom))]
use crate::host_fork;

#[cfg(any(target_os = "linux", loom))]
mod futex;
#[cfg(all(not(target_os = "linux"), not(loom)))]
mod thread;

#[cfg(any(target_os = "linux", loom))]
use futex::Word;
#[cfg(all(target_os = "linux", not(loom)))]
pub use futex::interrupt;
#[cfg(all(not(target_os = "linux"), not(loom)))]
use thread::Word;
#[cfg(all(not(target_os = "linux"), not(loom)))]
pub use thread::interrupt;

/// A place where one thread sleeps, and from which others wake it.
#[derive(Debug)]
pub struct Parker {
    word: Word,
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

impl Parker {
    /// Makes the parker of the calling thread. Does not allocate.
    #[must_use]
    pub fn new() -> Self {
        Self { word: Word::new() }
    }

    /// Sleeps until [`unpark`](Self::unpark), until a signal handler ends the sleep, or until
    /// `deadline`. May return spuriously. Only the thread that made the parker calls it.
    ///
    /// `before` runs just before the sleep, in its blocking section. A handler that `before` lets
    /// in, and that calls [`interrupt`], counts for this sleep. On Linux, `errno` is preserved.
    /// Blocks; the caller holds no lock and is not in a read-side section.
    ///
    /// ```
    /// use fdtable_sync::parker::{Parker, Restart};
    ///
    /// let parker = Parker::new();
    /// parker.unpark();
    /// assert!(parker.park(None, Restart::Allowed, || ()).notified);
    /// ```
    #[cfg(not(loom))]
    pub fn park(&self, deadline: Option<Instant>, restart: Restart, before: impl FnOnce()) -> Wake {
        let began = self.word.begin();
        let outside = host_fork::blocking_section();
        before();
        let interrupted = self.word.wait(deadline, restart);
        // First, so that a handler that runs from now on is put off to the next sleep, if handlers
        // are put off.
        drop(outside);
        drop(began);
        self.word.finish(interrupted, restart)
    }

    /// Wakes the owner. If it does not sleep, its next sleep ends at once. Never blocks.
    pub fn unpark(&self) {
        self.word.notify();
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
