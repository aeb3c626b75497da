//! Wait queues: the watchers and sleepers of an object.
//!
//! A queue is part of the state of an object, under its lock. So checking the state and registering
//! are one step, and so are changing the state and choosing whom to wake. The wake-ups run later,
//! from a [`Wakeups`], after the lock is released: a woken thread takes that very lock.
//!
//! There are two kinds of entries, as on Linux:
//! - A *watcher* (a poll, an epoll) is notified of every change of its interest, and stays until it
//!   is unregistered.
//! - A *sleeper* (a read, a write, an accept) is *exclusive*: a change wakes the first of those
//!   with the same interest, and removes it from the queue. A woken sleeper that leaves something
//!   for the next one passes the wake-up on ([`pass_on`](WaitQueue::pass_on)). So there is no
//!   thundering herd. No wake-up is lost, as long as every woken sleeper checks the state once
//!   more, even after its deadline, and as long as sleepers of one interest are interchangeable.
//!
//! *Exclusive watchers* (`EPOLLEXCLUSIVE`) share changes with each other: a change is offered to
//! each in turn, up to the first that wakes a thread. Only the offer shows whether it does, so a
//! change collects them all. Unlike on Linux they do not share with sleepers: a sleeper takes what
//! it needs, and does not know what it leaves for watchers.
//!
//! The two kinds have separate lists, so a change does not walk a thousand sleepers to find that
//! there is no watcher. A sleeper has a [`Ticket`], and tickets increase along the list, so a
//! binary search finds its entry, or that it was woken.
//!
//! A sleeper whose thread did not survive a fork of the host process is dropped when its turn
//! comes.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Events, FileId, Watcher};

/// Queue of the waiters of an object. It belongs under the lock of the state that they wait for.
/// In Linux: `wait_queue_head`.
#[derive(Default)]
pub struct WaitQueue {
    /// The youngest first, then the exclusive ones, the oldest first. Notifications follow this
    /// order, as on Linux.
    watchers: VecDeque<Registration>,
    /// In the order of their tickets.
    sleepers: VecDeque<Sleeping>,
    next_ticket: u64,
}

struct Registration {
    watcher: Arc<dyn Watcher>,
    interest: Events,
    file: Option<FileId>,
    exclusive: bool,
}

struct Sleeping {
    sleeper: Arc<dyn Watcher>,
    interest: Events,
    ticket: Ticket,
}

/// Ticket of a sleeper in one queue, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(u64);

/// Waiters that a change has chosen. Dropping it wakes them.
#[derive(Default)]
#[must_use = "drop it after the lock of the object is released"]
pub struct Wakeups {
    woken: SmallVec<[(Arc<dyn Watcher>, Notification); 2]>,
}

#[derive(Clone, Copy)]
enum Notification {
    Changed(Events),
    /// Like `Changed`, for the first exclusive watcher.
    Offered(Events),
    /// For the next exclusive watcher, if no thread was woken by those before.
    OfferedOn(Events),
    Gone,
}

impl WaitQueue {
    /// Makes an empty queue. Does not allocate.
    pub const fn new() -> Self {
        WaitQueue {
            watchers: VecDeque::new(),
            sleepers: VecDeque::new(),
            next_ticket: 0,
        }
    }

    /// Returns true if there are no waiters.
    pub fn is_empty(&self) -> bool {
        self.watchers.is_empty() && self.sleepers.is_empty()
    }

    /// Adds a sleeper at the end: the first change of `interest` removes it. Allocates.
    pub fn sleep_on(&mut self, sleeper: Arc<dyn Watcher>, interest: Events) -> Ticket {
        // One ticket a nanosecond would last for 500 years.
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.sleepers.push_back(Sleeping {
            sleeper,
            interest,
            ticket,
        });
        ticket
    }

    /// Returns true if a sleeper is still queued: no change has chosen it.
    pub fn holds(&self, ticket: Ticket) -> bool {
        self.index(ticket).is_ok()
    }

    /// Removes a sleeper, if it is still queued.
    pub fn leave(&mut self, ticket: Ticket) {
        if let Ok(index) = self.index(ticket) {
            self.sleepers.remove(index);
        }
    }

    /// Adds a watcher, as [`Pollee::watch`](super::Pollee::watch) describes. Allocates.
    pub fn watch(&mut self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        let is_it = |entry: &&mut Registration| Arc::ptr_eq(&entry.watcher, watcher);
        if let Some(entry) = self.watchers.iter_mut().find(is_it) {
            entry.interest |= interest;
            return;
        }
        let entry = Registration {
            watcher: Arc::clone(watcher),
            interest: interest | Events::ALWAYS,
            file,
            exclusive: watcher.is_exclusive(),
        };
        if entry.exclusive {
            self.watchers.push_back(entry);
        } else {
            self.watchers.push_front(entry);
        }
    }

