//! The interface of an inode, of any file system.
//!
//! Path operations ([`PathContext`]) know file systems only through this interface: an inode has a
//! kind; a directory looks up, creates and removes names; a link has a target. They implement what
//! all file systems share: symbolic links, `..`, mounts, permissions, and read-only mounts.
//!
//! A file system implements the operations that it supports. The defaults behave as on a read-only
//! file system.

use std::any::Any;
use std::sync::Arc;

use fdtable::{Access, FileRef, WantWrite, rcu};

use super::{
    Attributes, Capabilities, Credentials, DirEntry, FileKind, FileSystem, LockSet, Mode,
    MountPoint, MountRef, PathContext, Permissions, Stat, VfsPath,
};
use crate::object::{as_dyn, end, file};
use crate::{Errno, Object, OpenFlags, RcuObject};

/// Inode of a file system.
///
/// An operation may wait for others on the same inode, and for nothing else. It is called outside
/// of read-side sections, and may allocate.
pub trait Inode: Any + Send + Sync {
    /// Returns the kind of the inode. It never changes, and reading it takes no lock: an inode
    /// whose [`stat`](Self::stat) takes one implements it.
    fn kind(&self) -> FileKind {
        self.stat().kind
    }

    /// Returns the attributes.
    fn stat(&self) -> Stat;

    /// Returns the inode number, as in [`Stat::inode`].
    fn number(&self) -> u64 {
        self.stat().inode
    }

    /// Returns owner, group and permissions.
    fn permissions(&self) -> Permissions {
        self.stat().permissions()
    }

