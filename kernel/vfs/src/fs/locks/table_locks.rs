//! The POSIX record locks of a table of descriptors, as its closes find them.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::ClosedFiles;
use fdtable_shm::{Mutex, OnceCell};
use foldhash::fast::RandomState;

use super::{Locks, Owner};
use crate::event::Wakeups;
use crate::{Errno, Object, RcuObject};

/// POSIX record locks of a table of descriptors. They end with the table. In Linux: `files_struct`.
///
/// A close reads one word that says whether the table has any locks. A lock sets this word and then
/// looks the descriptor up again, through the lock of the table. So either the close sees the word,
/// or the thread that sets the lock sees the close (`fdtable::Files::refers_to`).
#[derive(Debug)]
pub(crate) struct TableLocks {
    /// Set at the first lock, so that forks on many CPUs share no counter.
    owner: OnceCell<Owner>,
    /// Sets in which the table has or had locks, by their address. A table may have locks on many
    /// files.
    sets: Mutex<HashMap<usize, Arc<Locks>, RandomState>>,
    /// True if there are such sets. Written under the lock of `sets`.
    has_some: AtomicCell<bool>,
    /// See [`Process::lock_moves`](crate::Process::lock_moves).
    pub(crate) moves: Mutex<()>,
    /// How many processes use the table: those that have not ended.
    pub(crate) users: AtomicCell<usize>,
}

fdtable_sync::global! {
    /// ID of the next table.
    pub(super) static NEXT: AtomicCell<u64> = AtomicCell::new(1);
}

impl TableLocks {
    /// Makes the locks of a new table, which one process uses: none.
    pub(crate) fn new() -> Self {
        TableLocks {
            owner: OnceCell::new(),
            sets: Mutex::default(),
            has_some: AtomicCell::new(false),
            moves: Mutex::new(()),
            users: AtomicCell::new(1),
        }
    }

    /// Returns the owner of these locks, unique forever.
    pub(crate) fn owner(&self) -> Owner {
        *self.owner.get_or_init(|| Owner::Table(NEXT.fetch_add(1)))
    }

    /// Records that the table has a lock in a set.
    ///
    /// # Errors
    /// `ENOLCK` if memory runs out.
    pub(crate) fn note(&self, locks: &Arc<Locks>) -> Result<(), Errno> {
        let mut sets = self.sets.lock();
        sets.try_reserve(1).map_err(|_| Errno::ENOLCK)?;
        sets.entry(address(locks))
            .or_insert_with(|| Arc::clone(locks));
        self.has_some.store(true);
        Ok(())
    }

    /// Returns true if a close has locks to check.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.has_some.load()
    }

    /// Releases the locks of the table on a file whose descriptor is closed.
    #[inline]
    pub(crate) fn close(&self, object: &dyn Object) {
        if self.has_some() {
            self.end_on(object);
        }
    }

    /// Releases the locks of the table on files whose descriptors are closed.
    pub(crate) fn close_all(&self, closed: &ClosedFiles<RcuObject>) {
        if self.has_some() {
            closed.files().for_each(|file| self.end_on(&**file));
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

/// Identifies a set while the table holds it.
fn address(locks: &Arc<Locks>) -> usize {
    Arc::as_ptr(locks).addr()
}

/// Releases all locks of the table, for a process that ends without closing its descriptors.
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
