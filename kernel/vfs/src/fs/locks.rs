//! File locks: record locks of `fcntl`, and the whole-file locks of `flock`.
//!
//! They are advisory: they do not prevent reads or writes. There are three kinds.
//! - POSIX record locks belong to a table of descriptors. POSIX requires that they end at the first
//!   close of *any* descriptor of the file in that table.
//! - Open-file-description record locks (`F_OFD_SETLK`) end when their open file is released. They
//!   conflict with POSIX locks too.
//! - Locks of `flock` belong to an open file as well, and conflict only with each other.
//!
//! Each inode has a [`LockSet`], which takes one word until the first lock. One lock guards a whole
//! set. A waiter sleeps on the queue of the set; every change that may unblock a waiter wakes all
//! of them, and each tries again, so there is no order among them, as on Linux.
//!
//! # Order of our own locks
//! `TableLocks::sets` of a table of descriptors, then `Locks::state` of a set, then the list of
//! [waits](deadlock). Wake-ups run after all of them.

use std::sync::Arc;

use fdtable::FileRef;
use fdtable_shm::{Mutex, OnceCell};

use crate::event::{Events, FileId, Limit, WaitQueue, Wakeups, wait};
use crate::{Errno, OpenFlags, RcuObject};

mod deadlock;
mod records;
mod request;
mod table_locks;

pub(crate) use records::{Owner, Range, Record};
pub use request::{FileLock, LockFrom, LockKind, LockOwner, LockWait};
pub(crate) use table_locks::TableLocks;

use records::Records;

/// All locks of an inode. Takes one word while empty. In Linux: `file_lock_context`.
#[derive(Debug, Default)]
pub struct LockSet {
    /// Allocated at the first lock.
    locks: OnceCell<Arc<Locks>>,
}

fdtable_sync::global! {
    /// Locks of the inode that all files of `eventfd` and `epoll` share, as on Linux.
    /// In Linux: `anon_inode`.
    pub(crate) static ANONYMOUS: LockSet = LockSet::new();
}

/// Locks of an inode that has had one.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    records: Records,
    /// Locks of `flock`, each of a whole file.
    flocks: Records,
    queue: WaitQueue,
    /// A waiter is on the list of [`deadlock`].
    has_listed_waiter: bool,
}

/// Locks that conflict with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Records,
    Flocks,
}

/// Request to set or release a lock.
#[derive(Clone, Copy)]
pub(crate) struct LockRequest<'a> {
    pub(crate) family: Family,
    pub(crate) wanted: Record,
    pub(crate) wait: LockWait,
    pub(crate) file: &'a FileRef<RcuObject>,
}

impl LockSet {
    /// Makes an empty set. Does not allocate.
    pub const fn new() -> Self {
        LockSet {
            locks: OnceCell::new(),
        }
    }

    /// Returns the locks, allocated at the first call.
    pub(crate) fn locks(&self) -> &Arc<Locks> {
        self.locks.get_or_init(Arc::default)
    }

    /// Returns the locks, if there ever was one.
    pub(crate) fn locks_if_any(&self) -> Option<&Arc<Locks>> {
        self.locks.get()
    }

    /// Releases the locks of an open file that is released. The file is not in use, so no lock of
    /// it can follow.
    pub(crate) fn release(&self, file: FileId) {
        if let Some(locks) = self.locks.get() {
            let mut state = locks.state.lock();
            let frees = state.remove(file, |record| record.owner == Owner::File(file));
            let wakeups = locks.wake_all_if(frees, &mut state);
            drop(state);
            wakeups.run();
        }
    }

    /// Releases the locks set through an open file that is revoked, and wakes the waiters.
    ///
    /// A request in progress sees the revocation before or after it gets its lock: every request
    /// takes the lock that this takes, so the lock must be taken even if the set is empty.
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
    fn family(&mut self, family: Family) -> &mut Records {
        match family {
            Family::Records => &mut self.records,
            Family::Flocks => &mut self.flocks,
        }
    }

    /// Removes the record locks that `which` selects, and the `flock` lock of `file`. Returns true
    /// if there were any.
    fn remove(&mut self, file: FileId, which: impl Fn(&Record) -> bool) -> bool {
        let flocks = self.flocks.remove(|flock| flock.file == file);
        self.records.remove(which) || flocks
    }
}

