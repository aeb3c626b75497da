//! Waiting for one of many files: the core of `poll` and `select`.
//!
//! A [`Poll`] holds references to the files, as Linux does: a file whose descriptor is closed
//! meanwhile stays open until the call ends. It registers the calling thread with each file, and
//! then checks all of them each time it is woken, so that no change between two checks is lost.
//! Dropping it unregisters the thread.

use std::sync::Arc;
use std::time::Instant;

use fdtable::FileRef;

use super::{Events, Limit, Pollee, Restart, Sleeper, Watcher};
use crate::{Errno, RcuObject};

/// Files that a thread waits for. Used by that thread only.
pub(crate) struct Poll {
    me: Arc<Sleeper>,
    /// The same.
    watcher: Arc<dyn Watcher>,
    entries: Vec<PollEntry>,
}

enum PollEntry {
    /// A file and its pollee; no pollee if it is always ready.
    File(FileRef<RcuObject>, Option<Arc<dyn Pollee>>),
    /// Fixed events of a descriptor without a file.
    Fixed(Events),
}

impl Poll {
    /// Makes an empty set for the calling thread.
    pub(crate) fn new() -> Self {
        let me = Sleeper::current();
        Poll {
            watcher: Arc::clone(&me) as _,
            me,
            entries: Vec::new(),
        }
    }

    /// Adds a file, and registers with it. Allocates.
    pub(crate) fn add(&mut self, file: FileRef<RcuObject>, interest: Events) {
        let pollee = file.pollee();
        if let Some(pollee) = &pollee {
            pollee.watch(&self.watcher, interest, None);
        }
        self.entries.push(PollEntry::File(file, pollee));
    }

    /// Adds an entry that is always ready for `events`, and for no others. Allocates.
    pub(crate) fn add_fixed(&mut self, events: Events) {
        self.entries.push(PollEntry::Fixed(events));
    }

    /// Sleeps until `look` returns a value, or until `deadline`.
    ///
    /// `look` gets the events of each entry, in the order in which they were added. Returns nothing
    /// if the deadline comes first. Blocks; the caller is not in a read-side section.
    ///
    /// # Errors
    /// `EINTR` if a signal handler runs first.
    pub(crate) fn wait<R>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut dyn Iterator<Item = Events>) -> Option<R>,
    ) -> Result<Option<R>, Errno> {
        loop {
            if let Some(result) = look(&mut self.entries.iter().map(PollEntry::events)) {
                return Ok(Some(result));
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(None);
            }
            let limit = Limit::new(deadline, Restart::Never);
            // Without a look: what there is may be the handler's own.
            if self.me.sleep(limit).interrupted {
                return Err(Errno::EINTR);
            }
        }
    }
}

impl PollEntry {
    fn events(&self) -> Events {
        match self {
            PollEntry::File(file, _) => file.events(),
            PollEntry::Fixed(events) => *events,
        }
    }

    fn pollee(&self) -> Option<&Arc<dyn Pollee>> {
        match self {
            PollEntry::File(_, pollee) => pollee.as_ref(),
            PollEntry::Fixed(_) => None,
        }
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        let pollees = self.entries.iter().filter_map(PollEntry::pollee);
        pollees.for_each(|pollee| pollee.unwatch(&self.watcher));
    }
}
