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

use fdtable::{FileRef, RawFd, rcu};

use super::Process;
use crate::fs::SeekTo;
use crate::{Errno, Object};

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
        let fd = fd.into();
        let bytes = &bytes[..self.room(fd, None, bytes.len())?];
        match self.borrowed(fd, |object| object.try_write(bytes))? {
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
        let fd = fd.into();
        let bytes = &bytes[..self.room(fd, Some(offset), bytes.len())?];
        match self.borrowed(fd, |object| object.try_write_at(bytes, offset))? {
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
        let file = self.files.get(fd)?;
        if let Ok(stat) = file.stat() {
            self.check_length(&stat, length)?;
        }
        file.set_len(length)
    }

    /// Waits until what was written would outlive a crash: in memory, nothing does.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EINVAL` on a pipe or socket; `EIO` if revoked.
    pub fn fsync(&self, fd: impl Into<RawFd>) -> Result<(), Errno> {
        self.files.get(fd)?.sync()
    }

    /// Does as [`fsync`](Self::fsync): of the times, none outlives a crash either.
    ///
    /// # Errors
    /// Those of `fsync`.
    pub fn fdatasync(&self, fd: impl Into<RawFd>) -> Result<(), Errno> {
        self.fsync(fd)
    }

    /// Moves the position of a file, and returns the new one in bytes from the start. May wait for
    /// a transfer on the same open file.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `ESPIPE` on a pipe or socket; `EINVAL` if the position
    /// would be negative or above `i64::MAX`.
    pub fn lseek(&self, fd: impl Into<RawFd>, to: impl Into<SeekTo>) -> Result<u64, Errno> {
        let (fd, to) = (fd.into(), to.into());
        match self.look(fd, |object| object.try_seek(to))? {
            Err(Errno::EAGAIN) => self.files.get(fd)?.seek(to),
            done => done,
        }
    }

    /// Looks at the file of a descriptor inside a read-side section, without a reference. `look`
    /// must not sleep.
    #[inline]
    pub(super) fn look<R>(
        &self,
        fd: RawFd,
        look: impl FnOnce(&dyn Object) -> R,
    ) -> Result<R, Errno> {
        let section = rcu::read_lock();
        Ok(look(&*self.files.borrow(fd, &section)?))
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
            Err(Errno::EAGAIN) if !object.is_nonblocking() => {
                let file = object.upgrade().ok_or(Errno::EBADF)?;
                drop(section);
                // A socket of which all other references are on their way may have been collected
                // before this one was taken. If a descriptor names it now, there was another.
                if !self.files.names(fd, &file) {
                    return Err(Errno::EBADF);
                }
                Ok(Attempt::MustWait(file))
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
