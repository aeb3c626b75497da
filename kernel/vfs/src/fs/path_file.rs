//! Open files that only refer to a path: `O_PATH`.

use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;

use super::{Inode, SeekTo, Stat, VfsPath};
use crate::event::Events;
use crate::ipc::AnonInode;
use crate::{Errno, Object, OpenFlags};

/// Open file that refers to a path, and supports no other operation.
#[derive(Debug)]
pub(super) struct PathFile {
    path: VfsPath,
    flags: OpenFlags,
    /// Keeps the contents of the inode: they can be opened again by `/proc/self/fd`.
    holds: AtomicCell<bool>,
}

impl PathFile {
    /// Refers to a path, for an open with these flags.
    ///
    /// # Errors
    /// `ENOENT` if the inode has lost its last name, and its contents.
    pub(super) fn new(path: VfsPath, flags: OpenFlags) -> Result<Self, Errno> {
        path.inode.hold()?;
        let holds = AtomicCell::new(true);
        Ok(PathFile { path, flags, holds })
    }

    fn end(&self) {
        if self.holds.swap(false) {
            self.path.inode.unhold();
        }
    }
}

/// For a file that was never opened.
impl Drop for PathFile {
    fn drop(&mut self) {
        self.end();
    }
}

impl Object for PathFile {
    fn status(&self) -> OpenFlags {
        self.flags - OpenFlags::CLOEXEC
    }

    fn set_status(&self, _flags: OpenFlags) -> Result<(), Errno> {
        Err(Errno::EBADF)
    }

    fn release(&self) {
        self.end();
    }

    /// As Linux: `poll` treats it as a descriptor that is not open.
    fn events(&self) -> Events {
        Events::NVAL
    }

    /// Nothing for a pipe or a socket, which `/proc` shows by its [label](Object::label).
    fn path(&self) -> Option<VfsPath> {
        (!AnonInode::is(&*self.path.inode)).then(|| self.path.clone())
    }

    fn inode(&self) -> Option<Arc<dyn Inode>> {
        AnonInode::is(&*self.path.inode).then(|| Arc::clone(&self.path.inode))
    }

    fn set_len(&self, _length: u64) -> Result<(), Errno> {
        Err(Errno::EBADF)
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(self.path.inode.stat())
    }

    fn sync(&self) -> Result<(), Errno> {
        Err(Errno::EBADF)
    }

    fn seek(&self, _to: SeekTo) -> Result<u64, Errno> {
        Err(Errno::EBADF)
    }
}
