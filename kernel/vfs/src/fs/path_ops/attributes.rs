//! Reads and sets the attributes of an inode.

use super::{At, AtFlags, PathContext};
use crate::Errno;
use crate::fs::namei::Follow;
use crate::fs::{
    AccessMode, Attributes, Capabilities, FileKind, Inode, Mode, Target, Time, Timestamp, VfsPath,
    want_write,
};

impl PathContext<'_> {
    /// Returns the target of a symbolic link.
    pub(crate) fn readlink(&self, at: At, path: &[u8]) -> Result<Vec<u8>, Errno> {
        // An empty path means a link that was opened with `O_PATH`.
        let link = match self.find_at(at, path, AtFlags::EMPTY_PATH, Follow::No) {
            // The file of the descriptor has no inode here, and is no link.
            Err(Errno::ENOTDIR) if path.is_empty() => return Err(Errno::ENOENT),
            found => found?,
        };
        match link.inode.link_target(self) {
            Ok(Target::Path(target)) => Ok(target.to_vec()),
            Ok(Target::MagicLink { shown, .. }) => Ok(shown),
            Err(Errno::EINVAL) if path.is_empty() => Err(Errno::ENOENT),
            Err(errno) => Err(errno),
        }
    }

    /// Checks the access of the caller.
    pub(crate) fn access(
        &self,
        at: At,
        path: &[u8],
        wanted: AccessMode,
        flags: AtFlags,
    ) -> Result<(), Errno> {
        let known = AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let flags = flags.only(known)?;
        if AccessMode::from_bits(wanted.bits()).is_none() {
            return Err(Errno::EINVAL);
        }
        let vfs_path = self.find_at(at, path, flags, Follow::from(flags))?;
        let stored = matches!(
            vfs_path.inode.kind(),
            FileKind::Regular | FileKind::Directory | FileKind::Symlink
        );
        if wanted.contains(AccessMode::WRITE) && stored {
            want_write(self.fs_of(&vfs_path))?;
        }
        self.may(wanted, &*vfs_path.inode)
    }

    /// Sets the permission bits.
    pub(crate) fn chmod(&self, vfs_path: &VfsPath, mode: Mode) -> Result<(), Errno> {
        let _change = want_write(self.fs_of(vfs_path))?;
        let inode = &*vfs_path.inode;
        let file = inode.permissions();
        if inode.has_attributes() && !self.credentials.owns(file.uid) {
            return Err(Errno::EPERM);
        }
        // A user cannot set the set-group-ID bit for a foreign group.
        let foreign =
            !self.credentials.has(Capabilities::FSETID) && self.credentials.gid != file.gid;
        let mode = if foreign {
            mode.without(Mode::SET_GID)
        } else {
            mode
        };
        inode.set_attributes(&Attributes {
            mode: Some(mode),
            ..Attributes::default()
        })
    }

    /// Sets user and group.
    pub(crate) fn chown(
        &self,
        vfs_path: &VfsPath,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), Errno> {
        let _change = want_write(self.fs_of(vfs_path))?;
        let inode = &*vfs_path.inode;
        let file = inode.permissions();
        let owns = self.credentials.uid == file.uid;
        let uid_allowed = uid.is_none_or(|uid| owns && uid == file.uid);
        let gid_allowed =
            gid.is_none_or(|gid| owns && (gid == file.gid || gid == self.credentials.gid));
        let allowed = self.credentials.has(Capabilities::CHOWN) || uid_allowed && gid_allowed;
        let mode =
            (inode.kind() != FileKind::Directory).then(|| file.without_set_ids(self.credentials));
        // To clear the set-ID bits is a change of the mode.
        let changes_mode = mode.is_some_and(|mode| mode != file.mode);
        let allowed = allowed && (!changes_mode || self.credentials.owns(file.uid));
        if inode.has_attributes() && !allowed {
            return Err(Errno::EPERM);
        }
        inode.set_attributes(&Attributes {
            mode,
            uid,
            gid,
            ..Attributes::default()
        })
    }

    /// Sets the times.
    pub(crate) fn set_times(&self, vfs_path: &VfsPath, times: [Time; 2]) -> Result<(), Errno> {
        let bad = |time: &Time| matches!(time, Time::At(_, nanos) if *nanos >= 1_000_000_000);
        if times.iter().any(bad) {
            return Err(Errno::EINVAL);
        }
        if times == [Time::Omit; 2] {
            return Ok(());
        }
        let _change = want_write(self.fs_of(vfs_path))?;
        let inode = &*vfs_path.inode;
        if !self.credentials.owns(inode.permissions().uid) {
            if times != [Time::Now; 2] {
                return Err(Errno::EPERM);
            }
            self.may(AccessMode::WRITE, inode)?;
        }
        let now = Timestamp::now();
        let timestamp = |time| match time {
            Time::Now => Some(now),
            Time::Omit => None,
            Time::At(seconds, nanos) => Some(Timestamp { seconds, nanos }),
        };
        inode.set_attributes(&Attributes {
            atime: timestamp(times[0]),
            mtime: timestamp(times[1]),
            ..Attributes::default()
        })
    }

    /// Sets the length of a file that is not open.
    pub(crate) fn truncate(&self, vfs_path: &VfsPath, length: u64) -> Result<(), Errno> {
        let inode = &*vfs_path.inode;
        match inode.kind() {
            FileKind::Directory => return Err(Errno::EISDIR),
            FileKind::Regular => {}
            _ => return Err(Errno::EINVAL),
        }
        let _change = want_write(self.fs_of(vfs_path))?;
        self.may(AccessMode::WRITE, inode)?;
        inode.set_len(length)?;
        self.remove_privileges(inode)
    }

    /// Clears the set-ID bits of a file whose contents a user without privileges has changed.
    pub(crate) fn remove_privileges(&self, inode: &dyn Inode) -> Result<(), Errno> {
        let before = inode.permissions();
        let after = before.without_set_ids(self.credentials);
        if self.credentials.has(Capabilities::FSETID) || before.mode == after {
            return Ok(());
        }
        inode.set_attributes(&Attributes {
            mode: Some(after),
            ..Attributes::default()
        })
    }
}
