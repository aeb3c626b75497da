//! Inodes in memory without contents: symbolic links, FIFOs, names of sockets, lower devices.

use std::any::Any;
use std::sync::Arc;

use fdtable::FileRef;
use fdtable_shm::Mutex;

use super::meta::{Device, Meta, Node};
use crate::fs::{
    Attributes, Dentry, FileKind, Inode, LowerDevice, Opening, PathContext, Permissions, Stat,
    Target,
};
use crate::ipc::fifo::Fifo;
use crate::{Errno, RcuObject};

/// Inode that is neither a regular file nor a directory.
#[derive(Debug)]
pub(super) struct SpecialInode {
    meta: Meta,
    links: Mutex<u32>,
    /// Blocks that a lower file takes.
    blocks: u64,
    what: Special,
}

/// Kind of a special inode.
#[derive(Debug)]
pub(super) enum Special {
    Symlink(Arc<[u8]>),
    Fifo(Arc<Fifo>),
    /// With what a process has bound to it.
    Socket(Option<Arc<dyn Any + Send + Sync>>),
    /// Device of the embedder.
    Device {
        kind: FileKind,
        rdev: u64,
        device: Arc<dyn LowerDevice>,
    },
}

impl SpecialInode {
    /// Makes an inode with one name.
    pub(super) fn new(device: Device, permissions: Permissions, what: Special) -> Self {
        SpecialInode {
            meta: Meta::new(device, permissions),
            links: Mutex::new(1),
            blocks: 0,
            what,
        }
    }

    /// Makes the inode of a lower file with these attributes.
    pub(super) fn over(meta: Meta, stat: &Stat, what: Special) -> Self {
        SpecialInode {
            meta,
            links: Mutex::new(stat.links),
            blocks: stat.blocks,
            what,
        }
    }
}

impl Node for SpecialInode {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn add_link(&self) -> Result<(), Errno> {
        let mut links = self.links.lock();
        if *links == 0 {
            return Err(Errno::ENOENT);
        }
        *links = links.checked_add(1).ok_or(Errno::EMLINK)?;
        self.meta.was_changed();
        Ok(())
    }

    fn drop_link(&self) {
        *self.links.lock() -= 1;
        self.meta.was_changed();
    }
}

impl Inode for SpecialInode {
    fn kind(&self) -> FileKind {
        match self.what {
            Special::Symlink(_) => FileKind::Symlink,
            Special::Fifo(_) => FileKind::Fifo,
            Special::Socket(_) => FileKind::Socket,
            Special::Device { kind, .. } => kind,
        }
    }

    fn stat(&self) -> Stat {
        let (size, rdev) = match &self.what {
            Special::Symlink(target) => (target.len() as u64, 0),
            Special::Device { rdev, .. } => (0, *rdev),
            _ => (0, 0),
        };
        Stat {
            links: *self.links.lock(),
            size,
            blocks: self.blocks,
            rdev,
            ..self.meta.stat(self.kind())
        }
    }

    fn number(&self) -> u64 {
        self.meta.number
    }

    fn permissions(&self) -> Permissions {
        self.meta.permissions()
    }

    fn was_read(&self) {
        self.meta.was_read();
    }

    fn was_modified(&self) {
        self.meta.was_modified();
    }

    fn set_attributes(&self, changes: &Attributes) -> Result<(), Errno> {
        self.meta.set(changes);
        Ok(())
    }

    /// # Errors
    /// Errors of [`Fifo::open`], or of the embedder for a device; `ENXIO` if it is a socket.
    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        let path = opening.path(self.clone());
        let fifo = match &self.what {
            Special::Fifo(fifo) => fifo,
            Special::Device { device, .. } => return device.open(opening.flags(), path),
            Special::Symlink(_) | Special::Socket(_) => return Err(Errno::ENXIO),
        };
        fifo.open(opening.flags(), path, false, |end| opening.file(end))
    }

    fn link_target(&self, _context: &PathContext<'_>) -> Result<Target, Errno> {
        match &self.what {
            Special::Symlink(target) => Ok(Target::Path(Arc::clone(target))),
            _ => Err(Errno::EINVAL),
        }
    }

    fn bound(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        match &self.what {
            Special::Socket(bound) => bound.clone(),
            _ => None,
        }
    }

    fn dentry(&self) -> Option<Dentry> {
        self.meta.dentry()
    }
}
