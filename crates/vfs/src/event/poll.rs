//! Waiting for one of many files: the inside of `poll` and `select`.
//!
//! A [`Poll`] holds references to the files, as Linux does: a file whose number is closed meanwhile
//! stays open until the call ends. It registers the calling thread with each file, and then looks at
//! all of them whenever it is woken, so that no change between two looks is lost. Its end takes the
//! thread off again, whichever way it comes.

use std::sync::Arc;
use std::time::Instant;

use fdtable::FileRef;

use super::{Events, Pollee, Sleeper, Watcher};
use crate::Object;

/// Files that a thread waits for together. It is of that thread alone.
pub(crate) struct Poll {
    me: Arc<dyn Watcher>,
    entries: Vec<PollEntry>,
}

enum PollEntry {
    /// A file, and what can be watched of it: nothing if it is always ready.
    File(FileRef<dyn Object>, Option<Arc<dyn Pollee>>),
    /// What stands for a file that there is none of, and does not change.
    Fixed(Events),
}

impl Poll {
    /// Makes one of the calling thread, without files.
    pub(crate) fn new() -> Self {
        Poll {
            me: Sleeper::current(),
            entries: Vec::new(),
        }
    }

    /// Registers with a file. Allocates.
    pub(crate) fn add(&mut self, file: FileRef<dyn Object>, interest: Events) {
        let pollee = file.pollee();
        if let Some(pollee) = &pollee {
            pollee.watch(&self.me, interest, None);
        }
        self.entries.push(PollEntry::File(file, pollee));
    }

    /// Adds what is ready for `events` and never for others. Allocates.
    pub(crate) fn add_fixed(&mut self, events: Events) {
        self.entries.push(PollEntry::Fixed(events));
    }

    /// Sleeps until `look`, which is given what each entry is ready for, in the order in which they
    /// were added, returns something, or until `deadline`. Blocks; the caller is in no read-side
    /// section.
    pub(crate) fn wait<R>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut dyn Iterator<Item = Events>) -> Option<R>,
    ) -> Option<R> {
        loop {
            // First the time, then the look: a timer that expires between the two is seen.
            let next_change = self.next_change();
            if let Some(result) = look(&mut self.entries.iter().map(PollEntry::events)) {
                return Some(result);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return None;
            }
            Sleeper::sleep(earlier(deadline, next_change));
        }
    }

    fn next_change(&self) -> Option<Instant> {
        let pollees = self.entries.iter().filter_map(PollEntry::pollee);
        pollees.filter_map(|pollee| pollee.next_change()).min()
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
        pollees.for_each(|pollee| pollee.unwatch(&self.me));
    }
}

/// Returns the earlier of two moments, of which either may never come.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}
