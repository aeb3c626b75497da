//! The description that an object gives of itself.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;

use super::Timestamp;
use fdtable::{Access, Rcu};

/// An object that can be listed.
///
/// For a table of a `dyn` trait, make this a supertrait.
///
/// ```
/// use fdtable_listing::{Describe, Description, List};
/// use fdtable::{FdFlags, FileRef, Files};
///
/// trait Device: Describe + Send + Sync {}
/// struct Null;
/// impl Device for Null {}
/// impl Describe for Null {
///     fn describe(&self) -> Description {
///         Description::new("CHR", "/dev/null")
///     }
/// }
///
/// let files: Files<dyn Device> = Files::new();
/// files.open(FileRef::new_dyn(Null, |null| null), FdFlags::empty())?;
/// assert_eq!(files.list()?.rows()[0].description.name, "/dev/null");
/// # Ok::<(), fdtable::Error>(())
/// ```
pub trait Describe {
    /// Describes the object in its current state. It is called outside of all locks of the table
    /// and of the superblock, also for a file that is released or revoked at the same time.
    fn describe(&self) -> Description;
}

impl<T: ?Sized + Describe> Describe for Box<T> {
    fn describe(&self) -> Description {
        (**self).describe()
    }
}

impl<T: ?Sized + Describe> Describe for Arc<T> {
    fn describe(&self) -> Description {
        (**self).describe()
    }
}

impl<T: ?Sized + Describe> Describe for Rcu<T> {
    fn describe(&self) -> Description {
        (**self).describe()
    }
}

/// The description of an open file. Only the kind and the name are required; the methods add
/// optional fields. None of them allocates, except in the conversion of its argument.
///
/// ```
/// use core::time::Duration;
/// use fdtable::Access;
/// use fdtable_listing::{Description, Timestamp};
///
/// let opened = Timestamp::from_unix(Duration::from_secs(1_000_000_000));
/// let description = Description::new("REG", format!("/home/{}", "mail"))
///     .access(Access::Write)
///     .owner("pid 7 (cat)")
///     .since(opened);
/// assert_eq!(description.owner.as_deref(), Some("pid 7 (cat)"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// Its kind, in a short word: `REG`, `DIR`, `CHR`, `FIFO`, `sock`.
    pub kind: Cow<'static, str>,
    /// Its path, or another name that people know.
    pub name: Cow<'static, str>,
    /// The access for which it was opened.
    pub access: Option<Access>,
    /// The owner that opened it, in the terms of the embedding program.
    pub owner: Option<Cow<'static, str>>,
    /// The time when it was opened.
    pub since: Option<Timestamp>,
    /// Its inode number.
    pub inode: Option<u64>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// The offset of the next read or write, in bytes from the beginning.
    pub position: Option<u64>,
}

impl Description {
    /// Makes a description with a kind and a name.
    #[must_use]
    pub fn new(kind: impl Into<Cow<'static, str>>, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: kind.into(),
            name: name.into(),
            access: None,
            owner: None,
            since: None,
            inode: None,
            size: None,
            position: None,
        }
    }

    /// Sets the access for which it was opened.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = Some(access);
        self
    }

    /// Sets the owner that opened it.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Cow<'static, str>>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the time when it was opened: a [`Timestamp`], or with `std` a `SystemTime`.
    #[must_use]
    pub fn since(mut self, since: impl Into<Timestamp>) -> Self {
        self.since = Some(since.into());
        self
    }

    /// Sets its inode number.
    #[must_use]
    pub fn inode(mut self, inode: u64) -> Self {
        self.inode = Some(inode);
        self
    }

    /// Sets its size in bytes.
    #[must_use]
    pub fn size(mut self, size: u64) -> Self {
        self.size = Some(size);
        self
    }

    /// Sets the offset of the next read or write, in bytes from the beginning.
    #[must_use]
    pub fn position(mut self, position: u64) -> Self {
        self.position = Some(position);
        self
    }
}
