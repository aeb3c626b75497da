//! Open directories.

use std::sync::{Arc, OnceLock};

use super::Directory;
use crate::stat::{DirEntry, Stat};
use crate::{Errno, Object, OpenFlags};

/// Open directory. It has no position: its names are read all at once.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    directory: Arc<Directory>,
    revoked: OnceLock<()>,
}

impl OpenDirectory {
    pub(crate) fn new(directory: Arc<Directory>) -> Self {
        OpenDirectory {
            directory,
            revoked: OnceLock::new(),
        }
    }

    fn check_not_revoked(&self) -> Result<(), Errno> {
        match self.revoked.get() {
            None => Ok(()),
            Some(()) => Err(Errno::EIO),
        }
    }
}

impl Object for OpenDirectory {
    fn status(&self) -> OpenFlags {
        OpenFlags::RDONLY
    }

    fn try_read(&self, _buf: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::EISDIR)
    }

    fn try_read_at(&self, _buf: &mut [u8], _offset: u64) -> Result<usize, Errno> {
        Err(Errno::EISDIR)
    }

    fn try_write_at(&self, _bytes: &[u8], _offset: u64) -> Result<usize, Errno> {
        Err(Errno::EBADF)
    }

    fn entries(&self) -> Result<Vec<DirEntry>, Errno> {
        self.check_not_revoked()?;
        Ok(self.directory.list())
    }

    fn stat(&self) -> Result<Stat, Errno> {
        self.check_not_revoked()?;
        Ok(self.directory.stat())
    }

    fn sync(&self) -> Result<(), Errno> {
        self.check_not_revoked()
    }

    fn revoke(&self) {
        // Twice is once.
        let _ = self.revoked.set(());
    }
}
