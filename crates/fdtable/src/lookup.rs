//! Lookup: from a descriptor to its file, without a lock.

use core::hint::cold_path;

use crate::rcu::{self, Guard};
use crate::{BorrowedFile, Error, FileRef, Files, RawFd};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Finds the file of a descriptor and takes a reference, which outlives the descriptor. Costs
    /// one atomic add. Takes no lock, neither blocks nor allocates (except in a thread's first
    /// lookup), and may be called inside a read-side section.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open: never opened, closed, negative,
    ///   past the table, or only reserved.
    /// - [`Error::Revoked`] (EIO) if the file was [revoked](FileRef::revoke).
    #[doc(alias = "fget")]
    #[inline]
    pub fn get(&self, fd: impl Into<RawFd>) -> Result<FileRef<T>, Error> {
        self.get_even_revoked(fd.into())?.unless_revoked()
    }

    /// Finds the file like [`get`](Self::get), also if it was revoked: for operations on the
    /// descriptor that do not use the object.
    #[inline(always)]
    pub(crate) fn get_even_revoked(&self, fd: RawFd) -> Result<FileRef<T>, Error> {
        let guard = rcu::read_lock();
        let file = self.table.get(fd, &guard);
        file.map(FileRef).ok_or(Error::BadFd)
    }

    /// Finds the file of a descriptor for use inside a read-side section. Takes no reference and no
    /// lock, writes nothing atomically, and neither blocks nor allocates.
    ///
    /// The file stays usable until the section ends, also if the descriptor is closed meanwhile.
    /// Sections must be short and must not block: to do that, [upgrade](BorrowedFile::upgrade) the
    /// file and leave the section.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files, rcu};
    ///
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new(vec![1, 2, 3]), FdFlags::empty())?;
    /// let section = rcu::read_lock();
    /// let file = files.borrow(fd, &section)?;
    /// files.close(fd)?;
    /// assert_eq!(file.len(), 3, "closed, and still here");
    /// assert!(file.upgrade().is_none(), "released, so it cannot be kept");
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadFd`] (EBADF) and [`Error::Revoked`] (EIO) as for [`get`](Self::get).
    #[doc(alias = "fdget")]
    #[doc(alias = "fcheck")]
    #[inline]
    pub fn borrow<'g>(
        &self,
        fd: impl Into<RawFd>,
        guard: &'g Guard<'_>,
    ) -> Result<BorrowedFile<'g, T>, Error> {
        let Some(file) = self.table.borrow(fd.into(), guard) else {
            cold_path();
            return Err(Error::BadFd);
        };
        BorrowedFile(file).unless_revoked()
    }
}
