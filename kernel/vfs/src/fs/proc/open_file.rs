//! Inodes of open files with neither a path nor an inode: an eventfd, an epoll.

use fdtable::FileRef;
use std::sync::Arc;

use crate::fs::{Attributes, FileKind, Inode, Mode, Opening, Stat};
use crate::{Errno, OpenFlags, RcuObject};

/// Inode that stands for an open file: opening it returns that open file.
pub(super) struct OpenFileInode {
    pub(super) file: FileRef<RcuObject>,
}

impl Inode for OpenFileInode {
    fn kind(&self) -> FileKind {
        match self.stat().kind {
            // A path walk does not go on here.
            FileKind::Directory | FileKind::Symlink => FileKind::CharDevice,
            kind => kind,
        }
    }

    fn stat(&self) -> Stat {
        let otherwise = || Stat::new(FileKind::CharDevice, Mode::new(0o600), 1);
        self.file.stat().unwrap_or_else(|_| otherwise())
    }

    fn has_attributes(&self) -> bool {
        false
    }

    /// # Errors
    /// `EOPNOTSUPP`.
    fn set_attributes(&self, _changes: &Attributes) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// # Errors
    /// `EACCES` if the open file lacks the access mode that is asked for; `ENXIO` if it is a
    /// socket, or has no attributes.
    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        if self.file.stat().is_err() || self.kind() == FileKind::Socket {
            return Err(Errno::ENXIO);
        }
        let (has, wants) = (self.file.status(), opening.flags());
        let lacks = |can: fn(OpenFlags) -> bool| can(wants) && !can(has);
        if lacks(OpenFlags::can_read) || lacks(OpenFlags::can_write) {
            return Err(Errno::EACCES);
        }
        Ok(self.file.clone())
    }
}
