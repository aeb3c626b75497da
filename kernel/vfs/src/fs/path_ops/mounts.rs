//! Mounts and unmounts file systems, and finds working directories.

use std::sync::Arc;

use super::{At, PathContext, is_directory};
use crate::Errno;
use crate::fs::namei::Follow;
use crate::fs::{Capabilities, FileSystem, Mounts, StatFs, VfsPath};

impl PathContext<'_> {
    /// Mounts a file system on a directory.
    pub(crate) fn mount(&self, path: &[u8], fs: Arc<dyn FileSystem>) -> Result<(), Errno> {
        let mounts = self.may_mount()?;
        let on = self.find(At::Cwd, path, Follow::Yes)?;
        if on.is(self.root) {
            return Err(Errno::EINVAL);
        }
        // It is mounted as the root already: an unmount would end it for every process.
        if Arc::ptr_eq(&fs.root(), &self.root.inode) {
            return Err(Errno::EBUSY);
        }
        mounts.mount(on, fs)
    }

    /// Unmounts the file system on a directory.
    pub(crate) fn unmount(&self, path: &[u8]) -> Result<(), Errno> {
        let mounts = self.may_mount()?;
        let vfs_path = self.find(At::Cwd, path, Follow::Yes)?;
        mounts.unmount(&vfs_path)
    }

    fn may_mount(&self) -> Result<&Mounts, Errno> {
        if !self.credentials.has(Capabilities::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        self.mounts.ok_or(Errno::EPERM)
    }

    pub(crate) fn statfs(&self, at: At, path: &[u8]) -> Result<StatFs, Errno> {
        let vfs_path = self.find(at, path, Follow::Yes)?;
        Ok(self.fs_of(&vfs_path).statfs())
    }

    /// Finds a directory that can become the working directory.
    pub(crate) fn find_directory(&self, path: &[u8]) -> Result<VfsPath, Errno> {
        let vfs_path = self.find(At::Cwd, path, Follow::Yes)?;
        self.only_directory(&vfs_path)?;
        Ok(vfs_path)
    }

    /// Checks that a path is a directory that the caller may search.
    ///
    /// # Errors
    /// `ENOTDIR` if it is not a directory; `EACCES` if the caller may not search it.
    pub(crate) fn only_directory(&self, vfs_path: &VfsPath) -> Result<(), Errno> {
        if !is_directory(&*vfs_path.inode) {
            return Err(Errno::ENOTDIR);
        }
        self.may_search(&*vfs_path.inode)
    }
}
