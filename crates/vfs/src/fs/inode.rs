//! Inodes: what a name of any file system stands for.
//!
//! The walk ([`PathContext`]) knows of file systems only what is here: that an inode has a kind; that a
//! directory finds names, makes and removes them; that a link has a target. It does itself what is
//! the same for all of them: symbolic links, `..`, mounts, permissions, and the question whether
//! the file system may be changed.
//!
//! A file system writes the operations that it has. Those that it does not write answer as on one
//! that nobody can change.

use std::any::Any;
use std::sync::Arc;

use fdtable::{Access, FileRef, WantWrite};

use super::Attributes;
use super::file_system::FileSystem;
use super::locks::LockSet;
use super::mode::{Mode, Permissions};
use super::mount::{Mount, MountPoint, VfsPath};
use super::path_ops::PathContext;
use super::stat::{DirEntry, FileKind, Stat};
use crate::object::{as_dyn, end, file};
use crate::{Errno, Object, OpenFlags};

/// Inode of a file system.
///
/// An operation may wait for others on the same inode, and not for anything else. It is called
/// outside of read-side sections, and may allocate.
pub trait Inode: Any + Send + Sync {
    /// Returns what it is. Always the same, and without a lock.
    fn kind(&self) -> FileKind;

    /// Describes it.
    fn stat(&self) -> Stat;

    /// Returns its number, as in [`Stat::inode`].
    fn number(&self) -> u64 {
        self.stat().inode
    }

    /// Returns its owners and permissions.
    fn permissions(&self) -> Permissions {
        let Stat { mode, uid, gid, .. } = self.stat();
        Permissions { mode, uid, gid }
    }

