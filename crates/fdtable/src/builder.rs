//! Making open files with more than an object: a release hook, or a place on a superblock.

use alloc::alloc::{Layout, handle_alloc_error};

use fdtable_objects::object::Ref;
use fdtable_objects::percpu_list::{PerCpuList, Refused};
use fdtable_sync::fallible::OutOfMemory;

use crate::{Access, Error, FileRef, ReleaseReason, SuperBlock};

/// Makes an open file of an object, with a release hook and on a superblock if they are given.
/// [`FileRef::builder`] begins one.
///
/// The object may have another type than the files of the table, usually one that implements the
/// `dyn` trait of the table. Then [`build_dyn`](Self::build_dyn) converts it.
///
/// ```
/// use fdtable::{Access, Error, FileRef, ReleaseReason, SuperBlock};
///
/// let console = FileRef::builder("console")
///     .on_release(|name, _| println!("{name} closed"))
///     .build();
/// assert_eq!(console.len(), 7);
///
/// let disk: SuperBlock<dyn core::fmt::Display + Send + Sync> = SuperBlock::new()?;
/// let log = FileRef::builder(7)
///     .on_release(|inode, reason| assert_eq!((*inode, reason), (7, ReleaseReason::Revoked)))
///     .on(&disk, Access::Write)
///     .try_build_dyn(|inode| inode)?;
/// assert_eq!((log.to_string(), disk.revoke()?), ("7".to_string(), 1));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder makes nothing until it builds"]
pub struct FileBuilder<S, H = NoHook, P = NoSuperBlock> {
    object: S,
    hook: H,
    place: P,
}

/// The hook of a [`FileBuilder`] to which none was given.
#[derive(Debug)]
pub struct NoHook;

/// The place of a [`FileBuilder`] to which no superblock was given.
#[derive(Debug)]
pub struct NoSuperBlock;

/// The superblock of a [`FileBuilder`].
#[derive(Debug)]
pub struct On<'s, T: ?Sized> {
    superblock: &'s SuperBlock<T>,
    access: Access,
}

impl<S: Send + Sync + 'static> FileRef<S> {
    /// Begins an open file of `object` that has more than an object.
    pub fn builder(object: S) -> FileBuilder<S> {
        FileBuilder {
            object,
            hook: NoHook,
            place: NoSuperBlock,
        }
    }
}

impl<S, P> FileBuilder<S, NoHook, P> {
    /// Sets the release hook. It runs once, when the last reference is dropped or the file is
    /// [revoked](FileRef::revoke), outside of all locks of the table; its second argument says
    /// which of the two.
    ///
    /// A hook that panics harms no other file. A call that closes many descriptors
    /// ([`close_range`](crate::Files::close_range),
    /// [`close_on_exec`](crate::Files::close_on_exec), the drop of a table) or
    /// [revokes](SuperBlock::revoke) many files continues: it releases every other file, and then
    /// resumes the first panic. The file itself has ended too: it is closed, off its superblock,
    /// and its object is dropped. A panic that cannot be resumed, because another one is or the
    /// thread is already unwinding, is counted by [`contained_panics`](crate::contained_panics).
    /// Without the feature `std` a second panic ends the process.
    pub fn on_release<H>(self, hook: H) -> FileBuilder<S, H, P>
    where
        H: Fn(&S, ReleaseReason) + Send + Sync + 'static,
    {
        FileBuilder {
            object: self.object,
            hook,
            place: self.place,
        }
    }
}

impl<S, H> FileBuilder<S, H> {
    /// Puts the file on the list of a superblock, until it ends. The file leaves the list after its
    /// hook has run.
    pub fn on<T: ?Sized>(
        self,
        superblock: &SuperBlock<T>,
        access: Access,
    ) -> FileBuilder<S, H, On<'_, T>> {
        FileBuilder {
            object: self.object,
            hook: self.hook,
            place: On { superblock, access },
        }
    }
}

impl<S: Send + Sync + 'static, H: ReleaseHook<S>> FileBuilder<S, H> {
    /// Makes the open file. Allocates, and ends the process if there is no memory.
    #[must_use]
    pub fn build(self) -> FileRef<S> {
        self.try_build()
            .unwrap_or_else(|_| handle_alloc_error(Layout::new::<(S, H)>()))
    }

    /// Makes the open file. Allocates.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM); the object is dropped, and the hook does not run.
    pub fn try_build(self) -> Result<FileRef<S>, Error> {
        Ok(FileRef(self.hook.make(self.object)?))
    }

    /// Makes the open file for tables of another type, like [`FileRef::new_dyn`]. Allocates, and
    /// ends the process if there is no memory.
    #[must_use]
    pub fn build_dyn<T: ?Sized + 'static>(self, coerce: fn(&S) -> &T) -> FileRef<T> {
        self.try_build_dyn(coerce)
            .unwrap_or_else(|_| handle_alloc_error(Layout::new::<(S, H)>()))
    }

    /// Makes the open file for tables of another type, like [`FileRef::new_dyn`]. Allocates.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM); the object is dropped, and the hook does not run.
    pub fn try_build_dyn<T: ?Sized + 'static>(
        self,
        coerce: fn(&S) -> &T,
    ) -> Result<FileRef<T>, Error> {
        Ok(FileRef(self.hook.make_dyn(self.object, coerce)?))
    }
}

