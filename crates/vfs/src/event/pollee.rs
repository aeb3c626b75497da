//! Who watches, and what can be watched.

use std::sync::Arc;
use std::time::Instant;

use super::Events;

/// One who is told what a file has become ready for: a sleeping thread, or an entry of an epoll.
pub trait Watcher: Send + Sync {
    /// Learns that some of `events` have become true. They may be untrue again already.
    ///
    /// Runs outside of the locks of the file, on the thread that changed it, and does not sleep. One
    /// that watches an epoll does not ask it here: time that has passed is told while the members
    /// are locked.
    fn wake(&self, events: Events);

    /// Learns that the open file for which it was registered is released.
    fn gone(&self) {}

    /// Returns true if there is still anybody to wake. Runs under the lock of the file, and takes none.
    fn is_alive(&self) -> bool {
        true
    }

    /// Returns true if it shares changes with others of its kind: each is [offered](Self::offer) to
    /// them in turn. Asked once, when it is registered.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Learns of a change as [`wake`](Self::wake), and tells whether it has woken somebody with it.
    /// If not, the next one learns of it too.
    fn offer(&self, events: Events) -> bool {
        self.wake(events);
        true
    }
}

/// What of an open file can be watched. It outlives the open file, which it does not hold.
pub trait Pollee: Send + Sync {
    /// Returns what the file is ready for now. Takes its locks for a moment.
    fn events(&self) -> Events;

    /// Registers `watcher` for changes of `interest`, and of [`Events::ALWAYS`], until it is taken
    /// off. `file` names the open file for which it is registered, if it is to learn its end.
    /// Allocates.
    ///
    /// A change that comes before this is for the caller to find: it asks [`events`](Self::events)
    /// afterwards.
    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>);

    /// Takes `watcher` off, wherever it is registered. It may be told of one more change that is
    /// on its way.
    fn unwatch(&self, watcher: &Arc<dyn Watcher>);

    /// Takes off those who are registered for `file`, and tells them that it is gone.
    fn forget(&self, file: FileId);

    /// Returns true if the open file was revoked. Its [`events`](Self::events) then have
    /// [`Events::ERR`].
    fn is_revoked(&self) -> bool {
        false
    }

    /// Returns true if the events may change by time alone, though nobody does anything: a timer's.
    fn is_timed(&self) -> bool {
        false
    }

    /// Tells watchers what time has changed since this was last called, and returns the moment at
    /// which it will again, if there is one. Whoever sleeps wakes himself then, and calls this.
    ///
    /// The caller asks for [`events`](Self::events) afterwards.
    fn next_change(&self) -> Option<Instant> {
        None
    }
}

/// Identity of an open file for as long as it is not released: the place of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(usize);

impl FileId {
    /// Returns the identity of the open file of an object.
    pub fn of<O: ?Sized>(object: &O) -> Self {
        FileId(std::ptr::from_ref(object).cast::<()>().addr())
    }
}
