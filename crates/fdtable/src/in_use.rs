//! Closing what others use: return at once, as Linux does, or wait for them, as NetBSD does.
//!
//! Needs the feature `std`, since it blocks.
//!
//! [`Files::close`] returns at once: threads that are using the file go on with the references
//! that they have, under a number that may be somebody else's already. Where that must not be,
//! those who use a descriptor say so ([`Files::begin_use`]), and who closes it waits for them
//! ([`Files::close_and_wait`]). Only uses that were begun so are waited for.

use core::ops::Deref;

use fdtable_base::unwind;

use crate::{Error, Fd, FileRef, Files, RawFd};

/// The use of a descriptor. It ends when this is dropped.
///
/// It has the file, and goes on with it also when the descriptor is closed meanwhile.
#[derive(Debug)]
#[must_use = "the use ends when this is dropped"]
#[doc(alias = "fd_getfile")]
#[doc(alias = "fd_putfile")]
pub struct InUse<'f, T: ?Sized + Send + Sync> {
    files: &'f Files<T>,
    fd: Fd,
    /// Always there, until the use ends: the file is dropped before.
    file: Option<FileRef<T>>,
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Finds the file of a descriptor, and has those who close it with
    /// [`close_and_wait`](Self::close_and_wait) wait for the end of the use. May wait for the lock,
    /// and allocates.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the number is not open.
    /// - [`Error::Revoked`] (EIO) if the file was [revoked](FileRef::revoke).
    /// - [`Error::NoMemory`] (ENOMEM) if there is no memory to count the use.
    pub fn begin_use(&self, fd: impl Into<RawFd>) -> Result<InUse<'_, T>, Error> {
        let (fd, file) = self.table.begin_use(fd.into())?;
        Ok(InUse {
            files: self,
            fd,
            file: Some(FileRef(file)),
        })
    }

    /// Closes a descriptor, and waits until every [use](Self::begin_use) of the number has ended.
    /// The number is free after that, and the reference of the table dropped. From the beginning
    /// lookups answer EBADF, and `dup_to` onto it EBUSY. Blocks, outside of the
    /// [freezer](crate::freezer); a thread that calls it while it uses the descriptor itself waits
    /// forever.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new(vec![1, 2, 3]), FdFlags::empty())?;
    /// std::thread::scope(|scope| {
    ///     let reader = files.begin_use(fd)?;
    ///     scope.spawn(move || assert_eq!(reader.len(), 3));
    ///     files.close_and_wait(fd)
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF), [`Error::NotOwner`] (EPERM) and [`Error::NoMemory`] (ENOMEM) as
    ///   [`close`](Self::close); it is open still.
    /// - [`Error::NoMemory`] (ENOMEM) too if there is no memory to wait; it is closed then, as by
    ///   `close`.
    pub fn close_and_wait(&self, fd: impl Into<RawFd>) -> Result<(), Error> {
        let (fd, file) = self.table.close_to_reserved(fd.into())?;
        let waited = self.wait(|table, structure| Ok(table.is_unused(structure, fd).then_some(())));
        self.table.unreserve_closed(fd);
        drop(FileRef(file));
        waited
    }
}

impl<T: ?Sized + Send + Sync> InUse<'_, T> {
    /// Returns the number, as it was when the use began.
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// Returns a reference to the file, which may outlive the use.
    #[must_use]
    pub fn file(&self) -> FileRef<T> {
        self.reference().clone()
    }

    fn reference(&self) -> &FileRef<T> {
        self.file.as_ref().expect("it is dropped with the use")
    }
}

impl<T: ?Sized + Send + Sync> Deref for InUse<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.reference()
    }
}

impl<T: ?Sized + Send + Sync> Drop for InUse<'_, T> {
    fn drop(&mut self) {
        let file = self.file.take();
        unwind::both(
            // First: a thread that waits for the end of the use finds the reference gone.
            || drop(file),
            || self.files.table.end_use(self.fd),
        );
    }
}
