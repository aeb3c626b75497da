//! System calls on descriptors: `dup(2)` and its kin, `close(2)`, `close_range(2)`, `fcntl(2)`, and
//! `memfd_create(2)`.
//!
//! Every call that closes a descriptor passes the file to the record locks of the table, which end
//! at the first close of any descriptor of a file.

use fdtable::{ClosedFile, ClosedFiles, Fd, FdArg, FdFlags};

use super::Process;
use super::async_io::is_async;
use crate::fs::{Credentials, FileKind, Mode, Permissions, Seals};
use crate::{Errno, Object, OpenFlags, RcuObject};

bitflags::bitflags! {
    /// Flags of [`Process::close_range`], with the values of Linux.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct CloseRangeFlags: u32 {
        /// Refuses to change a table that another process shares. In Linux: `CLOSE_RANGE_UNSHARE`.
        const UNSHARE = 1 << 1;
        /// Sets close-on-exec instead of closing. In Linux: `CLOSE_RANGE_CLOEXEC`.
        const CLOEXEC = 1 << 2;
    }
}

bitflags::bitflags! {
    /// Flags of [`Process::memfd_create`], with the values of Linux.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct MemfdFlags: u32 {
        /// Closes the descriptor on `exec`. In Linux: `MFD_CLOEXEC`.
        const CLOEXEC = 1;
        /// Allows seals. In Linux: `MFD_ALLOW_SEALING`.
        const ALLOW_SEALING = 2;
        /// Makes a file without permissions to execute, which are sealed, and allows seals.
        /// In Linux: `MFD_NOEXEC_SEAL`.
        const NOEXEC_SEAL = 8;
        /// Makes a file with permissions to execute, as without any flag. In Linux: `MFD_EXEC`.
        const EXEC = 16;
    }
}

impl Process {
    /// Duplicates a descriptor at the lowest free one, without `CLOEXEC`.
    ///
    /// # Errors
    /// `EBADF` if `old` is not an open descriptor; `EMFILE`, `ENOMEM` from the table.
    pub fn dup(&self, old: impl FdArg) -> Result<Fd, Errno> {
        Ok(self.files.dup(old)?)
    }

    /// Duplicates a descriptor at the lowest free one that is `min` or more.
    /// In Linux: `F_DUPFD`, `F_DUPFD_CLOEXEC`.
    ///
    /// # Errors
    /// `EBADF` if `old` is not an open descriptor; `EINVAL` if `min` is negative, or not below the
    /// limit, or a flag is unknown; `EMFILE`, `ENOMEM` from the table.
    pub fn dup_min(&self, old: impl FdArg, min: impl FdArg, flags: FdFlags) -> Result<Fd, Errno> {
        Ok(self.files.dup_min(old, min, flags)?)
    }

    /// Duplicates the descriptor `old` at `new`, and closes the file that `new` referred to. If
    /// they are equal, only checks that `old` is open.
    ///
    /// # Errors
    /// `EBADF` if `old` is not an open descriptor, or `new` is out of range; `EBUSY` if another
    /// thread is still opening `new`; `ENOMEM`.
    pub fn dup2(&self, old: impl FdArg, new: impl FdArg) -> Result<Fd, Errno> {
        let (old, new) = (old.to_raw(), new.to_raw());
        if old == new {
            self.files.fd_flags(old)?;
            return Ok(Fd::new(old)?);
        }
        self.dup3(old, new, FdFlags::empty())
    }

    /// Duplicates like [`dup2`](Self::dup2), with descriptor flags for `new`.
    ///
    /// # Errors
    /// `EINVAL` if the descriptors are equal, or a flag is unknown; those of `dup2`.
    pub fn dup3(&self, old: impl FdArg, new: impl FdArg, flags: FdFlags) -> Result<Fd, Errno> {
        drop(self.dup3_file(old, new, flags)?);
        Ok(Fd::new(new.to_raw())?)
    }

