//! Callers: for whom a path is walked, and where it begins.
//!
//! The operations on paths are methods of a caller, and the same for all file systems:
//! `fs/namei.rs` goes the way, the files in `fs/caller` do what is wanted at its end. Each asks for
//! leave to change the file system before it takes the lock of a directory.

use std::borrow::Cow;

use fdtable::{Fd, RawFd};

use super::file_system::FileSystem;
use super::inode::Inode;
use super::mode::{AccessMode, Credentials, Mode};
use super::mount::{Mount, Mounts, VfsPath};
use super::stat::FileKind;
use crate::{Errno, Process};

mod attributes;
mod create;
mod mounts;
mod open;
mod remove;
mod rename;

pub(crate) use open::OpenRequest;

/// Where a path begins that does not begin with a `/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// In the working directory.
    Cwd,
    /// In the directory that is open under this number.
    Fd(RawFd),
}

impl At {
    /// Number that stands for the working directory.
    #[doc(alias = "AT_FDCWD")]
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
    /// Set of how to treat the end of a path.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AtFlags: u32 {
        /// Takes a symbolic link at the end as what it is.
        const SYMLINK_NOFOLLOW = 0x100;
        /// Asks for the user and group of whom a file is opened: those are all there are.
        const EACCESS = 0x200;
        /// Follows a symbolic link at the end, where that is not done anyway.
        const SYMLINK_FOLLOW = 0x400;
        /// Means nothing here: nothing is mounted by being looked at.
        const NO_AUTOMOUNT = 0x800;
        /// Takes an empty path as the file of the descriptor itself.
        const EMPTY_PATH = 0x1000;
    }
}

bitflags::bitflags! {
    /// Set of what to remove.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct UnlinkFlags: u32 {
        /// Removes an empty directory instead of a file.
        #[doc(alias = "AT_REMOVEDIR")]
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

/// One for whom paths are walked.
pub struct PathContext<'c> {
    pub(crate) root: &'c VfsPath,
    pub(crate) fs: &'c dyn FileSystem,
    /// None: nothing is mounted.
    pub(crate) mounts: Option<&'c Mounts>,
    pub(crate) credentials: Credentials,
    pub(crate) umask: Mode,
    /// None: paths begin at the root, and there are no descriptors.
    pub(crate) process: Option<&'c Process>,
}

impl<'c> PathContext<'c> {
    /// Returns the process that calls, unless the call was made to a file system itself.
    pub fn process(&self) -> Option<&'c Process> {
        self.process
    }

    /// Returns the root of all paths.
    pub fn root(&self) -> &VfsPath {
        self.root
    }

    /// Returns user and group.
    pub fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// Returns the file system that a place is in.
    pub(crate) fn fs_of<'p>(&'p self, vfs_path: &'p VfsPath) -> &'p dyn FileSystem {
        self.fs_mounted(vfs_path.mount.as_deref())
    }

    pub(crate) fn fs_mounted<'p>(&'p self, mount: Option<&'p Mount>) -> &'p dyn FileSystem {
        match mount {
            None => self.fs,
            Some(mount) => &**mount.fs(),
        }
    }

    /// Returns where a path begins.
    ///
    /// # Errors
    /// `EBADF` if it begins in a descriptor that is not open; `ENOTDIR` if that has no place in the
    /// tree.
    #[inline]
    pub(crate) fn start(&self, at: At, from_root: bool) -> Result<Cow<'c, VfsPath>, Errno> {
        if from_root {
            return Ok(Cow::Borrowed(self.root));
        }
        match at {
            At::Cwd => Ok(self
                .process
                .and_then(Process::working_directory)
                .map_or(Cow::Borrowed(self.root), Cow::Owned)),
            At::Fd(fd) => self.path_of(fd)?.ok_or(Errno::ENOTDIR).map(Cow::Owned),
        }
    }

    /// Returns the place of an open file, if it has one.
    ///
    /// # Errors
    /// `EBADF` if the descriptor is not open.
    pub(crate) fn path_of(&self, fd: RawFd) -> Result<Option<VfsPath>, Errno> {
        let process = self.process.ok_or(Errno::EBADF)?;
        Ok(process.files().get(fd)?.path())
    }

    /// Checks that the caller may do this with a file.
    ///
    /// # Errors
    /// `EACCES` if it may not.
    pub(crate) fn may(&self, wanted: AccessMode, inode: &dyn Inode) -> Result<(), Errno> {
        self.credentials
            .may(wanted, inode.permissions(), inode.kind())
    }

    /// Checks that the caller may go through a directory.
    ///
    /// # Errors
    /// `EACCES` if it may not; `ENOTDIR` if it is none, unless the caller may everything.
    #[inline]
    pub(crate) fn may_search(&self, directory: &dyn Inode) -> Result<(), Errno> {
        if self.credentials.is_root() {
            return Ok(());
        }
        if !is_directory(directory) {
            return Err(Errno::ENOTDIR);
        }
        self.may(AccessMode::EXECUTE, directory)
    }

    /// Checks that the caller may make names in a directory, or take them out.
    ///
    /// # Errors
    /// `EACCES` if it may not.
    #[inline]
    pub(crate) fn may_change(&self, directory: &dyn Inode) -> Result<(), Errno> {
        if self.credentials.is_root() {
            return Ok(());
        }
        self.may(AccessMode::EXECUTE | AccessMode::WRITE, directory)
    }

    /// Checks that the caller may take an inode's name out of a directory.
    ///
    /// # Errors
    /// `EACCES` if it may not change the directory; `EPERM` if that is [sticky](Mode::STICKY), and
    /// neither it nor the inode is the caller's.
    pub(crate) fn may_remove(&self, directory: &dyn Inode, inode: &dyn Inode) -> Result<(), Errno> {
        self.may_change(directory)?;
        if self.credentials.is_root() {
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

    /// Returns the directory above another, which for the root is itself.
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