    /// Changes permissions, owners or times. The caller has checked that it may.
    ///
    /// # Errors
    /// `EPERM` if they cannot be changed (the default).
    #[doc(alias = "setattr")]
    fn set_attributes(&self, _changes: &Attributes) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Makes the file `length` bytes long; what is new reads as zeros.
    ///
    /// # Errors
    /// `EISDIR` if it is a directory, and `EINVAL` if it has no length to set (as it is until this
    /// is written); `EFBIG` above the size limit; `ENOMEM`.
    fn set_len(&self, _length: u64) -> Result<(), Errno> {
        match self.kind() {
            FileKind::Directory => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Opens it: makes an object, and of it an open file with [`Opening::file`]. A directory may
    /// leave it to [`Opening::directory`]. A symbolic link is never opened. May block where an
    /// open does (a FIFO's).
    ///
    /// # Errors
    /// As the kind of file says; `EROFS`, `ENODEV`, `ENOMEM` from `Opening::file`.
    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<dyn Object>, Errno>;

    /// Returns true if somebody may notice that it is opened, also if it is released at once: an open
    /// that finds no free number must not have opened it. As it is until this is written, everything
    /// but regular files and directories.
    fn is_open_noticed(&self) -> bool {
        !matches!(self.kind(), FileKind::Regular | FileKind::Directory)
    }

    /// Returns where a symbolic link leads.
    ///
    /// # Errors
    /// `EINVAL` if it is none (the default).
    #[doc(alias = "readlink")]
    fn link_target(&self, _context: &PathContext<'_>) -> Result<Target, Errno> {
        Err(Errno::EINVAL)
    }

    /// Returns what a process has put behind the name of a socket: [`NewKind::Socket`].
    fn bound(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// Finds a name in a directory: never `.` or `..`, and at most 255 bytes.
    ///
    /// # Errors
    /// `ENOENT` if there is none; `ENOTDIR` if this is no directory (as it is until this is
    /// written).
    fn lookup(&self, _name: &[u8], _context: &PathContext<'_>) -> Result<Arc<dyn Inode>, Errno> {
        Err(Errno::ENOTDIR)
    }

    /// Returns all names of a directory as of one moment, in no order, without `.` and `..`.
    ///
    /// # Errors
    /// `ENOTDIR` if it is none (the default).
    fn names(&self) -> Result<Vec<DirEntry>, Errno> {
        Err(Errno::ENOTDIR)
    }

    /// Returns the directory that it is in, and its name there: of several names the newest, and of
    /// what was removed the last. Nothing for the root, if the directory itself is gone, and where
    /// nobody knows (the default). A directory without a home has no `..`.
    #[doc(alias = "d_parent")]
    fn dentry(&self) -> Option<Dentry> {
        None
    }

    /// Makes something with a name in a directory. [`FileKind::Directory`] may be asked for with a
    /// mode; the umask has been applied.
    ///
    /// # Errors
    /// `EEXIST` if there is something of this name; `ENOENT` if the directory is removed; `EPERM`
    /// if it cannot be made here (the default); `ENOMEM`.
    #[doc(alias = "mknod")]
    fn create(&self, _name: &[u8], _new: &NewInode<'_>) -> Result<Arc<dyn Inode>, Errno> {
        Err(Errno::EPERM)
    }

    /// Makes a regular file without a name, near this directory, that may get one or may not.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the file system does not know how (the default).
    #[doc(alias = "O_TMPFILE")]
    fn create_unnamed(
        &self,
        _new: &NewInode<'_>,
        _later: LaterName,
    ) -> Result<Arc<dyn Inode>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Gives an inode of the same file system, which is no directory, another name.
    ///
    /// # Errors
    /// `EEXIST` if there is something of this name; `ENOENT` if the directory is removed, or the
    /// inode has lost its last name; `EXDEV` if it is of another file system after all; `EPERM` if
    /// it cannot be done here (the default); `EMLINK`; `ENOMEM`.
    fn link(&self, _name: &[u8], _inode: &Arc<dyn Inode>) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Removes a name: of a file, or of an empty directory. What is found is shown to `may` first,
    /// so that nothing else can be in its place when it goes.
    ///
    /// # Errors
    /// `ENOENT` if there is none; what `may` answers; `EISDIR`, `ENOTDIR` if it is not as `what` says; `ENOTEMPTY` if
    /// a directory has names; `EBUSY` if something is mounted on it; `EPERM` if it cannot be done
    /// here (the default).
    #[doc(alias = "rmdir")]
    fn unlink(&self, _name: &[u8], _what: Unlink, _may: MayUnlink<'_>) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Returns its locks; nothing if it cannot be locked (the default).
    fn locks(&self) -> Option<&LockSet> {
        None
    }

    /// Returns what remembers whether something is mounted on a directory: nothing if nothing can
    /// be (the default).
    fn mount_point(&self) -> Option<&MountPoint> {
        None
    }
}

/// Directory that an inode is in, and its name there.
#[derive(Clone)]
pub struct Dentry {
    /// The directory.
    pub parent: Arc<dyn Inode>,
    /// The name.
    pub name: Arc<[u8]>,
    /// The inode has lost this name.
    pub is_unhashed: bool,
}

/// Where a symbolic link leads.
pub enum Target {
    /// To where this path leads from the directory of the link.
    Path(Arc<[u8]>),
    /// To a place without a path, as those of `/proc/self/fd`, and how it is shown.
    MagicLink {
        /// The place.
        path: VfsPath,
        /// What `readlink` answers.
        shown: Vec<u8>,
    },
}

/// Check whether the name of an inode may be removed. It asks the inode and the directory for nothing
/// but their [permissions](Inode::permissions), and is called with the lock of the directory: these
/// do not take it.
pub type MayUnlink<'a> = &'a dyn Fn(&dyn Inode) -> Result<(), Errno>;

/// What is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlink {
    /// Anything but a directory.
    File,
    /// An empty directory.
    Directory,
}

/// Whether a file that is made without a name may get one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterName {
    /// One may be given to it.
    Possible,
    /// It never has one.
    #[doc(alias = "O_EXCL")]
    Never,
}

/// What is to be made: what, and of whom.
pub struct NewInode<'a> {
    /// What it is.
    pub what: NewKind<'a>,
    /// Owners and permissions.
    pub permissions: Permissions,
}

/// Kinds of what can be made.
#[derive(Clone)]
pub enum NewKind<'a> {
    /// An empty file.
    Regular,
    /// An empty directory.
    Directory,
    /// A symbolic link to this path.
    Symlink(&'a [u8]),
    /// A pipe.
    Fifo,
    /// The address of a socket, with what the socket wants to find behind it again.
    Socket(Arc<dyn Any + Send + Sync>),
}

impl NewInode<'_> {
    /// Returns the permissions as a directory passes them on: with its group, and to directories
    /// the bit itself, if it has [`Mode::SET_GID`]. A file that its group may execute loses the bit
    /// then, unless its maker is of that group, or user 0: nobody makes a file run for a group that
    /// is not his.
    #[doc(alias = "inode_init_owner")]
    #[doc(alias = "mode_strip_sgid")]
    pub fn permissions_in(&self, directory: Permissions) -> Permissions {
        let Permissions { mode, uid, gid } = self.permissions;
        if !directory.mode.contains(Mode::SET_GID) {
            return self.permissions;
        }
        let is_foreign = uid != 0 && gid != directory.gid;
        let runs_for_group = mode.contains(Mode::SET_GID.with(Mode::new(0o010)));
        let mode = match self.what {
            NewKind::Directory => mode.with(Mode::SET_GID),
            _ if is_foreign && runs_for_group => mode.without(Mode::SET_GID),
            _ => mode,
        };
        let gid = directory.gid;
        Permissions { mode, uid, gid }
    }
}

/// An open that is under way.
pub struct Opening<'a> {
    pub(super) flags: OpenFlags,
    pub(super) kind: FileKind,
    pub(super) mount: Option<Arc<Mount>>,
    pub(super) fs: &'a dyn FileSystem,
}

impl Opening<'_> {
    /// Returns the flags of the open.
    pub fn flags(&self) -> OpenFlags {
        self.flags
    }

    /// Returns the mount through which the inode was reached: none for the root file system.
    pub fn mount(&self) -> Option<Arc<Mount>> {
        self.mount.clone()
    }

    /// Makes the open file of an object, as one of the file system. Pipes and devices may be
    /// written also where the file system may not.
    ///
    /// # Errors
    /// `EROFS` if a regular file may be written and the file system not; `ENODEV` after an unmount;
    /// `ENOMEM`.
    pub fn file<O: Object>(&self, object: O) -> Result<FileRef<dyn Object>, Errno> {
        let Some(superblock) = self.fs.superblock() else {
            return file(object);
        };
        let changes = self.kind == FileKind::Regular && object.status().can_write();
        let access = if changes { Access::Write } else { Access::Read };
        Ok(superblock.coerced(object, access, as_dyn, end)?)
    }

    /// Asks to change the file system, for as long as the answer is kept.
    ///
    /// # Errors
    /// `EROFS` if it is mounted read-only; `ENODEV` after an unmount.
    pub fn want_write(&self) -> Result<Option<WantWrite<'_, dyn Object>>, Errno> {
        super::file_system::want_write(self.fs)
    }
}
