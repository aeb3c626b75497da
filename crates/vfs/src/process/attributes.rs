//! System calls that look at files, and set what is known of them.

use fdtable::RawFd;

use super::Process;
use crate::fs::{AccessMode, At, AtFlags, Mode, Stat, Time, VfsPath};
use crate::{Errno, OpenFlags};

impl Process {
    /// Describes what a path names; with `SYMLINK_NOFOLLOW` a symbolic link itself, and with
    /// `EMPTY_PATH` and an empty path what the descriptor does. May wait for writers of the file.
    ///
    /// # Errors
    /// Those of path lookup; `EINVAL` if `flags` has others; those of [`fstat`](Self::fstat).
    #[doc(alias = "newfstatat")]
    #[doc(alias = "statx")]
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

    /// Describes what a path names, as [`fstatat`](Self::fstatat) from the working directory.
    ///
    /// # Errors
    /// Those of `fstatat`.
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Stat, Errno> {
        self.fstatat(At::Cwd, path, AtFlags::empty())
    }

    /// Describes what a descriptor names. May wait for writers of the file.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `EIO` if revoked; `EOPNOTSUPP` if the object has no
    /// description.
    pub fn fstat(&self, fd: impl Into<RawFd>) -> Result<Stat, Errno> {
        self.files.get(fd)?.stat()
    }

    /// Checks what the process may do with what a path names. `SYMLINK_NOFOLLOW` does not follow a
    /// symbolic link; `EMPTY_PATH` takes an empty path as the file of the descriptor; `EACCESS`
    /// means nothing here.
    ///
    /// # Errors
    /// Those of path lookup; `EACCES` if it may not; `EROFS` for `WRITE` on a file system that is
    /// mounted read-only; `EINVAL` if `wanted` or `flags` has others.
    pub fn faccessat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        wanted: AccessMode,
        flags: AtFlags,
    ) -> Result<(), Errno> {
        self.path_context()
            .access(at.into(), path.as_ref(), wanted, flags)
    }

    /// Sets the permission bits of what a path names.
    ///
    /// # Errors
    /// Those of path lookup; `EPERM` if it is another user's, or cannot be changed; `EOPNOTSUPP` for
    /// a symbolic link with `SYMLINK_NOFOLLOW`; `EINVAL` if `flags` has others than that and
    /// `EMPTY_PATH`; `EROFS`.
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
    /// `EBADF` if not an open descriptor, or opened with `PATH`; `EPERM` if the file is another
    /// user's, or cannot be changed; `EINVAL` if it is on no file system; `EROFS`.
    pub fn fchmod(&self, fd: impl Into<RawFd>, mode: impl Into<Mode>) -> Result<(), Errno> {
        let vfs_path = self.open_path(fd.into())?;
        self.path_context().chmod(&vfs_path, mode.into())
    }

    /// Sets the owners of what a path names; none stays as it is. Of what is no directory, the
    /// set-user-ID bit goes, and the set-group-ID bit if the group may execute it. Of `flags`,
    /// `SYMLINK_NOFOLLOW` takes a symbolic link itself, `EMPTY_PATH` the file of the descriptor.
    ///
    /// # Errors
    /// Those of path lookup; `EPERM` if the user is not 0, and does more than give what is his to
    /// his group, or it cannot be changed; `EINVAL` if `flags` has others; `EROFS`.
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

    /// Sets the owners of an open file, as [`fchownat`](Self::fchownat).
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with `PATH`; `EINVAL` if it is on no file
    /// system; `EPERM`, `EROFS` as of `fchownat`.
    pub fn fchown(
        &self,
        fd: impl Into<RawFd>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), Errno> {
        let vfs_path = self.open_path(fd.into())?;
        self.path_context().chown(&vfs_path, uid, gid)
    }

    /// Sets when what a path names was last read and changed. Of `flags`, `SYMLINK_NOFOLLOW` takes
    /// a symbolic link itself, `EMPTY_PATH` the file of the descriptor. If neither is to be set,
    /// nothing is looked at, and there is no error.
    ///
    /// # Errors
    /// Those of path lookup; `EACCES` if both are the present time, and the file is another user's
    /// and may not be written; `EPERM` if one is not, and the file is another user's; `EINVAL` if
    /// nanoseconds are above 999,999,999, or `flags` has others; `EROFS`.
    pub fn utimensat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        times: [Time; 2],
        flags: AtFlags,
    ) -> Result<(), Errno> {
        // Linux does not even look at the rest.
        if times == [Time::Omit; 2] {
            return Ok(());
        }
        let flags = flags.only(AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        let context = self.path_context();
        let found = context.find_at(at.into(), path.as_ref(), flags, flags.into())?;
        context.set_times(&found, times)
    }

    /// Sets when an open file was last read and changed, as [`utimensat`](Self::utimensat).
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with `PATH`; `EINVAL` if it is on no file
    /// system; those of `utimensat`.
    pub fn futimens(&self, fd: impl Into<RawFd>, times: [Time; 2]) -> Result<(), Errno> {
        let vfs_path = self.open_path(fd.into())?;
        self.path_context().set_times(&vfs_path, times)
    }

    /// Makes the file that a path names `length` bytes long; what is new reads as zeros. May wait
    /// for transfers, and allocates.
    ///
    /// # Errors
    /// Those of path lookup; `EISDIR` if it is a directory, and `EINVAL` if it is no file otherwise;
    /// `EACCES` if the user may not write it; `EFBIG` above the size limit; `EROFS`; `ENOMEM`.
    pub fn truncate(&self, path: impl AsRef<[u8]>, length: u64) -> Result<(), Errno> {
        let context = self.path_context();
        let found = context.find_at(
            At::Cwd,
            path.as_ref(),
            AtFlags::empty(),
            AtFlags::empty().into(),
        )?;
        self.check_length(&found.inode.stat(), length)?;
        context.truncate(&found, length)
    }

    /// Returns the place of an open file that is more than a name.
    fn open_path(&self, fd: RawFd) -> Result<VfsPath, Errno> {
        let file = self.files.get(fd)?;
        if file.status().contains(OpenFlags::PATH) {
            return Err(Errno::EBADF);
        }
        // What was revoked answers so.
        file.stat()?;
        file.path().ok_or(Errno::EINVAL)
    }
}
