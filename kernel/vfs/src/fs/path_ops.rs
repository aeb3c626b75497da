//! Operations on paths, the same for all file systems.
//!
//! They are methods of a [`PathContext`]: root, mounts, credentials, umask, and the process that
//! calls. `fs/namei.rs` walks the path; the files in `fs/path_ops/` act on what it finds. Each
//! operation takes write access to the file system before it locks a directory.

use std::borrow::Cow;

use fdtable::{Fd, RawFd};

use super::{
    AccessMode, Capabilities, Credentials, FileKind, FileSystem, Inode, Mode, Mount, Mounts,
    VfsPath,
};
use crate::{Errno, Object, Process};

mod attributes;
mod create;
mod mounts;
mod open;
mod remove;
mod rename;

pub(crate) use open::OpenRequest;

/// Directory from which a relative path is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The working directory.
    Cwd,
    /// The directory that this descriptor refers to.
    Fd(RawFd),
}

impl At {
    /// Descriptor value that stands for the working directory. In Linux: `AT_FDCWD`.
    pub const FDCWD: RawFd = -100;
}

impl From<RawFd> for At {
    fn from(fd: RawFd) -> Self {
        match fd {
            Self::FDCWD => At::Cwd,
            fd => At::Fd(fd),
        }
    }
}

impl From<Fd> for At {
    fn from(fd: Fd) -> Self {
        At::Fd(fd.raw())
    }
}

bitflags::bitflags! {
    /// Flags that say how to treat the last component of a path.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AtFlags: u32 {
        /// Does not follow a symbolic link in the last component.
        const SYMLINK_NOFOLLOW = 0x100;
        /// Checks the effective user and group, and not the real ones.
        const EACCESS = 0x200;
        /// Follows a symbolic link in the last component, in calls that otherwise do not.
        const SYMLINK_FOLLOW = 0x400;
        /// Ignored: there are no automounts.
        const NO_AUTOMOUNT = 0x800;
        /// Takes an empty path as the file of the descriptor itself.
        const EMPTY_PATH = 0x1000;
    }
}

bitflags::bitflags! {
    /// Restrictions of the way to a file.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ResolveFlags: u64 {
        /// Fails with `EXDEV` if the way leads from one mount to another.
        const NO_XDEV = 1;
        /// Fails with `ELOOP` at a link of `/proc` to a file itself.
        const NO_MAGICLINKS = 2;
        /// Fails with `ELOOP` at any symbolic link that is followed.
        const NO_SYMLINKS = 4;
        /// Fails with `EXDEV` if the way leaves the directory where it begins.
        const BENEATH = 8;
        /// Takes the directory where the way begins as the root.
        const IN_ROOT = 16;
        /// True of all files in memory.
        const CACHED = 32;
    }
}

impl ResolveFlags {
    /// Restrictions to a directory, which links of `/proc` would leave.
    pub(crate) const SCOPED: Self = Self::BENEATH.union(Self::IN_ROOT);
}

bitflags::bitflags! {
    /// Flags that say what to remove.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct UnlinkFlags: u32 {
        /// Removes an empty directory instead of a file. In Linux: `AT_REMOVEDIR`.
        const REMOVEDIR = 0x200;
    }
}

impl AtFlags {
    /// Checks that no flag outside `allowed` is set.
    ///
    /// # Errors
    /// `EINVAL` if one is.
    pub(crate) fn only(self, allowed: Self) -> Result<Self, Errno> {
        if allowed.contains(self) {
            Ok(self)
        } else {
            Err(Errno::EINVAL)
        }
    }
}

/// Context of path operations: root, mounts, credentials and process of the caller.
pub struct PathContext<'c> {
    pub(crate) root: &'c VfsPath,
    pub(crate) fs: &'c dyn FileSystem,
    /// `None`: nothing is mounted.
    pub(crate) mounts: Option<&'c Mounts>,
    pub(crate) credentials: Credentials,
    pub(crate) umask: Mode,
    /// `None`: relative paths begin at the root, and there are no descriptors.
    pub(crate) process: Option<&'c Process>,
    pub(crate) resolve: ResolveFlags,
}

