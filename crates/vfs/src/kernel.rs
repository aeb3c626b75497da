//! What all processes share.

use std::sync::{Arc, OnceLock};

use crossbeam_utils::atomic::AtomicCell;

use crate::MemFs;
use crate::fs::{DEFAULT_FILE_LIMIT, Mounts};
use crate::ipc::socket::Namespace;

/// Kernel: the file systems that all its processes see, and the names of their sockets.
#[derive(Debug, Default)]
pub struct Kernel {
    fs: Arc<MemFs>,
    /// Processes that were made here.
    processes: AtomicCell<i32>,
    mounts: Mounts,
    /// Where files are that have no name. Made with the first.
    unnamed: OnceLock<MemFs>,
    sockets: Arc<Namespace>,
}

impl Kernel {
    /// Makes a kernel with a root file system: one of its own, or an [`Arc`] of one that others see too.
    pub fn new(fs: impl Into<Arc<MemFs>>) -> Self {
        Kernel {
            fs: fs.into(),
            processes: AtomicCell::new(0),
            mounts: Mounts::default(),
            unnamed: OnceLock::new(),
            sockets: Arc::default(),
        }
    }

    /// Returns the root file system.
    pub fn fs(&self) -> &Arc<MemFs> {
        &self.fs
    }

    /// Returns the name space of sockets.
    pub fn sockets(&self) -> &Arc<Namespace> {
        &self.sockets
    }

    /// Returns a number for a new process: 1 for the first, and after 2^31 of them 1 again.
    pub(crate) fn next_process(&self) -> i32 {
        let before = self.processes.fetch_add(1);
        (before & i32::MAX).checked_add(1).unwrap_or(1)
    }

    /// Returns the file system of files that have no name. It is mounted nowhere.
    pub(crate) fn unnamed(&self) -> &MemFs {
        let make = || MemFs::with_superblock(None, DEFAULT_FILE_LIMIT);
        self.unnamed.get_or_init(make)
    }

    /// Returns what is mounted, and where.
    pub(crate) fn mounts(&self) -> &Mounts {
        &self.mounts
    }
}
