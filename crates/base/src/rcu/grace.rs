//! Grace periods: numbered, shared by all who wait, driven by whoever needs one.

use super::reader::RECORDS;
use crate::fence;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{Mutex, global, relax};

/// The grace periods of the process, one at a time.
pub(super) struct Grace {
    /// The right to begin and to end a grace period; true while one runs.
    running: Mutex<bool>,
    /// The number of the grace period that began last. Written under the lock.
    started: AtomicU64,
    /// The number of the grace period that ended last. Written under the lock.
    completed: AtomicU64,
}

/// The number of a grace period that begins after the ticket was taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ticket(u64);

global! {
    pub(super) static GRACE: Grace = Grace::new();
}

impl Grace {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self {
            running: Mutex::new(false),
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
        }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self {
            running: Mutex::new(false),
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
        }
    }

    /// Takes a ticket for what the caller has unpublished before. Never waits.
    pub(super) fn ticket(&self) -> Ticket {
        // (Q') Pairs with the fence (Q) of the grace period that begins next. Either that one
        // began after this fence, and its readers see what we unpublished; or the load below
        // sees its number, and the ticket is for the one after it.
        fence::full();
        // Relaxed: ordered by the fence.
        Ticket(self.started.load(Relaxed) + 1)
    }

    /// Tells whether the grace period of `ticket` has ended.
    pub(super) fn is_over(&self, ticket: Ticket) -> bool {
        // Acquire: pairs with the release in `try_end`. The readers that it waited for come
        // before whatever the caller does now.
        self.completed.load(Acquire) >= ticket.0
    }

    /// Takes grace periods as far as they go without waiting; tells whether `ticket`'s is over.
    /// May enter the operating system once.
    pub(super) fn poll(&self, ticket: Ticket) -> bool {
        if self.is_over(ticket) {
            return true;
        }
        if let Some(mut running) = self.running.try_lock() {
            self.advance(&mut running, ticket);
        }
        self.is_over(ticket)
    }

    /// Waits until the grace period of `ticket` is over.
    pub(super) fn wait(&self, ticket: Ticket) {
        let mut attempts = 0;
        while !self.poll(ticket) {
            relax(attempts);
            attempts = attempts.saturating_add(1);
        }
    }

    fn advance(&self, running: &mut bool, ticket: Ticket) {
        if *running {
            self.try_end(running);
        }
        if !*running && !self.is_over(ticket) {
            self.start(running);
            self.try_end(running);
        }
    }

    fn start(&self, running: &mut bool) {
        // Relaxed: the lock serialises writers, and the fence orders it for ticket takers.
        let number = self.started.load(Relaxed) + 1;
        self.started.store(number, Relaxed);
        *running = true;
        // (Q) pairs with the light fence (B) of every reader, and with (Q').
        fence_for_readers();
        // (R)
        RECORDS.iter().for_each(super::reader::Record::watch);
    }

    /// (S) Ends the grace period that runs, if every section it saw has ended.
    fn try_end(&self, running: &mut bool) {
        if RECORDS.iter().all(super::reader::Record::has_left) {
            *running = false;
            // Relaxed load: written under the lock that is held.
            // Release: pairs with the acquire in `is_over`.
            self.completed.store(self.started.load(Relaxed), Release);
        }
    }
}

/// Runs the heavy fence, or only a full one when there is no other reader to order with.
///
/// A thread needs no fence to see its own stores. Another thread that claims a record passes a
/// full fence before its first section (`Records::claim`): if the search below does not find
/// its claim, that fence comes after this one, and its sections see what was unpublished.
fn fence_for_readers() {
    fence::full();
    if !RECORDS.only_own_claimed() {
        fence::heavy();
    }
}
