//! Creates names: directories, special files, symbolic links, hard links.

use super::{At, AtFlags, PathContext, is_directory};
use crate::Errno;
use crate::fs::namei::Follow;
use crate::fs::path::{PATH_MAX, Path};
use crate::fs::{AccessMode, FileKind, Inode, Mode, NewKind, VfsPath, want_write};

impl PathContext<'_> {
    /// Makes an empty directory.
    pub(crate) fn mkdir(&self, at: At, path: &[u8], mode: Mode) -> Result<(), Errno> {
        let path = Path::parse(path)?;
        // Linux keeps neither of the set-ID bits here.
        let mode = mode.without(Mode::SET_UID.with(Mode::SET_GID));
        self.make(at, &path, NewKind::Directory, mode)
    }

    /// Makes an inode that is not a directory.
    pub(crate) fn mknod(
        &self,
        at: At,
        path: &[u8],
        what: NewKind<'_>,
        mode: Mode,
    ) -> Result<(), Errno> {
        let path = Path::parse(path)?;
        self.make(at, &path, what, mode)
    }

    /// Makes a symbolic link.
    pub(crate) fn symlink(&self, target: &[u8], at: At, path: &[u8]) -> Result<(), Errno> {
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        if target.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        self.mknod(at, path, NewKind::Symlink(target), Mode::ALL)
    }

    /// Makes a hard link.
    pub(crate) fn link(
        &self,
        old: (At, &[u8]),
        new: (At, &[u8]),
        flags: AtFlags,
    ) -> Result<(), Errno> {
        let flags = flags.only(AtFlags::SYMLINK_FOLLOW | AtFlags::EMPTY_PATH)?;
        let follow = if flags.contains(AtFlags::SYMLINK_FOLLOW) {
            Follow::Yes
        } else {
            Follow::No
        };
        let found = match self.find_at(old.0, old.1, flags, follow) {
            // The file of the descriptor has no inode here: it is on a file system of its own.
            Err(Errno::ENOTDIR) if old.1.is_empty() => None,
            found => Some(found?),
        };
        let path = Path::parse(new.1)?;
        let (parent, name) = self.parent_for(new.0, &path, false)?;
        let _change = want_write(self.fs_of(&parent))?;
        let old = found.ok_or(Errno::EXDEV)?;
        if parent.mount_id() != old.mount_id() {
            return Err(Errno::EXDEV);
        }
        self.may_link(&*old.inode)?;
        self.may_create(&*parent.inode)?;
        if is_directory(&*old.inode) {
            return Err(Errno::EPERM);
        }
        parent.inode.link(name, &old.inode)
    }

    /// Checks that the caller may give an inode another name: it owns the inode, or may read and
    /// write a regular file that does not run with the rights of its owner or group.
    ///
    /// Linux checks that with `fs.protected_hardlinks`, which distributions set.
    fn may_link(&self, inode: &dyn Inode) -> Result<(), Errno> {
        let file = inode.permissions();
        if self.credentials.owns(file.uid) {
            return Ok(());
        }
        let is_special = file.mode.contains(Mode::SET_UID)
            || file.mode.contains(Mode::SET_GID.with(Mode::new(0o010)));
        let is_safe = inode.kind() == FileKind::Regular && !is_special;
        match is_safe
            && self
                .may(AccessMode::READ | AccessMode::WRITE, inode)
                .is_ok()
        {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }

    fn make(&self, at: At, path: &Path<'_>, what: NewKind<'_>, mode: Mode) -> Result<(), Errno> {
        let takes_slash = matches!(what, NewKind::Directory);
        let (parent, name) = self.parent_for(at, path, takes_slash)?;
        self.create_in(&parent, name, what, mode).map(drop)
    }

    /// Makes an inode with a name in a directory.
    pub(super) fn create_in(
        &self,
        parent: &VfsPath,
        name: &[u8],
        what: NewKind<'_>,
        mode: Mode,
    ) -> Result<VfsPath, Errno> {
        let _change = want_write(self.fs_of(parent))?;
        self.may_create(&*parent.inode)?;
        let made = parent.inode.create(name, &self.new_inode(what, mode))?;
        Ok(parent.with(made))
    }

    /// Finds the parent directory of a new name.
    ///
    /// # Errors
    /// Errors of path lookup; `EEXIST` if the name exists; `ENOENT` if the path has a trailing
    /// slash and `takes_slash` is false.
    fn parent_for<'p>(
        &self,
        at: At,
        path: &Path<'p>,
        takes_slash: bool,
    ) -> Result<(VfsPath, &'p [u8]), Errno> {
        let parent = self.find_parent(at, path)?;
        let name = path.name(Errno::EEXIST)?;
        match parent.inode.lookup(name, self) {
            Ok(_) => Err(Errno::EEXIST),
            Err(Errno::ENOENT) if path.asks_for_directory && !takes_slash => Err(Errno::ENOENT),
            // The lookup decides, not the permission to create.
            Err(Errno::ENOENT) if parent.inode.has_fixed_names() => Err(Errno::ENOENT),
            Err(Errno::ENOENT) => Ok((parent, name)),
            Err(errno) => Err(errno),
        }
    }
}
