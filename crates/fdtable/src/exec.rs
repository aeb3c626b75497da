//! The descriptors of `execve(2)`.

use crate::{Error, Files};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Closes every descriptor that has [`CLOEXEC`](crate::FdFlags::CLOEXEC). Reserved descriptors
    /// stay reserved. May wait for the lock, allocates where a part of the table is shared since a
    /// fork, and runs release hooks. A hook that panics does not end the work: the other
    /// descriptors are closed, and then the panic is resumed.
    ///
    /// A process that shares its table must get one of its own before it executes a program, as
    /// `execve(2)` says: [fork](Self::fork) it and call this on the new one.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    /// copied. The descriptors before that part are closed; another call continues.
    #[doc(alias = "do_close_on_exec")]
    pub fn exec(&self) -> Result<(), Error> {
        self.table.close_on_exec(|_| ())
    }
}