    /// Changes permissions, owner, group or timestamps. The caller has checked that this is
    /// allowed. In Linux: `setattr`.
    ///
    /// # Errors
    /// `EPERM` if they cannot be changed (the default).
    fn set_attributes(&self, _changes: &Attributes) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Sets the length of the file; new bytes read as zeros.
    ///
    /// # Errors
    /// `EISDIR` if it is a directory, and `EINVAL` if it has no length to set (the default);
    /// `EFBIG` above the size limit; `ENOMEM`.
    fn set_len(&self, _length: u64) -> Result<(), Errno> {
        match self.kind() {
            FileKind::Directory => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Opens the inode: makes an object, and an open file of it with [`Opening::file`].
    ///
    /// A directory may use [`Opening::directory`]. A symbolic link is never opened. May block where
    /// opening blocks (a FIFO).
    ///
    /// # Errors
    /// `ELOOP` if it cannot be opened (the default); others that the kind of file documents;
    /// `EROFS`, `ENODEV`, `ENOMEM` from `Opening::file`.
    fn open(self: Arc<Self>, _opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        Err(Errno::ELOOP)
    }

    /// Keeps the contents until [`unhold`](Self::unhold), also if the last name is removed: for an
    /// open file that only refers to the path.
    ///
    /// # Errors
    /// `ENOENT` if the contents are freed already.
    fn hold(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// Ends what one [`hold`](Self::hold) began.
    fn unhold(&self) {}

    /// Records that contents which it does not hold itself were read: those of a FIFO, or by a
    /// `sendfile` from a directory.
    fn was_read(&self) {}

    /// Records that contents which it does not hold itself were changed.
    fn was_modified(&self) {}

    /// Returns false if no attribute can be set, whatever the rights of the caller: then
    /// [`set_attributes`](Self::set_attributes) returns the error. By default, true.
    fn has_attributes(&self) -> bool {
        true
    }

    /// Returns true if opening and releasing it at once has a visible effect.
    ///
    /// Such an inode is opened only after a descriptor is reserved. By default, everything but
    /// regular files and directories.
    fn open_has_side_effect(&self) -> bool {
        !matches!(self.kind(), FileKind::Regular | FileKind::Directory)
    }

    /// Returns the target of a symbolic link. In Linux: `readlink`.
    ///
    /// # Errors
    /// `EINVAL` if it is not a symbolic link (the default).
    fn link_target(&self, _context: &PathContext<'_>) -> Result<Target, Errno> {
        Err(Errno::EINVAL)
    }

    /// Returns the value that a process has bound to the name of a socket: [`NewKind::Socket`].
    fn bound(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// Looks up a name in a directory. The name is never `.` or `..`, and has at most 255 bytes.
    ///
    /// # Errors
    /// `ENOENT` if it does not exist; `ENOTDIR` if this is not a directory (the default).
    fn lookup(&self, _name: &[u8], _context: &PathContext<'_>) -> Result<Arc<dyn Inode>, Errno> {
        Err(Errno::ENOTDIR)
    }

    /// Returns true if every user may search this directory, and the inode knows it without a lock.
    /// Called inside read-side sections.
    fn is_searchable_by_all(&self) -> bool {
        false
    }

    /// Looks up a name like [`lookup`](Self::lookup), without a reference and without a lock. Path
    /// walks prefer it: threads that walk through the same directories share no cache line.
    ///
    /// Called inside the read-side section, where it must not block. A file system that cannot do
    /// that leaves it to `lookup`.
    fn lookup_rcu<'s>(&'s self, _name: &[u8], _section: &'s rcu::Guard<'_>) -> RcuLookup<'s> {
        RcuLookup::Unsupported
    }

    /// Returns a snapshot of all names in a directory, unordered, without `.` and `..`.
    ///
    /// # Errors
    /// `ENOTDIR` if it is not a directory (the default).
    fn names(&self) -> Result<Vec<DirEntry>, Errno> {
        Err(Errno::ENOTDIR)
    }

    /// Returns the parent directory of the inode, and its name there. In Linux: `d_parent`.
    ///
    /// Of several names it is the newest, of a removed inode the last. Nothing for the root, if the
    /// parent itself is freed, and for an inode that does not know (the default). A directory
    /// without a dentry has no `..`.
    fn dentry(&self) -> Option<Dentry> {
        None
    }

    /// Returns true for a directory in which no name can be created, because the file system
    /// decides what is in it: a name that it does not have is `ENOENT`. By default, false.
    fn has_fixed_names(&self) -> bool {
        false
    }

    /// Makes an inode with a name in a directory. [`FileKind::Directory`] may be asked for with a
    /// mode; the umask has been applied. In Linux: `mknod`.
    ///
    /// # Errors
    /// `EEXIST` if the name exists; `ENOENT` if the directory is removed; `EPERM` if such an inode
    /// cannot be made here (the default); `ENOMEM`.
    fn create(&self, _name: &[u8], _new: &NewInode<'_>) -> Result<Arc<dyn Inode>, Errno> {
        Err(Errno::EPERM)
    }

    /// Makes an unnamed regular file on the file system of this directory. `linkat` may name it
    /// later. In Linux: `O_TMPFILE`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the file system does not support it (the default).
    fn create_unnamed(
        &self,
        _new: &NewInode<'_>,
        _later: LaterName,
    ) -> Result<Arc<dyn Inode>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Adds a name for an inode of the same file system. The inode is not a directory.
    ///
    /// # Errors
    /// `EEXIST` if the name exists; `ENOENT` if the directory is removed, or the inode has lost its
    /// last name; `EXDEV` if the inode is of another file system; `EPERM` if it is not supported
    /// (the default); `EMLINK`; `ENOMEM`.
    fn link(&self, _name: &[u8], _inode: &Arc<dyn Inode>) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Removes the name of a file, or of an empty directory. The inode that is found is passed to
    /// `may` before anything changes, under the lock of this directory. In Linux: `rmdir`.
    ///
    /// # Errors
    /// `ENOENT` if the name does not exist; those of `may`; `EISDIR`, `ENOTDIR` if the inode is not
    /// what `what` says; `ENOTEMPTY` if a directory is not empty; `EBUSY` if something is mounted
    /// on it; `EPERM` if it is not supported (the default).
    fn unlink(&self, _name: &[u8], _what: Unlink, _may: MayUnlink<'_>) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Returns the file locks of the inode; nothing if it cannot be locked (the default).
    fn locks(&self) -> Option<&LockSet> {
        None
    }

    /// Returns the count of mounts on a directory; nothing if nothing can be mounted on it (the
    /// default).
    fn mount_point(&self) -> Option<&MountPoint> {
        None
    }
}

impl std::fmt::Debug for dyn Inode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inode({})", self.number())
    }
}

/// Result of a lookup inside a read-side section.
pub enum RcuLookup<'s> {
    /// The inode, which stays until the section ends.
    Found(&'s Arc<dyn Inode>),
    /// The name does not exist.
    NotFound,
    /// The inode answers only [`Inode::lookup`]. In Linux: `ECHILD`.
    Unsupported,
}

/// Directory entry of an inode: its parent directory, and its name there.
#[derive(Clone)]
pub struct Dentry {
    /// The parent directory.
    pub parent: Arc<dyn Inode>,
    /// The name.
    pub name: Arc<[u8]>,
    /// The name is removed.
    pub is_unhashed: bool,
}

/// Target of a symbolic link.
pub enum Target {
    /// A path, walked from the directory of the link.
    Path(Arc<[u8]>),
    /// A path in the VFS that no text leads to, as in `/proc/self/fd`.
    MagicLink {
        /// The target.
        path: VfsPath,
        /// Text that `readlink` returns.
        shown: Vec<u8>,
    },
}

/// Permission check of a removal, given the inode.
///
/// It runs with the lock of the directory held and may ask only for
/// [permissions](Inode::permissions), which do not take it.
pub type MayUnlink<'a> = &'a dyn Fn(&dyn Inode) -> Result<(), Errno>;

/// Kind of inode to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlink {
    /// Anything but a directory.
    File,
    /// An empty directory.
    Directory,
}

