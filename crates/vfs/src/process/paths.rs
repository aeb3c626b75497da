//! System calls that open files by their path, and make, move and remove names.
//!
//! A path is any bytes. It begins at the root with a `/`, and without one where the first argument
//! says. All that take a path answer, besides what each says,
//! - `ENOENT` if a name on the way does not exist, or the path is empty;
//! - `ENOTDIR` if a name on the way is no directory, or a `/` follows a name that is none, or the
//!   path begins in a descriptor that names no directory;
//! - `EACCES` if the user may not go through a directory on the way;
//! - `ELOOP` if there are more than 40 symbolic links on the way;
//! - `ENAMETOOLONG` if a name has more than 255 bytes, or the path 4,096 or more;
//! - `EBADF` if the path begins in a descriptor that is not open.

use std::any::Any;
use std::sync::Arc;

use fdtable::{Fd, FileRef};

use super::Process;
use crate::fs::namei::Follow;
use crate::fs::{
    AccessMode, At, AtFlags, FileKind, Mode, NewKind, OpenRequest, RenameFlags, UnlinkFlags,
};
use crate::{Errno, Object, OpenFlags};

impl Process {
    /// Opens what `path` names, at the lowest free descriptor. What is made gets `mode` without the
    /// umask. Allocates; opening a FIFO may block. Where there is no free number, a regular file, a
    /// directory or a device of [`DevFs`](crate::DevFs) may have been opened and released; nothing else
    /// is touched.
    ///
    /// # Errors
    /// Those of path lookup, and
    /// - `ENOENT` if there is nothing and `flags` lacks `CREAT`.
    /// - `EEXIST` if there is something and `flags` has `CREAT` and `EXCL`.
    /// - `EISDIR` if it is a directory and `flags` ask for writing, `CREAT` or `TRUNC`, or a file
    ///   is to be created under a path with a `/` at its end.
    /// - `ENOTDIR` if it is none and `flags` has `DIRECTORY`.
    /// - `ELOOP` if it is a symbolic link, and `flags` has `NOFOLLOW` and not `PATH`.
    /// - `EACCES` if the user may not do with it what `flags` say, or not change the directory in
    ///   which it is to be made; `EPERM` for `NOATIME` if it is another user's.
    /// - `EINVAL` if the access mode is 3, or `flags` has `DIRECT`, or `CREAT` and `DIRECTORY`, or
    ///   `TMPFILE` without writing.
    /// - `EOPNOTSUPP` for `TMPFILE` where the file system does not know how.
    /// - `ENXIO` if it is a socket, or nobody reads a FIFO that is opened for writing only and with
    ///   `NONBLOCK`.
    /// - `EROFS` if the file system is mounted read-only, and it would be changed; `ENODEV` after
    ///   an unmount.
    /// - `EMFILE`, `ENOMEM` from the table; `ENOMEM`.
    pub fn openat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        flags: OpenFlags,
        mode: impl Into<Mode>,
    ) -> Result<Fd, Errno> {
        let request = OpenRequest::new(path.as_ref(), flags)?;
        if flags.intersects(OpenFlags::CREAT | OpenFlags::TRUNC | OpenFlags::TMPFILE) {
            let reservation = self.files.reserve(flags.descriptor())?;
            let file = self.path_context().open(at.into(), &request, mode.into())?;
            return Ok(reservation.install(file));
        }
        self.open_what_is_there(at.into(), &request, flags)
    }

    /// Opens a file that has to be there. Most are opened first and get their number then, which
    /// takes one step in the table. Where an open is noticed by others, a number is kept for it
    /// first. Either way a full table answers before all that the request does not answer itself,
    /// as on Linux.
    fn open_what_is_there(
        &self,
        at: At,
        request: &OpenRequest<'_>,
        flags: OpenFlags,
    ) -> Result<Fd, Errno> {
        let reserve = || self.files.reserve(flags.descriptor());
        let context = self.path_context();
        let opened = match context.find_to_open(at, request) {
            Ok(found) if !found.is_unnoticed() => {
                return Ok(reserve()?.install(context.open_later(found)?));
            }
            Ok(found) => context.open_later(found),
            Err(error) => Err(error),
        };
        match opened {
            Ok(file) => Ok(self.files.open(file, flags.descriptor())?),
            Err(error) => {
                drop(reserve()?);
                Err(error)
            }
        }
    }

    /// Opens what `path` names as [`openat`](Self::openat), without a number: for who keeps open
    /// files elsewhere than in the table.
    ///
    /// # Errors
    /// Those of `openat`, but of the table's only `EBADF`.
    #[doc(alias = "filp_open")]
    pub fn open_file(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        flags: OpenFlags,
        mode: impl Into<Mode>,
    ) -> Result<FileRef<dyn Object>, Errno> {
        let request = OpenRequest::new(path.as_ref(), flags)?;
        self.path_context().open(at.into(), &request, mode.into())
    }

    /// Opens from the working directory as [`openat`](Self::openat). What is made everybody may
    /// read and write whom the umask allows it.
    ///
    /// # Errors
    /// Those of `openat`.
    pub fn open(&self, path: impl AsRef<[u8]>, flags: OpenFlags) -> Result<Fd, Errno> {
        self.openat(At::Cwd, path, flags, Mode::DEFAULT_FILE)
    }

    /// Makes a FIFO, or an empty regular file, with `mode` without the umask. Allocates.
    ///
    /// # Errors
    /// Those of path lookup; `EEXIST` if there is something of this name; `EPERM` for any other
    /// `kind`; `EACCES` if the user may not change the directory; `EROFS`; `ENOMEM`.
    pub fn mknodat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        kind: FileKind,
        mode: impl Into<Mode>,
    ) -> Result<(), Errno> {
        let what = match kind {
            FileKind::Regular => NewKind::Regular,
            FileKind::Fifo => NewKind::Fifo,
            _ => return Err(Errno::EPERM),
        };
        let context = self.path_context();
        context.mknod(at.into(), path.as_ref(), what, mode.into())?;
        Ok(())
    }

    /// Makes a symbolic link to `target`, which need not lead anywhere. Allocates.
    ///
    /// # Errors
    /// Those of path lookup; `EEXIST` if there is something of this name; `ENOENT` if `target` is
    /// empty, and `ENAMETOOLONG` if it is too long; `EACCES` if the user may not change the
    /// directory; `EPERM` where there are no links; `EROFS`; `ENOMEM`.
    pub fn symlinkat(
        &self,
        target: impl AsRef<[u8]>,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
    ) -> Result<(), Errno> {
        let context = self.path_context();
        context.symlink(target.as_ref(), at.into(), path.as_ref())
    }

    /// Returns where a symbolic link leads. An empty path means the link that is open, with `PATH`
    /// and `NOFOLLOW`, under the descriptor. Allocates.
    ///
    /// # Errors
    /// Those of path lookup; `EINVAL` if it is no symbolic link, and `ENOENT` if the path is empty
    /// too.
    pub fn readlinkat(&self, at: impl Into<At>, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Errno> {
        self.path_context().readlink(at.into(), path.as_ref())
    }

    /// Gives what `old` names the further name `new`. Of `flags`, `SYMLINK_FOLLOW` follows a
    /// symbolic link at the end of `old`, and `EMPTY_PATH` takes an empty `old` as the file of the
    /// descriptor itself, also one that was made with `TMPFILE`. Allocates.
    ///
    /// # Errors
    /// Those of path lookup; `EEXIST` if `new` exists; `EPERM` if `old` is a directory, or the file
    /// system has no further names; `ENOENT` if `old` has lost its last name or was made
    /// with `TMPFILE` and `EXCL`, or `new` has a `/` at its end; `EXDEV` if they are in two mounts; `EMLINK` if there are too many; `EACCES` if the
    /// user may not change the directory; `EINVAL` if `flags` has others; `EROFS`; `ENOMEM`.
    pub fn linkat(
        &self,
        old_at: impl Into<At>,
        old: impl AsRef<[u8]>,
        new_at: impl Into<At>,
        new: impl AsRef<[u8]>,
        flags: AtFlags,
    ) -> Result<(), Errno> {
        let (old, new) = ((old_at.into(), old.as_ref()), (new_at.into(), new.as_ref()));
        self.path_context().link(old, new, flags)
    }

    /// Removes a name: of anything but a directory, or with `REMOVEDIR` of an empty directory. The
    /// bytes of a file stay while it has another name, or somebody has it open.
    ///
    /// # Errors
    /// Those of path lookup, and
    /// - `EISDIR` if it is a directory and `flags` lacks `REMOVEDIR`; `ENOTDIR` the other way round.
    /// - `ENOTEMPTY` if a directory has names, or the path ends in `..`; `EINVAL` if it ends in `.`.
    /// - `EBUSY` for the root, and if something is mounted on it.
    /// - `EACCES` if the user may not change the directory; `EPERM` if that is sticky, and neither
    ///   it nor the file is the user's, or nothing can be removed there.
    /// - `EINVAL` if `flags` has others.
    /// - `EROFS`.
    pub fn unlinkat(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        flags: UnlinkFlags,
    ) -> Result<(), Errno> {
        let context = self.path_context();
        match UnlinkFlags::from_bits(flags.bits()) {
            None => Err(Errno::EINVAL),
            Some(UnlinkFlags::REMOVEDIR) => context.rmdir(at.into(), path.as_ref()),
            Some(_) => context.unlink(at.into(), path.as_ref()),
        }
    }

    /// Removes the name of a file in the working directory, as [`unlinkat`](Self::unlinkat).
    ///
    /// # Errors
    /// Those of `unlinkat`.
    pub fn unlink(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.unlinkat(At::Cwd, path, UnlinkFlags::empty())
    }

    /// Gives what `old` names the name `new`, in one step, and removes what `new` named before: a
    /// file is replaced by a file, and an empty directory by a directory. Two names of the same
    /// thing stay as they are. With `EXCHANGE` each gets the other's name, whatever they are.
    /// Allocates.
    ///
    /// # Errors
    /// Those of path lookup, and
    /// - `ENOENT` if `old` does not exist, or with `EXCHANGE` `new`.
    /// - `EEXIST` if `new` exists and `flags` has `NOREPLACE`.
    /// - `EISDIR` if `new` is a directory and `old` is none; `ENOTDIR` the other way round.
    /// - `ENOTEMPTY` if `new` is a directory with names.
    /// - `EINVAL` if `new` is below `old`, or with `EXCHANGE` `old` below `new`; if `flags` has both
    ///   or others.
    /// - `EBUSY` if a path ends in `.` or `..`, or is the root, or something is mounted on it.
    /// - `EXDEV` if they are in two mounts.
    /// - `EACCES` if the user may not change one of the directories, or a directory that moves to
    ///   another; `EPERM` if one is sticky, and neither it nor the file is the user's, or nothing
    ///   can be renamed there.
    /// - `EROFS`; `ENOMEM`.
    pub fn renameat2(
        &self,
        old_at: impl Into<At>,
        old: impl AsRef<[u8]>,
        new_at: impl Into<At>,
        new: impl AsRef<[u8]>,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let (old, new) = ((old_at.into(), old.as_ref()), (new_at.into(), new.as_ref()));
        self.path_context().rename(old, new, flags)
    }

    /// Renames from the working directory as [`renameat2`](Self::renameat2).
    ///
    /// # Errors
    /// Those of `renameat2`.
    pub fn rename(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.renameat2(At::Cwd, old, At::Cwd, new, RenameFlags::empty())
    }

    /// Takes what `path` names from all who have it open: their descriptors answer `EIO` from now
    /// on, and who sleeps in it is woken. The name stays, and can be opened again. Returns how many
    /// open files there were. Allocates.
    ///
    /// # Errors
    /// Those of path lookup; `EPERM` if it is another user's; `EOPNOTSUPP` if nobody keeps account
    /// of open files; `ENOMEM`.
    pub fn revoke(&self, path: impl AsRef<[u8]>) -> Result<usize, Errno> {
        self.path_context().revoke(At::Cwd, path.as_ref())
    }

    /// Makes the name of a socket, with what the socket wants to find behind it again: what `bind`
    /// does to a path. The name gets permissions for all whom the umask allows. Allocates.
    ///
    /// # Errors
    /// Those of path lookup; `EADDRINUSE` if there is something of this name; `EACCES` if the user may
    /// not change the directory; `EROFS`; `ENOMEM`.
    #[doc(alias = "bind")]
    pub fn bind_name(
        &self,
        path: impl AsRef<[u8]>,
        bound: Arc<dyn Any + Send + Sync>,
    ) -> Result<(), Errno> {
        let made =
            self.path_context()
                .mknod(At::Cwd, path.as_ref(), NewKind::Socket(bound), Mode::ALL);
        match made {
            Ok(_) => Ok(()),
            Err(Errno::EEXIST) => Err(Errno::EADDRINUSE),
            Err(errno) => Err(errno),
        }
    }

    /// Returns what is [bound](Self::bind_name) to a path: what `connect` looks for.
    ///
    /// # Errors
    /// Those of path lookup; `ECONNREFUSED` if it names no socket; `EACCES` if the user may not write
    /// it.
    #[doc(alias = "connect")]
    pub fn bound_to(&self, path: impl AsRef<[u8]>) -> Result<Arc<dyn Any + Send + Sync>, Errno> {
        let context = self.path_context();
        let found = context.find(At::Cwd, path.as_ref(), Follow::Yes)?;
        context.may(AccessMode::WRITE, &*found.inode)?;
        found.inode.bound().ok_or(Errno::ECONNREFUSED)
    }
}
