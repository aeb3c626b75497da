//! The descriptor flags of `fcntl(2)`: `F_GETFD` and `F_SETFD`.

use fdtable_sync::rcu;

use crate::fd::{index_of, place_of};
use crate::table::{flags_in, set_flags};
use crate::{Error, FdArg, FdFlags, Files};

/// # Descriptor flags
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Returns the flags of a descriptor. Takes no lock, neither blocks nor allocates, and may be
    /// called inside a read-side section. While another thread closes the descriptor, and opens or
    /// reserves it again, the flags may already be those of the next use, as on Linux.
    ///
    /// # Errors
    /// [`Error::BadFd`] (EBADF) if the descriptor is not open.
    #[doc(alias = "F_GETFD")]
    pub fn fd_flags(&self, fd: impl FdArg) -> Result<FdFlags, Error> {
        let section = rcu::read_lock();
        let (index, bit) = place_of(index_of(fd.to_raw()));
        let leaf = self.tree.leaf(index, &section).ok_or(Error::BadFd)?;
        // A thread that finds the file also finds the flags of its open: they were written before.
        leaf.borrow(bit).ok_or(Error::BadFd)?;
        Ok(flags_in(&leaf, bit))
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
    pub fn set_fd_flags(&self, fd: impl FdArg, flags: FdFlags) -> Result<(), Error> {
        flags.check()?;
        let fd = fd.to_raw();
        let (_, bit) = place_of(index_of(fd));
        self.with_leaf(fd, |leaf| {
            if !leaf.has(bit) {
                return Err(Error::BadFd);
            }
            set_flags(leaf, bit, flags);
            Ok(())
        })?
    }
}
