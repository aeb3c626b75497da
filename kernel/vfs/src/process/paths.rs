//! System calls that open files by path, and make, move and remove names.
//!
//! A path is any bytes. With a leading `/` it is walked from the root, and otherwise from the
//! directory that the first argument names.
//!
//! # Errors of path lookup
//!
//! Every call that takes a path also returns
//! - `ENOENT` if a component before the last does not exist, or the path is empty;
//! - `ENOTDIR` if a component before the last is not a directory, the path has a trailing `/` and
//!   does not name a directory, or it starts at a descriptor that is not a directory;
//! - `EACCES` if the user may not search a directory on the path;
//! - `ELOOP` if there are more than 40 symbolic links on the path;
//! - `ENAMETOOLONG` if a name has more than 255 bytes, or the path 4,096 or more;
//! - `EBADF` if the path starts at a descriptor that is not open.

use std::any::Any;
use std::sync::Arc;

use fdtable::{Fd, FileRef};

use super::Process;
use crate::fs::namei::Follow;
use crate::fs::path::Path;
use crate::fs::{
    AccessMode, At, AtFlags, FileKind, Mode, NewKind, OpenRequest, PathContext, RenameFlags,
    ResolveFlags, UnlinkFlags,
};
use crate::{Errno, OpenFlags, RcuObject};

