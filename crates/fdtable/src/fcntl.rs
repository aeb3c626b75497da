//! The descriptor flags of `fcntl(2)`: `F_GETFD` and `F_SETFD`.

use crate::rcu;
use crate::{Error, FdFlags, Files, RawFd};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Returns the flags of a descriptor. Takes no lock, neither blocks nor allocates. While
    /// another thread closes the number, and opens or reserves it again, the flags may be those of
    /// the next descriptor already, as on Linux.
    ///
    /// # Errors
    /// [`Error::BadFd`] (EBADF) if the number is not open.
    #[doc(alias = "F_GETFD")]
    pub fn flags(&self, fd: impl Into<RawFd>) -> Result<FdFlags, Error> {
        let place = self.table.open_place(fd.into())?;
        // Who finds the file finds the flags with which it was opened: they were written before it.
        let section = rcu::read_lock();
        let file = place.slot().borrow(&section);
        file.map(|_| place.flags()).ok_or(Error::BadFd)
    }

    /// Sets the flags of a descriptor. May wait for the lock; does not allocate.
    ///
    /// # Errors
    /// [`Error::BadFd`] (EBADF) if the number is not open.
    #[doc(alias = "F_SETFD")]
    pub fn set_flags(&self, fd: impl Into<RawFd>, flags: FdFlags) -> Result<(), Error> {
        let fd = fd.into();
        let mut table = self.table.lock();
        let place = self.table.open_place(fd)?;
        table.set_flags(&place, flags);
        Ok(())
    }
}
