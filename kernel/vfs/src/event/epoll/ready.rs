//! The ready list of an epoll, and the threads that wait for it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::host::HostWaiters;
use super::item::Item;
use crate::Errno;
use crate::event::{Events, WaitQueue, Wakeups};

/// State that the second lock of an epoll guards.
#[derive(Default)]
pub(super) struct Ready {
    /// In the order in which they are asked. Each item is in it at most once, and marked.
    list: VecDeque<Arc<Item>>,
    /// How many items in the list were removed from the set.
    removed: usize,
    waiters: WaitQueue,
    /// Threads that wait in the host's set instead.
    in_host: HostWaiters,
    revoked: bool,
}

impl Ready {
    pub(super) fn waiters(&mut self) -> &mut WaitQueue {
        &mut self.waiters
    }

    pub(super) fn in_host(&mut self) -> &mut HostWaiters {
        &mut self.in_host
    }

    /// Returns true if a waiter has something to do.
    pub(super) fn has_work(&self) -> bool {
        self.revoked || self.list.len() > self.removed
    }

    /// Returns the length of the list.
    #[cfg(test)]
    pub(super) fn listed(&self) -> usize {
        self.list.len()
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.revoked
    }

    /// Ends the use, and collects all waiters.
    pub(super) fn revoke(&mut self) -> Wakeups {
        self.revoked = true;
        let woken = self.waiters.wake_all(Events::READABLE | Events::ALWAYS);
        woken.and(self.in_host.wake_one())
    }

    /// Puts an item at the end of the list, if it is not there. Collects the watchers and one
    /// waiter in either case, for edge-triggering.
    pub(super) fn make_ready(&mut self, item: &Item) -> (Wakeups, Wakeups) {
        if item.removed.load() {
            return <_>::default();
        }
        self.put_last(item);
        let events = Events::READABLE;
        (self.waiters.notify_watchers(events), self.wake_one())
    }

    /// Collects one more waiter, if items are left.
    pub(super) fn pass_on(&mut self) -> Wakeups {
        if self.has_work() {
            self.wake_one()
        } else {
            Wakeups::default()
        }
    }

    /// Collects one waiter, wherever it waits.
    fn wake_one(&mut self) -> Wakeups {
        let woken = self.waiters.pass_on(Events::READABLE);
        match woken.is_empty() {
            true => self.in_host.wake_one(),
            false => woken,
        }
    }

    /// Returns how many items there are to ask. No item is removed from the set during a
    /// collection.
    pub(super) fn begin_collect(&self) -> Result<usize, Errno> {
        if self.revoked {
            return Err(Errno::EIO);
        }
        Ok(self.list.len() - self.removed)
    }

    /// Takes the first item that is in the set. From here on, a change puts it back.
    pub(super) fn take_first(&mut self) -> Option<Arc<Item>> {
        loop {
            let item = self.list.pop_front()?;
            item.listed.store(false);
            if !item.removed.load() {
                return Some(item);
            }
            self.removed -= 1;
        }
    }

    /// Puts an item that a poll of the epoll has taken back to the front. Collects one waiter too:
    /// one that was woken meanwhile may have found the list empty.
    pub(super) fn put_first(&mut self, item: &Item) -> Wakeups {
        if let Some(item) = Self::mark(item) {
            self.list.push_front(item);
        }
        self.pass_on()
    }

    pub(super) fn put_last(&mut self, item: &Item) {
        if let Some(item) = Self::mark(item) {
            self.list.push_back(item);
        }
    }

    /// Marks an item as listed, and returns it if it has to be inserted.
    fn mark(item: &Item) -> Option<Arc<Item>> {
        if item.removed.load() || item.listed.load() {
            return None;
        }
        let me = item.me()?;
        item.listed.store(true);
        Some(me)
    }

    /// Removes an item, or leaves it to be skipped. The list is swept when half of it is removed
    /// items, so a removal takes amortised constant time.
    pub(super) fn remove(&mut self, item: &Item) {
        if item.removed.swap(true) || !item.listed.load() {
            return;
        }
        self.removed += 1;
        if self.removed * 2 >= self.list.len() {
            self.list.retain(|item| !item.removed.load());
            self.removed = 0;
        }
    }
}

#[cfg(test)]
mod tests;
