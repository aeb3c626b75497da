//! Locks of files: record locks of `fcntl`, and those of `flock`, which are of the whole file.
//!
//! They are advisory: nobody is kept from reading or writing. They are three kinds in two worlds.
//! - POSIX record locks belong to a table of descriptors. They go at the first close of *any*
//!   descriptor of the file in that table, whoever opened it: POSIX wants it so.
//! - Record locks of an open file (`F_OFD_SETLK`) go when that open file is released. They and
//!   POSIX locks are in each other's way.
//! - Locks of `flock` belong to an open file too, and are in the way of each other alone.
//!
//! Each inode has a [`LockSet`], which takes one word until somebody locks something. Everything
//! of one set is under one lock. Who waits sleeps on the queue of the set; whatever frees something
//! wakes all of them, and each looks again for itself, so there is no order among them, as on
//! Linux.
//!
//! # Locks of our own
//! `TableLocks::sets` of a table of descriptors, then `Locks::state` of a set, then the list of who
//! [waits for whom](deadlock). Wake-ups run after all of them.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::event::{Events, FileId, WaitQueue, Wakeups, wait};
use crate::{Errno, OpenFlags};

mod deadlock;
mod flock;
mod records;
mod request;
mod table_locks;

pub(crate) use flock::Flock;
pub(crate) use records::{Owner, Range, Record, Wanted};
pub use request::{FileLock, LockFrom, LockKind, LockOwner, LockWait};
pub(crate) use table_locks::TableLocks;

use records::Records;

/// All locks of a file: one for each inode. Empty, it takes one word.
#[derive(Debug, Default)]
#[doc(alias = "file_lock_context")]
pub struct LockSet {
    /// Nothing until the first lock.
    locks: OnceLock<Arc<Locks>>,
}

/// Locks of a file that had one.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    records: Records,
    flocks: Vec<Flock>,
    queue: WaitQueue,
    /// Somebody waits who is on the list of who waits for whom.
    is_waited_for: bool,
}

/// Request for a record lock, or to give one up.
pub(crate) struct LockRequest<'a> {
    pub(crate) wanted: Wanted,
    pub(crate) wait: LockWait,
    /// Returns true if the open file was revoked.
    pub(crate) is_revoked: &'a dyn Fn() -> bool,
}

impl LockSet {
    /// Makes an empty set. Does not allocate.
    pub const fn new() -> Self {
        LockSet {
            locks: OnceLock::new(),
        }
    }

    /// Returns the locks, also if there are none yet. Allocates once.
    pub(crate) fn locks(&self) -> &Arc<Locks> {
        self.locks.get_or_init(Arc::default)
    }

    /// Returns the locks, if there ever was one.
    pub(crate) fn locks_if_any(&self) -> Option<&Arc<Locks>> {
        self.locks.get()
    }

    /// Ends the locks of an open file that is released. Nobody uses it, so no lock of it comes
    /// after this.
    pub(crate) fn release(&self, file: FileId) {
        if let Some(locks) = self.locks.get() {
            let mut state = locks.state.lock();
            let frees = state.remove(file, |record| record.owner == Owner::File(file));
            let wakeups = locks.wake_all_if(frees, &mut state);
            drop(state);
            wakeups.run();
        }
    }

    /// Ends the locks that were set through an open file that is revoked, and wakes those who wait
    /// for more. Who asks for one meanwhile finds that the file is revoked, now or when he has it:
    /// all take the lock that this takes, so it cannot be left out when there are no locks.
    pub(crate) fn revoke(&self, file: FileId) {
        let locks = self.locks();
        let mut state = locks.state.lock();
        state.remove(file, |record| record.file == file);
        let wakeups = locks.wake_all(&mut state);
        drop(state);
        wakeups.run();
    }
}

impl State {
    /// Removes the record locks that `which` says, and the lock of the whole file that `file` has.
    /// Returns true if there were any.
    fn remove(&mut self, file: FileId, which: impl Fn(&Record) -> bool) -> bool {
        let before = self.flocks.len();
        self.flocks.retain(|flock| flock.file != file);
        self.records.remove(which) || self.flocks.len() < before
    }
}

