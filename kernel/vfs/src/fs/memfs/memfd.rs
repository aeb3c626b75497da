//! Files that never had a name: `memfd_create(2)`.

use std::sync::Arc;

use fdtable::FileRef;

use super::MemFs;
use super::meta::Node;
use super::regular::{RegularFile, RegularInode};
use crate::fs::{Permissions, Seals};
use crate::object::file;
use crate::{Errno, OpenFlags, RcuObject};

impl MemFs {
    /// Makes an unnamed empty file and opens it for reading and writing. `/proc` shows it as a file
    /// that was removed from the root directory. Allocates.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn open_memfd(
        &self,
        name: &[u8],
        permissions: Permissions,
        seals: Seals,
    ) -> Result<FileRef<RcuObject>, Errno> {
        let device = self.root.meta().device;
        let inode = RegularInode::new(device, permissions, self.limits.clone());
        let inode = Arc::new(inode.with_seals(seals));
        let shown = [b"memfd:", name].concat();
        inode
            .meta()
            .set_dentry(Arc::downgrade(&self.root) as _, shown.into());
        let mut opened = RegularFile::open(
            Arc::clone(&inode),
            None,
            OpenFlags::RDWR | OpenFlags::LARGEFILE,
        )?;
        // As on Linux; an open by `/proc/self/fd` takes the flag.
        opened.takes_direct = false;
        inode.drop_link();
        file(opened)
    }
}
