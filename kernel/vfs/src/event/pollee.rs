//! Pollees, and the watchers that register with them.

use std::sync::Arc;

use super::{Events, WaitQueue, Wakeups};

/// Receiver of a file's events: a sleeping thread, or an item of an epoll.
pub trait Watcher: Send + Sync {
    /// Reports that some of `events` have become true. They may be false again already.
    ///
    /// Runs on the thread that changed the file, outside the file's locks, and does not sleep.
    fn wake(&self, events: Events);

    /// Reports that the open file for which it was registered is released.
    fn gone(&self) {}

    /// Returns true if there is still a thread to wake. Runs under the lock of the file, and takes
    /// none.
    fn is_alive(&self) -> bool {
        true
    }

    /// Returns true if the watcher shares changes with others of its kind. Each change is then
    /// [offered](Self::offer) to them in turn. Called once, at the registration.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Reports a change like [`wake`](Self::wake). Returns true if it has woken a thread; if not,
    /// the change is offered to the next watcher too.
    fn offer(&self, events: Events) -> bool {
        self.wake(events);
        true
    }
}

/// Pollable part of an open file. It lives longer than the open file, and does not hold it.
pub trait Pollee: Send + Sync {
    /// Returns the events that the file is ready for now. Takes its locks briefly.
    fn events(&self) -> Events;

    /// Calls `visit` with each wait queue of the file, under its lock. A pollee without a queue of
    /// its own implements [`watch`](Self::watch), [`unwatch`](Self::unwatch) and
    /// [`forget`](Self::forget) instead.
    fn with_queues(&self, _visit: &mut dyn FnMut(&mut WaitQueue)) {}

    /// Registers `watcher` for changes of `interest` and of [`Events::ALWAYS`], until it is
    /// unregistered. If `file` is given, the watcher is notified of the release of that open file.
    /// Allocates. A watcher that is registered keeps its place among the others, and `interest` is
    /// added to its own.
    ///
    /// An earlier change is not reported: the caller asks for [`events`](Self::events) afterwards.
    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        self.with_queues(&mut |queue| queue.watch(watcher, interest, file));
    }

    /// Unregisters `watcher` from everything. One change that is being delivered may still reach
    /// it.
    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        self.with_queues(&mut |queue| queue.unwatch(watcher));
    }

    /// Unregisters the watchers for `file`, and notifies them that it is gone.
    fn forget(&self, file: FileId) {
        let mut wakeups = Wakeups::default();
        self.with_queues(&mut |queue| wakeups.append(queue.forget(file)));
        wakeups.run();
    }

    /// Returns true if the open file was revoked. Its [`events`](Self::events) then include
    /// [`Events::ERR`].
    fn is_revoked(&self) -> bool {
        false
    }
}

/// Identity of an open file until it is released: the address of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(usize);

impl FileId {
    /// Returns the identity of the open file of an object.
    pub fn of<O: ?Sized>(object: &O) -> Self {
        FileId(std::ptr::from_ref(object).cast::<()>().addr())
    }
}
