//! Members of an epoll: watchers that mark themselves as ready.

use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable_interests::Key;

use super::{EpollEvent, EpollFlags, Set};
use crate::event::{Events, FileId, Pollee, Watcher};

/// Member of an epoll. It holds the pollee of a file, and not the open file.
pub(super) struct Item {
    /// Set and item refer to each other until the item is removed.
    set: Arc<Set>,
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
}

impl Item {
    pub(super) fn new(
        set: &Arc<Set>,
        key: Key,
        pollee: Arc<dyn Pollee>,
        child: Option<Arc<Set>>,
        event: EpollEvent,
    ) -> Arc<Self> {
        Arc::new(Item {
            set: Arc::clone(set),
            key,
            pollee,
            child,
            asked: AtomicCell::new(event.with_always().events),
            registered: AtomicCell::new(Events::empty()),
        })
    }

    /// Changes the requested events.
    pub(super) fn set_asked(self: &Arc<Self>, asked: EpollFlags) {
        self.asked.store(asked);
        // A `ONESHOT` that is rearmed most often requests the same again.
        if !self.registered.load().contains(asked.events()) {
            self.register(asked.events(), None);
        }
    }

    /// Registers with the file for events. One that is registered keeps its place: on Linux, a
    /// change of the request does not change the order of notifications.
    pub(super) fn register(self: &Arc<Self>, events: Events, file: impl Into<Option<FileId>>) {
        let interest = events | self.registered.load();
        self.registered.store(interest);
        let me: Arc<dyn Watcher> = Arc::clone(self) as _;
        self.pollee.watch(&me, interest, file.into());
    }

    pub(super) fn unregister(self: &Arc<Self>) {
        let me: Arc<dyn Watcher> = Arc::clone(self) as _;
        self.pollee.unwatch(&me);
    }

    /// Returns those of the requested events that the file is ready for now.
    pub(super) fn ask(&self) -> Events {
        self.pollee.events() & self.asked.load().events()
    }
}

impl Watcher for Item {
    fn wake(&self, events: Events) {
        self.offer(events);
    }

    fn gone(&self) {
        self.set.forget_item(self);
    }

    fn is_exclusive(&self) -> bool {
        self.asked.load().contains(EpollFlags::EXCLUSIVE)
    }

    fn offer(&self, events: Events) -> bool {
        self.asked.load().events().intersects(events) && self.set.make_ready(self.key)
    }
}