/// Permission to give an unnamed file a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterName {
    /// `linkat` may name it.
    Possible,
    /// It never gets a name. In Linux: `O_EXCL`.
    Never,
}

/// Description of an inode to be made.
pub struct NewInode<'a> {
    /// Kind of the inode.
    pub what: NewKind<'a>,
    /// Permission bits, after the umask.
    pub mode: Mode,
    /// Credentials that the inode is made with: its owner and group.
    pub maker: Credentials,
}

/// Kinds of inodes that can be made.
#[derive(Clone)]
pub enum NewKind<'a> {
    /// An empty file.
    Regular,
    /// An empty directory.
    Directory,
    /// A symbolic link with this target.
    Symlink(&'a [u8]),
    /// A FIFO.
    Fifo,
    /// The name of a socket, with the value that the socket binds to it.
    Socket(Arc<dyn Any + Send + Sync>),
}

impl NewInode<'_> {
    /// Returns the permissions that the inode gets in a directory.
    /// In Linux: `inode_init_owner`, `mode_strip_sgid`.
    ///
    /// If the directory has [`Mode::SET_GID`], the inode takes its group, and a new directory takes
    /// the bit too. A group-executable file loses the bit, unless its maker is in that group or has
    /// [`Capabilities::FSETID`]: a user cannot make a file that runs with a foreign group.
    pub fn permissions_in(&self, directory: Permissions) -> Permissions {
        let Credentials { uid, gid, .. } = self.maker;
        let mode = self.mode;
        if !directory.mode.contains(Mode::SET_GID) {
            return Permissions { mode, uid, gid };
        }
        let is_foreign = gid != directory.gid && !self.maker.has(Capabilities::FSETID);
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

/// Arguments of an open in progress.
pub struct Opening<'a> {
    pub(super) flags: OpenFlags,
    pub(super) kind: FileKind,
    pub(super) mount: Option<MountRef>,
    pub(super) fs: &'a dyn FileSystem,
}

impl Opening<'_> {
    /// Returns the flags of the open.
    pub fn flags(&self) -> OpenFlags {
        self.flags
    }

    /// Returns the mount through which the inode was reached; `None` for the root file system.
    pub fn mount(&self) -> Option<MountRef> {
        self.mount.clone()
    }

    /// Returns the path of an inode that was reached through the same mount.
    pub(super) fn path(&self, inode: Arc<dyn Inode>) -> VfsPath {
        let mount = self.mount();
        VfsPath { mount, inode }
    }

    /// Makes the open file of an object, and adds it to the superblock. Pipes and devices can be
    /// opened for writing on a read-only file system too.
    ///
    /// # Errors
    /// `EROFS` if a regular file is opened for writing on a read-only file system; `ENODEV` after
    /// an unmount; `ENOMEM`.
    pub fn file<O: Object>(&self, object: O) -> Result<FileRef<RcuObject>, Errno> {
        let Some(superblock) = self.fs.superblock() else {
            return file(object);
        };
        let changes = self.kind == FileKind::Regular && object.status().can_write();
        let access = if changes { Access::Write } else { Access::Read };
        Ok(FileRef::builder(object)
            .on(superblock, access)
            .rcu()
            .on_release(end)
            .try_build_dyn(as_dyn)?)
    }

    /// Takes write access to the file system, for as long as the returned value lives.
    ///
    /// # Errors
    /// `EROFS` if it is mounted read-only; `ENODEV` after an unmount.
    pub fn want_write(&self) -> Result<Option<WantWrite<'_, RcuObject>>, Errno> {
        super::file_system::want_write(self.fs)
    }
}
