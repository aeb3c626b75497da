//! Making open files with more than an object: a release hook, or a place on a superblock.

use alloc::alloc::{Layout, handle_alloc_error};

use core::marker::PhantomData;

use fdtable_objects::object::{Hook, Kind, Late, NoHook, Prompt, try_make, try_make_dyn};

use crate::{Access, Error, FileRef, ReleaseReason, SuperBlock};

/// Makes an open file of an object, with a release hook and on a superblock if they are given.
/// [`FileRef::builder`] begins one. It makes a `FileRef<S>`, or after [`rcu`](Self::rcu) a
/// `FileRef<Rcu<S>>`.
///
/// The object may have another type than the files of the table, usually one that implements the
/// `dyn` trait of the table. Then [`build_dyn`](Self::build_dyn) converts it.
///
/// ```
/// use fdtable::{Access, Error, FileRef, Rcu, ReleaseReason, SuperBlock};
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
///
/// let name: FileRef<Rcu<&str>> = FileRef::builder("motd").rcu().build();
/// assert_eq!(name.len(), 4);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder makes nothing until it builds"]
pub struct FileBuilder<S, H = NoHook, P = NoSuperBlock, K = Prompt> {
    object: S,
    hook: H,
    place: P,
    kind: PhantomData<K>,
}

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
        FileBuilder::of(object, NoHook, NoSuperBlock)
    }
}

impl<S, H, P, K> FileBuilder<S, H, P, K> {
    fn of(object: S, hook: H, place: P) -> Self {
        Self {
            object,
            hook,
            place,
            kind: PhantomData,
        }
    }
}

impl<S, H, P> FileBuilder<S, H, P> {
    /// Makes a file that readers can [borrow](crate::Files::get_rcu) without a reference, for a
    /// table of [`Rcu`](crate::Rcu) files. `Drop` of the object then runs after a grace period (see
    /// [`lifetimes`](crate::lifetimes)).
    pub fn rcu(self) -> FileBuilder<S, H, P, Late> {
        FileBuilder::of(self.object, self.hook, self.place)
    }
}

impl<S, P, K> FileBuilder<S, NoHook, P, K> {
    /// Sets the release hook. It runs once, when the last reference is dropped or the file is
    /// [revoked](FileRef::revoke), outside of all locks of the table; its second argument says
    /// which of the two.
    ///
    /// A hook that panics harms no other file. A call that closes many descriptors
    /// ([`close_range`](crate::Files::close_range),
    /// [`close_on_exec`](crate::Files::close_on_exec), the drop of a table) or
    /// [revokes](SuperBlock::revoke) many files continues: it releases every other file, and then
    /// resumes the first panic. The file itself has ended too: it is closed or revoked, off its
    /// superblock, and its object is dropped after the last reference. A panic that cannot be
    /// resumed, because another one is or the thread is already unwinding, is counted by
    /// [`contained_panics`](crate::contained_panics). Without the feature `std` a second panic ends
    /// the process. The same is true of a panic of `Drop`, except of an [`Rcu`](crate::Rcu) object:
    /// that is counted.
    pub fn on_release<H>(self, hook: H) -> FileBuilder<S, H, P, K>
    where
        H: Fn(&S, ReleaseReason) + Send + Sync + 'static,
    {
        FileBuilder::of(self.object, hook, self.place)
    }
}

impl<S, H, K> FileBuilder<S, H, NoSuperBlock, K> {
    /// Puts the file on the list of a superblock, until it ends. The file leaves the list after its
    /// hook has run.
    pub fn on<T: ?Sized>(
        self,
        superblock: &SuperBlock<T>,
        access: Access,
    ) -> FileBuilder<S, H, On<'_, T>, K> {
        FileBuilder::of(self.object, self.hook, On { superblock, access })
    }
}

impl<S, H, K> FileBuilder<S, H, NoSuperBlock, K>
where
    S: Send + Sync + 'static,
    H: Hook<S> + Send + Sync + 'static,
    K: Kind,
{
    /// Makes the open file. Allocates, and ends the process if there is no memory.
    #[must_use]
    pub fn build(self) -> FileRef<K::Object<S>> {
        self.try_build()
            .unwrap_or_else(|_| handle_alloc_error(Layout::new::<(S, H)>()))
    }

    /// Makes the open file. Allocates.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM); the object is dropped, and the hook does not run.
    pub fn try_build(self) -> Result<FileRef<K::Object<S>>, Error> {
        Ok(FileRef(try_make::<K, S, H>(self.object, self.hook)?))
    }

    /// Makes the open file for tables of another type, like [`FileRef::new_dyn`]. Allocates, and
    /// ends the process if there is no memory.
    #[must_use]
    pub fn build_dyn<T: ?Sized + 'static>(self, coerce: fn(&S) -> &T) -> FileRef<K::Object<T>> {
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
    ) -> Result<FileRef<K::Object<T>>, Error> {
        let Self { object, hook, .. } = self;
        Ok(FileRef(try_make_dyn::<K, T, S, H>(object, coerce, hook)?))
    }
}

impl<S, H, T, K> FileBuilder<S, H, On<'_, T>, K>
where
    S: Send + Sync + 'static,
    H: Hook<S> + Send + Sync + 'static,
    T: ?Sized,
{
    /// Makes the open file on the superblock. Allocates, and may wait for the lock of one CPU's
    /// list.
    ///
    /// # Errors
    /// The object and the hook are dropped, and the hook does not run:
    /// - [`Error::ReadOnly`] (EROFS) for [`Access::Write`] after a remount read-only;
    /// - [`Error::NoDevice`] (ENODEV) after an unmount;
    /// - [`Error::NoMemory`] (ENOMEM).
    pub fn try_build(self) -> Result<FileRef<T>, Error>
    where
        K: Kind<Object<S> = T>,
    {
        let On { superblock, access } = self.place;
        let files = &superblock.files;
        let file = files.try_add::<K, S, H>(self.object, access, self.hook)?;
        Ok(FileRef(file))
    }

    /// Makes the open file on the superblock, for tables of another type, like
    /// [`FileRef::new_dyn`]. Allocates, and may wait for the lock of one CPU's list.
    ///
    /// # Errors
    /// EROFS, ENODEV and ENOMEM as for `try_build`.
    pub fn try_build_dyn<D: ?Sized>(self, coerce: fn(&S) -> &D) -> Result<FileRef<T>, Error>
    where
        K: Kind<Object<D> = T>,
    {
        let On { superblock, access } = self.place;
        let files = &superblock.files;
        let file = files.try_add_coerced::<K, D, S, H>(self.object, access, coerce, self.hook)?;
        Ok(FileRef(file))
    }
}
