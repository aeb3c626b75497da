//! A mounted file system's view: its open files, across all tables.
//!
//! A file that is made on a superblock is on its list of open files until it ends: its last
//! reference is dropped, or it is [revoked](SuperBlock::revoke). The list has one part for each
//! CPU, so opens and closes on different CPUs do not contend (see
//! [`fdtable_objects::percpu_list`]). It counts the open files, and those of them that may write:
//! an unmount and a read-only remount need both counts.

use alloc::vec::Vec;
use core::fmt;

pub use fdtable_objects::percpu_list::Access;
use fdtable_objects::percpu_list::{PerCpuList, Refused, Statistics, Writing};
use fdtable_sync::unwind;

use crate::{Error, FileRef};

/// The open files of one mounted file system. [`FileBuilder::on`](crate::FileBuilder::on) makes
/// them.
///
/// Dropping it is a [lazy unmount](Self::unmount_lazily): open files live on.
///
/// ```
/// use fdtable::{Access, Error, FdFlags, FileRef, Files, SuperBlock};
///
/// let superblock: SuperBlock<&str> = SuperBlock::new()?;
/// let (parent, child) = (Files::new(), Files::new());
/// let file = |name, access| FileRef::builder(name).on(&superblock, access).try_build();
/// let (log, motd) = (file("log", Access::Write)?, file("motd", Access::Read)?);
/// let (log, motd) = (parent.open(log, FdFlags::empty())?, child.open(motd, FdFlags::empty())?);
/// assert_eq!((superblock.open_files(), superblock.writers()), (2, 1));
/// assert_eq!(superblock.remount_read_only(), Err(Error::Busy));
///
/// drop(parent.close(log)?);
/// superblock.remount_read_only()?;
/// assert_eq!(file("log", Access::Write).unwrap_err(), Error::ReadOnly);
///
/// superblock.revoke()?;
/// assert_eq!(child.get(motd).unwrap_err(), Error::Revoked);
/// superblock.unmount()?;
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "super_block")]
pub struct SuperBlock<T: ?Sized> {
    pub(crate) files: PerCpuList<T>,
}

impl<T: ?Sized> SuperBlock<T> {
    /// Makes a superblock without open files, mounted for reading and writing. Allocates.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM).
    pub fn new() -> Result<Self, Error> {
        Ok(Self {
            files: PerCpuList::try_new()?,
        })
    }

    /// Makes a superblock with one list and one lock for all CPUs. It takes less memory, for
    /// programs that open one file after another. Allocates.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM).
    pub fn with_one_list() -> Result<Self, Error> {
        Ok(Self {
            files: PerCpuList::try_whole()?,
        })
    }

    /// Returns the number of open files. Reads the CPUs' lists one after another, and may wait for
    /// the lock of each. Files that are opened or closed meanwhile may be counted or not.
    pub fn open_files(&self) -> usize {
        self.files.len()
    }

    /// Returns the number of open files that may write. It reads the lists and locks like
    /// [`open_files`](Self::open_files).
    pub fn writers(&self) -> usize {
        self.files.writers()
    }

    /// Returns the open files, as an atomic snapshot: the files that still have a reference. Holds
    /// the locks of all CPUs' lists for a walk over all of them, and opens and closes on this
    /// superblock wait for it: 20 to 50 ns for each file. [`iter`](Self::iter) avoids that, but is
    /// not atomic. Allocates.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM).
    pub fn snapshot(&self) -> Result<Vec<FileRef<T>>, Error> {
        Ok(self.files.snapshot_as(FileRef)?)
    }

    /// Iterates over the open files, one CPU's list after another. It holds no lock between two of
    /// them. Allocates once. A file that is open from start to end comes once; a file that is
    /// opened or closed meanwhile comes once or not at all.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM).
    pub fn iter(&self) -> Result<impl Iterator<Item = FileRef<T>>, Error> {
        Ok(self.files.iter()?.map(FileRef))
    }

    /// Refuses to open files for writing from now on. Waits for the locks of all CPUs' lists.
    ///
    /// # Errors
    /// Nothing changes:
    /// - [`Error::Busy`] (EBUSY) while files are open that may write, or a
    ///   [change](Self::want_write) is in progress;
    /// - [`Error::NoDevice`] (ENODEV) after an unmount.
    #[doc(alias = "MS_REMOUNT")]
    pub fn remount_read_only(&self) -> Result<(), Error> {
        Ok(self.files.refuse_writers()?)
    }

