//! Inodes of pipes and sockets, which are in no directory.

use std::any::Any;
use std::sync::Arc;

use fdtable::FileRef;
use fdtable_shm::{Mutex, OnceCell};

use crate::fs::{
    Attributes, Credentials, FileKind, Inode, Mode, Opening, Permissions, Stat, VfsPath,
    fresh_device, fresh_inode,
};
use crate::ipc::fifo::Fifo;
use crate::object::file;
use crate::{Errno, RcuObject};

/// Inode of a pipe or socket. It does not keep an end of it open.
#[derive(Debug)]
pub(crate) struct AnonInode {
    stat: Mutex<Stat>,
    kind: FileKind,
    /// FIFO that an open of a pipe opens; `None` for a socket.
    fifo: Option<Arc<Fifo>>,
}

impl AnonInode {
    /// Makes the inode of a pipe: mode 0600.
    pub(super) fn pipe(fifo: Arc<Fifo>, maker: Credentials) -> Arc<Self> {
        fdtable_sync::global! {
            pub(super) static PIPES: OnceCell<u64> = OnceCell::new();
        }
        let stat = Stat::new(FileKind::Fifo, Mode::new(0o600), fresh_inode());
        Self::new(stat, *PIPES.get_or_init(fresh_device), maker, Some(fifo))
    }

    /// Makes the inode of a socket: mode 0777.
    pub(super) fn socket(maker: Credentials) -> Arc<Self> {
        fdtable_sync::global! {
            pub(super) static SOCKETS: OnceCell<u64> = OnceCell::new();
        }
        let stat = Stat::new(FileKind::Socket, Mode::ALL, fresh_inode());
        Self::new(stat, *SOCKETS.get_or_init(fresh_device), maker, None)
    }

    fn new(stat: Stat, device: u64, maker: Credentials, fifo: Option<Arc<Fifo>>) -> Arc<Self> {
        let Credentials { uid, gid, .. } = maker;
        let (kind, mode) = (stat.kind, stat.mode);
        let stat = Stat { device, ..stat }.made_now(Permissions { mode, uid, gid });
        Arc::new(AnonInode {
            stat: Mutex::new(stat),
            kind,
            fifo,
        })
    }

    /// Returns true if the inode is one of this type.
    pub(crate) fn is(inode: &dyn Inode) -> bool {
        (inode as &dyn Any).is::<Self>()
    }
}

impl Inode for AnonInode {
    fn kind(&self) -> FileKind {
        self.kind
    }

    fn stat(&self) -> Stat {
        *self.stat.lock()
    }

    fn set_attributes(&self, changes: &Attributes) -> Result<(), Errno> {
        self.stat.lock().change(changes);
        Ok(())
    }

    /// Opens a further end of a pipe, as of a FIFO.
    ///
    /// # Errors
    /// Errors of [`Fifo::open`]; `ENXIO` if it is a socket.
    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        let fifo = self.fifo.clone().ok_or(Errno::ENXIO)?;
        let path = VfsPath {
            mount: None,
            inode: self,
        };
        fifo.open(opening.flags(), path, true, file)
    }
}
