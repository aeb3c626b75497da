//! What an object tells of itself.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;

use super::Timestamp;
use crate::Access;

/// An object that can be listed.
///
/// For a table of a `dyn` trait, make this a supertrait of it.
///
/// ```
/// use fdtable::listing::{Describe, Description};
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
/// files.open(FileRef::coerced(Null, |null| null), FdFlags::empty())?;
/// assert_eq!(files.list()?.rows()[0].description.name, "/dev/null");
/// # Ok::<(), fdtable::Error>(())
/// ```
pub trait Describe {
    /// Describes the object as it is now. It is called outside of all locks of the table and of the
    /// superblock, also for a file that is released or revoked at the same moment.
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

/// The description of an open file. Only the kind and the name are always there; the methods add
/// what else is known. None of them allocates, but for the conversion of what they are given.
///
/// ```
/// use core::time::Duration;
/// use fdtable::Access;
/// use fdtable::listing::{Description, Timestamp};
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
    /// What it is, in a short word: `REG`, `DIR`, `CHR`, `FIFO`, `sock`.
    pub kind: Cow<'static, str>,
    /// Its path, or another name that people know it by.
    pub name: Cow<'static, str>,
    /// What it was opened for.
    pub access: Option<Access>,
    /// By whom it was opened, in the words of the embedding program.
    pub owner: Option<Cow<'static, str>>,
    /// When it was opened.
    pub since: Option<Timestamp>,
    /// The number of its inode.
    pub inode: Option<u64>,
    /// How large it is, in bytes.
    pub size: Option<u64>,
    /// Where the next read or write begins, in bytes from the beginning.
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

    /// Adds what it was opened for.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = Some(access);
        self
    }

    /// Adds by whom it was opened.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Cow<'static, str>>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Adds when it was opened: a [`Timestamp`], or with `std` a `SystemTime`.
    #[must_use]
    pub fn since(mut self, since: impl Into<Timestamp>) -> Self {
        self.since = Some(since.into());
        self
    }

    /// Adds the number of its inode.
    #[must_use]
    pub fn inode(mut self, inode: u64) -> Self {
        self.inode = Some(inode);
        self
    }

    /// Adds how large it is, in bytes.
    #[must_use]
    pub fn size(mut self, size: u64) -> Self {
        self.size = Some(size);
        self
    }

    /// Adds where the next read or write begins, in bytes from the beginning.
    #[must_use]
    pub fn position(mut self, position: u64) -> Self {
        self.position = Some(position);
        self
    }
}
