//! `dup(2)`, `dup2(2)`, `dup3(2)` and `F_DUPFD` of `fcntl(2)`.

use crate::{Error, Fd, FdFlags, Files, RawFd};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Duplicates `old` to the lowest free descriptor, with no flags. May wait for the lock, and
    /// allocates when the table grows.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if `old` is not open.
    /// - [`Error::TooManyFiles`] (EMFILE) if every descriptor below the limit is taken.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow.
    pub fn dup(&self, old: impl Into<RawFd>) -> Result<Fd, Error> {
        self.table.dup_lowest(old.into(), FdFlags::empty())
    }

    /// Duplicates `old` to the lowest free descriptor that is `min` or more. May wait for the lock,
    /// and allocates when the table grows.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if `old` is not open.
    /// - [`Error::InvalidArgument`] (EINVAL) if `min` is negative, or at or above the limit, or a
    ///   flag is unknown.
    /// - [`Error::TooManyFiles`] (EMFILE) if every descriptor from `min` to the limit is taken.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow.
    #[doc(alias = "F_DUPFD")]
    #[doc(alias = "F_DUPFD_CLOEXEC")]
    pub fn dup_from(
        &self,
        old: impl Into<RawFd>,
        min: impl Into<RawFd>,
        flags: FdFlags,
    ) -> Result<Fd, Error> {
        flags.check()?;
        let file = self.get_even_revoked(old.into())?;
        let min = Fd::new(min.into()).map_err(|_| Error::InvalidArgument)?;
        if min.index() >= self.table.limit() {
            return Err(Error::InvalidArgument);
        }
        self.table.open_from(min, file.0, flags)
    }

    /// Duplicates `old` to the descriptor `new`, and closes the file that was open there,
    /// atomically. May wait for the lock, and allocates when the table grows. This call releases
    /// the file that was open at `new`, after the lock is released.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if the descriptors are equal, or a flag is unknown.
    /// - [`Error::BadFd`] (EBADF) if `old` is not open, or `new` is negative, or at or above the
    ///   limit.
    /// - [`Error::Busy`] (EBUSY) if `new` is reserved, as on Linux.
    /// - [`Error::NotOwner`] (EPERM) if the open descriptor `new` has a [tag](Self::exchange_tag).
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow.
    #[doc(alias = "dup3")]
    pub fn dup_to(
        &self,
        old: impl Into<RawFd>,
        new: impl Into<RawFd>,
        flags: FdFlags,
    ) -> Result<Fd, Error> {
        self.dup_to_flushing(old, new, flags, |_| ())
    }

    /// Duplicates `old` to `new` like [`dup_to`](Self::dup_to), but waits while `new` is reserved.
    /// The wait ends when its file is installed or it is free. Blocks; must not be called inside a
    /// read-side section, nor by the holder of the reservation.
    ///
    /// # Errors
    /// EINVAL, EBADF, EPERM and ENOMEM as for [`dup_to`](Self::dup_to), never EBUSY; and
    /// [`Error::NoMemory`] (ENOMEM) if there is no memory to wait.
    #[cfg(feature = "std")]
    pub fn dup_to_waiting(
        &self,
        old: impl Into<RawFd>,
        new: impl Into<RawFd>,
        flags: FdFlags,
    ) -> Result<Fd, Error> {
        let (old, new) = (old.into(), new.into());
        loop {
            match self.dup_to(old, new, flags) {
                Err(Error::Busy) => {
                    let new = Fd::new(new)?;
                    self.wait(|table, structure| {
                        Ok(table.is_not_busy(structure, new).then_some(()))
                    })?;
                }
                done => return done,
            }
        }
    }

    /// Duplicates `old` to the descriptor `new`, with no flags. It closes the file that was open
    /// there, atomically. If the descriptors are equal, it only checks that `old` is open. It locks
    /// and allocates like [`dup_to`](Self::dup_to).
    ///
    /// # Errors
    /// EBADF, EBUSY, EPERM and ENOMEM as for [`dup_to`](Self::dup_to). Equal descriptors are no
    /// error if they are open.
    pub fn dup2(&self, old: impl Into<RawFd>, new: impl Into<RawFd>) -> Result<Fd, Error> {
        let (old, new) = (old.into(), new.into());
        if old != new {
            return self.dup_to(old, new, FdFlags::empty());
        }
        self.table.flags(old)?;
        Fd::new(old)
    }
}
