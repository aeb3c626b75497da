//! A process: the system calls over a table of descriptors and a file system.
//!
//! # How a transfer finds its file
//!
//! `read` and `write` begin with a *borrowed* lookup: inside an RCU read-side section, without a
//! reference and so without a write to memory that other threads share. Most calls find bytes or
//! room, and end there. Only when the object answers `EAGAIN`, and the file is blocking, the
//! borrowed file is upgraded to an owned one; the section is left; and the call waits.
//!
//! **A section never sleeps**: memory that was unlinked anywhere in the process is kept until the
//! section ends. Inside it, objects take locks that are held only for short copies (a buffer's), or
//! only try to take them (a regular file's). Everything else uses an owned file.
//!
//! A section keeps the memory, not the open file. When another thread closes the last descriptor
//! meanwhile, the call took place before that close if the object still served it. If it did not,
//! the object or the failed upgrade says `EBADF`, as if the close had come first.
//!
//! # How descriptors are made
//!
//! Numbers are reserved first, then the object is made, then it is installed. A call that runs out
//! of numbers has created nothing, and the reservations that it drops leave no trace.

use std::io::SeekFrom;
use std::sync::Arc;

use fdtable::{Fd, FdFlags, FileRef, Files, RawFd, rcu};

use crate::object::file;
use crate::{Errno, MemFs, Object, OpenFlags, pipe, socket};

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

    /// Makes a process of a table and a file system.
    pub fn with(files: Files<dyn Object>, fs: MemFs) -> Self {
        Process {
            files: Arc::new(files),
            fs: Arc::new(fs),
        }
    }

    /// Returns the table of descriptors, for what has no system call here.
    pub fn files(&self) -> &Arc<Files<dyn Object>> {
        &self.files
    }

    /// Opens the file `name` at the lowest free number. Allocates.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM` from the table; `ENOENT`, `EEXIST`, `EINVAL` from [`MemFs::open`].
    pub fn open(&self, name: &str, flags: OpenFlags) -> Result<Fd, Errno> {
        let reservation = self.files.reserve(flags.descriptor())?;
        let opened = self.fs.open(name, flags)?;
        Ok(reservation.install(file(opened)))
    }

    /// Reads up to `buf.len()` bytes, and returns how many; 0 is end of file. Waits, unless the
    /// file is non-blocking, until there is a byte.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or not open for reading; `EAGAIN` if the file is
    /// non-blocking and there is nothing yet.
    pub fn read(&self, fd: impl Into<RawFd>, buf: &mut [u8]) -> Result<usize, Errno> {
        match self.borrowed(fd.into(), |object| object.try_read(buf))? {
            Attempt::Done(count) => Ok(count),
            Attempt::MustWait(file) => file.read(buf),
        }
    }

    /// Writes `bytes`, and returns how many it wrote. Waits for room, unless the file is
    /// non-blocking.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or not open for writing; `EAGAIN` if the file is
    /// non-blocking and there is no room; `EPIPE` if nobody can read it; `EFBIG` at the size limit
    /// of a file; `ENOMEM`.
    pub fn write(&self, fd: impl Into<RawFd>, bytes: &[u8]) -> Result<usize, Errno> {
        match self.borrowed(fd.into(), |object| object.try_write(bytes))? {
            Attempt::Done(count) => Ok(count),
            Attempt::MustWait(file) => file.write(bytes),
        }
    }

    /// Moves the position of a file, and returns the new one in bytes from the start. May wait for
    /// a transfer on the same open file.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `ESPIPE` on a pipe or socket; `EINVAL` if the position
    /// would be negative or above `i64::MAX`.
    pub fn lseek(&self, fd: impl Into<RawFd>, to: SeekFrom) -> Result<u64, Errno> {
        self.files.get(fd)?.seek(to)
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

    /// Tries a transfer inside a read-side section.
    fn borrowed(
        &self,
        fd: RawFd,
        transfer: impl FnOnce(&dyn Object) -> Result<usize, Errno>,
    ) -> Result<Attempt, Errno> {
        let section = rcu::read_lock();
        let object = self.files.borrow(fd, &section)?;
        match transfer(&*object) {
            Ok(count) => Ok(Attempt::Done(count)),
            Err(Errno::EAGAIN) if !object.status().contains(OpenFlags::NONBLOCK) => {
                object.upgrade().map(Attempt::MustWait).ok_or(Errno::EBADF)
            }
            Err(errno) => Err(errno),
        }
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
        Ok((first.install(file(one)), second.install(file(other))))
    }
}

/// Outcome of a transfer without a reference.
enum Attempt {
    Done(usize),
    MustWait(FileRef<dyn Object>),
}
