//! Open files: the objects that descriptors refer to.
//!
//! The open file description of POSIX is an object of the caller's own type `T` here, behind a
//! reference count. Descriptors hold references, and so do the threads that are using the file. `T`
//! may be sized, or a `dyn` trait for tables with files of many kinds.
//!
//! [`lifetimes`](crate::lifetimes) explains when an open file is released and dropped.

use core::fmt;
use core::ops::Deref;

use fdtable_objects::object::{Borrowed, Ref};
pub use fdtable_objects::object::{Rcu, ReleaseReason};
use fdtable_sync::hint::cold_path;

use crate::Error;

/// A counted reference to an open file. Dropping the last one releases the file, and drops the
/// object, like an `Arc`.
///
/// Taking and dropping a reference is one atomic add each, and neither blocks nor allocates.
/// Dropping the last one runs the release hook, unless a [revocation](Self::revoke) has run it, and
/// then `Drop` of the object; if the file is on a [`SuperBlock`](crate::SuperBlock), it also waits
/// for the lock of a list, for a few steps, or as long as a
/// [snapshot](crate::SuperBlock::snapshot) takes. It may also free the memory of files that were
/// released before, and wait briefly for readers if very many are queued (see
/// [`rcu::call`](crate::rcu::call)); inside a read-side section it does not wait.
///
/// A reference that is leaked ([`mem::forget`](core::mem::forget)) keeps its file forever. If
/// several CPUs have used the file, it also keeps one of the 256 indexes of files whose references
/// are counted by CPU. When no index is left, each further file has one count for all CPUs: lookups
/// by several at a time are slower, and everything else is the same.
///
/// A `FileRef<Rcu<T>>` refers to a file that [can be borrowed](Rcu) without a reference. Its `Drop`
/// runs later, together with the freeing of its memory. [`lifetimes`](crate::lifetimes) has both
/// kinds in a table.
///
/// ```
/// use fdtable::FileRef;
///
/// let console = FileRef::builder("console")
///     .on_release(|name, _| println!("{name} closed"))
///     .build();
/// let again = console.clone();
/// assert!(FileRef::ptr_eq(&console, &again));
/// assert_eq!(console.len(), 7);
/// ```
#[doc(alias = "file")]
#[doc(alias = "fput")]
pub struct FileRef<T: ?Sized>(pub(crate) Ref<T>);

/// An open file borrowed inside a read-side section, without a reference. Only a table of
/// [`Rcu`] files lends one.
///
/// It can be used until the section ends, also when the descriptor is closed meanwhile. To keep the
/// file longer, or to block, [`upgrade`](Self::upgrade) it.
pub struct BorrowedFile<'g, T: ?Sized>(pub(crate) Borrowed<'g, Rcu<T>>);

impl<T: ?Sized + 'static> FileRef<T> {
    /// Makes an open file of `object` for tables of another type, usually a `dyn` trait. `coerce`
    /// converts a reference to the object to that type. Allocates.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files};
    ///
    /// trait Device: Send + Sync {
    ///     fn name(&self) -> &str;
    /// }
    /// struct Null;
    /// impl Device for Null {
    ///     fn name(&self) -> &str {
    ///         "null"
    ///     }
    /// }
    ///
    /// let files: Files<dyn Device> = Files::new();
    /// let fd = files.open(FileRef::new_dyn(Null, |null| null), FdFlags::empty())?;
    /// assert_eq!(files.get(fd)?.name(), "null");
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    #[must_use]
    pub fn new_dyn<S: Send + Sync + 'static>(object: S, coerce: fn(&S) -> &T) -> Self {
        Self(Ref::coerced(object, coerce))
    }
}

impl<T: Send + Sync + 'static> FileRef<T> {
    /// Makes an open file of `object`. Allocates, and ends the process if there is no memory;
    /// [`try_build`](crate::FileBuilder::try_build) returns ENOMEM instead. Where the table has
    /// files of a `dyn` trait, use [`new_dyn`](Self::new_dyn).
    #[inline]
    #[must_use]
    pub fn new(object: T) -> Self {
        Self(Ref::new(object))
    }
}

impl<T: Send + Sync + 'static> FileRef<Rcu<T>> {
    /// Makes an open file of `object` that readers can [borrow](crate::Files::get_rcu). Its `Drop`
    /// runs after a grace period (see [`lifetimes`](crate::lifetimes)). Allocates.
    #[inline]
    #[must_use]
    pub fn new_rcu(object: T) -> Self {
        Self(Ref::new_rcu(object))
    }
}

impl<T: ?Sized + 'static> FileRef<Rcu<T>> {
    /// Makes an open file of `object` for tables of another type, like
    /// [`new_dyn`](Self::new_dyn), that readers can [borrow](crate::Files::get_rcu). Allocates.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};
    /// # trait Device: Send + Sync {
    /// #     fn name(&self) -> &str;
    /// # }
    /// # struct Null;
    /// # impl Device for Null {
    /// #     fn name(&self) -> &str {
    /// #         "null"
    /// #     }
    /// # }
    ///
    /// let files: Files<Rcu<dyn Device>> = Files::new();
    /// let fd = files.open(FileRef::new_dyn_rcu(Null, |null| null), FdFlags::empty())?;
    /// let section = rcu::read_lock();
    /// assert_eq!(files.get_rcu(fd, &section)?.name(), "null");
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    #[must_use]
    pub fn new_dyn_rcu<S: Send + Sync + 'static>(object: S, coerce: fn(&S) -> &T) -> Self {
        Self(Ref::coerced_rcu(object, coerce))
    }
}

