//! `close(2)`.
//!
//! The number is freed and its slot emptied under the lock, in one step; the reference is
//! dropped after the lock is gone. If it was the last one, the release hook runs inside `close`.
//! Threads that are using the file go on with the references they have, as on Linux.

use fdtable_base::counted::Ref;

use crate::{Error, FileRef, Files, RawFd};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Closes a descriptor. The number is free, and can be taken again at once. May wait for the
    /// lock. If this drops the last reference, the release hook runs before it returns.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the number is not open, or only reserved.
    /// - [`Error::NotOwner`] (EPERM) if it has a [tag](Self::exchange_tag).
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied. It is open still.
    #[inline]
    pub fn close(&self, fd: impl Into<RawFd>) -> Result<(), Error> {
        // Most descriptors are the only ones of their file.
        self.table.close(fd.into(), 0).map(Ref::put_as_last)
    }

    /// Closes a descriptor and hands over the table's reference, for a caller that has something
    /// to do with the file at each close, as a `flush` does. Otherwise as [`close`](Self::close).
    ///
    /// # Errors
    /// As `close`.
    #[inline]
    pub fn take(&self, fd: impl Into<RawFd>) -> Result<FileRef<T>, Error> {
        self.table.close(fd.into(), 0).map(FileRef)
    }
}
