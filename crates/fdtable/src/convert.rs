//! Conversions of open files to other types.

use alloc::sync::Arc;
use core::any::Any;
use core::borrow::Borrow;
use core::ptr::NonNull;

pub use fdtable_objects::object::FromRaw;
use fdtable_objects::object::Ref;

use crate::{Error, FileRef};

impl<T: ?Sized> FileRef<T> {
    /// Returns the address of the object, which stays the same while the file has references. Use
    /// it as the key of a map, together with a reference or a [`WeakFile`](crate::WeakFile): the
    /// address of a dropped object may be reused. Neither blocks nor allocates.
    ///
    /// It is the address of the object, not of the file. Files that share an object have the same
    /// one: a file and another that [holds](Self::into_dyn) it, or two that were made of one `Arc`.
    /// For a `dyn` type, cast the key to `*const ()`: two pointers to one object may have different
    /// vtables.
    ///
    /// ```
    /// use std::collections::HashMap;
    ///
    /// use fdtable::FileRef;
    ///
    /// let (one, two) = (FileRef::new("motd"), FileRef::new("motd"));
    /// let offsets = HashMap::from([(FileRef::as_ptr(&one), 7), (FileRef::as_ptr(&two), 0)]);
    /// assert_eq!(offsets[&FileRef::as_ptr(&one.clone())], 7);
    /// ```
    #[inline]
    #[must_use]
    pub fn as_ptr(this: &Self) -> *const T {
        Ref::as_ptr(&this.0)
    }

    /// Converts the reference to an address that keeps the file, for a word of foreign code, as the
    /// user data of an event or a pointer of C is. [`FromRaw::from_raw`] converts it back; until
    /// then the file stays open. Neither blocks nor allocates.
    ///
    /// It is one word for a `dyn` type too, and all references to a file have the same. It is the
    /// address of the value that the file was made of, and a multiple of 8 and of the value's
    /// alignment: the lowest three bits are free for tags, which are cleared before it is converted
    /// back. For a sized `T` it is [`as_ptr`](Self::as_ptr), so the object can be read there. For a
    /// `dyn` type it need not be: a file that [holds](Self::into_dyn) another has its object
    /// elsewhere.
    ///
    /// ```
    /// use std::fmt::Display;
    /// use std::ptr::{NonNull, with_exposed_provenance_mut};
    ///
    /// use fdtable::{FileRef, FromRaw};
    ///
    /// let file: FileRef<dyn Display + Send + Sync> = FileRef::new_dyn("motd", |name| name);
    /// let user_data = FileRef::into_raw(file).as_ptr().expose_provenance() as u64;
    ///
    /// // When the event arrives:
    /// let raw = NonNull::new(with_exposed_provenance_mut(user_data as usize)).expect("a file");
    /// // SAFETY: it came from a reference of this type, and each event arrives once.
    /// let file: FileRef<dyn Display + Send + Sync> = unsafe { FileRef::from_raw(raw) };
    /// assert_eq!((file.to_string(), FileRef::strong_count(&file)), ("motd".to_string(), 1));
    /// ```
    #[must_use = "an address that is lost keeps its file forever"]
    pub fn into_raw(this: Self) -> NonNull<()> {
        Ref::into_address(this.0)
    }
}

/// For [`FromRaw::from_raw`]: the same open file.
impl<T: ?Sized> From<Ref<T>> for FileRef<T> {
    fn from(object: Ref<T>) -> Self {
        Self(object)
    }
}

impl<T: ?Sized> FromRaw for FileRef<T> {
    type Object = T;
}

impl<T: ?Sized + Send + Sync + 'static> FileRef<T> {
    /// Makes an open file for tables of another type, usually a `dyn` trait, that holds this one.
    /// `coerce` converts a reference to the object. Allocates, and ends the process if there is no
    /// memory.
    ///
    /// Where the file is made by your own code, use [`new_dyn`](Self::new_dyn): it makes one file
    /// and not two. The result is another file, with a reference count, a release and a
    /// [revocation](Self::revoke) of its own. It holds this reference until its own last one is
    /// dropped. If that was the last one, the release hook of the held file runs then.
    ///
    /// ```
    /// use std::fmt::Display;
    ///
    /// use fdtable::{FdFlags, FileRef, Files};
    ///
    /// let number: FileRef<u32> = FileRef::new(7);
    /// let shown: FileRef<dyn Display + Send + Sync> =
    ///     FileRef::into_dyn(number.clone(), |number| number);
    /// assert_eq!(FileRef::strong_count(&number), 2);
    ///
    /// let files: Files<dyn Display + Send + Sync> = Files::new();
    /// let fd = files.open(shown, FdFlags::empty())?;
    /// assert_eq!(files.get(fd)?.to_string(), "7");
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    ///
    /// For a sized type this does not compile:
    ///
    /// ```compile_fail,E0080
    /// use fdtable::FileRef;
    ///
    /// let same: FileRef<u32> = FileRef::into_dyn(FileRef::new(7), |number| number);
    /// ```
    #[must_use]
    pub fn into_dyn<U: ?Sized + 'static>(this: Self, coerce: fn(&T) -> &U) -> FileRef<U> {
        FileRef(Ref::into_dyn(this.0, coerce))
    }

    /// Makes an open file that holds this one, or returns ENOMEM. Otherwise like
    /// [`into_dyn`](Self::into_dyn).
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM), with the reference.
    pub fn try_into_dyn<U: ?Sized + 'static>(
        this: Self,
        coerce: fn(&T) -> &U,
    ) -> Result<FileRef<U>, (Error, Self)> {
        match Ref::try_into_dyn(this.0, coerce) {
            Ok(file) => Ok(FileRef(file)),
            Err((error, this)) => Err((error.into(), Self(this))),
        }
    }
}

