//! Locks of files: `fcntl(F_GETLK, F_SETLK, F_SETLKW)` with their `F_OFD` kin, and `flock(2)`.

use std::sync::Arc;

use fdtable::{FileRef, RawFd};

use super::Process;
use crate::event::FileId;
use crate::fs::SeekTo;
use crate::fs::locks::{Flock, LockRequest, Locks, Owner, Record, Wanted, check_access};
use crate::{Errno, FileLock, LockFrom, LockKind, LockOwner, LockWait, Object, OpenFlags};

bitflags::bitflags! {
    /// What [`Process::flock`] is to do: one of the first three, and whether to wait.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct FlockOperation: u32 {
        /// Takes a shared lock.
        #[doc(alias = "LOCK_SH")]
        const SHARED = 1;
        /// Takes an exclusive lock.
        #[doc(alias = "LOCK_EX")]
        const EXCLUSIVE = 2;
        /// Answers `EAGAIN` instead of waiting.
        #[doc(alias = "LOCK_NB")]
        const NONBLOCK = 4;
        /// Gives the lock up.
        #[doc(alias = "LOCK_UN")]
        const UNLOCK = 8;
    }
}

impl Process {
    /// Finds a record lock that would be in the way of `lock`. If there is one, returns it, counted
    /// from the start of the file; if not, returns `lock` as a lock of kind
    /// [`Unlock`](LockKind::Unlock).
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or one that [only names a file](OpenFlags::PATH); `EINVAL` if the kind is `Unlock`, the range begins before
    /// the file, the file has no locks (a pipe, a socket), or `owner` is the open file and the
    /// `pid` not 0; `EOVERFLOW` if an offset is above `i64::MAX`; `EIO` if revoked.
    #[doc(alias = "F_GETLK")]
    #[doc(alias = "F_OFD_GETLK")]
    pub fn fcntl_getlk(
        &self,
        fd: impl Into<RawFd>,
        owner: LockOwner,
        lock: FileLock,
    ) -> Result<FileLock, Errno> {
        let file = self.files.get(fd)?;
        if lock.kind == LockKind::Unlock {
            return Err(Errno::EINVAL);
        }
        let wanted = self.wanted(&file, owner, &lock)?;
        let locks = locks_of(&file)?;
        Ok(match locks.find_conflict(&wanted) {
            Some(record) => told(&record),
            None => FileLock {
                kind: LockKind::Unlock,
                ..lock
            },
        })
    }

    /// Sets a record lock in place of what the owner has of these bytes, or gives it up. Allocates,
    /// and blocks if `wait` says so: until those who are in the way give it up.
    ///
    /// A lock of the [process](LockOwner::Process) belongs to its table of descriptors, which
    /// clones share and forks do not, and goes at the first close of any descriptor of the file in
    /// that table.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, not open for reading (a lock of kind `Read`) or writing
    /// (`Write`), or closed by another thread meanwhile; `EAGAIN` if it does not wait and would
    /// have to; `EDEADLK` if it would wait for one who waits for it (locks of processes alone);
    /// `EINVAL` if the range begins before the file, the file has no locks (a pipe, a socket), or
    /// `owner` is the open file and the `pid` not 0; `EOVERFLOW` if an offset is above `i64::MAX`;
    /// `ENOLCK` if there is no memory; `EIO` if revoked.
    #[doc(alias = "F_SETLK")]
    #[doc(alias = "F_SETLKW")]
    #[doc(alias = "F_OFD_SETLK")]
    pub fn fcntl_setlk(
        &self,
        fd: impl Into<RawFd>,
        owner: LockOwner,
        lock: FileLock,
        wait: LockWait,
    ) -> Result<(), Errno> {
        let fd = fd.into();
        let file = self.files.get(fd)?;
        let wanted = self.wanted(&file, owner, &lock)?;
        check_access(file.status(), lock.kind)?;
        let locks = locks_of(&file)?;
        set(&file, locks, wanted, wait)?;
        match owner {
            LockOwner::OpenFile => Ok(()),
            LockOwner::Process => self.keep_if_open(fd, &file, locks, wanted),
        }
    }

