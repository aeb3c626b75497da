//! System calls that make, read and change directories.

use fdtable::FdArg;

use super::Process;
use crate::Errno;
use crate::fs::{At, DirEntry, Mode, UnlinkFlags};

impl Process {
    /// Makes an empty directory with permissions `mode`, less the umask. Allocates.
    ///
    /// # Errors
    /// Errors of path lookup; `EEXIST` if the name exists; `EACCES` if the user may not change the
    /// parent directory; `EPERM` if the file system does not support it; `EROFS`; `ENOMEM`.
    pub fn mkdirat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        mode: impl Into<Mode>,
    ) -> Result<(), Errno> {
        self.path_context()
            .mkdir(at.into(), path.as_ref(), mode.into())
    }

    /// Makes an empty directory like [`mkdirat`](Self::mkdirat), relative to the working directory.
    /// It has all permissions that the umask allows.
    ///
    /// # Errors
    /// Errors of `mkdirat`.
    pub fn mkdir(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.mkdirat(At::Cwd, path, Mode::ALL)
    }

    /// Removes an empty directory like [`unlinkat`](Self::unlinkat) with `REMOVEDIR`, relative to
    /// the working directory.
    ///
    /// # Errors
    /// Errors of `unlinkat`.
    pub fn rmdir(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.unlinkat(At::Cwd, path, UnlinkFlags::REMOVEDIR)
    }

    /// Returns a snapshot of all names in an open directory, unordered, without `.` and `..`.
    /// Neither uses nor moves the position. Allocates. In Linux: `readdir`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `ENOTDIR` if not a directory; `EIO` if revoked.
    pub fn getdents(&self, fd: impl FdArg) -> Result<Vec<DirEntry>, Errno> {
        let path = self.get_opened(fd)?.path();
        path.ok_or(Errno::ENOTDIR)?.inode.names()
    }

    /// Returns up to `max` names of an open directory from its position, and advances that. Returns
    /// none at the end.
    ///
    /// The first two names are `.` and `..`. A name that is added or removed meanwhile may be
    /// returned or not; every other name is returned exactly once. [`lseek`](Self::lseek) moves the
    /// position to the start, or to the [next](DirEntry::next) of any entry. Allocates.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `ENOTDIR` if not a directory; `ENOENT` if it is removed;
    /// `EINVAL` if `max` is 0 and there are names; `EIO` if revoked; `ENOMEM`.
    pub fn read_dir(&self, fd: impl FdArg, max: usize) -> Result<Vec<DirEntry>, Errno> {
        self.read_dir_sized(fd, max, |_| 1)
    }

    /// Reads as many names as fit into `max` bytes, otherwise like [`read_dir`](Self::read_dir).
    /// Each name takes `size` of it. For a caller that copies the names to a buffer. `size` runs
    /// with the position locked, and must not use the descriptor. In Linux: `getdents64`.
    ///
    /// # Errors
    /// Errors of `read_dir`; `EINVAL` if not even the first name fits.
    pub fn read_dir_sized(
        &self,
        fd: impl FdArg,
        max: usize,
        size: impl Fn(&DirEntry) -> usize,
    ) -> Result<Vec<DirEntry>, Errno> {
        self.get_opened(fd)?.read_dir(max, &size)
    }

    /// Sets the working directory, by path.
    ///
    /// # Errors
    /// Errors of path lookup; `ENOTDIR` if it is not a directory; `EACCES` if the user may not
    /// search it.
    pub fn chdir(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        let vfs_path = self.path_context().find_directory(path.as_ref())?;
        self.context.set_cwd(vfs_path)
    }

    /// Sets the working directory, by descriptor.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `ENOTDIR` if it is not a directory; `EACCES` if the user
    /// may not search it.
    pub fn fchdir(&self, fd: impl FdArg) -> Result<(), Errno> {
        let context = self.path_context();
        let vfs_path = context.path_of(fd.to_raw())?.ok_or(Errno::ENOTDIR)?;
        context.only_directory(&vfs_path)?;
        self.context.set_cwd(vfs_path)
    }

    /// Returns the path of the working directory. Allocates.
    ///
    /// # Errors
    /// `ENOENT` if it is removed.
    pub fn getcwd(&self) -> Result<Vec<u8>, Errno> {
        match self.context.cwd() {
            None => Ok(b"/".to_vec()),
            Some(vfs_path) if vfs_path.inode.stat().links == 0 => Err(Errno::ENOENT),
            Some(vfs_path) => Ok(vfs_path.full_path()),
        }
    }
}