    /// Duplicates like [`dup3`](Self::dup3), and returns the file that `new` referred to. Dropping
    /// it ends the close.
    ///
    /// # Errors
    /// Errors of `dup3`.
    pub fn dup3_file(
        &self,
        old: impl FdArg,
        new: impl FdArg,
        flags: FdFlags,
    ) -> Result<Option<ClosedFile<RcuObject>>, Errno> {
        let replaced = self.files.dup3(old, new, flags)?;
        if let Some(replaced) = &replaced {
            self.group.locks.close(&***replaced);
        }
        Ok(replaced)
    }

    /// Closes a descriptor, and releases the record locks that the table has on its file. It
    /// releases all of them, whichever descriptor each was set through.
    ///
    /// The last close of an open file ends its side of a pipe or socket before this returns. The
    /// exception is a call that still sleeps in the file: it does not wake, and goes on with the
    /// file, as on Linux.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor.
    #[inline]
    pub fn close(&self, fd: impl FdArg) -> Result<(), Errno> {
        drop(self.close_file(fd)?);
        Ok(())
    }

    /// Closes a descriptor like [`close`](Self::close), and returns its file. Dropping it ends the
    /// close.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor.
    #[inline]
    pub fn close_file(&self, fd: impl FdArg) -> Result<ClosedFile<RcuObject>, Errno> {
        let closed = self.files.close(fd)?;
        self.group.locks.close(&**closed);
        Ok(closed)
    }

    /// Closes the open descriptors from `first` to `last`, both included, or sets `CLOEXEC` on
    /// them. Each is closed like [`close`](Self::close) does it.
    ///
    /// # Errors
    /// `EINVAL` if `first` is above `last`, if a flag is unknown, or if `UNSHARE` is given and
    /// another process shares the table: [`unshare`](Self::unshare) it first. `ENOMEM` from the
    /// table.
    pub fn close_range(&self, first: u32, last: u32, flags: CloseRangeFlags) -> Result<(), Errno> {
        let shared = flags.contains(CloseRangeFlags::UNSHARE) && self.shares_files();
        if shared || !CloseRangeFlags::all().contains(flags) {
            return Err(Errno::EINVAL);
        }
        if flags.contains(CloseRangeFlags::CLOEXEC) {
            return Ok(self.files.set_cloexec_range(first, last)?);
        }
        let locks = &self.group.locks;
        let each = |closed: ClosedFiles<_>| locks.close_all(&closed);
        Ok(self.files.close_range(first, last, each)?)
    }

    /// Returns the flags of a descriptor. In Linux: `F_GETFD`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor.
    pub fn get_flags(&self, fd: impl FdArg) -> Result<FdFlags, Errno> {
        Ok(self.files.fd_flags(fd)?)
    }

    /// Sets the flags of a descriptor. In Linux: `F_SETFD`.
    ///
    /// # Errors
    /// `EINVAL` if a flag is unknown, which Linux ignores; `EBADF` if not an open descriptor;
    /// `ENOMEM` from the table.
    pub fn set_flags(&self, fd: impl FdArg, flags: FdFlags) -> Result<(), Errno> {
        Ok(self.files.set_fd_flags(fd, flags)?)
    }

    /// Returns the access mode and the status flags of the open file. In Linux: `F_GETFL`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EIO` if revoked.
    pub fn status(&self, fd: impl FdArg) -> Result<OpenFlags, Errno> {
        self.look(fd.to_raw(), |object| {
            let mut status = object.status() - OpenFlags::CREAT;
            status.set(OpenFlags::ASYNC, is_async(object));
            status
        })
    }