    /// Takes a lock of the whole file for the open file, or gives it up. A lock of the other kind
    /// that it has goes first, and is not given back if the new one cannot be had, as on Linux.
    /// Allocates, and blocks without [`NONBLOCK`](FlockOperation::NONBLOCK).
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EAGAIN` (`EWOULDBLOCK`) if it would have to wait and may
    /// not; `EINVAL` if `operation` is not one of the three, or the file has no locks (a pipe, a
    /// socket); `ENOLCK` if there is no memory; `EIO` if revoked.
    pub fn flock(&self, fd: impl Into<RawFd>, operation: FlockOperation) -> Result<(), Errno> {
        let wait = if operation.contains(FlockOperation::NONBLOCK) {
            LockWait::No
        } else {
            LockWait::Yes
        };
        let file = self.files.get(fd)?;
        let id = FileId::of(&*file);
        let is_write = match operation - FlockOperation::NONBLOCK {
            FlockOperation::SHARED => false,
            FlockOperation::EXCLUSIVE => true,
            FlockOperation::UNLOCK => {
                locks_of(&file)?.remove_flock(id);
                return Ok(());
            }
            _ => return Err(Errno::EINVAL),
        };
        let wanted = Flock {
            file: id,
            is_write,
            pid: self.id(),
        };
        locks_of(&file)?.set_flock(wanted, wait, &|| FileRef::is_revoked(&file))
    }

    /// Keeps a lock of the process, if the descriptor was not closed meanwhile: then the close has
    /// seen nothing of it, and it goes again.
    fn keep_if_open(
        &self,
        fd: RawFd,
        file: &FileRef<dyn Object>,
        locks: &Arc<Locks>,
        wanted: Wanted,
    ) -> Result<(), Errno> {
        if wanted.kind == LockKind::Unlock {
            return Ok(());
        }
        let noted = self.group.locks.note(locks);
        if noted.is_ok() && self.files.names(fd, file) {
            return Ok(());
        }
        let undone = Wanted {
            kind: LockKind::Unlock,
            ..wanted
        };
        set(file, locks, undone, LockWait::No)?;
        noted.and(Err(Errno::EBADF))
    }

    fn wanted(
        &self,
        file: &FileRef<dyn Object>,
        owner: LockOwner,
        lock: &FileLock,
    ) -> Result<Wanted, Errno> {
        let id = FileId::of(&**file);
        let (owner, pid) = match owner {
            LockOwner::Process => (self.group.locks.owner(), self.id()),
            LockOwner::OpenFile if lock.pid != 0 => return Err(Errno::EINVAL),
            LockOwner::OpenFile => (Owner::File(id), -1),
        };
        Ok(Wanted {
            owner,
            range: lock.range(base(&**file, lock.from)?)?,
            kind: lock.kind,
            pid,
            file: id,
        })
    }
}

/// Sets a lock, or gives it up.
fn set(
    file: &FileRef<dyn Object>,
    locks: &Arc<Locks>,
    wanted: Wanted,
    wait: LockWait,
) -> Result<(), Errno> {
    locks.set(&LockRequest {
        wanted,
        wait,
        is_revoked: &|| FileRef::is_revoked(file),
    })
}

fn locks_of(file: &FileRef<dyn Object>) -> Result<&Arc<Locks>, Errno> {
    if file.status().contains(OpenFlags::PATH) {
        return Err(Errno::EBADF);
    }
    Ok(file.locks().ok_or(Errno::EINVAL)?.locks())
}

/// Returns where offsets are counted from.
fn base(object: &dyn Object, from: LockFrom) -> Result<i64, Errno> {
    let base = match from {
        LockFrom::Start => 0,
        LockFrom::Current => object.seek(SeekTo::Current(0))?,
        LockFrom::End => object.stat()?.size,
    };
    i64::try_from(base).map_err(|_| Errno::EOVERFLOW)
}

/// Tells a lock as `F_GETLK` does.
fn told(record: &Record) -> FileLock {
    let (first, last) = (record.range.first as i64, record.range.last as i64);
    FileLock {
        kind: record.kind(),
        from: LockFrom::Start,
        start: first,
        length: if last == i64::MAX {
            0
        } else {
            last - first + 1
        },
        pid: record.pid,
    }
}
