//! Weak references to open files: for caches and lists that must not keep a file open.

use core::fmt;
use core::num::NonZeroU64;

use fdtable_objects::object::{Ref, Weak};

use crate::{Error, FileRef};

/// A reference to an open file that keeps neither the file open nor its memory.
///
/// [`upgrade`](Self::upgrade) takes a [`FileRef`], as long as the file has one. A cache of files, a
/// list of watched files, or a file that has to know itself, holds weak references.
///
/// Cloning and dropping one is one atomic add each, and neither blocks nor allocates. Dropping the
/// last one of a file that was released may run `Drop` of other objects, as the drop of a
/// [`FileRef`] may. A file that has never had a weak reference pays nothing for them.
///
/// ```
/// use fdtable::{FdFlags, FileRef, Files};
///
/// let files = Files::new();
/// let file = FileRef::new("motd");
/// let weak = FileRef::downgrade(&file);
/// let fd = files.open(file, FdFlags::empty())?;
///
/// let found = weak.upgrade().expect("it is open");
/// assert!(files.refers_to(fd, &found));
/// drop(found);
/// drop(files.close(fd)?);
/// assert!(weak.upgrade().is_none());
/// # Ok::<(), fdtable::Error>(())
/// ```
pub struct WeakFile<T: ?Sized>(Weak<T>);

impl<T: ?Sized> FileRef<T> {
    /// Makes a weak reference to the open file. The first one of a file allocates some 50 bytes,
    /// which stay until the file is released and the last weak reference is dropped. It ends the
    /// process if there is no memory. Never blocks. May be called inside a read-side section.
    #[must_use]
    pub fn downgrade(this: &Self) -> WeakFile<T> {
        WeakFile(Ref::downgrade(&this.0))
    }

    /// Makes a weak reference to the open file, or returns ENOMEM. Otherwise like
    /// [`downgrade`](Self::downgrade).
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM). A file that has a weak reference, or had one, needs no memory.
    pub fn try_downgrade(this: &Self) -> Result<WeakFile<T>, Error> {
        Ok(WeakFile(Ref::try_downgrade(&this.0)?))
    }

    /// Returns the identity of the open file, which no other file of the process has or will have:
    /// a key for a list of files that may be closed, where an [address](Self::as_ptr) could come
    /// again. It is drawn when it is first asked for: other files pay nothing, and the order of
    /// identities says nothing about the files. A file that [holds](Self::into_dyn) another has an
    /// identity of its own.
    ///
    /// The first call for a file allocates like [`downgrade`](Self::downgrade), and ends the
    /// process if there is no memory. [`WeakFile::id`] is the same identity without that. Never
    /// blocks.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use fdtable::{FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new("socket"), FdFlags::empty())?;
    /// let weak = FileRef::try_downgrade(&files.get(fd)?)?;
    /// let interest = BTreeMap::from([(weak.id(), (weak, "readable"))]);
    ///
    /// let ready = FileRef::id(&files.get(fd)?);
    /// assert_eq!(interest[&Some(ready)].1, "readable");
    /// drop(files.close(fd)?);
    /// let other = FileRef::new("socket");
    /// assert!(!interest.contains_key(&Some(FileRef::id(&other))), "even at its address");
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    #[must_use]
    pub fn id(this: &Self) -> NonZeroU64 {
        Ref::id(&this.0)
    }
}

impl<T: ?Sized> WeakFile<T> {
    /// Makes a weak reference to no file: [`upgrade`](Self::upgrade) always fails. Neither blocks
    /// nor allocates.
    ///
    /// ```
    /// let weak: fdtable::WeakFile<String> = fdtable::WeakFile::new();
    /// assert!(weak.upgrade().is_none());
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self(Weak::new())
    }

    /// Takes a reference to the open file. Returns nothing once the last reference was dropped,
    /// which means the last close. Only then does the release hook run with
    /// [`Released`](crate::ReleaseReason::Released), so that hook cannot upgrade.
    ///
    /// A file that was [revoked](FileRef::revoke) can be upgraded while it has references;
    /// [`FileRef::is_revoked`] tells it from others. The hook that a revocation runs can upgrade,
    /// as the thread that revokes has a reference. A reference that the hook keeps delays `Drop` of
    /// the object as any other does; the hook does not run again.
    ///
    /// Costs a read-side section and one atomic add. Never blocks. Allocates only in a thread's
    /// first section. May be called inside a read-side section, and in a hook.
    #[inline]
    #[must_use]
    pub fn upgrade(&self) -> Option<FileRef<T>> {
        self.0.upgrade().map(FileRef)
    }

    /// Returns true if the open file was released, or this refers to none:
    /// [`upgrade`](Self::upgrade) fails from now on. Takes no reference, so a list can be swept
    /// under a lock. Neither blocks nor allocates.
    ///
    /// ```
    /// let file = fdtable::FileRef::new("motd");
    /// let weak = fdtable::FileRef::downgrade(&file);
    /// assert!(!weak.is_released());
    /// drop(file);
    /// assert!(weak.is_released());
    /// ```
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.0.has_ended()
    }

    /// Returns the [identity](FileRef::id) of the open file, also after it was released, or nothing
    /// if this refers to no file. Neither blocks nor allocates.
    #[must_use]
    pub fn id(&self) -> Option<NonZeroU64> {
        self.0.id()
    }

    /// Returns true if both refer to the same open file, also after it was released, or if neither
    /// refers to one.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl<T: ?Sized> Clone for WeakFile<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> Default for WeakFile<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> fmt::Debug for WeakFile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
