//! System calls that make, read and change directories.

use fdtable::RawFd;

use super::Process;
use crate::Errno;
use crate::fs::{At, DirEntry, Mode, UnlinkFlags};

impl Process {
    /// Makes an empty directory with `mode` without the umask. Allocates.
    ///
    /// # Errors
    /// Those of path lookup; `EEXIST` if there is something of this name; `EACCES` if the user may
    /// not change the directory; `EPERM` where there can be no further ones; `EROFS`; `ENOMEM`.
    pub fn mkdirat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        mode: impl Into<Mode>,
    ) -> Result<(), Errno> {
        self.path_context()
            .mkdir(at.into(), path.as_ref(), mode.into())
    }

    /// Makes an empty directory in the working directory as [`mkdirat`](Self::mkdirat), in which
    /// everybody may everything whom the umask allows it.
    ///
    /// # Errors
    /// Those of `mkdirat`.
    pub fn mkdir(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.mkdirat(At::Cwd, path, Mode::ALL)
    }

    /// Removes an empty directory in the working directory, as [`unlinkat`](Self::unlinkat) with
    /// `REMOVEDIR`.
    ///
    /// # Errors
    /// Those of `unlinkat`.
    pub fn rmdir(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.unlinkat(At::Cwd, path, UnlinkFlags::REMOVEDIR)
    }

    /// Returns all names of an open directory as of one moment, in no order, without `.` and `..`.
    /// The position does not matter and stays. Allocates.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `ENOTDIR` if not a directory; `EIO` if revoked.
    #[doc(alias = "readdir")]
    pub fn getdents(&self, fd: impl Into<RawFd>) -> Result<Vec<DirEntry>, Errno> {
        self.files.get(fd)?.entries()
    }

    /// Returns up to `most` names of an open directory, at its position, which moves behind them;
    /// none at the end. The first two are `.` and `..`; what comes and goes meanwhile may be among
    /// them or not, and all else comes once. [`lseek`](Self::lseek) moves the position: to the
    /// start, or to the [next](DirEntry::next) of any name. Allocates.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `ENOTDIR` if not a directory; `ENOENT` if it is removed;
    /// `EINVAL` if `most` is 0 and there are names; `EIO` if revoked; `ENOMEM`.
    pub fn read_dir(&self, fd: impl Into<RawFd>, most: usize) -> Result<Vec<DirEntry>, Errno> {
        self.files.get(fd)?.read_dir(most, &|_| 1)
    }

    /// Does as [`read_dir`](Self::read_dir), but returns as many names as fit into `most` bytes,
    /// of which each takes `size`: for who passes them on in a buffer. `size` is asked with the
    /// position locked, and does not use the descriptor.
    ///
    /// # Errors
    /// Those of `read_dir`; `EINVAL` if not even the first name fits.
    #[doc(alias = "getdents64")]
    pub fn read_dir_sized(
        &self,
        fd: impl Into<RawFd>,
        most: usize,
        size: impl Fn(&DirEntry) -> usize,
    ) -> Result<Vec<DirEntry>, Errno> {
        self.files.get(fd)?.read_dir(most, &size)
    }

    /// Makes a directory the one in which paths begin without a `/`.
    ///
    /// # Errors
    /// Those of path lookup; `ENOTDIR` if it is no directory; `EACCES` if the user may not go
    /// through it.
    pub fn chdir(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        let vfs_path = self.path_context().find_directory(path.as_ref())?;
        self.context.set_cwd(vfs_path)
    }

    /// Makes an open directory the one in which paths begin without a `/`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `ENOTDIR` if it is no directory; `EACCES` if the user may
    /// not go through it.
    pub fn fchdir(&self, fd: impl Into<RawFd>) -> Result<(), Errno> {
        let context = self.path_context();
        let vfs_path = context.path_of(fd.into())?.ok_or(Errno::ENOTDIR)?;
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