    /// Returns each watcher, with its interest and the open file for which it is registered.
    pub fn watchers(
        &self,
    ) -> impl Iterator<Item = (&Arc<dyn Watcher>, Events, Option<FileId>)> + '_ {
        self.watchers
            .iter()
            .map(|entry| (&entry.watcher, entry.interest, entry.file))
    }

    /// Removes all entries of a watcher.
    pub fn unwatch(&mut self, watcher: &Arc<dyn Watcher>) {
        self.watchers
            .retain(|entry| !Arc::ptr_eq(&entry.watcher, watcher));
    }

    /// Removes the watchers registered for `file`, and collects their notifications.
    pub fn forget(&mut self, file: FileId) -> Wakeups {
        let mut wakeups = Wakeups::default();
        self.watchers.retain(|entry| {
            let stays = entry.file != Some(file);
            if !stays {
                wakeups.add(&entry.watcher, Notification::Gone);
            }
            stays
        });
        wakeups
    }

    /// Collects the watchers and the first sleeper to wake, after `events` have become true.
    #[inline]
    pub fn wake(&mut self, events: Events) -> Wakeups {
        let mut wakeups = Wakeups::default();
        if !self.is_empty() {
            self.find_for_change(events, &mut wakeups);
        }
        wakeups
    }

    /// Collects all watchers of `events`, and no sleeper. For a change that leaves the object as
    /// ready as it was: edge-triggered watchers need it.
    #[inline]
    pub fn notify_watchers(&mut self, events: Events) -> Wakeups {
        let mut wakeups = Wakeups::default();
        if !self.watchers.is_empty() {
            self.find_watchers(events, &mut wakeups);
        }
        wakeups
    }

    /// Collects all waiters for one of `events`, when the object comes to an end.
    pub fn wake_all(&mut self, events: Events) -> Wakeups {
        let mut wakeups = Wakeups::default();
        for entry in &self.watchers {
            if entry.interest.intersects(events) {
                wakeups.add(&entry.watcher, Notification::Changed(events));
            }
        }
        while self.find_sleeper(events, &mut wakeups) {}
        wakeups
    }

    /// Collects only the next sleeper for one of `events`: a woken thread leaves something for it.
    /// Watchers know already.
    #[inline]
    pub fn pass_on(&mut self, events: Events) -> Wakeups {
        let mut wakeups = Wakeups::default();
        if !self.sleepers.is_empty() {
            self.find_sleeper(events, &mut wakeups);
        }
        wakeups
    }

    /// Returns how many tickets were handed out.
    #[cfg(test)]
    pub(super) fn next_ticket(&self) -> u64 {
        self.next_ticket
    }

    fn index(&self, ticket: Ticket) -> Result<usize, usize> {
        self.sleepers
            .binary_search_by_key(&ticket, |sleeping| sleeping.ticket)
    }

    #[cold]
    fn find_for_change(&mut self, events: Events, wakeups: &mut Wakeups) {
        self.find_watchers(events, wakeups);
        self.find_sleeper(events, wakeups);
    }

    fn find_watchers(&self, events: Events, wakeups: &mut Wakeups) {
        let mut offer = Notification::Offered(events);
        for entry in &self.watchers {
            if entry.interest.intersects(events) {
                let message = match entry.exclusive {
                    true => std::mem::replace(&mut offer, Notification::OfferedOn(events)),
                    false => Notification::Changed(events),
                };
                wakeups.add(&entry.watcher, message);
            }
        }
    }

    /// Removes the first sleeper that is alive. Returns true if there was one.
    fn find_sleeper(&mut self, events: Events, wakeups: &mut Wakeups) -> bool {
        let waits = |sleeping: &Sleeping| sleeping.interest.intersects(events);
        while let Some(index) = self.sleepers.iter().position(waits) {
            let Some(sleeping) = self.sleepers.remove(index) else {
                return false;
            };
            if sleeping.sleeper.is_alive() {
                let message = Notification::Changed(events);
                wakeups.woken.push((sleeping.sleeper, message));
                return true;
            }
        }
        false
    }
}

impl std::fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "WaitQueue({} watchers, {} sleepers)",
            self.watchers.len(),
            self.sleepers.len()
        )
    }
}

impl Wakeups {
    /// Wakes the waiters. The caller holds no lock of an object.
    pub fn run(self) {}

    /// Returns true if there are no waiters to wake.
    pub fn is_empty(&self) -> bool {
        self.woken.is_empty()
    }

    /// Adds the waiters of another change.
    pub fn and(mut self, other: Wakeups) -> Wakeups {
        self.append(other);
        self
    }

    /// Adds the waiters of another change.
    #[inline]
    pub fn append(&mut self, mut other: Wakeups) {
        if !other.woken.is_empty() {
            self.woken.append(&mut other.woken);
        }
    }

    /// Makes the wake-up of one waiter.
    pub(super) fn of(waiter: Arc<dyn Watcher>, events: Events) -> Wakeups {
        let mut wakeups = Wakeups::default();
        wakeups.woken.push((waiter, Notification::Changed(events)));
        wakeups
    }

    fn add(&mut self, watcher: &Arc<dyn Watcher>, message: Notification) {
        self.woken.push((Arc::clone(watcher), message));
    }
}

impl Drop for Wakeups {
    #[inline]
    fn drop(&mut self) {
        if !self.woken.is_empty() {
            self.deliver();
        }
    }
}

impl Wakeups {
    #[cold]
    fn deliver(&mut self) {
        let mut taken = false;
        for (watcher, message) in self.woken.drain(..) {
            match message {
                Notification::Changed(events) => watcher.wake(events),
                Notification::Offered(events) => taken = watcher.offer(events),
                Notification::OfferedOn(events) => taken = taken || watcher.offer(events),
                Notification::Gone => watcher.gone(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
