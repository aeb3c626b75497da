//! Files that never had a name in a directory: `memfd_create(2)`.

use std::sync::Arc;

use fdtable::FileRef;

use super::MemFs;
use super::regular::{DEFAULT_LIMIT, RegularFile, RegularInode};
use crate::fs::mode::{Credentials, Mode, Permissions};
use crate::object::file;
use crate::{Errno, Object, OpenFlags};

impl MemFs {
    /// Makes an empty file and opens it for reading and writing. It has no name, and is shown as
    /// one that was removed from the root. Allocates.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn open_memfd(
        &self,
        name: &[u8],
        credentials: Credentials,
    ) -> Result<FileRef<dyn Object>, Errno> {
        let permissions = Permissions {
            mode: Mode::ALL,
            uid: credentials.uid,
            gid: credentials.gid,
        };
        let device = self.root.meta().device();
        let inode = Arc::new(RegularInode::new(device, permissions, DEFAULT_LIMIT));
        let shown = [b"memfd:", name].concat();
        inode
            .meta()
            .set_dentry(Arc::downgrade(&self.root), shown.into());
        let opened = RegularFile::open(Arc::clone(&inode), None, OpenFlags::RDWR)?;
        inode.drop_link();
        file(opened)
    }
}
