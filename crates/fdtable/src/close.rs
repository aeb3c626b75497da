//! `close(2)`.
//!
//! The descriptor is freed and its slot emptied atomically, under the lock; the reference is
//! dropped after the lock is released. If it was the last one, the release hook runs inside
//! `close`. Threads that are using the file continue with their references, as on Linux.

use fdtable_base::counted::Ref;

use crate::{Error, FileRef, Files, RawFd};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Closes a descriptor. It is free at once, and another open can take it. May wait for the
    /// lock, and allocates where a part of the table is shared since a fork. If this drops the last
    /// reference, the release hook runs before the call returns.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open, or only reserved.
    /// - [`Error::NotOwner`] (EPERM) if the descriptor has a [tag](Self::exchange_tag).
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied. The descriptor stays open.
    #[inline]
    pub fn close(&self, fd: impl Into<RawFd>) -> Result<(), Error> {
        // Most descriptors are the only ones of their file.
        self.table.close(fd.into(), 0).map(Ref::put_as_last)
    }

    /// Closes a descriptor and returns the table's reference. Use it where each close needs the
    /// file, as a `flush` does. It locks, allocates and fails like [`close`](Self::close).
    ///
    /// # Errors
    /// EBADF, EPERM and ENOMEM as for [`close`](Self::close).
    #[inline]
    pub fn take(&self, fd: impl Into<RawFd>) -> Result<FileRef<T>, Error> {
        self.table.close(fd.into(), 0).map(FileRef)
    }
}
