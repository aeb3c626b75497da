//! The file system as it is mounted: its open files, and what it lets them do.

use fdtable::SuperBlock;

use super::MemFs;
use crate::fs::path_ops::At;
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
    /// Those of path lookup; `EOPNOTSUPP` if nobody keeps account of open files; `ENOMEM`.
    pub fn revoke(&self, path: impl AsRef<[u8]>) -> Result<usize, Errno> {
        self.path_context().revoke(At::Cwd, path.as_ref())
    }
}
