//! System calls on whole file systems.

use std::sync::Arc;

use fdtable::FdArg;

use super::Process;
use crate::Errno;
use crate::fs::{At, FileKind, FileSystem, StatFs};

impl Process {
    /// Mounts a file system on a directory, for all processes of the kernel. The contents of the
    /// directory are hidden until the unmount. A file system can be mounted once in a kernel.
    /// Allocates.
    ///
    /// # Errors
    /// Errors of path lookup; `ENOTDIR` if `path` is not a directory; `EBUSY` if `fs` is mounted
    /// already, or is the root file system; `EINVAL` for the root directory, and for directories on
    /// which nothing can be mounted; `ENOENT` if the directory is removed; `EPERM` without
    /// [`Capabilities::SYS_ADMIN`](crate::fs::Capabilities::SYS_ADMIN); `ENOMEM`.
    pub fn mount(&self, path: impl AsRef<[u8]>, fs: Arc<dyn FileSystem>) -> Result<(), Errno> {
        self.path_context().mount(path.as_ref(), fs)
    }

    /// Unmounts the file system whose root is at `path`. None of its files can be opened any more.
    /// In Linux: `umount2`.
    ///
    /// # Errors
    /// Errors of path lookup; `EINVAL` if nothing is mounted there; `EBUSY` while a file of it is
    /// open or being changed (if it has a superblock, which tracks that), a process has its working
    /// directory in it, or something is mounted in it; `EPERM` without
    /// [`Capabilities::SYS_ADMIN`](crate::fs::Capabilities::SYS_ADMIN).
    pub fn unmount(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.path_context().unmount(path.as_ref())
    }

    /// Describes the file system at a path.
    ///
    /// # Errors
    /// Errors of path lookup.
    pub fn statfs(&self, at: impl Into<At>, path: impl AsRef<[u8]>) -> Result<StatFs, Errno> {
        self.path_context().statfs(at.into(), path.as_ref())
    }

    /// Describes the file system of an open file.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EIO` if revoked.
    pub fn fstatfs(&self, fd: impl FdArg) -> Result<StatFs, Errno> {
        let file = self.files.get(fd)?;
        if let Some(vfs_path) = file.path() {
            return Ok(self.path_context().fs_of(&vfs_path).statfs());
        }
        // As on Linux, each kind of file without a path is on a file system of its own.
        Ok(match file.stat() {
            Ok(stat) if stat.kind == FileKind::Fifo => StatFs::new(StatFs::PIPES, stat.device),
            Ok(stat) => StatFs::new(StatFs::SOCKETS, stat.device),
            Err(Errno::EOPNOTSUPP) => StatFs::new(StatFs::ANONYMOUS, 0),
            Err(errno) => return Err(errno),
        })
    }

    /// Returns the paths and file systems of all mounts but the root, the oldest first. Allocates.
    /// In Linux: `/proc/self/mounts`.
    pub fn mounts(&self) -> Vec<(Vec<u8>, StatFs)> {
        let mounts = self.kernel.mounts().list();
        let line = |mount: &crate::fs::MountRef| (mount.on().full_path(), mount.fs().statfs());
        mounts.iter().map(line).collect()
    }
}
