//! Locks of `flock(2)`: one for each open file, of the whole file.

use super::{LockKind, LockWait, Locks, State};
use crate::Errno;
use crate::event::{Events, FileId, Limit, Wakeups, wait};

/// Whole-file lock of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flock {
    pub(crate) file: FileId,
    pub(crate) is_write: bool,
    /// Process that set it.
    pub(crate) pid: i32,
}

impl Locks {
    /// Sets the lock of an open file. A lock of the other kind is released first, and stays
    /// released if the new one cannot be had, as on Linux. Blocks if asked to.
    ///
    /// # Errors
    /// `EAGAIN` if another open file has a conflicting lock and the call does not wait; `EINTR` if
    /// a signal handler runs first; `EIO` if the open file is revoked; `ENOLCK` if memory runs out.
    pub(crate) fn set_flock(
        &self,
        wanted: Flock,
        how: LockWait,
        is_revoked: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        if self.has(&wanted) {
            return Ok(());
        }
        self.remove_flock(wanted.file);
        let attempt = |state: &mut State| {
            if is_revoked() {
                return Some((Err(Errno::EIO), Wakeups::default()));
            }
            let is_in_the_way =
                |other: &Flock| other.file != wanted.file && (other.is_write || wanted.is_write);
            if state.flocks.iter().any(is_in_the_way) {
                let refused = (Err(Errno::EAGAIN), Wakeups::default());
                return (how == LockWait::No).then_some(refused);
            }
            Some(self.put_flock(state, wanted))
        };
        let done = wait(
            &self.state,
            |state| &mut state.queue,
            Events::OUT,
            Limit::FOREVER,
            attempt,
        );
        let (result, wakeups) = done?;
        wakeups.run();
        result
    }

    /// Releases the lock of an open file, if it has one.
    pub(crate) fn remove_flock(&self, file: FileId) {
        let mut state = self.state.lock();
        let before = state.flocks.len();
        state.flocks.retain(|flock| flock.file != file);
        let frees = state.flocks.len() < before;
        let wakeups = self.wake_all_if(frees, &mut state);
        drop(state);
        wakeups.run();
    }

    fn has(&self, wanted: &Flock) -> bool {
        let is_it = |flock: &Flock| flock.file == wanted.file && flock.is_write == wanted.is_write;
        self.state.lock().flocks.iter().any(is_it)
    }

    /// Inserts a lock, in place of one that another thread has set meanwhile.
    fn put_flock(&self, state: &mut State, wanted: Flock) -> (Result<(), Errno>, Wakeups) {
        if state.flocks.try_reserve(1).is_err() {
            return (Err(Errno::ENOLCK), Wakeups::default());
        }
        let before = state.flocks.len();
        state.flocks.retain(|flock| flock.file != wanted.file);
        let frees = state.flocks.len() < before;
        let wakeups = self.wake_all_if(frees, state);
        state.flocks.push(wanted);
        (Ok(()), wakeups)
    }
}

impl Flock {
    /// Returns the kind.
    pub(crate) fn kind(self) -> LockKind {
        if self.is_write {
            LockKind::Write
        } else {
            LockKind::Read
        }
    }
}
