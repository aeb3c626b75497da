//! The descriptor flags of `fcntl(2)`: `F_GETFD` and `F_SETFD`.

use crate::{Error, FdFlags, Files, RawFd};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Returns the flags of a descriptor. Takes no lock, neither blocks nor allocates, and may be
    /// called inside a read-side section. While another thread closes the descriptor, and opens or
    /// reserves it again, the flags may already be those of the next use, as on Linux.
    ///
    /// # Errors
    /// [`Error::BadFd`] (EBADF) if the descriptor is not open.
    #[doc(alias = "F_GETFD")]
    pub fn flags(&self, fd: impl Into<RawFd>) -> Result<FdFlags, Error> {
        self.table.flags(fd.into())
    }

    /// Sets the flags of a descriptor. May wait for the lock, and allocates where a part of the
    /// table is shared since a fork.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if a flag is unknown; Linux ignores it.
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied.
    #[doc(alias = "F_SETFD")]
    pub fn set_flags(&self, fd: impl Into<RawFd>, flags: FdFlags) -> Result<(), Error> {
        flags.check()?;
        self.table.set_flags(fd.into(), flags)
    }
}
