//! A process: the system calls over a table of descriptors and a file system.
//!
//! Here are those that make descriptors of nothing or of others, and end them; `process/paths.rs`
//! has those that take a path, `process/transfers.rs` those that move bytes.
//!
//! # How descriptors are made
//!
//! Numbers are reserved first, then the object is made, then it is installed. A call that runs out
//! of numbers has created nothing, and the reservations that it drops leave no trace.

use std::sync::Arc;

use fdtable::{Fd, FdFlags, Files, RawFd};

use crate::object::file;
use crate::{DirEntry, Errno, MemFs, Object, OpenFlags, Stat, pipe, socket};

mod paths;
mod transfers;

/// Process: a table of descriptors and the file system that it sees.
///
/// A clone shares both, as a thread does; [`fork`](Self::fork) gives a table of its own.
#[derive(Clone)]
pub struct Process {
    files: Arc<Files<dyn Object>>,
    fs: Arc<MemFs>,
}

impl Default for Process {
    fn default() -> Self {
        Self::with(Files::new(), MemFs::default())
    }
}

impl Process {
    /// Makes a process without open files, with 1,024 descriptors at most and an empty file system.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a process of a table and a file system: one of its own, or an [`Arc`] of one that
    /// others see too.
    pub fn with(files: Files<dyn Object>, fs: impl Into<Arc<MemFs>>) -> Self {
        Process {
            files: Arc::new(files),
            fs: fs.into(),
        }
    }

    /// Returns the table of descriptors, for what has no system call here.
    pub fn files(&self) -> &Arc<Files<dyn Object>> {
        &self.files
    }

    /// Returns the file system.
    pub fn fs(&self) -> &Arc<MemFs> {
        &self.fs
    }

    /// Makes a pipe of 65,536 bytes, and returns its reading and its writing end. Takes `CLOEXEC`
    /// and `NONBLOCK`. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if `flags` has others; `EMFILE`, `ENOMEM` from the table.
    pub fn pipe2(&self, flags: OpenFlags) -> Result<(Fd, Fd), Errno> {
        self.pair(flags, pipe::pipe)
    }

    /// Makes a connected pair of stream sockets, 212,992 bytes each way. Takes `CLOEXEC` and
    /// `NONBLOCK`. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if `flags` has others; `EMFILE`, `ENOMEM` from the table.
    pub fn socketpair(&self, flags: OpenFlags) -> Result<(Fd, Fd), Errno> {
        self.pair(flags, socket::pair)
    }

    /// Gives the file of `old` a second number, the lowest free one, without `CLOEXEC`.
    ///
    /// # Errors
    /// `EBADF` if `old` is not an open descriptor; `EMFILE`, `ENOMEM` from the table.
    pub fn dup(&self, old: impl Into<RawFd>) -> Result<Fd, Errno> {
        Ok(self.files.dup(old)?)
    }

    /// Gives the file of `old` the number `new` too, and closes what that named. If they are equal,
    /// only checks `old`.
    ///
    /// # Errors
    /// `EBADF` if `old` is not an open descriptor or `new` not a possible one; `EBUSY` if another
    /// thread is still opening `new`; `ENOMEM`.
    pub fn dup2(&self, old: impl Into<RawFd>, new: impl Into<RawFd>) -> Result<Fd, Errno> {
        Ok(self.files.dup2(old, new)?)
    }

    /// Does as [`dup2`](Self::dup2), with descriptor flags for `new`.
    ///
    /// # Errors
    /// `EINVAL` if the numbers are equal; those of `dup2`.
    pub fn dup3(
        &self,
        old: impl Into<RawFd>,
        new: impl Into<RawFd>,
        flags: FdFlags,
    ) -> Result<Fd, Errno> {
        Ok(self.files.dup_to(old, new, flags)?)
    }

    /// Frees a number. With the last number of an open file, the other side of a pipe or socket
    /// meets its end before this returns, unless a call still waits in it.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor.
    pub fn close(&self, fd: impl Into<RawFd>) -> Result<(), Errno> {
        Ok(self.files.close(fd)?)
    }

    /// Describes what a descriptor names. May wait for writers of the file.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EOPNOTSUPP` on a pipe or socket; `EIO` if revoked.
    pub fn fstat(&self, fd: impl Into<RawFd>) -> Result<Stat, Errno> {
        self.files.get(fd)?.stat()
    }

    /// Returns all names of an open directory as of one moment, in no order, without `.` and `..`.
    /// Allocates.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `ENOTDIR` if not a directory; `EIO` if revoked.
    #[doc(alias = "readdir")]
    pub fn getdents(&self, fd: impl Into<RawFd>) -> Result<Vec<DirEntry>, Errno> {
        self.files.get(fd)?.entries()
    }

    /// Waits until what was written would outlive a crash: in memory, nothing does.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EINVAL` on a pipe or socket; `EIO` if revoked.
    pub fn fsync(&self, fd: impl Into<RawFd>) -> Result<(), Errno> {
        self.files.get(fd)?.sync()
    }

    /// Makes a child with the same open files, positions included, and the same file system.
    ///
    /// # Errors
    /// `ENOMEM` from the table.
    pub fn fork(&self) -> Result<Process, Errno> {
        Ok(Process {
            files: Arc::new(self.files.fork()?),
            fs: Arc::clone(&self.fs),
        })
    }

    /// Closes the descriptors that have `CLOEXEC`: what `exec` does to a table.
    ///
    /// # Errors
    /// `ENOMEM` from the table.
    pub fn exec(&self) -> Result<(), Errno> {
        Ok(self.files.exec()?)
    }

    /// Makes two objects at the two lowest free numbers, or nothing.
    fn pair<A: Object, B: Object>(
        &self,
        flags: OpenFlags,
        make: impl FnOnce(OpenFlags) -> (A, B),
    ) -> Result<(Fd, Fd), Errno> {
        let flags = flags.only(OpenFlags::CLOEXEC | OpenFlags::NONBLOCK)?;
        let first = self.files.reserve(flags.descriptor())?;
        let second = self.files.reserve(flags.descriptor())?;
        let (one, other) = make(flags);
        let (one, other) = (file(one)?, file(other)?);
        Ok((first.install(one), second.install(other)))
    }
}