impl<T: ?Sized> FileRef<T> {
    /// Revokes the open file: from now on lookups of its descriptors fail with EIO. Its hook runs
    /// now, not when the last reference is dropped, with [`ReleaseReason::Revoked`]. Returns true
    /// if this call revoked the file. If not, another call did, and its hook may still be running.
    ///
    /// The descriptors stay, and can be duplicated and closed like others. A thread that holds a
    /// reference, or has borrowed the file, can still use the object, also while the hook runs. The
    /// object decides what its operations return from now on, and the hook wakes the threads that
    /// sleep on it.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let line = FileRef::builder("tty1")
    ///     .on_release(|name, _| println!("hang up {name}"))
    ///     .build();
    /// let fd = files.open(line.clone(), FdFlags::empty())?;
    /// assert!(FileRef::revoke(&line)); // prints
    /// assert_eq!(files.get(fd).unwrap_err(), Error::Revoked);
    /// assert!(!FileRef::revoke(&line));
    /// drop(files.close(fd)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "vhangup")]
    pub fn revoke(this: &Self) -> bool {
        Ref::revoke(&this.0)
    }

    /// Returns true if the open file was [revoked](Self::revoke). Neither blocks nor allocates.
    #[must_use]
    pub fn is_revoked(this: &Self) -> bool {
        Ref::is_revoked(&this.0)
    }

    #[inline(always)]
    pub(crate) fn unless_revoked(self) -> Result<Self, Error> {
        if Self::is_revoked(&self) {
            return Err(refuse(self));
        }
        Ok(self)
    }

    /// Drops a reference that is probably the last one, as [`ClosedFile`](crate::ClosedFile) does.
    /// For other tables that are compared with this one.
    #[doc(hidden)]
    #[inline]
    pub fn put_as_last(this: Self) {
        Ref::put_as_last(this.0);
    }

    /// Returns true if both refer to the same open file.
    ///
    /// `FileRef` has no `Eq` and no `Hash`: by [`Borrow`](core::borrow::Borrow) they would have to
    /// be those of the object. [`as_ptr`](Self::as_ptr) is a key for maps.
    #[must_use]
    pub fn ptr_eq(a: &Self, b: &Self) -> bool {
        Ref::ptr_eq(&a.0, &b.0)
    }

    /// Returns the number of references, at least 1. It is a hint: other threads take and drop
    /// references at any time, and some are missing now and then while several CPUs use the file.
    /// Returns `usize::MAX` if the count is saturated.
    #[must_use]
    pub fn strong_count(this: &Self) -> usize {
        Ref::references(&this.0)
    }

    /// Returns the number of references at one moment of the call, for code that decides by it.
    /// Returns nothing while the references are counted by CPU, as those of a file that several
    /// CPUs use; then one of its descriptors is open, or is being closed. Neither blocks nor
    /// allocates.
    ///
    /// ```
    /// use fdtable::FileRef;
    ///
    /// let file = FileRef::new(7);
    /// let other = FileRef::clone(&file);
    /// assert_eq!(FileRef::exact_strong_count(&other), Some(2));
    /// ```
    #[must_use]
    pub fn exact_strong_count(this: &Self) -> Option<usize> {
        Ref::all_references(&this.0)
    }
}

/// Drops the reference that a lookup has taken. Kept out of line for lookups that succeed.
#[cold]
fn refuse<T: ?Sized>(file: FileRef<T>) -> Error {
    drop(file);
    Error::Revoked
}

impl<T: ?Sized> Clone for FileRef<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> Deref for FileRef<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for FileRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'g, T: ?Sized> BorrowedFile<'g, T> {
    /// Takes a reference, which outlives the section. Returns nothing if the last reference was
    /// dropped meanwhile: then the descriptor was closed. One atomic add; neither blocks nor
    /// allocates.
    #[inline]
    #[must_use]
    pub fn upgrade(self) -> Option<FileRef<Rcu<T>>> {
        self.0.upgrade().map(FileRef)
    }

    #[inline(always)]
    pub(crate) fn unless_revoked(self) -> Result<Self, Error> {
        if self.0.is_revoked() {
            cold_path();
            return Err(Error::Revoked);
        }
        Ok(self)
    }

    /// Returns the object, for as long as the section lasts.
    #[inline(always)]
    #[must_use]
    pub fn object(self) -> &'g T {
        self.0.object()
    }
}

impl<T: ?Sized> Clone for BorrowedFile<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for BorrowedFile<'_, T> {}

impl<T: ?Sized> Deref for BorrowedFile<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.object()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for BorrowedFile<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
