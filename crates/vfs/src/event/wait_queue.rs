//! Wait queues: who is to be told of which events.
//!
//! A queue lies inside the state of an object, under its lock, so that a look at the state and the
//! registration are one step, and a change and the choice of whom to wake are one. To wake is left
//! to a [`Wakeups`], which runs after the lock is gone: who is woken wants that very lock.
//!
//! There are two kinds of entries, as on Linux:
//! - A *watcher* (a poll, an epoll) is told of every change that interests it, and stays until it
//!   is taken off.
//! - A *sleeper* (a read, a write, an accept) is *exclusive*: of those that wait for the same, a
//!   change wakes the first, and takes it out of the queue. One who has run and leaves something
//!   for the next one passes the wake-up on ([`pass_on`](WaitQueue::pass_on)). So there is no
//!   thundering herd, and no wake-up is lost as long as every woken sleeper looks at the state once
//!   more, even if its time is up, and what suffices for one suffices for each.
//!
//! *Exclusive watchers* (`EPOLLEXCLUSIVE`) share changes with each other: each is told to them in
//! turn, up to the first that has woken somebody with it. Whether it has is known only then, so a
//! change finds them all. They do not share with sleepers, as they do on Linux: a sleeper takes what
//! it came for and does not know what it leaves to them.
//!
//! The kinds lie apart, so a change does not walk over a thousand sleepers to find that nobody
//! watches. A sleeper has a [`Ticket`], and tickets rise along the queue: it finds its place, or that
//! it was woken, in a binary search.
//!
//! A sleeper that no longer exists, since its thread stayed behind at a fork of the host process,
//! is dropped when its turn comes.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Events, FileId, Watcher};

/// Queue of those who wait for an object. Keep it under the lock of the state that they wait for.
#[derive(Default)]
#[doc(alias = "wait_queue_head")]
pub struct WaitQueue {
    /// The youngest first, then the exclusive ones, the oldest first: in this order they are told,
    /// as on Linux.
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

/// Place of a sleeper in one queue, never given out again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(u64);

/// Those whom a change has found. They are woken when this is dropped.
#[derive(Default)]
#[must_use = "drop it when the lock of the object is gone"]
pub struct Wakeups {
    woken: SmallVec<[(Arc<dyn Watcher>, Notification); 2]>,
}

#[derive(Clone, Copy)]
enum Notification {
    Changed(Events),
    /// As `Changed`, to exclusive ones, of whom this is the first in turn.
    Offered(Events),
    /// To the next in turn, if nobody before was woken with it.
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

    /// Returns true if nobody waits.
    pub fn is_empty(&self) -> bool {
        self.watchers.is_empty() && self.sleepers.is_empty()
    }

    /// Adds a sleeper at the end: the first change of `interest` takes it out. Allocates.
    pub fn sleep_on(&mut self, sleeper: Arc<dyn Watcher>, interest: Events) -> Ticket {
        // A queue that gave out one a nanosecond would last for 500 years.
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.sleepers.push_back(Sleeping {
            sleeper,
            interest,
            ticket,
        });
        ticket
    }

    /// Returns true if a sleeper still has its place: nobody has chosen it.
    pub fn holds(&self, ticket: Ticket) -> bool {
        self.index(ticket).is_ok()
    }

    /// Takes a sleeper out, if it still has its place.
    pub fn leave(&mut self, ticket: Ticket) {
        if let Ok(index) = self.index(ticket) {
            self.sleepers.remove(index);
        }
    }

    /// Adds a watcher, as [`Pollee::watch`](super::Pollee::watch) says. Allocates.
    pub fn watch(&mut self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
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

    /// Returns each watcher, its interest and the open file that it is registered for.
    pub fn watchers(
        &self,
    ) -> impl Iterator<Item = (&Arc<dyn Watcher>, Events, Option<FileId>)> + '_ {
        self.watchers
            .iter()
            .map(|entry| (&entry.watcher, entry.interest, entry.file))
    }

    /// Takes out all entries of a watcher.
    pub fn unwatch(&mut self, watcher: &Arc<dyn Watcher>) {
        self.watchers
            .retain(|entry| !is_same(&entry.watcher, watcher));
    }

    /// Takes out those who are registered for `file`, and has them told.
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

    /// Finds those who are to learn that `events` have become true: the watchers, and the first
    /// sleeper.
    #[inline]
    pub fn wake(&mut self, events: Events) -> Wakeups {
        let mut wakeups = Wakeups::default();
        if !self.is_empty() {
            self.find_for_change(events, &mut wakeups);
        }
        wakeups
    }

    /// Finds all watchers of `events`, and no sleeper: for a change that leaves the object as ready
    /// as it was. Who waits for edges is told of it.
    #[inline]
    pub fn tell(&mut self, events: Events) -> Wakeups {
        let mut wakeups = Wakeups::default();
        if !self.watchers.is_empty() {
            self.find_watchers(events, &mut wakeups);
        }
        wakeups
    }

    /// Finds all who wait for one of `events`: those for whom the object has come to an end.
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

    /// Finds the next sleeper that waits for one of `events`, and nobody else: for one who was
    /// woken, and leaves something. Who watches knows already.
    #[inline]
    pub fn pass_on(&mut self, events: Events) -> Wakeups {
        let mut wakeups = Wakeups::default();
        if !self.sleepers.is_empty() {
            self.find_sleeper(events, &mut wakeups);
        }
        wakeups
    }

    /// Returns how many tickets were given out.
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

    /// Takes out the first sleeper that is alive, and tells whether there was one.
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
    /// Wakes them. The caller holds no lock of an object.
    pub fn run(self) {}

    /// Returns true if there is nobody.
    pub fn is_empty(&self) -> bool {
        self.woken.is_empty()
    }

    /// Adds those of another change.
    pub fn and(mut self, other: Wakeups) -> Wakeups {
        self.append(other);
        self
    }

    /// Adds those of another change.
    #[inline]
    pub fn append(&mut self, mut other: Wakeups) {
        if !other.woken.is_empty() {
            self.woken.append(&mut other.woken);
        }
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

fn is_same(one: &Arc<dyn Watcher>, other: &Arc<dyn Watcher>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

#[cfg(test)]
mod tests;
