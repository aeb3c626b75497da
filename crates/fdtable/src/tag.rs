//! Owner tags, like those of Android's `fdsan`.
//!
//! A program that closes a descriptor twice, or closes one that it only borrowed, most often fails
//! elsewhere: in the code whose file is suddenly gone. With tags the wrong close itself fails. An
//! owner *tags* its descriptor, and from then on only a close with that tag succeeds; one without a
//! tag, or with another tag, is refused. Calls that close by the range
//! ([`close_range`](crate::Files::close_range), [`exec`](crate::Files::exec)) ignore tags. Children
//! inherit tags. A table without tags pays no cost for them.

use crate::{Error, FileRef, Files, RawFd};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Returns the tag of a descriptor; 0 is no tag. May wait for the lock, and allocates where a
    /// part of the table is shared since a fork.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied.
    #[doc(alias = "android_fdsan_get_owner_tag")]
    pub fn tag(&self, fd: impl Into<RawFd>) -> Result<u64, Error> {
        self.table.tag(fd.into())
    }

    /// Changes the tag of a descriptor from `expected` to `new`; 0 is no tag. May wait for the
    /// lock, and allocates at the first tag among 64 descriptors.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new("database"), FdFlags::empty())?;
    /// files.exchange_tag(fd, 0, 0xdb)?;
    /// assert_eq!(files.close(fd), Err(Error::NotOwner));
    /// files.close_with_tag(fd, 0xdb)?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open.
    /// - [`Error::NotOwner`] (EPERM) if the tag is not the expected one.
    /// - [`Error::NoMemory`] (ENOMEM) if there is no memory for the tags, or as for
    ///   [`tag`](Self::tag).
    #[doc(alias = "android_fdsan_exchange_owner_tag")]
    pub fn exchange_tag(&self, fd: impl Into<RawFd>, expected: u64, new: u64) -> Result<(), Error> {
        self.table.exchange_tag(fd.into(), expected, new)
    }

    /// Closes a descriptor that has this tag. [`close`](Self::close) is the same with the tag 0,
    /// and locks, allocates and runs hooks in the same way.
    ///
    /// # Errors
    /// [`Error::NotOwner`] (EPERM) if the tag is another one; EBADF and ENOMEM as for
    /// [`close`](Self::close).
    #[doc(alias = "android_fdsan_close_with_tag")]
    pub fn close_with_tag(&self, fd: impl Into<RawFd>, tag: u64) -> Result<(), Error> {
        self.table
            .close(fd.into(), tag)
            .map(|file| drop(FileRef(file)))
    }
}