    /// Sets `APPEND` and `NONBLOCK` of the open file, for all its descriptors, and `ASYNC` as
    /// [`set_async`](Self::set_async) does, if the file is of a kind that sends signals. Other bits
    /// of `flags` are ignored. In Linux: `F_SETFL`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EPERM` for `NOATIME` if the file belongs to another
    /// user; `EINVAL` if the file does not support it; `EIO` if revoked.
    pub fn set_status(&self, fd: impl FdArg, flags: OpenFlags) -> Result<(), Errno> {
        let fd = fd.to_raw();
        let file = self.files.get(fd)?;
        let is_new = |flag| flags.contains(flag) && !file.status().contains(flag);
        if is_new(OpenFlags::NOATIME) {
            // A file without an inode belongs to user 0.
            let owner = match file.stat() {
                Err(Errno::EOPNOTSUPP) => 0,
                stat => stat?.uid,
            };
            if !self.credentials().owns(owner) {
                return Err(Errno::EPERM);
            }
        }
        if flags.contains(OpenFlags::DIRECT) && !takes_direct(&**file) {
            return Err(Errno::EINVAL);
        }
        file.set_status(flags)?;
        match self.set_async_of(&**file, fd, flags.contains(OpenFlags::ASYNC)) {
            Err(Errno::ENOTTY) => Ok(()),
            set => set,
        }
    }

    /// Returns the seals of a file. A file that can have none has [`Seals::SEAL`].
    /// In Linux: `F_GET_SEALS`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with `O_PATH`; `EINVAL` if it is not a regular
    /// file; `EIO` if revoked.
    pub fn seals(&self, fd: impl FdArg) -> Result<Seals, Errno> {
        self.get_opened(fd)?.seals()
    }

    /// Adds seals to a file. May wait for transfers. In Linux: `F_ADD_SEALS`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with `O_PATH`; `EPERM` if not open for writing,
    /// or the file has [`Seals::SEAL`]; `EINVAL` if a seal is unknown, or it is not a regular file;
    /// `EBUSY` for [`Seals::WRITE`] if a shared mapping can write; `EIO` if revoked.
    pub fn add_seals(&self, fd: impl FdArg, seals: Seals) -> Result<(), Errno> {
        let file = self.get_opened(fd)?;
        if !file.status().can_write() {
            return Err(Errno::EPERM);
        }
        if !Seals::all().contains(seals) {
            return Err(Errno::EINVAL);
        }
        file.add_seals(seals)
    }

    /// Makes an empty unnamed file, open for reading and writing. `name` only shows in
    /// `/proc/self/fd`. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if `name` has more than 249 bytes or a zero byte, if a flag is unknown, or if both
    /// `EXEC` and `NOEXEC_SEAL` are given; `EMFILE`, `ENOMEM` from the table.
    pub fn memfd_create(&self, name: impl AsRef<[u8]>, flags: MemfdFlags) -> Result<Fd, Errno> {
        let name = name.as_ref();
        let unknown = MemfdFlags::from_bits(flags.bits()).is_none();
        let unknown = unknown || flags.contains(MemfdFlags::EXEC | MemfdFlags::NOEXEC_SEAL);
        if unknown || name.len() > 249 || name.contains(&0) {
            return Err(Errno::EINVAL);
        }
        let descriptor = if flags.contains(MemfdFlags::CLOEXEC) {
            OpenFlags::CLOEXEC
        } else {
            OpenFlags::empty()
        };
        let fs = self.kernel.unnamed();
        let (mode, seals) = if flags.contains(MemfdFlags::NOEXEC_SEAL) {
            (Mode::DEFAULT_FILE, Seals::EXEC)
        } else if flags.contains(MemfdFlags::ALLOW_SEALING) {
            (Mode::ALL, Seals::empty())
        } else {
            (Mode::ALL, Seals::SEAL)
        };
        let Credentials { uid, gid, .. } = self.credentials();
        let permissions = Permissions { mode, uid, gid };
        self.install(descriptor, || fs.open_memfd(name, permissions, seals))
    }
}

/// Returns true if a file can have `O_DIRECT`: regular files, and pipes, for which Linux has
/// another meaning of it.
fn takes_direct(file: &dyn Object) -> bool {
    let kind = file.stat().map(|stat| stat.kind);
    matches!(kind, Ok(FileKind::Regular | FileKind::Fifo))
}