impl Locks {
    /// Finds a record lock that is in the way of `wanted`.
    pub(crate) fn find_conflict(&self, wanted: &Wanted) -> Option<Record> {
        self.state.lock().records.conflict(wanted).copied()
    }

    /// Sets a record lock, or gives it up. Blocks if asked to.
    ///
    /// # Errors
    /// `EAGAIN` if another owner has a lock that is in the way and the request does not wait;
    /// `EDEADLK` if it would wait for one who waits for this owner; `EIO` if the open file is
    /// revoked; `ENOLCK` if there is no memory.
    pub(crate) fn set(self: &Arc<Self>, request: &LockRequest<'_>) -> Result<(), Errno> {
        let mut waits = false;
        let attempt = |state: &mut State| {
            if waits {
                deadlock::end_wait();
            }
            let done = self.try_set(state, request);
            waits = done.is_none();
            done
        };
        let done = wait(
            &self.state,
            |state| &mut state.queue,
            Events::OUT,
            None,
            attempt,
        );
        let (result, wakeups) = done.unwrap_or((Err(Errno::EAGAIN), Wakeups::default()));
        wakeups.run();
        result
    }

    /// Sets a record lock, or tells why not; or returns nothing if the caller is to sleep.
    fn try_set(
        &self,
        state: &mut State,
        request: &LockRequest<'_>,
    ) -> Option<(Result<(), Errno>, Wakeups)> {
        let refused = |errno| Some((Err(errno), Wakeups::default()));
        if (request.is_revoked)() {
            return refused(Errno::EIO);
        }
        let Some(conflict) = state.records.conflict(&request.wanted) else {
            return match state.records.apply(&request.wanted) {
                Ok(frees) => Some((Ok(()), self.wake_all_if(frees, state))),
                Err(errno) => refused(errno),
            };
        };
        if request.wait == LockWait::No {
            return refused(Errno::EAGAIN);
        }
        match deadlock::begin_wait(request.wanted.owner, conflict.owner, self.address()) {
            Ok(()) => {
                state.is_waited_for = true;
                None
            }
            Err(errno) => refused(errno),
        }
    }

    /// Ends all record locks of an owner. The caller has those woken whom that frees.
    pub(crate) fn remove_owner(&self, owner: Owner) -> Wakeups {
        let mut state = self.state.lock();
        let frees = state.records.remove(|record| record.owner == owner);
        self.wake_all_if(frees, &mut state)
    }

    /// Returns all locks that were set through an open file.
    pub(crate) fn list(&self, file: FileId) -> (Vec<Flock>, Vec<Record>) {
        let state = self.state.lock();
        let flocks = state.flocks.iter().filter(|flock| flock.file == file);
        let records = state.records.iter().filter(|record| record.file == file);
        (flocks.copied().collect(), records.copied().collect())
    }

    /// Finds all who wait, if something was freed that they may wait for.
    fn wake_all_if(&self, frees: bool, state: &mut State) -> Wakeups {
        if frees {
            self.wake_all(state)
        } else {
            Wakeups::default()
        }
    }

    /// Finds all who wait. Until they have looked again, they wait for nobody.
    fn wake_all(&self, state: &mut State) -> Wakeups {
        // They may be about to sleep, and not be in the queue yet.
        if std::mem::take(&mut state.is_waited_for) {
            deadlock::end_waits_at(self.address());
        }
        state.queue.wake_all(Events::OUT)
    }

    /// Tells sets apart for as long as somebody waits.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// Checks that a file is open in a way that allows a record lock of a kind.
///
/// # Errors
/// `EBADF` if not.
pub(crate) fn check_access(status: OpenFlags, kind: LockKind) -> Result<(), Errno> {
    let allowed = match kind {
        LockKind::Read => status.can_read(),
        LockKind::Write => status.can_write(),
        LockKind::Unlock => true,
    };
    if allowed { Ok(()) } else { Err(Errno::EBADF) }
}
