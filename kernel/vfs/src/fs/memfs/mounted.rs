//! The superblock of the file system, and revocation.

use fdtable::SuperBlock;

use super::MemFs;
use crate::fs::path_ops::At;
use crate::{Errno, RcuObject};

impl MemFs {
    /// Returns the superblock, to list open files, remount or unmount; nothing if open files are
    /// not tracked.
    pub fn superblock(&self) -> Option<&SuperBlock<RcuObject>> {
        self.superblock.as_ref()
    }

    /// Revokes all open files of the inode at `path`.
    ///
    /// Their descriptors return `EIO` from now on, and threads that sleep in them wake. The name
    /// stays, and the file can be opened again. Returns how many open files there were. Allocates.
    ///
    /// # Errors
    /// Errors of path lookup; `EOPNOTSUPP` if open files are not tracked; `ENOMEM`.
    pub fn revoke(&self, path: impl AsRef<[u8]>) -> Result<usize, Errno> {
        self.path_context().revoke(At::Cwd, path.as_ref())
    }
}