impl<'c> PathContext<'c> {
    /// Returns the calling process; nothing if the call was made on a file system directly.
    pub fn process(&self) -> Option<&'c Process> {
        self.process
    }

    /// Returns the root directory.
    pub fn root(&self) -> &VfsPath {
        self.root
    }

    /// Returns the user and the group.
    pub fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// Returns the file system that a path is on.
    pub(crate) fn fs_of<'p>(&'p self, vfs_path: &'p VfsPath) -> &'p dyn FileSystem {
        self.fs_mounted(vfs_path.mount.as_deref())
    }

    pub(crate) fn fs_mounted<'p>(&'p self, mount: Option<&'p Mount>) -> &'p dyn FileSystem {
        match mount {
            None => self.fs,
            Some(mount) => &**mount.fs(),
        }
    }

    /// Returns the directory from which a path is walked.
    ///
    /// # Errors
    /// `EBADF` if it is a descriptor that is not open; `ENOTDIR` if its file is not a directory;
    /// `EXDEV` for the root, if the path must stay beneath a directory.
    #[inline]
    pub(crate) fn start(&self, at: At, from_root: bool) -> Result<Cow<'c, VfsPath>, Errno> {
        if from_root {
            return match self.resolve.contains(ResolveFlags::BENEATH) {
                true => Err(Errno::EXDEV),
                false => Ok(Cow::Borrowed(self.root)),
            };
        }
        match at {
            At::Cwd => Ok(self
                .process
                .and_then(Process::working_directory)
                .map_or(Cow::Borrowed(self.root), Cow::Owned)),
            At::Fd(fd) => {
                let directory = self.path_of(fd)?.filter(|path| is_directory(&*path.inode));
                directory.ok_or(Errno::ENOTDIR).map(Cow::Owned)
            }
        }
    }

    /// Returns the path of an open file, or of its inode alone, if it has one.
    ///
    /// # Errors
    /// `EBADF` if the descriptor is not open.
    pub(crate) fn path_of(&self, fd: RawFd) -> Result<Option<VfsPath>, Errno> {
        let process = self.process.ok_or(Errno::EBADF)?;
        let file = process.files().get(fd)?;
        Ok(file.path().or_else(|| inode_path(&**file)))
    }

    /// Checks that the caller has the wanted access to a file.
    ///
    /// # Errors
    /// `EACCES` if it has not.
    pub(crate) fn may(&self, wanted: AccessMode, inode: &dyn Inode) -> Result<(), Errno> {
        let (file, kind) = (inode.permissions(), inode.kind());
        let allowed = self.credentials.may(wanted, file, kind);
        allowed.or_else(|errno| match self.process {
            Some(process) if process.has_group(file.gid) => {
                let member = Credentials {
                    gid: file.gid,
                    ..self.credentials
                };
                member.may(wanted, file, kind)
            }
            _ => Err(errno),
        })
    }

    /// Checks that the caller may search a directory.
    ///
    /// # Errors
    /// `EACCES` if it may not; `ENOTDIR` if the inode is not a directory, unless the caller may
    /// search every directory.
    #[inline]
    pub(crate) fn may_search(&self, directory: &dyn Inode) -> Result<(), Errno> {
        if self.credentials.searches_all() {
            return Ok(());
        }
        if !is_directory(directory) {
            return Err(Errno::ENOTDIR);
        }
        self.may(AccessMode::EXECUTE, directory)
    }

    /// Checks that the caller may add names to a directory and remove them.
    ///
    /// # Errors
    /// `EACCES` if it may not.
    #[inline]
    pub(crate) fn may_change(&self, directory: &dyn Inode) -> Result<(), Errno> {
        if self.credentials.has(Capabilities::DAC_OVERRIDE) {
            return Ok(());
        }
        self.may(AccessMode::EXECUTE | AccessMode::WRITE, directory)
    }

    /// Checks that the caller may add a name to a directory.
    ///
    /// # Errors
    /// `EACCES` if it may not; `ENOENT` if the directory is removed.
    #[inline]
    pub(crate) fn may_create(&self, directory: &dyn Inode) -> Result<(), Errno> {
        self.may_change(directory)
            .map_err(|errno| match directory.stat().links {
                0 => Errno::ENOENT,
                _ => errno,
            })
    }

    /// Checks that the caller may remove the name of an inode from a directory.
    ///
    /// # Errors
    /// `EACCES` if it may not change the directory; `EPERM` if the directory is
    /// [sticky](Mode::STICKY) and the caller owns neither it nor the inode.
    pub(crate) fn may_remove(&self, directory: &dyn Inode, inode: &dyn Inode) -> Result<(), Errno> {
        self.may_change(directory)?;
        if self.credentials.has(Capabilities::FOWNER) {
            return Ok(());
        }
        let directory = directory.permissions();
        let sticky = directory.mode.contains(Mode::STICKY);
        if sticky
            && !self.credentials.owns(directory.uid)
            && !self.credentials.owns(inode.permissions().uid)
        {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// Returns the parent of a directory; the parent of the root is the root.
    ///
    /// # Errors
    /// `ENOENT` if the directory is removed.
    pub(crate) fn parent_of(&self, vfs_path: &VfsPath) -> Result<VfsPath, Errno> {
        if vfs_path.is(self.root) {
            return Ok(vfs_path.clone());
        }
        let (parent, _) = vfs_path.parent_and_name().ok_or(Errno::ENOENT)?;
        Ok(parent)
    }
}

/// Returns true if an inode is a directory.
pub(crate) fn is_directory(inode: &dyn Inode) -> bool {
    inode.kind() == FileKind::Directory
}
/// Returns the inode of an open file without a path as the target of path operations.
pub(crate) fn inode_path(file: &dyn Object) -> Option<VfsPath> {
    let inode = file.inode()?;
    Some(VfsPath { mount: None, inode })
}
