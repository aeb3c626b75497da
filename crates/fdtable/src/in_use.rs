//! Closing descriptors in use: return at once, as on Linux, or wait, as on NetBSD.
//!
//! Needs the feature `std`, since it blocks.
//!
//! [`Files::close`] returns at once: threads that are using the file continue with their
//! references, at a descriptor that may already be reused. Where that is not acceptable, users of a
//! descriptor register ([`Files::begin_use`]), and the closer waits for them
//! ([`Files::close_and_wait`]). It waits only for registered uses.

use core::ops::Deref;

use fdtable_base::unwind;

use crate::{Error, Fd, FileRef, Files, RawFd};

/// A registered use of a descriptor. It ends when this is dropped.
///
/// It holds a reference to the file, and stays usable when the descriptor is closed meanwhile.
#[derive(Debug)]
#[must_use = "the use ends when this is dropped"]
#[doc(alias = "fd_getfile")]
#[doc(alias = "fd_putfile")]
pub struct InUse<'f, T: ?Sized + Send + Sync> {
    files: &'f Files<T>,
    fd: Fd,
    /// Always present until the use ends: the file is dropped before.
    file: Option<FileRef<T>>,
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Finds the file of a descriptor, and registers a use of it.
    /// [`close_and_wait`](Self::close_and_wait) waits for the end of the use. May wait for the
    /// lock, and allocates.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open.
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

    /// Closes a descriptor, and waits until every [use](Self::begin_use) of it has ended. Then it
    /// frees the descriptor and drops the table's reference. From the beginning lookups return
    /// EBADF, and `dup_to` onto it returns EBUSY. Blocks, outside of the [freezer](crate::freezer).
    /// A thread that calls it while it has a use of the descriptor itself waits forever.
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
    ///   for [`close`](Self::close); the descriptor stays open.
    /// - [`Error::NoMemory`] (ENOMEM) also if there is no memory to wait; the descriptor is closed
    ///   then, as by `close`.
    pub fn close_and_wait(&self, fd: impl Into<RawFd>) -> Result<(), Error> {
        let (fd, file) = self.table.close_to_reserved(fd.into())?;
        let waited = self.wait(|table, structure| Ok(table.is_unused(structure, fd).then_some(())));
        self.table.unreserve_closed(fd);
        drop(FileRef(file));
        waited
    }
}

impl<T: ?Sized + Send + Sync> InUse<'_, T> {
    /// Returns the descriptor at which the use began.
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
            // First, so that a thread that waits for the end of the use finds the reference
            // dropped.
            || drop(file),
            || self.files.table.end_use(self.fd),
        );
    }
}
