//! System calls on attributes: `stat`, `access`, `chmod`, `chown`, `utimensat`, `truncate`.

use fdtable::{FdArg, RawFd};

use super::Process;
use crate::Errno;
use crate::fs::namei::Follow;
use crate::fs::{AccessMode, At, AtFlags, Mode, Stat, Time, VfsPath, inode_path};

impl Process {
    /// Returns the attributes of the inode at a path. Flag `SYMLINK_NOFOLLOW` takes a symbolic link
    /// itself, and `EMPTY_PATH` with an empty path the file of the descriptor. May wait for writers
    /// of the file. In Linux: `newfstatat`, `statx`.
    ///
    /// # Errors
    /// Errors of path lookup; `EINVAL` if `flags` has other bits; those of [`fstat`](Self::fstat).
    pub fn fstatat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        flags: AtFlags,
    ) -> Result<Stat, Errno> {
        let known = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
        let flags = flags.only(known)?;
        let (at, path) = (at.into(), path.as_ref());
        match at {
            At::Fd(fd) if path.is_empty() && flags.contains(AtFlags::EMPTY_PATH) => self.fstat(fd),
            _ => {
                let found = self.path_context().find_at(at, path, flags, flags.into())?;
                Ok(found.inode.stat())
            }
        }
    }

    /// Returns the attributes like [`fstatat`](Self::fstatat), relative to the working directory.
    ///
    /// # Errors
    /// Errors of `fstatat`.
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Stat, Errno> {
        self.fstatat(At::Cwd, path, AtFlags::empty())
    }

    /// Returns the attributes of the file of a descriptor. May wait for writers of the file.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EIO` if revoked; `EOPNOTSUPP` if the object has no
    /// attributes.
    pub fn fstat(&self, fd: impl FdArg) -> Result<Stat, Errno> {
        self.files.get(fd)?.stat()
    }

    /// Checks the access of the real user and group to the file at a path, and with flag `EACCESS`
    /// of the effective ones. `SYMLINK_NOFOLLOW` does not follow a symbolic link; `EMPTY_PATH`
    /// takes an empty path as the file of the descriptor.
    ///
    /// # Errors
    /// Errors of path lookup; `EACCES` if the access is denied; `EROFS` for `WRITE` on a file
    /// system that is mounted read-only; `EINVAL` if `wanted` or `flags` has other bits.
    pub fn faccessat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        wanted: AccessMode,
        flags: AtFlags,
    ) -> Result<(), Errno> {
        let mut context = self.path_context();
        if !flags.contains(AtFlags::EACCESS) {
            context.credentials = self.real_credentials();
        }
        context.access(at.into(), path.as_ref(), wanted, flags)
    }

    /// Sets the permission bits of the inode at a path.
    ///
    /// # Errors
    /// Errors of path lookup; `EPERM` if the file belongs to another user, or cannot be changed;
    /// `EOPNOTSUPP` for a symbolic link with `SYMLINK_NOFOLLOW`; `EINVAL` if `flags` has bits other
    /// than that and `EMPTY_PATH`; `EROFS`.
    pub fn fchmodat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        mode: impl Into<Mode>,
        flags: AtFlags,
    ) -> Result<(), Errno> {
        let flags = flags.only(AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        let context = self.path_context();
        let found = context.find_at(at.into(), path.as_ref(), flags, flags.into())?;
        if found.inode.kind() == crate::FileKind::Symlink {
            return Err(Errno::EOPNOTSUPP);
        }
        context.chmod(&found, mode.into())
    }

    /// Sets the permission bits of an open file.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with `PATH`; `EPERM` if the file belongs to
    /// another user, or cannot be changed; `EOPNOTSUPP` if it has no inode; `EROFS`.
    pub fn fchmod(&self, fd: impl FdArg, mode: impl Into<Mode>) -> Result<(), Errno> {
        let vfs_path = self.open_path(fd.to_raw())?;
        self.path_context().chmod(&vfs_path, mode.into())
    }

    /// Sets user and group of the inode at a path; `None` leaves one as it is.
    ///
    /// Unless the inode is a directory, this clears the set-user-ID bit, and the set-group-ID bit
    /// if the group may execute the file: for that, the file has to be the caller's. Flag
    /// `SYMLINK_NOFOLLOW` takes a symbolic link itself, `EMPTY_PATH` the file of the descriptor.
    ///
    /// # Errors
    /// Errors of path lookup; `EPERM` if this does more than give an own file to the own group,
    /// without [`Capabilities::CHOWN`](crate::fs::Capabilities::CHOWN), or the inode cannot be
    /// changed; `EINVAL` if `flags` has other bits; `EROFS`.
    pub fn fchownat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        uid: Option<u32>,
        gid: Option<u32>,
        flags: AtFlags,
    ) -> Result<(), Errno> {
        let flags = flags.only(AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        let context = self.path_context();
        let found = context.find_at(at.into(), path.as_ref(), flags, flags.into())?;
        context.chown(&found, uid, gid)
    }

    /// Sets user and group of an open file, like [`fchownat`](Self::fchownat).
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with `PATH`; `EOPNOTSUPP` if it has no inode;
    /// `EPERM`, `EROFS` as for `fchownat`.
    pub fn fchown(&self, fd: impl FdArg, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
        let vfs_path = self.open_path(fd.to_raw())?;
        self.path_context().chown(&vfs_path, uid, gid)
    }

    /// Sets access and modification time of the inode at a path.
    ///
    /// Flag `SYMLINK_NOFOLLOW` takes a symbolic link itself, `EMPTY_PATH` the file of the
    /// descriptor. If both times are [`Time::Omit`], the call checks nothing and succeeds.
    ///
    /// # Errors
    /// Errors of path lookup; `EACCES` if both are the current time, and the file belongs to
    /// another user and is not writable; `EPERM` if they are not, and the file belongs to another
    /// user; `EINVAL` if nanoseconds are above 999,999,999, or `flags` has other bits; `EROFS`.
    pub fn utimensat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        times: [Time; 2],
        flags: AtFlags,
    ) -> Result<(), Errno> {
        // Linux does not check the other arguments either.
        if times == [Time::Omit; 2] {
            return Ok(());
        }
        let flags = flags.only(AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        let context = self.path_context();
        let found = context.find_at(at.into(), path.as_ref(), flags, flags.into())?;
        context.set_times(&found, times)
    }

    /// Sets access and modification time of an open file, like [`utimensat`](Self::utimensat).
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with `PATH`; `EOPNOTSUPP` if it has no inode;
    /// those of `utimensat`.
    pub fn futimens(&self, fd: impl FdArg, times: [Time; 2]) -> Result<(), Errno> {
        let vfs_path = self.open_path(fd.to_raw())?;
        self.path_context().set_times(&vfs_path, times)
    }

    /// Sets the length of the file at a path; new bytes read as zeros. Allocates, and may wait for
    /// transfers.
    ///
    /// # Errors
    /// Errors of path lookup; `EISDIR` if it is a directory, and `EINVAL` if it is another kind of
    /// inode; `EACCES` if the user may not write it; `EFBIG` above the size limit; `EROFS`;
    /// `ENOMEM`.
    pub fn truncate(&self, path: impl AsRef<[u8]>, length: u64) -> Result<(), Errno> {
        let context = self.path_context();
        let found = context.find(At::Cwd, path.as_ref(), Follow::Yes)?;
        self.check_length(&found.inode.stat(), length)?;
        context.truncate(&found, length)
    }

    /// Returns the path of an open file that was not opened with `PATH`.
    fn open_path(&self, fd: RawFd) -> Result<VfsPath, Errno> {
        let file = self.get_opened(fd)?;
        // Fails if the file was revoked.
        file.stat()?;
        file.path()
            .or_else(|| inode_path(&**file))
            .ok_or(Errno::EOPNOTSUPP)
    }
}
