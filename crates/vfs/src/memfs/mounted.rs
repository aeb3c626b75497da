//! The file system as it is mounted: its open files, and what it lets them do.

use fdtable::{Access, FileRef, SuperBlock, WantWrite};

use super::MemFs;
use crate::object::{as_dyn, end, file};
use crate::path::Path;
use crate::{Errno, Object};

impl MemFs {
    /// Returns the open files of the file system, for a look at them, a remount or an unmount:
    /// nothing if nobody keeps account of them.
    pub fn superblock(&self) -> Option<&SuperBlock<dyn Object>> {
        self.superblock.as_ref()
    }

    /// Takes what `path` names from all who have it open: their descriptors answer `EIO` from now
    /// on, and who sleeps in it is woken. The name stays, and can be opened again. Returns how many
    /// open files there were. Allocates.
    ///
    /// # Errors
    /// Those of every path; `EOPNOTSUPP` if nobody keeps account of open files; `ENOMEM`.
    pub fn revoke(&self, path: &str) -> Result<usize, Errno> {
        let inode = self.find(&Path::parse(path)?)?.stat().inode;
        let superblock = self.superblock().ok_or(Errno::EOPNOTSUPP)?;
        let is_it = |object: &dyn Object| object.stat().is_ok_and(|stat| stat.inode == inode);
        Ok(superblock.revoke_where(is_it)?)
    }

    /// Makes the open file of an object of this file system: every one is made here.
    ///
    /// # Errors
    /// `EROFS` if the object may be written and the file system not; `ENODEV` after an unmount;
    /// `ENOMEM`.
    pub(super) fn opened<O: Object>(&self, object: O) -> Result<FileRef<dyn Object>, Errno> {
        let Some(superblock) = &self.superblock else {
            return file(object);
        };
        let access = if object.status().can_write() {
            Access::Write
        } else {
            Access::Read
        };
        Ok(superblock.coerced(object, access, as_dyn, end)?)
    }

    /// Asks to change the file system, for as long as the answer is kept.
    ///
    /// # Errors
    /// `EROFS` if it is mounted read-only; `ENODEV` after an unmount.
    pub(super) fn want_write(&self) -> Result<Option<WantWrite<'_, dyn Object>>, Errno> {
        Ok(self
            .superblock
            .as_ref()
            .map(SuperBlock::want_write)
            .transpose()?)
    }
}