    /// Begins a change of the file system without a file, such as an unlink. There is one more
    /// writer until the returned value is dropped, and until then an unmount fails. May wait for
    /// the lock of one CPU's list.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] (EROFS) after a remount read-only; [`Error::NoDevice`] (ENODEV) after an
    /// unmount.
    #[doc(alias = "mnt_want_write")]
    pub fn want_write(&self) -> Result<WantWrite<'_, T>, Error> {
        Ok(WantWrite {
            _writing: self.files.begin_write()?,
        })
    }

    /// Allows opening files for writing again. Waits for the locks of all CPUs' lists.
    ///
    /// # Errors
    /// [`Error::NoDevice`] (ENODEV) after an unmount.
    pub fn remount_read_write(&self) -> Result<(), Error> {
        Ok(self.files.admit_writers()?)
    }

    /// Returns true if opening files for writing is refused.
    pub fn is_read_only(&self) -> bool {
        self.files.refuses_writers()
    }

    /// Revokes every open file. From now on its descriptors fail with EIO, in every table, its hook
    /// runs with [`ReleaseReason::Revoked`](crate::ReleaseReason::Revoked), and it leaves the list.
    /// Returns the number of files that this call revoked. Files that are opened meanwhile may
    /// stay. Runs hooks; allocates once.
    ///
    /// A hook that panics does not protect the remaining files: they are revoked, and then the
    /// panic is resumed. Panics of further hooks are [counted](crate::contained_panics). If a hook
    /// itself revokes other files, it does so inside this call, on its stack.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM); nothing changes.
    pub fn revoke(&self) -> Result<usize, Error> {
        self.revoke_where(|_| true)
    }

    /// Revokes the open files for which `which` returns true. It can select those of one inode, or
    /// of one user. `which` is called outside of all locks, and a panic of it ends the revocation
    /// there. It runs hooks and allocates like [`revoke`](Self::revoke).
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM); nothing changes.
    pub fn revoke_where(&self, mut which: impl FnMut(&T) -> bool) -> Result<usize, Error> {
        let mut files = self.files.iter()?;
        let (mut current, mut is_choosing, mut revoked) = (None, false, 0);
        // Called again if a hook panics. A panic of `which` ends it.
        unwind::finish(|| {
            loop {
                // May be the last reference, and run the hook.
                drop(current.take());
                if is_choosing {
                    return;
                }
                let Some(file) = files.next() else {
                    return;
                };
                let file = current.insert(FileRef(file));
                is_choosing = true;
                let is_chosen = which(file);
                is_choosing = false;
                if is_chosen {
                    revoked += usize::from(FileRef::revoke(file));
                }
            }
        });
        Ok(revoked)
    }

    /// Unmounts: no file can be opened any more. Waits for the locks of all CPUs' lists.
    ///
    /// # Errors
    /// [`Error::Busy`] (EBUSY) while files are open, or a [change](Self::want_write) is in
    /// progress; nothing changes.
    #[doc(alias = "umount")]
    pub fn unmount(&self) -> Result<(), Error> {
        Ok(self.files.detach_if_empty()?)
    }

    /// Unmounts while files are open: they live on, and no file can be opened any more. `gone` is
    /// called once, when the last of them and the last change has ended: before this call returns,
    /// or on the thread that ends the last of them, by a drop or a revocation. A panic of `gone`
    /// unwinds that thread, unless the file's hook has panicked before. Waits for the locks of all
    /// CPUs' lists; allocates.
    ///
    /// # Errors
    /// `gone` is dropped:
    /// - [`Error::NoDevice`] (ENODEV) if it is unmounted already;
    /// - [`Error::NoMemory`] (ENOMEM); nothing changes.
    #[doc(alias = "MNT_DETACH")]
    pub fn unmount_lazily(&self, gone: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        Ok(self.files.detach(gone)?)
    }

    /// Unmounts and revokes every open file, like [`revoke`](Self::revoke). Returns the number of
    /// files that this call revoked. Nothing is open afterwards, except files whose hook is running
    /// in another call. Waits for the locks of all CPUs' lists, runs hooks, and allocates.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM); it is unmounted, and files may be open.
    #[doc(alias = "MNT_FORCE")]
    pub fn unmount_by_force(&self) -> Result<usize, Error> {
        match self.files.detach(|| ()) {
            Ok(()) | Err(Refused::Detached) => self.revoke(),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Returns true if the superblock was unmounted.
    pub fn is_unmounted(&self) -> bool {
        self.files.is_detached()
    }

    /// Returns how often files were opened and closed, for each CPU. It reads the lists and locks
    /// like [`open_files`](Self::open_files). For experiments.
    #[doc(hidden)]
    pub fn statistics(&self) -> Statistics {
        self.files.statistics()
    }
}

/// A change of the file system in progress. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the change ends when this is dropped"]
#[doc(alias = "mnt_drop_write")]
pub struct WantWrite<'s, T: ?Sized> {
    _writing: Writing<'s, T>,
}

impl<T: ?Sized> fmt::Debug for SuperBlock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SuperBlock").field(&self.files).finish()
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::ReadOnly => Self::ReadOnly,
            Refused::Busy => Self::Busy,
            Refused::Detached => Self::NoDevice,
            Refused::OutOfMemory => Self::NoMemory,
        }
    }
}
