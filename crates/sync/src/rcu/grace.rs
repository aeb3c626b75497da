//! Grace periods: numbered, shared by all waiting threads, driven by any thread that needs one.

use crossbeam_utils::CachePadded;

use super::reader::{NUMBER, STARTED, knows_caller};
use crate::announce::{RECORDS, fence_all};
use crate::platform::atomic::AtomicU64;
use crate::platform::atomic::Ordering::{Acquire, Release};
use crate::platform::{Mutex, global, relax};

/// The grace periods of the process, one at a time. Their numbers grow in steps of [`NUMBER`], so
/// that readers can store them beside their depth.
pub(super) struct Grace {
    /// The number of the grace period that began last, raised just before [`STARTED`], which
    /// readers read. Taking a ticket writes this one.
    numbered: AtomicU64,
    /// The number of the grace period that ended last. Written under the lock.
    completed: AtomicU64,
    /// The right to begin and to end a grace period; true while one runs.
    running: Mutex<bool>,
}

/// The number of a grace period that begins after the ticket was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket(u64);

impl Ticket {
    /// The ticket of a thread that waits for nothing yet.
    pub(super) const NONE: Self = Self(0);
}

global! {
    pub(super) static GRACE: CachePadded<Grace> = CachePadded::new(Grace {
        numbered: AtomicU64::new(0),
        completed: AtomicU64::new(0),
        running: Mutex::new(false),
    });
}

/// Reports a wait that waits for itself, where that was not known at its beginning: in a debug
/// build of a library that does not know its threads, after some seconds. `attempts` counts the
/// looks.
///
/// # Panics
/// If there were too many.
pub(super) fn check_progress(attempts: u32) {
    const STUCK: u32 = 1 << 26;
    if cfg!(all(debug_assertions, not(any(feature = "std", loom)))) {
        assert!(
            attempts < STUCK || knows_caller(),
            "a grace period does not end: the caller may be inside a section or a callback"
        );
    }
}

impl Grace {
    /// Takes a ticket for what the caller has unpublished before. Never waits.
    pub(super) fn ticket(&self) -> Ticket {
        // An exchange, so that it has a place among those in `start`. Release: the next of
        // those reads from this one, and what the caller has unpublished comes before that
        // grace period.
        // weaken: ticket-of-the-grace-period-under-way
        // weaken: ticket-without-a-place
        Ticket(self.numbered.fetch_add(0, Release).wrapping_add(NUMBER))
    }

    /// Returns true if the grace period of `ticket` has ended.
    pub(super) fn is_over(&self, ticket: Ticket) -> bool {
        // Acquire: pairs with the release in `try_end`. The readers that it waited for come
        // before whatever the caller does now.
        // The difference is right also after the numbers have wrapped.
        self.completed
            .load(Acquire)
            .wrapping_sub(ticket.0)
            .cast_signed()
            >= 0
    }

    /// Advances grace periods as far as possible without waiting. Returns true if `ticket`'s is
    /// over. May enter the operating system once.
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
            check_progress(attempts);
        }
    }

    /// Waits for the grace period of `ticket`, but polls at most `spins` times. Returns true if
    /// it is over.
    pub(super) fn wait_briefly(&self, ticket: Ticket, spins: u32) -> bool {
        (0..spins).any(|attempts| {
            relax(attempts);
            self.poll(ticket)
        })
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
        // Acquire: from the tickets taken so far; those that come later are for the next one.
        // No model sees it: the full fence (Q) acquires what this exchange has read, too.
        self.numbered.fetch_add(NUMBER, Acquire);
        // (N)
        STARTED.advance();
        *running = true;
        // (Q) pairs with the light fence (B) of every reader.
        // weaken: fences-of-a-grace-period
        fence_all(|_| true);
    }

    /// (S) Ends the grace period that runs, if no reader is in a section that began before it.
    fn try_end(&self, running: &mut bool) {
        let number = STARTED.number();
        if RECORDS.iter().all(|record| record.is_past(number)) {
            *running = false;
            // Release: pairs with the acquire in `is_over`.
            self.completed.store(number, Release);
        }
    }
}
