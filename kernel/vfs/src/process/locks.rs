//! File locks: `fcntl(F_GETLK, F_SETLK, F_SETLKW)` and their `F_OFD` kin, and `flock(2)`.

use std::sync::Arc;

use fdtable::{FdArg, FileRef, RawFd};

use super::Process;
use crate::event::FileId;
use crate::fs::SeekTo;
use crate::fs::locks::{Family, LockRequest, Locks, Owner, Range, Record, check_access};
use crate::{
    Errno, FileLock, LockFrom, LockKind, LockOwner, LockWait, Object, OpenFlags, RcuObject,
};

bitflags::bitflags! {
    /// Operation of [`Process::flock`]: one of the three, and whether to block.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct FlockOperation: u32 {
        /// Sets a shared lock. In Linux: `LOCK_SH`.
        const SHARED = 1;
        /// Sets an exclusive lock. In Linux: `LOCK_EX`.
        const EXCLUSIVE = 2;
        /// Returns `EAGAIN` instead of blocking. In Linux: `LOCK_NB`.
        const NONBLOCK = 4;
        /// Releases the lock. In Linux: `LOCK_UN`.
        const UNLOCK = 8;
    }
}

impl Process {
    /// Returns a record lock that conflicts with `lock`, relative to the start of the file. If
    /// there is none, returns `lock` with the kind [`Unlock`](LockKind::Unlock).
    /// In Linux: `F_GETLK`, `F_OFD_GETLK`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with [`PATH`](OpenFlags::PATH); `EINVAL` if the
    /// kind is `Unlock`, the range begins before the file, the file has no locks (in `/proc`), or
    /// `owner` is the open file and `pid` is not 0; `EOVERFLOW` if an offset is above `i64::MAX`;
    /// `EIO` if revoked.
    pub fn fcntl_getlk(
        &self,
        fd: impl FdArg,
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
            Some(record) => described(&record),
            None => FileLock {
                kind: LockKind::Unlock,
                ..lock
            },
        })
    }

    /// Sets a record lock in place of the owner's locks on these bytes. With kind `Unlock`,
    /// releases them. Allocates, and blocks until there is no conflicting lock if `wait` says so.
    /// In Linux: `F_SETLK`, `F_SETLKW`, `F_OFD_SETLK`.
    ///
    /// A lock of the [process](LockOwner::Process) belongs to its table of descriptors, which
    /// clones share and forks do not. It ends at the first close of any descriptor of the file in
    /// that table.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, not open for reading (kind `Read`) or writing (`Write`),
    /// or closed by another thread meanwhile; `EAGAIN` if there is a conflicting lock and it does
    /// not block; `EDEADLK` if the wait would be a deadlock (locks of processes only); `EINVAL` if
    /// the range begins before the file, the file has no locks (in `/proc`), or `owner` is
    /// the open file and `pid` is not 0; `EOVERFLOW` if an offset is above `i64::MAX`; `ENOLCK` if
    /// memory runs out; `EIO` if revoked.
    pub fn fcntl_setlk(
        &self,
        fd: impl FdArg,
        owner: LockOwner,
        lock: FileLock,
        wait: LockWait,
    ) -> Result<(), Errno> {
        let fd = fd.to_raw();
        let file = self.files.get(fd)?;
        let wanted = self.wanted(&file, owner, &lock)?;
        check_access(file.status(), lock.kind)?;
        let locks = locks_of(&file)?;
        locks.set(&LockRequest {
            file: &file,
            family: Family::Records,
            wanted,
            wait,
        })?;
        match owner {
            LockOwner::OpenFile => Ok(()),
            LockOwner::Process => self.keep_if_open(fd, &file, locks, wanted),
        }
    }

    /// Sets or releases the whole-file lock of an open file. A lock of the other kind is released
    /// first, and stays released if the new one cannot be had, as on Linux. Allocates, and blocks
    /// without [`NONBLOCK`](FlockOperation::NONBLOCK).
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or open for neither reading nor writing, except to
    /// unlock; `EAGAIN` (`EWOULDBLOCK`) if there is a conflicting lock
    /// and it does not block; `EINVAL` if `operation` is not one of the three, or the file has no
    /// locks (in `/proc`); `ENOLCK` if memory runs out; `EIO` if revoked.
    pub fn flock(&self, fd: impl FdArg, operation: FlockOperation) -> Result<(), Errno> {
        let wait = if operation.contains(FlockOperation::NONBLOCK) {
            LockWait::No
        } else {
            LockWait::Yes
        };
        let file = self.files.get(fd)?;
        let kind = match operation - FlockOperation::NONBLOCK {
            FlockOperation::SHARED => LockKind::Read,
            FlockOperation::EXCLUSIVE => LockKind::Write,
            FlockOperation::UNLOCK => LockKind::Unlock,
            _ => return Err(Errno::EINVAL),
        };
        if kind != LockKind::Unlock && !file.status().can_read() && !file.status().can_write() {
            return Err(Errno::EBADF);
        }
        let id = FileId::of(&**file);
        let wanted = Record {
            owner: Owner::File(id),
            range: Range::ALL,
            kind,
            pid: self.id(),
            file: id,
        };
        locks_of(&file)?.set_flock(&LockRequest {
            file: &file,
            family: Family::Flocks,
            wanted,
            wait,
        })
    }

    /// Keeps a lock of the process, unless the descriptor was closed meanwhile: that close did not
    /// see the lock, so it is released here.
    fn keep_if_open(
        &self,
        fd: RawFd,
        file: &FileRef<RcuObject>,
        locks: &Arc<Locks>,
        wanted: Record,
    ) -> Result<(), Errno> {
        if wanted.kind == LockKind::Unlock {
            return Ok(());
        }
        let noted = self.group.locks.note(locks);
        if noted.is_ok() && self.files.refers_to(fd, file) {
            return Ok(());
        }
        let undone = Record {
            kind: LockKind::Unlock,
            ..wanted
        };
        locks.set(&LockRequest {
            file,
            family: Family::Records,
            wanted: undone,
            wait: LockWait::No,
        })?;
        noted.and(Err(Errno::EBADF))
    }

    fn wanted(
        &self,
        file: &FileRef<RcuObject>,
        owner: LockOwner,
        lock: &FileLock,
    ) -> Result<Record, Errno> {
        let id = FileId::of(&**file);
        let (owner, pid) = match owner {
            LockOwner::Process => (self.group.locks.owner(), self.id()),
            LockOwner::OpenFile if lock.pid != 0 => return Err(Errno::EINVAL),
            LockOwner::OpenFile => (Owner::File(id), -1),
        };
        Ok(Record {
            owner,
            range: lock.range(base(&***file, lock.from)?)?,
            kind: lock.kind,
            pid,
            file: id,
        })
    }
}

fn locks_of(file: &FileRef<RcuObject>) -> Result<&Arc<Locks>, Errno> {
    if file.status().contains(OpenFlags::PATH) {
        return Err(Errno::EBADF);
    }
    Ok(file.locks().ok_or(Errno::EINVAL)?.locks())
}

/// Returns the base of the offsets.
fn base(object: &dyn Object, from: LockFrom) -> Result<i64, Errno> {
    let base = match from {
        LockFrom::Start => 0,
        // Some files have no position, and some no attributes.
        LockFrom::Current => match object.seek(SeekTo::Current(0)) {
            Err(Errno::ESPIPE) => 0,
            position => position?,
        },
        LockFrom::End => match object.stat() {
            Err(Errno::EOPNOTSUPP) => 0,
            stat => stat?.size,
        },
    };
    i64::try_from(base).map_err(|_| Errno::EOVERFLOW)
}

/// Describes a lock as `F_GETLK` returns it.
fn described(record: &Record) -> FileLock {
    let (first, last) = (record.range.first as i64, record.range.last as i64);
    FileLock {
        kind: record.kind,
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