impl Locks {
    /// Returns a record lock that conflicts with `wanted`.
    pub(crate) fn find_conflict(&self, wanted: &Record) -> Option<Record> {
        self.state.lock().records.conflict(wanted).copied()
    }

    /// Sets or releases a lock. Blocks if the request says so.
    ///
    /// # Errors
    /// `EAGAIN` if another owner has a conflicting lock and the request does not wait; `EDEADLK` if
    /// the wait would be a deadlock; `EINTR` if a signal handler runs first; `EIO` if the open file
    /// is revoked; `ENOLCK` if memory runs out.
    pub(crate) fn set(self: &Arc<Self>, request: &LockRequest<'_>) -> Result<(), Errno> {
        let mut waits = false;
        let attempt = |state: &mut State| {
            if waits {
                deadlock::end_wait();
            }
            let done = self.try_set(state, request);
            waits = done.is_none();
            done.map(Ok)
        };
        let done = wait(
            &self.state,
            |state| &mut state.queue,
            Events::OUT,
            Limit::FOREVER,
            attempt,
        );
        if done.is_err() && waits {
            deadlock::end_wait();
        }
        let (result, wakeups) = done?;
        wakeups.run();
        result
    }

    /// Sets the lock of `flock` on an open file. A lock of the other kind is released first, and
    /// stays released if the new one cannot be had, as on Linux. Blocks if the request says so.
    ///
    /// # Errors
    /// Errors of [`set`](Self::set).
    pub(crate) fn set_flock(self: &Arc<Self>, request: &LockRequest<'_>) -> Result<(), Errno> {
        let wanted = request.wanted;
        let is_it = |lock: &Record| lock.file == wanted.file && lock.kind == wanted.kind;
        if self.state.lock().flocks.iter().any(is_it) {
            return Ok(());
        }
        let mut released = *request;
        released.wanted.kind = LockKind::Unlock;
        self.set(&released)?;
        self.set(request)
    }

    /// Sets a lock, or returns why it cannot; returns nothing if the caller has to sleep.
    fn try_set(
        &self,
        state: &mut State,
        request: &LockRequest<'_>,
    ) -> Option<(Result<(), Errno>, Wakeups)> {
        let refused = |errno| Some((Err(errno), Wakeups::default()));
        if FileRef::is_revoked(request.file) {
            return refused(Errno::EIO);
        }
        let family = state.family(request.family);
        let Some(conflict) = family.conflict(&request.wanted).copied() else {
            return match family.apply(&request.wanted) {
                Ok(frees) => Some((Ok(()), self.wake_all_if(frees, state))),
                Err(errno) => refused(errno),
            };
        };
        if request.wait == LockWait::No {
            return refused(Errno::EAGAIN);
        }
        match deadlock::begin_wait(request.wanted.owner, conflict.owner, self.address()) {
            Ok(()) => {
                state.has_listed_waiter = true;
                None
            }
            Err(errno) => refused(errno),
        }
    }

    /// Releases all record locks of an owner. The caller runs the wake-ups.
    pub(crate) fn remove_owner(&self, owner: Owner) -> Wakeups {
        let mut state = self.state.lock();
        let frees = state.records.remove(|record| record.owner == owner);
        self.wake_all_if(frees, &mut state)
    }

    /// Returns all locks set through an open file: those of `flock`, and record locks.
    pub(crate) fn list(&self, file: FileId) -> [Vec<Record>; 2] {
        let state = self.state.lock();
        [&state.flocks, &state.records].map(|family| {
            let of_file = family.iter().filter(|record| record.file == file);
            of_file.copied().collect()
        })
    }

    /// Collects all waiters, if a lock was released.
    fn wake_all_if(&self, frees: bool, state: &mut State) -> Wakeups {
        if frees {
            self.wake_all(state)
        } else {
            Wakeups::default()
        }
    }

    /// Collects all waiters. They are off the list of waits until they have tried again.
    fn wake_all(&self, state: &mut State) -> Wakeups {
        // They may be about to sleep, and not be in the queue yet.
        if std::mem::take(&mut state.has_listed_waiter) {
            deadlock::end_waits_at(self.address());
        }
        state.queue.wake_all(Events::OUT)
    }

    /// Identifies a set while it has waiters.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// Checks that the access mode of an open file allows a record lock.
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
