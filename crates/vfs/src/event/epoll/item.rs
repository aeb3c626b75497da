//! Members of an epoll: a watcher that puts itself into the ready list.

use std::sync::{Arc, Weak};
use std::time::Instant;

use crossbeam_utils::atomic::AtomicCell;

use super::{EpollEvent, EpollFlags, Key, Set};
use crate::event::{Events, Pollee, Watcher};

/// Member of an epoll. It holds what can be watched of a file, and not the open file.
pub(super) struct Item {
    /// Until it is taken out, each knows the other.
    set: Arc<Set>,
    /// This very item.
    me: Weak<Item>,
    key: Key,
    pollee: Arc<dyn Pollee>,
    /// The same, if it is an epoll.
    child: Option<Arc<Set>>,
    /// What is asked, and the modes. Written under the lock of the members. A wake-up reads it
    /// without: the lock of the file orders a change after the question that did not see it.
    asked: AtomicCell<EpollFlags>,
    /// What the file was told that interests us. Under the lock of the members.
    registered: AtomicCell<Events>,
    data: AtomicCell<u64>,
    /// Whether it is in the list. Under the lock of the list.
    pub(super) listed: AtomicCell<bool>,
    /// Whether it was taken out of the set. Under the lock of the list.
    pub(super) removed: AtomicCell<bool>,
}

impl Item {
    pub(super) fn new(
        set: &Arc<Set>,
        key: Key,
        pollee: Arc<dyn Pollee>,
        child: Option<Arc<Set>>,
        event: EpollEvent,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Item {
            set: Arc::clone(set),
            me: Weak::clone(me),
            key,
            pollee,
            child,
            asked: AtomicCell::new(asked(event)),
            registered: AtomicCell::new(Events::empty()),
            data: AtomicCell::new(event.data),
            listed: AtomicCell::new(false),
            removed: AtomicCell::new(false),
        })
    }

    /// Returns a reference, for a place in the list; none if it is just being dropped.
    pub(super) fn me(&self) -> Option<Arc<Item>> {
        self.me.upgrade()
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    pub(super) fn child(&self) -> Option<&Arc<Set>> {
        self.child.as_ref()
    }

    /// Returns what is asked, and the word of the caller's.
    pub(super) fn event(&self) -> EpollEvent {
        EpollEvent::new(self.asked.load(), self.data.load())
    }

    /// Changes what is asked.
    pub(super) fn set_event(self: &Arc<Self>, event: EpollEvent) {
        self.data.store(event.data);
        self.asked.store(asked(event));
        if !self.registered.load().contains(event.events.events()) {
            self.unregister();
            self.register();
        }
    }

    /// Has the file tell of changes of what is asked. The set does not: a `ONESHOT` that is asked
    /// again most often asks for the same.
    pub(super) fn register(self: &Arc<Self>) {
        let interest = self.asked.load().events();
        self.registered.store(interest);
        let me: Arc<dyn Watcher> = Arc::clone(self) as _;
        self.pollee.watch(&me, interest, Some(self.key.1));
    }

    pub(super) fn unregister(self: &Arc<Self>) {
        let me: Arc<dyn Watcher> = Arc::clone(self) as _;
        self.pollee.unwatch(&me);
    }

    /// Asks the file what it is ready for, of what is asked.
    pub(super) fn ask(&self) -> Events {
        let asked = self.asked.load().events();
        if asked.is_empty() {
            return asked;
        }
        self.pollee.events() & asked
    }

    /// Makes the event that is returned, and empties what a `ONESHOT` asks.
    pub(super) fn found(&self, events: Events) -> EpollEvent {
        let asked = self.asked.load();
        if asked.contains(EpollFlags::ONESHOT) {
            self.asked.store(asked & EpollFlags::MODES);
        }
        EpollEvent::new(events.into(), self.data.load())
    }

    /// Returns true if it stays in the list after it was returned.
    pub(super) fn returns_to_the_list(&self) -> bool {
        !(self.asked.load()).intersects(EpollFlags::ET | EpollFlags::ONESHOT)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.asked.load().contains(EpollFlags::EXCLUSIVE)
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.pollee.is_revoked()
    }

    pub(super) fn is_timed(&self) -> bool {
        self.pollee.is_timed()
    }

    pub(super) fn next_change(&self) -> Option<Instant> {
        self.pollee.next_change()
    }
}

/// Returns what an event asks: also for what is told to everybody.
fn asked(event: EpollEvent) -> EpollFlags {
    event.events | EpollFlags::ALWAYS
}

impl Watcher for Item {
    fn wake(&self, events: Events) {
        self.offer(events);
    }

    fn gone(&self) {
        if let Some(me) = self.me() {
            self.set.remove(&me);
        }
    }

    fn is_exclusive(&self) -> bool {
        self.is_shared()
    }

    fn offer(&self, events: Events) -> bool {
        self.asked.load().events().intersects(events) && self.set.suspect(self)
    }
}