impl Process {
    /// Opens the file at a path, at the lowest free descriptor. A new file gets permissions `mode`,
    /// less the umask. Allocates; opening a FIFO may block.
    ///
    /// If there is no free descriptor, a regular file, a directory or a device of
    /// [`DevFs`](crate::DevFs) may have been opened and released; there is no other effect.
    ///
    /// # Errors
    /// Errors of path lookup, and
    /// - `ENOENT` if the file does not exist and `flags` lacks `CREAT`.
    /// - `EEXIST` if it exists and `flags` has `CREAT` and `EXCL`.
    /// - `EISDIR` if it is a directory and `flags` ask for writing, `CREAT` or `TRUNC`, or if a
    ///   file would be created at a path with a trailing `/`.
    /// - `ENOTDIR` if it is not a directory and `flags` has `DIRECTORY`.
    /// - `ELOOP` if it is a symbolic link, and `flags` has `NOFOLLOW` and not `PATH`.
    /// - `EACCES` if its permissions do not allow the access, or those of the directory its
    ///   creation; `EPERM` for `NOATIME` if it belongs to another user.
    /// - `EINVAL` if the access mode is 3, or `flags` has `DIRECT`, or `CREAT` and `DIRECTORY`, or
    ///   `TMPFILE` without writing.
    /// - `EOPNOTSUPP` for `TMPFILE` if the file system does not support it.
    /// - `ENXIO` if it is a socket, or a FIFO without a reader that is opened for writing only,
    ///   with `NONBLOCK`.
    /// - `EROFS` if the file system is mounted read-only and would be changed; `ENODEV` after an
    ///   unmount.
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
        self.open_existing(at.into(), &request, flags)
    }

    /// Opens like [`openat`](Self::openat), with restrictions of the way to the file: `openat2(2)`.
    ///
    /// # Errors
    /// Errors of `openat`; `EXDEV` or `ELOOP` if the way is not allowed.
    pub fn openat2(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        flags: OpenFlags,
        mode: impl Into<Mode>,
        resolve: ResolveFlags,
    ) -> Result<Fd, Errno> {
        let (at, request) = (at.into(), OpenRequest::new(path.as_ref(), flags)?);
        let top;
        let mut context = PathContext {
            resolve,
            ..self.path_context()
        };
        if resolve.intersects(ResolveFlags::SCOPED) {
            top = context.start(at, false)?.into_owned();
            context.root = &top;
        }
        let reservation = self.files.reserve(flags.descriptor())?;
        Ok(reservation.install(context.open(at, &request, mode.into())?))
    }

    /// Opens an existing file.
    ///
    /// Most files are opened first, and then installed in one step of the table. If the open has a
    /// visible effect, the descriptor is reserved first. Either way, a full table is reported
    /// before all errors but those of the arguments, as on Linux.
    fn open_existing(
        &self,
        at: At,
        request: &OpenRequest<'_>,
        flags: OpenFlags,
    ) -> Result<Fd, Errno> {
        let reserve = || self.files.reserve(flags.descriptor());
        let context = self.path_context();
        let opened = match context.find_to_open(at, request) {
            Ok(found) if found.has_side_effect() => {
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

    /// Opens the file at a path like [`openat`](Self::openat), without installing a descriptor: for
    /// an embedder that keeps open files elsewhere. In Linux: `filp_open`.
    ///
    /// # Errors
    /// Errors of `openat`; of the errors of the table, only `EBADF`.
    pub fn open_file(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        flags: OpenFlags,
        mode: impl Into<Mode>,
    ) -> Result<FileRef<RcuObject>, Errno> {
        let request = OpenRequest::new(path.as_ref(), flags)?;
        self.path_context().open(at.into(), &request, mode.into())
    }

    /// Opens like [`openat`](Self::openat), relative to the working directory. A new file gets read
    /// and write permission as far as the umask allows.
    ///
    /// # Errors
    /// Errors of `openat`.
    pub fn open(&self, path: impl AsRef<[u8]>, flags: OpenFlags) -> Result<Fd, Errno> {
        self.openat(At::Cwd, path, flags, Mode::DEFAULT_FILE)
    }

    /// Makes a FIFO, an empty regular file, or a name of a socket that none is bound to, with
    /// permissions `mode`, less the umask. Allocates.
    ///
    /// # Errors
    /// Errors of path lookup; `EEXIST` if the name exists; `EPERM` for any other `kind`; `EACCES`
    /// if the user may not change the parent directory; `EROFS`; `ENOMEM`.
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
            // No socket is bound to it.
            FileKind::Socket => NewKind::Socket(Arc::new(())),
            _ => return Err(Errno::EPERM),
        };
        let context = self.path_context();
        context.mknod(at.into(), path.as_ref(), what, mode.into())
    }

    /// Makes a symbolic link to `target`, which need not exist. Allocates.
    ///
    /// # Errors
    /// Errors of path lookup; `EEXIST` if the name exists; `ENOENT` if `target` is empty, and
    /// `ENAMETOOLONG` if it is too long; `EACCES` if the user may not change the parent directory;
    /// `EPERM` if the file system does not support it; `EROFS`; `ENOMEM`.
    pub fn symlinkat(
        &self,
        target: impl AsRef<[u8]>,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
    ) -> Result<(), Errno> {
        let context = self.path_context();
        context.symlink(target.as_ref(), at.into(), path.as_ref())
    }

    /// Returns the target of a symbolic link. An empty path means the link that the descriptor was
    /// opened on, with `PATH` and `NOFOLLOW`. Allocates.
    ///
    /// # Errors
    /// Errors of path lookup; `EINVAL` if it is not a symbolic link, or `ENOENT` if the path is
    /// empty as well.
    pub fn readlinkat(&self, at: impl Into<At>, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Errno> {
        self.path_context().readlink(at.into(), path.as_ref())
    }

    /// Returns true if the walk of a path meets no symbolic link, whether it finds a file or not.
    /// Flag `SYMLINK_NOFOLLOW` allows one at the end. May return false where it would have to wait,
    /// at `..`, and in file systems that need more than a name. In Linux: `RESOLVE_NO_SYMLINKS`.
    pub fn is_free_of_links(
        &self,
        at: impl Into<At>,
        path: impl AsRef<[u8]>,
        flags: AtFlags,
    ) -> bool {
        let path = Path::parse(path.as_ref());
        path.is_ok_and(|path| {
            let context = self.path_context();
            context.find_rcu(at.into(), &path, flags.into()).is_some()
        })
    }

    /// Makes a hard link: `new` becomes another name of the file at `old`.
    ///
    /// Flag `SYMLINK_FOLLOW` follows a symbolic link at the end of `old`; `EMPTY_PATH` takes an
    /// empty `old` as the file of the descriptor itself, even one made with `TMPFILE`. Allocates.
    ///
    /// # Errors
    /// Errors of path lookup, and
    /// - `EEXIST` if `new` exists.
    /// - `EPERM` if `old` is a directory, or the file system does not support hard links; or if
    ///   `old` belongs to another user, and is not a regular file that the caller may read and
    ///   write, or has set-ID bits (Linux `protected_hardlinks`).
    /// - `ENOENT` if `old` has lost its last name, or was made with `TMPFILE` and `EXCL`, or `new`
    ///   has a trailing `/`.
    /// - `EXDEV` if they are on different mounts.
    /// - `EMLINK` if there are too many links.
    /// - `EACCES` if the user may not change the parent directory.
    /// - `EINVAL` if `flags` has other bits; `EROFS`; `ENOMEM`.
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

    /// Removes the name of a file, or with `REMOVEDIR` an empty directory. The file is freed when
    /// its last name and its last open file are gone.
    ///
    /// # Errors
    /// Errors of path lookup, and
    /// - `EISDIR` if it is a directory and `flags` lacks `REMOVEDIR`; `ENOTDIR` in the opposite
    ///   case.
    /// - `ENOTEMPTY` if a directory is not empty, or the path ends in `..`; `EINVAL` if it ends in
    ///   `.`.
    /// - `EBUSY` for the root, and if something is mounted on it.
    /// - `EACCES` if the user may not change the parent directory; `EPERM` if that is sticky and
    ///   the user owns neither it nor the file, or if the file system does not support removal.
    /// - `EINVAL` if `flags` has other bits.
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

    /// Removes the name of a file like [`unlinkat`](Self::unlinkat), relative to the working
    /// directory.
    ///
    /// # Errors
    /// Errors of `unlinkat`.
    pub fn unlink(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.unlinkat(At::Cwd, path, UnlinkFlags::empty())
    }

    /// Renames `old` to `new`, atomically, and removes the inode that `new` named before.
    ///
    /// A file can replace a file, and a directory an empty directory. If both name one inode,
    /// nothing changes. With `EXCHANGE`, the two names are exchanged, whatever they name.
    /// Allocates.
    ///
    /// # Errors
    /// Errors of path lookup, and
    /// - `ENOENT` if `old` does not exist, or with `EXCHANGE` `new`.
    /// - `EEXIST` if `new` exists and `flags` has `NOREPLACE`.
    /// - `EISDIR` if only `new` is a directory; `ENOTDIR` if only `old` is.
    /// - `ENOTEMPTY` if `new` is a directory that is not empty.
    /// - `EINVAL` if `new` is below `old`, or with `EXCHANGE` `old` below `new`; if `flags` has
    ///   both or other bits.
    /// - `EBUSY` if a path ends in `.` or `..`, or is the root, or something is mounted on it.
    /// - `EXDEV` if they are on different mounts.
    /// - `EACCES` if the user may not change one of the parent directories, or a directory that
    ///   moves to another parent; `EPERM` if a parent is sticky and the user owns neither it nor
    ///   the file, or if the file system does not support renames.
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

    /// Renames like [`renameat2`](Self::renameat2), relative to the working directory.
    ///
    /// # Errors
    /// Errors of `renameat2`.
    pub fn rename(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.renameat2(At::Cwd, old, At::Cwd, new, RenameFlags::empty())
    }

    /// Revokes all open files of the inode at a path.
    ///
    /// Their descriptors return `EIO` from now on, and threads that sleep in them wake. The name
    /// stays, and the file can be opened again. Returns how many open files there were. Allocates.
    ///
    /// # Errors
    /// Errors of path lookup; `EPERM` if it belongs to another user; `EOPNOTSUPP` if open files are
    /// not tracked; `ENOMEM`.
    pub fn revoke(&self, path: impl AsRef<[u8]>) -> Result<usize, Errno> {
        self.path_context().revoke(At::Cwd, path.as_ref())
    }

    /// Makes the name of a socket, with a value that `connect` finds there: the effect of `bind` on
    /// a path. The name gets permissions `mode`, less the umask. Allocates.
    ///
    /// # Errors
    /// Errors of path lookup; `EADDRINUSE` if the name exists; `EACCES` if the user may not change
    /// the parent directory; `EROFS`; `ENOMEM`.
    pub fn bind_name(
        &self,
        path: impl AsRef<[u8]>,
        bound: Arc<dyn Any + Send + Sync>,
        mode: Mode,
    ) -> Result<(), Errno> {
        let context = self.path_context();
        let made = context.mknod(At::Cwd, path.as_ref(), NewKind::Socket(bound), mode);
        match made {
            Err(Errno::EEXIST) => Err(Errno::EADDRINUSE),
            made => made,
        }
    }

    /// Returns the value that is [bound](Self::bind_name) to a path, for `connect`.
    ///
    /// # Errors
    /// Errors of path lookup; `ECONNREFUSED` if it is not a socket; `EACCES` if the user may not
    /// write it.
    pub fn bound_to(&self, path: impl AsRef<[u8]>) -> Result<Arc<dyn Any + Send + Sync>, Errno> {
        let context = self.path_context();
        let found = context.find(At::Cwd, path.as_ref(), Follow::Yes)?;
        context.may(AccessMode::WRITE, &*found.inode)?;
        found.inode.bound().ok_or(Errno::ECONNREFUSED)
    }
}
