//! State that all processes share.

use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable_shm::OnceCell;

use crate::event::SignalSender;
use crate::fs::{MemFsLimits, Mounts};
use crate::ipc::socket::Namespace;
use crate::{DescriptorChoice, MemFs, Process};

/// Kernel: the file systems that its processes see, and the names of their sockets.
#[derive(Debug, Default)]
pub struct Kernel {
    fs: Arc<MemFs>,
    /// Number of processes made in this kernel.
    processes: AtomicCell<i32>,
    mounts: Mounts,
    /// File system of files without a name (memfd). Made when the first is opened.
    unnamed: OnceCell<MemFs>,
    sockets: Arc<Namespace>,
    signals: OnceCell<Arc<dyn SignalSender>>,
    find_process: OnceCell<ProcessFinder>,
    descriptor_choice: AtomicCell<DescriptorChoice>,
}

/// Finds a process by its ID.
type ProcessFinder = fn(i32) -> Option<Process>;

impl Kernel {
    /// Makes a kernel with a root file system: a [`MemFs`] of its own, or a shared [`Arc`] of one.
    pub fn new(fs: impl Into<Arc<MemFs>>) -> Self {
        Kernel {
            fs: fs.into(),
            processes: AtomicCell::new(0),
            mounts: Mounts::default(),
            unnamed: OnceCell::new(),
            sockets: Arc::default(),
            signals: OnceCell::new(),
            find_process: OnceCell::new(),
            descriptor_choice: AtomicCell::default(),
        }
    }

    /// Returns the root file system.
    pub fn fs(&self) -> &Arc<MemFs> {
        &self.fs
    }

    /// Sets the sender of signals about input and output. The first one stays; until then, no
    /// signals are sent.
    pub fn set_signal_sender(&self, sender: Arc<dyn SignalSender>) {
        // The first one stays.
        let _ = self.signals.set(sender);
    }

    pub(crate) fn signal_sender(&self) -> Option<Arc<dyn SignalSender>> {
        self.signals.get().cloned()
    }

    /// Sets how `/proc` finds the processes that it shows to others. The first function stays;
    /// until then, each process sees only itself.
    pub fn set_process_finder(&self, find: fn(i32) -> Option<Process>) {
        // The first one stays.
        let _ = self.find_process.set(find);
    }

    pub(crate) fn find_process(&self, id: i32) -> Option<Process> {
        self.find_process.get().and_then(|find| find(id))
    }

    /// Sets which free descriptor new files take, in all processes.
    pub fn set_descriptor_choice(&self, choice: DescriptorChoice) {
        self.descriptor_choice.store(choice);
    }

    pub(crate) fn descriptor_choice(&self) -> DescriptorChoice {
        self.descriptor_choice.load()
    }

    /// Returns the namespace of sockets.
    pub fn sockets(&self) -> &Arc<Namespace> {
        &self.sockets
    }

    /// Returns the ID of a new process: 1 for the first; after 2^31 processes the IDs start again
    /// at 1.
    pub(crate) fn next_process(&self) -> i32 {
        let before = self.processes.fetch_add(1);
        (before & i32::MAX).checked_add(1).unwrap_or(1)
    }

    /// Returns the file system of files without a name. It is mounted nowhere.
    pub(crate) fn unnamed(&self) -> &MemFs {
        let make = || MemFs::with_superblock(None, MemFsLimits::NONE);
        self.unnamed.get_or_init(make)
    }

    /// Returns the mount table.
    pub(crate) fn mounts(&self) -> &Mounts {
        &self.mounts
    }
}
