//! Members of an epoll: watchers that put themselves into the ready list.

use std::sync::{Arc, Weak};

use crossbeam_utils::atomic::AtomicCell;

use super::{EpollEvent, EpollFlags, Key, Set};
use crate::event::{Events, Pollee, Watcher};

/// Member of an epoll. It holds the pollee of a file, and not the open file.
pub(super) struct Item {
    /// Set and item refer to each other until the item is removed.
    set: Arc<Set>,
    /// This item.
    me: Weak<Item>,
    pub(super) key: Key,
    pub(super) pollee: Arc<dyn Pollee>,
    /// The set of the member, if it is an epoll.
    pub(super) child: Option<Arc<Set>>,
    /// Requested events and modes. Written under the lock of the members. A wake-up reads it
    /// without that lock: the lock of the file orders every change that a check did not see after
    /// the write.
    asked: AtomicCell<EpollFlags>,
    /// Interest registered with the file. Guarded by the lock of the members.
    registered: AtomicCell<Events>,
    data: AtomicCell<u64>,
    /// True if the item is in the ready list. Guarded by the lock of the list.
    pub(super) listed: AtomicCell<bool>,
    /// True if the item was removed from the set. Guarded by the lock of the ready list.
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

    /// Returns a reference, to be put into the ready list; none if it is being dropped.
    pub(super) fn me(&self) -> Option<Arc<Item>> {
        self.me.upgrade()
    }

    /// Returns the requested events and the user data.
    pub(super) fn event(&self) -> EpollEvent {
        EpollEvent::new(self.asked.load(), self.data.load())
    }

    /// Changes the requested events.
    pub(super) fn set_event(self: &Arc<Self>, event: EpollEvent) {
        self.data.store(event.data);
        self.asked.store(asked(event));
        // A `ONESHOT` that is rearmed most often requests the same again.
        if !self.registered.load().contains(event.events.events()) {
            self.register();
        }
    }

    /// Registers with the file for the requested events. One that is registered keeps its place:
    /// on Linux, a change of the request does not change the order of notifications.
    pub(super) fn register(self: &Arc<Self>) {
        let interest = self.asked.load().events() | self.registered.load();
        self.registered.store(interest);
        let me: Arc<dyn Watcher> = Arc::clone(self) as _;
        self.pollee.watch(&me, interest, Some(self.key.1));
    }

    pub(super) fn unregister(self: &Arc<Self>) {
        let me: Arc<dyn Watcher> = Arc::clone(self) as _;
        self.pollee.unwatch(&me);
    }

    /// Returns those of the requested events that the file is ready for now.
    pub(super) fn ask(&self) -> Events {
        let asked = self.asked.load().events();
        if asked.is_empty() {
            return asked;
        }
        self.pollee.events() & asked
    }

    /// Makes the event to return, and clears the request of a `ONESHOT`.
    pub(super) fn found(&self, events: Events) -> EpollEvent {
        let asked = self.asked.load();
        if asked.contains(EpollFlags::ONESHOT) {
            self.asked.store(asked & EpollFlags::MODES);
        }
        EpollEvent::new(events.into(), self.data.load())
    }

    /// Returns true if the item stays in the ready list after it was returned.
    pub(super) fn stays_listed(&self) -> bool {
        !(self.asked.load()).intersects(EpollFlags::ET | EpollFlags::ONESHOT)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.asked.load().contains(EpollFlags::EXCLUSIVE)
    }
}

/// Returns the request of an event, with the events that are always reported.
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
        self.asked.load().events().intersects(events) && self.set.make_ready(self)
    }
}
