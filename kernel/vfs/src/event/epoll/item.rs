//! Members of an epoll: watchers that mark themselves as ready.

use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::FileRef;
use fdtable_interests::Key;

use super::{EpollFlags, Set, set_of};
use crate::RcuObject;
use crate::event::{Events, FileId, Pollee, Watcher};

/// Member of an epoll. It holds the pollee of a file, and not the open file.
pub(super) struct Item {
    /// Set and item refer to each other until the item is removed.
    set: Arc<Set>,
    pub(super) key: Key,
    file: FileId,
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
        file: &FileRef<RcuObject>,
        pollee: Arc<dyn Pollee>,
        asked: EpollFlags,
    ) -> Arc<Self> {
        Arc::new(Item {
            set: Arc::clone(set),
            key,
            file: FileId::of(&**file),
            pollee,
            child: set_of(file),
            asked: AtomicCell::new(asked),
            registered: AtomicCell::new(Events::empty()),
        })
    }

    /// Changes the requested events.
    pub(super) fn set_asked(self: &Arc<Self>, asked: EpollFlags) {
        self.asked.store(asked);
        // A `ONESHOT` that is rearmed most often requests the same again.
        if !self.registered.load().contains(asked.events()) {
            self.register();
        }
    }

    /// Registers with the file for the requested events. One that is registered keeps its place:
    /// on Linux, a change of the request does not change the order of notifications.
    pub(super) fn register(self: &Arc<Self>) {
        let interest = self.asked.load().events() | self.registered.load();
        self.registered.store(interest);
        let me: Arc<dyn Watcher> = Arc::clone(self) as _;
        self.pollee.watch(&me, interest, Some(self.file));
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