impl<T: 'static> FileRef<T> {
    /// Drops the reference. If it was the last one, the release hook runs, unless a revocation has
    /// run it, and then the object belongs to the caller instead of being dropped. If all holders
    /// of references call this, one of them gets the object. Does not block; may run `Drop` of
    /// objects that were released before, as the drop of a reference does.
    ///
    /// Returns nothing also if the file was made for an [`Rcu`](crate::Rcu) table, or was
    /// [downcast](Self::downcast_by) to a part of what it was made of: then the object is dropped
    /// as ever.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new(vec![1, 2, 3]), FdFlags::empty())?;
    /// let closed = files.close(fd)?.into_file();
    /// assert_eq!(FileRef::into_inner(closed), Some(vec![1, 2, 3]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Panics
    /// If the hook does; the object is dropped.
    pub fn into_inner(this: Self) -> Option<T> {
        Ref::into_inner(this.0)
    }

    /// Moves the object out like [`into_inner`](Self::into_inner), or keeps the reference. A lookup
    /// at the same time finds nothing, or keeps its reference and makes this fail.
    ///
    /// # Errors
    /// The reference, if there are others, if the file was made for an [`Rcu`](crate::Rcu) table,
    /// or if it was [downcast](Self::downcast_by) to a part of what it was made of.
    ///
    /// # Panics
    /// If the hook does; the object is dropped.
    pub fn try_unwrap(this: Self) -> Result<T, Self> {
        Ref::try_unwrap(this.0).map_err(Self)
    }
}

impl<T: ?Sized + 'static> FileRef<T> {
    /// Converts the reference to one of type `S`, if `find` finds an `S` in the object, at the
    /// address of the value that the file was made of. It is the same open file. Neither blocks nor
    /// allocates, and costs what `find` costs.
    ///
    /// ```
    /// use std::any::Any;
    ///
    /// use fdtable::FileRef;
    ///
    /// trait File: Any + Send + Sync {
    ///     fn as_any(&self) -> &dyn Any;
    /// }
    /// struct Console(u32);
    /// impl File for Console {
    ///     fn as_any(&self) -> &dyn Any {
    ///         self
    ///     }
    /// }
    ///
    /// let file: FileRef<dyn File> = FileRef::new_dyn(Console(3), |console| console);
    /// let console: FileRef<Console> =
    ///     FileRef::downcast_by(file, |file| file.as_any().downcast_ref()).ok().unwrap();
    /// assert_eq!(console.0, 3);
    /// ```
    ///
    /// `find` may not return what lives shorter than the object. This does not compile:
    ///
    /// ```compile_fail,E0308
    /// use fdtable::FileRef;
    ///
    /// let outer = 7_u32;
    /// let _ = FileRef::downcast_by(FileRef::new(7_u32), |_| Some(&outer));
    /// ```
    ///
    /// # Errors
    /// The reference, if `find` returns nothing, or an `S` that is not at the value's address. So a
    /// file that [holds](Self::into_dyn) another file or an
    /// `Arc` is not converted, nor one whose object is in a box.
    ///
    /// # Panics
    /// If `find` does; the reference is dropped.
    pub fn downcast_by<S: 'static>(
        this: Self,
        find: for<'a> fn(&'a T) -> Option<&'a S>,
    ) -> Result<FileRef<S>, Self> {
        Ref::downcast_by(this.0, find).map(FileRef).map_err(Self)
    }
}

impl FileRef<dyn Any + Send + Sync> {
    /// Converts the reference to one of type `S`, if the file was made of an `S`. It is the same
    /// open file. Neither blocks nor allocates.
    ///
    /// ```
    /// use std::any::Any;
    ///
    /// use fdtable::FileRef;
    ///
    /// let file: FileRef<dyn Any + Send + Sync> = FileRef::new_dyn(7_u32, |number| number);
    /// let file = FileRef::downcast::<String>(file).unwrap_err();
    /// assert_eq!(*FileRef::downcast::<u32>(file).unwrap(), 7);
    /// ```
    ///
    /// # Errors
    /// The reference, as [`downcast_by`](Self::downcast_by) returns it.
    pub fn downcast<S: Any + Send + Sync>(this: Self) -> Result<FileRef<S>, Self> {
        Self::downcast_by(this, |any| any.downcast_ref())
    }
}

/// Makes an open file of an unsized type that holds the `Arc`. Allocates, and ends the process if
/// there is no memory; [`FileRef::builder`] with the `Arc` returns ENOMEM instead. The `Arc` is
/// dropped with the file, when the last reference goes.
///
/// There is no conversion to an `Arc`: the counts and the layouts differ.
///
/// ```
/// use std::fmt::Display;
/// use std::sync::Arc;
///
/// use fdtable::FileRef;
///
/// let shared: Arc<dyn Display + Send + Sync> = Arc::new("motd");
/// let file = FileRef::from(shared);
/// assert_eq!(file.to_string(), "motd");
/// ```
///
/// For a sized type it does not compile: make a file of the value, or of the `Arc`, with
/// [`FileRef::new`].
///
/// ```compile_fail,E0080
/// use std::sync::Arc;
///
/// use fdtable::FileRef;
///
/// let file: FileRef<u32> = FileRef::from(Arc::new(7));
/// ```
impl<T: ?Sized + Send + Sync + 'static> From<Arc<T>> for FileRef<T> {
    fn from(object: Arc<T>) -> Self {
        Self(Ref::from(object))
    }
}

impl<T: ?Sized> AsRef<T> for FileRef<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: ?Sized> Borrow<T> for FileRef<T> {
    fn borrow(&self) -> &T {
        self
    }
}
