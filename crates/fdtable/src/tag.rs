//! Owner tags, like those of Android's `fdsan`.
//!
//! A program that closes a descriptor twice, or closes one that it only borrowed, most often fails
//! elsewhere: in the code whose file is suddenly gone. With tags the wrong close itself fails. An
//! owner *tags* its descriptor, and from then on only a close with that tag succeeds; one without a
//! tag, or with another tag, is refused. Calls that close by the range
//! ([`close_range`](crate::Files::close_range), [`close_on_exec`](crate::Files::close_on_exec))
//! ignore tags. Children inherit tags.
//!
//! A newly opened descriptor has the tag 0, which is none. The tags are where the
//! [words](crate::FdData) of descriptors are: a table without either pays no cost for them.

use fdtable_objects::radix::leaf::NewTable;

use crate::close::ClosedFile;
use crate::fd::{index_of, place_of};
use crate::table::LeafGuard;
use crate::{Error, FdArg, Files};

/// # Owner tags
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Returns the tag of a descriptor; 0 is no tag. May wait for the lock, and allocates where a
    /// part of the table is shared since a fork.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied.
    #[doc(alias = "android_fdsan_get_owner_tag")]
    pub fn tag(&self, fd: impl FdArg) -> Result<u64, Error> {
        let fd = fd.to_raw();
        let (_, bit) = place_of(index_of(fd));
        self.with_leaf(fd, |leaf| {
            if leaf.has(bit) {
                Ok(leaf.tag(bit))
            } else {
                Err(Error::BadFd)
            }
        })?
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
    /// assert_eq!(files.close(fd).unwrap_err(), Error::NotOwner);
    /// drop(files.close_with_tag(fd, 0xdb)?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open.
    /// - [`Error::NotOwner`] (EPERM) if the tag is not the expected one.
    /// - [`Error::NoMemory`] (ENOMEM) if there is no memory for the tags, or as for
    ///   [`tag`](Self::tag).
    #[doc(alias = "android_fdsan_exchange_owner_tag")]
    pub fn exchange_tag(&self, fd: impl FdArg, expected: u64, new: u64) -> Result<(), Error> {
        let fd = fd.to_raw();
        let (_, bit) = place_of(index_of(fd));
        // Made before the leaf is locked, and dropped after it if it was not needed.
        let mut table = (new != 0).then(NewTable::try_new).transpose()?;
        self.with_leaf(fd, |leaf| {
            if !leaf.has(bit) {
                return Err(Error::BadFd);
            }
            check_tag(leaf, bit, expected)?;
            leaf.add_table(&mut table);
            leaf.set_tag(bit, new);
            Ok(())
        })?
    }

    /// Closes a descriptor that has this tag, and returns its file. [`close`](Self::close) is the
    /// same with the tag 0, and locks and allocates in the same way.
    ///
    /// # Errors
    /// [`Error::NotOwner`] (EPERM) if the tag is another one; EBADF and ENOMEM as for
    /// [`close`](Self::close).
    #[doc(alias = "android_fdsan_close_with_tag")]
    pub fn close_with_tag(&self, fd: impl FdArg, tag: u64) -> Result<ClosedFile<T>, Error> {
        self.take_out(fd.to_raw(), tag).map(ClosedFile::new)
    }
}

/// Returns an error if a descriptor has a tag.
pub(crate) fn untagged<T: ?Sized>(leaf: &LeafGuard<'_, T>, bit: usize) -> Result<(), Error> {
    check_tag(leaf, bit, 0)
}

/// Returns an error if the tag is not the descriptor's.
#[inline(always)]
pub(crate) fn check_tag<T: ?Sized>(
    leaf: &LeafGuard<'_, T>,
    bit: usize,
    tag: u64,
) -> Result<(), Error> {
    if leaf.tag(bit) == tag {
        Ok(())
    } else {
        Err(Error::NotOwner)
    }
}