impl<S: Send + Sync + 'static, H: ReleaseHook<S>> FileBuilder<S, H, On<'_, S>> {
    /// Makes the open file on the superblock. Allocates, and may wait for the lock of one CPU's
    /// list.
    ///
    /// # Errors
    /// The object and the hook are dropped, and the hook does not run:
    /// - [`Error::ReadOnly`] (EROFS) for [`Access::Write`] after a remount read-only;
    /// - [`Error::NoDevice`] (ENODEV) after an unmount;
    /// - [`Error::NoMemory`] (ENOMEM).
    pub fn try_build(self) -> Result<FileRef<S>, Error> {
        let On { superblock, access } = self.place;
        Ok(FileRef(self.hook.add(
            &superblock.files,
            self.object,
            access,
        )?))
    }
}

impl<S, H, T> FileBuilder<S, H, On<'_, T>>
where
    S: Send + Sync + 'static,
    H: ReleaseHook<S>,
    T: ?Sized,
{
    /// Makes the open file on the superblock, for tables of another type, like
    /// [`FileRef::new_dyn`]. Allocates, and may wait for the lock of one CPU's list.
    ///
    /// # Errors
    /// EROFS, ENODEV and ENOMEM as for `try_build`.
    pub fn try_build_dyn(self, coerce: fn(&S) -> &T) -> Result<FileRef<T>, Error> {
        let On { superblock, access } = self.place;
        let files = &superblock.files;
        let file = self.hook.add_dyn(files, self.object, access, coerce)?;
        Ok(FileRef(file))
    }
}

/// A release hook, or [`NoHook`], which costs nothing at the release. Not nameable outside.
pub trait ReleaseHook<S>: Sized {
    /// Makes a file of an object.
    fn make(self, object: S) -> Result<Ref<S>, OutOfMemory>;

    /// Makes a file of another type.
    fn make_dyn<T: ?Sized + 'static>(
        self,
        object: S,
        coerce: fn(&S) -> &T,
    ) -> Result<Ref<T>, OutOfMemory>;

    /// Makes a file on a list.
    fn add(self, list: &PerCpuList<S>, object: S, access: Access) -> Result<Ref<S>, Refused>;

    /// Makes a file of another type on a list.
    fn add_dyn<T: ?Sized>(
        self,
        list: &PerCpuList<T>,
        object: S,
        access: Access,
        coerce: fn(&S) -> &T,
    ) -> Result<Ref<T>, Refused>;
}

impl<S: Send + Sync + 'static> ReleaseHook<S> for NoHook {
    fn make(self, object: S) -> Result<Ref<S>, OutOfMemory> {
        Ref::try_new(object)
    }

    fn make_dyn<T: ?Sized + 'static>(
        self,
        object: S,
        coerce: fn(&S) -> &T,
    ) -> Result<Ref<T>, OutOfMemory> {
        Ref::try_coerced(object, coerce)
    }

    fn add(self, list: &PerCpuList<S>, object: S, access: Access) -> Result<Ref<S>, Refused> {
        list.try_add(object, access, |_, _| ())
    }

    fn add_dyn<T: ?Sized>(
        self,
        list: &PerCpuList<T>,
        object: S,
        access: Access,
        coerce: fn(&S) -> &T,
    ) -> Result<Ref<T>, Refused> {
        list.try_add_coerced(object, access, coerce, |_, _| ())
    }
}

impl<S, H> ReleaseHook<S> for H
where
    S: Send + Sync + 'static,
    H: Fn(&S, ReleaseReason) + Send + Sync + 'static,
{
    fn make(self, object: S) -> Result<Ref<S>, OutOfMemory> {
        Ref::try_with_ends(object, self)
    }

    fn make_dyn<T: ?Sized + 'static>(
        self,
        object: S,
        coerce: fn(&S) -> &T,
    ) -> Result<Ref<T>, OutOfMemory> {
        Ref::try_coerced_with_ends(object, coerce, self)
    }

    fn add(self, list: &PerCpuList<S>, object: S, access: Access) -> Result<Ref<S>, Refused> {
        list.try_add(object, access, self)
    }

    fn add_dyn<T: ?Sized>(
        self,
        list: &PerCpuList<T>,
        object: S,
        access: Access,
        coerce: fn(&S) -> &T,
    ) -> Result<Ref<T>, Refused> {
        list.try_add_coerced(object, access, coerce, self)
    }
}
