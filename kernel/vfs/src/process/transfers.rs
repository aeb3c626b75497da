//! System calls that move bytes.
//!
//! # How a transfer finds its file
//!
//! `read` and `write` begin with a *borrowed* lookup: inside an RCU read-side section, without a
//! reference, and so without a write to memory that other threads share. Most calls find bytes or
//! room, and end there. Only if the object returns `EAGAIN`, and the file is blocking, the borrowed
//! file is upgraded to an owned one, the section ends, and the call blocks.
//!
//! **A section never sleeps**: while it lasts, no memory that is unlinked anywhere in the host
//! process is freed. Inside it, objects take locks that are held only for short copies (a
//! buffer's), or only try to take them (a regular file's). Everything else uses an owned file.
//!
//! A section keeps the memory alive, not the open file. If another thread closes the last
//! descriptor meanwhile and the object still serves the call, the call took place before that
//! close. If not, the object or the failed upgrade returns `EBADF`, as if the close had come first.

use std::io::{IoSlice, IoSliceMut};

use fdtable::{FdArg, RawFd, rcu};

use super::Process;
use crate::fs::SeekTo;
use crate::{Errno, Object, RwFlags, Transfer, TransferMode};

impl Process {
    /// Reads up to `buf.len()` bytes, and returns how many; 0 is end of file. Blocks until there is
    /// a byte, unless the file is non-blocking.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or not open for reading; `EAGAIN` if the file is
    /// non-blocking and there is nothing yet; `EISDIR` on a directory; `EINVAL` if the range would
    /// end above `i64::MAX`; `EIO` if revoked.
    pub fn read(&self, fd: impl FdArg, buf: &mut [u8]) -> Result<usize, Errno> {
        self.read_at(fd.to_raw(), buf, None)
    }

    /// Writes `bytes`, and returns how many it wrote. Blocks while there is no room, unless the
    /// file is non-blocking.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or not open for writing; `EAGAIN` if the file is
    /// non-blocking and there is no room; `EPIPE` if there is no reader; `EFBIG` at the size limit
    /// of a file; `EINVAL` if the range would end above `i64::MAX`; `ENOMEM`; `EIO` if revoked.
    pub fn write(&self, fd: impl FdArg, bytes: &[u8]) -> Result<usize, Errno> {
        self.write_at(fd.to_raw(), bytes, None)
    }

    /// Reads at `offset`, in bytes from the start, without using the file position. Otherwise like
    /// [`read`](Self::read).
    ///
    /// # Errors
    /// `ESPIPE` on a pipe or socket; `EISDIR` on a directory; `EINVAL` if `offset` is above
    /// `i64::MAX`; those of `read`.
    pub fn pread(&self, fd: impl FdArg, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.read_at(fd.to_raw(), buf, Some(offset))
    }

    /// Writes at `offset`, in bytes from the start, without using the file position. Otherwise like
    /// [`write`](Self::write). A file that is open for appending is appended to, as on Linux.
    ///
    /// # Errors
    /// `ESPIPE` on a pipe or socket; `EINVAL` if `offset` is above `i64::MAX`; those of `write`.
    pub fn pwrite(&self, fd: impl FdArg, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.write_at(fd.to_raw(), bytes, Some(offset))
    }

    /// Sets the length of a file; new bytes read as zeros. Allocates, and may wait for transfers.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EINVAL` if not a file that is open for writing; `EFBIG`
    /// above the size limit; `ENOMEM`; `EIO` if revoked.
    pub fn ftruncate(&self, fd: impl FdArg, length: u64) -> Result<(), Errno> {
        let file = self.files.get(fd)?;
        if let Ok(stat) = file.stat() {
            self.check_length(&stat, length)?;
        }
        file.set_len(length)?;
        self.remove_privileges(&**file);
        Ok(())
    }

    /// Waits until written data would survive a crash: in memory, none does.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EINVAL` on a pipe or socket; `EIO` if revoked.
    pub fn fsync(&self, fd: impl FdArg) -> Result<(), Errno> {
        self.files.get(fd)?.sync()
    }

    /// Moves the position of a file, and returns the new one in bytes from the start. May wait for
    /// a transfer on the same open file.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `ESPIPE` on a pipe or socket; `EINVAL` if the position
    /// would be negative or above `i64::MAX`.
    pub fn lseek(&self, fd: impl FdArg, to: impl Into<SeekTo>) -> Result<u64, Errno> {
        let (fd, to) = (fd.to_raw(), to.into());
        match self.look(fd, |object| object.try_seek(to))? {
            Err(Errno::EAGAIN) => self.files.get(fd)?.seek(to),
            done => done,
        }
    }

    /// Calls `look` with the file of a descriptor inside a read-side section, without a reference.
    /// `look` must not sleep.
    #[inline]
    pub(super) fn look<R>(
        &self,
        fd: RawFd,
        look: impl FnOnce(&dyn Object) -> R,
    ) -> Result<R, Errno> {
        let section = rcu::read_lock();
        Ok(look(&*self.files.get_rcu(fd, &section)?))
    }

    fn read_at(&self, fd: RawFd, buf: &mut [u8], at: Option<u64>) -> Result<usize, Errno> {
        let bufs = &mut [IoSliceMut::new(buf)];
        self.transfer(fd, at, |object, how| object.read_to(bufs, how))
    }

    #[inline]
    fn write_at(&self, fd: RawFd, bytes: &[u8], at: Option<u64>) -> Result<usize, Errno> {
        let bufs = &[IoSlice::new(
            &bytes[..self.writable_bytes(fd, at, RwFlags::empty(), bytes.len())?],
        )];
        self.transfer(fd, at, |object, how| {
            let written = object.write_from(bufs, how);
            written.inspect(|_| self.remove_privileges(object))
        })
    }

    /// Tries a transfer inside a read-side section, and then, if it has to wait, outside.
    #[inline]
    fn transfer(
        &self,
        fd: RawFd,
        at: Option<u64>,
        mut transfer: impl FnMut(&dyn Object, Transfer<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let how = |mode| Transfer {
            at,
            mode,
            by: Some(self),
            ..Transfer::WAIT
        };
        let section = rcu::read_lock();
        let object = self.files.get_rcu(fd, &section)?;
        match transfer(&*object, how(TransferMode::Section)) {
            Err(Errno::EAGAIN) if !object.is_nonblocking() => {
                let file = object.upgrade().ok_or(Errno::EBADF)?;
                drop(section);
                // A socket whose other references were all in flight may have been collected before
                // this one was taken. If a descriptor refers to it now, there was another. For
                // other files that needs no look, which would take a lock that other descriptors
                // share.
                if file.is_collectable() && !self.files.refers_to(fd, &file) {
                    return Err(Errno::EBADF);
                }
                transfer(&**file, how(TransferMode::Wait))
            }
            done => done,
        }
    }
}
