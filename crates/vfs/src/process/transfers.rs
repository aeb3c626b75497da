//! System calls that move bytes, and what they need of an open file.
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
//

use std::io::SeekFrom;

use fdtable::{FileRef, RawFd, rcu};

use super::Process;
use crate::{Errno, Object, OpenFlags};

impl Process {
    /// Reads up to `buf.len()` bytes, and returns how many; 0 is end of file. Waits, unless the
    /// file is non-blocking, until there is a byte.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or not open for reading; `EAGAIN` if the file is
    /// non-blocking and there is nothing yet; `EISDIR` on a directory; `EIO` if revoked.
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
    /// of a file; `ENOMEM`; `EIO` if revoked.
    pub fn write(&self, fd: impl Into<RawFd>, bytes: &[u8]) -> Result<usize, Errno> {
        match self.borrowed(fd.into(), |object| object.try_write(bytes))? {
            Attempt::Done(count) => Ok(count),
            Attempt::MustWait(file) => file.write(bytes),
        }
    }

    /// Reads at `offset`, in bytes from the start, as [`read`](Self::read) at the position, which
    /// stays where it is.
    ///
    /// # Errors
    /// `ESPIPE` on a pipe or socket; `EISDIR` on a directory; `EINVAL` if `offset` is above
    /// `i64::MAX`; those of `read`.
    pub fn pread(&self, fd: impl Into<RawFd>, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        match self.borrowed(fd.into(), |object| object.try_read_at(buf, offset))? {
            Attempt::Done(count) => Ok(count),
            Attempt::MustWait(file) => file.read_at(buf, offset),
        }
    }

    /// Writes at `offset`, in bytes from the start, as [`write`](Self::write) at the position,
    /// which stays where it is. A file that is open for appending is appended to, as on Linux.
    ///
    /// # Errors
    /// `ESPIPE` on a pipe or socket; `EINVAL` if `offset` is above `i64::MAX`; those of `write`.
    pub fn pwrite(&self, fd: impl Into<RawFd>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        match self.borrowed(fd.into(), |object| object.try_write_at(bytes, offset))? {
            Attempt::Done(count) => Ok(count),
            Attempt::MustWait(file) => file.write_at(bytes, offset),
        }
    }

    /// Makes a file `length` bytes long; what is new reads as zeros. May wait for transfers, and
    /// allocates.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EINVAL` if not a file that is open for writing; `EFBIG`
    /// above the size limit; `ENOMEM`; `EIO` if revoked.
    pub fn ftruncate(&self, fd: impl Into<RawFd>, length: u64) -> Result<(), Errno> {
        self.files.get(fd)?.set_len(length)
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
}

/// Outcome of a transfer without a reference.
enum Attempt {
    Done(usize),
    MustWait(FileRef<dyn Object>),
}
