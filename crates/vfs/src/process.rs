//! A process: the system calls over a table of descriptors and a file system.
//!
//! Here is what a process is, and the system calls that make descriptors of nothing.
//! - `process/descriptors.rs` has those that concern the numbers;
//! - `process/clone.rs` those that make processes, and `process/limits.rs` what limits them;
//! - `process/paths.rs` those that open files and make, move and remove their names;
//! - `process/attributes.rs` those that look at files and set what is known of them;
//! - `process/directories.rs` those that read and change directories;
//! - `process/mounts.rs` those that concern whole file systems;
//! - `process/transfers.rs` those that move bytes, `process/vectored.rs` between several buffers,
//!   `process/copies.rs` from file to file;
//! - `process/locks.rs` those that lock them;
//! - `process/events.rs`, `process/polling.rs` and `process/select.rs` those that wait for many.
//!
//! Where paths begin, `process/context.rs` knows.
//!
//! # How descriptors are made
//!
//! Where others notice that an object is made or opened, the number is reserved first, then the
//! object is made, then it is installed: a call that runs out of numbers has created nothing, and the
//! reservation that it drops leaves no trace. Where nobody does, as with both ends of a pipe, or a
//! file that is there, the object comes first, and gets its number in one step.

use std::sync::Arc;

use fdtable::slab::SlabArc;
use fdtable::{Fd, Files};

use crate::object::file;
use crate::{Errno, Kernel, MemFs, Object, OpenFlags};

mod attributes;
mod clone;
mod context;
mod copies;
mod descriptors;
mod directories;
mod events;
mod limits;
mod locks;
mod mounts;
mod paths;
mod pipes;
mod polling;
mod select;
mod sockets;
mod transfers;
mod vectored;

pub use clone::CloneFlags;
pub use descriptors::MemfdFlags;
pub use limits::{Limit, Resource};
pub use locks::FlockOperation;
pub use polling::PollFd;
pub use select::{FdSet, select_now};

use clone::ThreadGroup;
use context::{FsContext, Ids};

/// Process: a table of descriptors, the file system that it sees, and where in it it is.
///
/// A clone shares all of them, as a thread does; [`fork`](Self::fork) gives a table of its own.
#[derive(Clone)]
pub struct Process {
    kernel: Arc<Kernel>,
    /// In a slab: the first numbers are part of a table, which makes it wide.
    files: SlabArc<Files<dyn Object>>,
    group: Arc<ThreadGroup>,
    context: Arc<FsContext>,
    ids: Arc<Ids>,
}

impl Default for Process {
    fn default() -> Self {
        Self::with(Files::new(), MemFs::default())
    }
}

impl Process {
    /// Makes a process without open files, with 1,024 descriptors at most and an empty file system.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a process of a table and a file system: one of its own, or an [`Arc`] of one that
    /// others see too.
    pub fn with(files: Files<dyn Object>, fs: impl Into<Arc<MemFs>>) -> Self {
        let kernel = Arc::new(Kernel::new(fs));
        Process {
            group: Arc::new(ThreadGroup::new(kernel.next_process())),
            kernel,
            files: SlabArc::new(files),
            context: Arc::default(),
            ids: Arc::default(),
        }
    }

    /// Returns the number of the process, at least 1: the first of a kernel has 1. Its clones have
    /// the same.
    #[doc(alias = "getpid")]
    pub fn id(&self) -> i32 {
        self.group.id.load()
    }

    /// Gives the process another number, for an embedder whose processes have some already. It is
    /// told to those who ask for locks, and names the process in `/proc`.
    pub fn set_id(&self, id: i32) {
        self.group.id.store(id);
    }

    /// Returns the table of descriptors, for what has no system call here. What closes descriptors
    /// has one: a close that goes around it leaves the record locks of the process where they are.
    pub fn files(&self) -> &SlabArc<Files<dyn Object>> {
        &self.files
    }

    /// Returns the kernel that the process runs on.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Returns the file system.
    pub fn fs(&self) -> &Arc<MemFs> {
        self.kernel.fs()
    }

    /// Makes two objects at the two lowest free numbers, or nothing.
    fn pair<A: Object, B: Object>(
        &self,
        flags: OpenFlags,
        make: impl FnOnce(OpenFlags) -> (A, B),
    ) -> Result<(Fd, Fd), Errno> {
        let flags = flags.only(OpenFlags::CLOEXEC | OpenFlags::NONBLOCK)?;
        let (one, other) = make(flags);
        let pair = (file(one)?, file(other)?);
        Ok(self.files.open_pair(pair, flags.descriptor())?)
    }
}
