//! The POSIX record locks of a table of descriptors: where it has some, so that closes find them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crossbeam_utils::atomic::AtomicCell;
use fdtable::Closed;
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::{Locks, Owner};
use crate::event::Wakeups;
use crate::{Errno, Object};

/// Record locks of a table of descriptors. They end with it.
///
/// A close looks at one word, which says whether the table has any. It is written before the
/// descriptor is asked for once more, and that goes through the lock of the table: so either the
/// word is seen by the close, or the close is seen by who sets the lock (`fdtable::Files::names`).
#[derive(Debug)]
#[doc(alias = "files_struct")]
pub(crate) struct TableLocks {
    /// Nothing until somebody locks: forks on many processors then share no number.
    owner: OnceLock<Owner>,
    /// The sets in which the table has or had locks,
    /// by their address, since a table may have locks on many files.
    sets: Mutex<HashMap<usize, Arc<Locks>, RandomState>>,
    /// There are such sets. Written with the lock.
    has_some: AtomicCell<bool>,
}

/// Number of the next table.
static NEXT: AtomicCell<u64> = AtomicCell::new(1);

impl TableLocks {
    /// Makes the locks of a new table: none.
    pub(crate) fn new() -> Self {
        TableLocks {
            owner: OnceLock::new(),
            sets: Mutex::default(),
            has_some: AtomicCell::new(false),
        }
    }

    /// Returns whose the locks are: nobody else's, ever.
    pub(crate) fn owner(&self) -> Owner {
        *self.owner.get_or_init(|| Owner::Table(NEXT.fetch_add(1)))
    }

    /// Notes that the table has a lock in a set.
    ///
    /// # Errors
    /// `ENOLCK` if there is no memory.
    pub(crate) fn note(&self, locks: &Arc<Locks>) -> Result<(), Errno> {
        let mut sets = self.sets.lock();
        sets.try_reserve(1).map_err(|_| Errno::ENOLCK)?;
        sets.entry(address(locks))
            .or_insert_with(|| Arc::clone(locks));
        self.has_some.store(true);
        Ok(())
    }

    /// Returns true if a close has anything to look after.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.has_some.load()
    }

    /// Ends the locks of the table on a file of which it closes a descriptor.
    #[inline]
    pub(crate) fn close(&self, object: &dyn Object) {
        if self.has_some() {
            self.end_on(object);
        }
    }

    /// Ends the locks of the table on files of which it closes descriptors.
    pub(crate) fn close_all(&self, closed: Closed<'_, dyn Object>) {
        if self.has_some() {
            closed.files().for_each(|file| self.end_on(&*file));
        }
    }

    #[cold]
    fn end_on(&self, object: &dyn Object) {
        let Some(locks) = object.locks().and_then(|locks| locks.locks_if_any()) else {
            return;
        };
        let mut sets = self.sets.lock();
        let Some(set) = sets.remove(&address(locks)) else {
            return;
        };
        let wakeups = set.remove_owner(self.owner());
        self.has_some.store(!sets.is_empty());
        drop(sets);
        wakeups.run();
    }
}

/// Tells sets apart for as long as the table holds them.
fn address(locks: &Arc<Locks>) -> usize {
    Arc::as_ptr(locks).addr()
}

/// Ends all locks of the table: of a process that ends without closing its descriptors.
impl Drop for TableLocks {
    fn drop(&mut self) {
        if !self.has_some() {
            return;
        }
        let sets = std::mem::take(self.sets.get_mut());
        let remove = |set: &Arc<Locks>| set.remove_owner(self.owner());
        sets.values()
            .map(remove)
            .fold(Wakeups::default(), Wakeups::and)
            .run();
    }
}
