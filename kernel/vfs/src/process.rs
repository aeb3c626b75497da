//! Processes: the system calls over a table of descriptors and a file system.
//!
//! This file has [`Process`] itself. Each group of system calls has a file of its own:
//!
//! | file | system calls |
//! |---|---|
//! | `process/descriptors.rs` | on descriptors: `dup`, `close`, `fcntl` |
//! | `process/clone.rs`, `process/limits.rs` | `fork`, `clone`, `exec`; `getrlimit`, `setrlimit` |
//! | `process/paths.rs` | open files, and make, move and remove names |
//! | `process/attributes.rs` | `stat` and its kin, `chmod`, `chown`, `utimensat` |
//! | `process/directories.rs` | make, read and change directories |
//! | `process/mounts.rs` | `mount`, `umount`, `statfs` |
//! | `process/transfers.rs` | `read`, `write`, `lseek`, `ftruncate` |
//! | `process/vectored.rs`, `process/copies.rs` | `readv`, `writev`; `sendfile`, `copy_file_range` |
//! | `process/pipes.rs`, `process/sockets.rs` | pipes and sockets |
//! | `process/splices.rs` | `splice`, `tee`, `vmsplice` |
//! | `process/locks.rs` | `fcntl` locks, `flock` |
//! | `process/async_io.rs` | owner and signal of an open file |
//! | `process/events.rs` | `eventfd`, `epoll` |
//! | `process/polling.rs`, `process/select.rs` | `poll`, `select` |
//!
//! `process/context.rs` has the working directory, the umask and the user.
//!
//! # The order of making an object and its descriptor
//!
//! If another process can observe that an object is made or opened, the descriptor is reserved
//! first, then the object is made, then it is installed: a call that finds no free descriptor has
//! created nothing, and dropping the reservation leaves no trace. If no other process can observe
//! it, as with both ends of a pipe or an open of an existing file, the object comes first and gets
//! its descriptor in one step.

use std::sync::Arc;

use fdtable::{Fd, FdArg, FileRef, Files, Reservation};
use fdtable_slab::SlabArc;

use crate::object::file;
use crate::{Errno, Kernel, MemFs, Object, OpenFlags, RcuObject};

mod async_io;
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
mod splices;
mod transfers;
mod vectored;

pub use clone::CloneFlags;
pub use descriptors::{CloseRangeFlags, MemfdFlags};
pub use limits::{Limit, Resource};
pub use locks::FlockOperation;
pub use polling::PollFd;
pub use select::{FdSet, select_now, select_to_poll};
pub use splices::SpliceFlags;

use clone::ThreadGroup;
use context::{FsContext, Ids};

/// Which free descriptor a new file takes that is opened, accepted, or made for the caller alone.
/// `dup` and descriptors that messages bring take the lowest always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DescriptorChoice {
    /// The lowest, as POSIX requires.
    #[default]
    Lowest,
    /// Any, as long as 0, 1 and 2 are open, so that calls on different CPUs do not disturb each
    /// other.
    Any,
}

/// Process: a table of descriptors, and its context in a file system.
///
/// A clone shares everything, as a thread does; [`fork`](Self::fork) copies the table.
#[derive(Clone)]
pub struct Process {
    kernel: Arc<Kernel>,
    /// In a slab: a table embeds its first leaf, which makes it large.
    files: SlabArc<Files<RcuObject>>,
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
    /// Makes a process without open files, with 1,024 descriptors and an empty file system.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a process from a table and a file system: a [`MemFs`] of its own, or a shared [`Arc`]
    /// of one.
    pub fn with(files: Files<RcuObject>, fs: impl Into<Arc<MemFs>>) -> Self {
        let kernel = Arc::new(Kernel::new(fs));
        Process {
            group: Arc::new(ThreadGroup::new(kernel.next_process())),
            kernel,
            files: SlabArc::new(files),
            context: Arc::default(),
            ids: Arc::default(),
        }
    }

    /// Returns the process ID, at least 1. The first process of a kernel has 1; clones share the
    /// ID. In Linux: `getpid`.
    pub fn id(&self) -> i32 {
        self.group.id.load()
    }

    /// Sets the process ID, for an embedder whose processes have IDs already.
    ///
    /// Locks report it as their owner, and `/proc` names the process by it.
    pub fn set_id(&self, id: i32) {
        self.group.id.store(id);
    }

    /// Returns the table of descriptors, for operations without a system call here.
    ///
    /// Close descriptors with the system calls: a close in the table itself leaves the record locks
    /// of the process in place.
    pub fn files(&self) -> &SlabArc<Files<RcuObject>> {
        &self.files
    }

    /// Returns the kernel that the process runs on.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Returns the root file system.
    pub fn fs(&self) -> &Arc<MemFs> {
        self.kernel.fs()
    }

    /// Returns true if a new file may take any free descriptor: if [`DescriptorChoice::Any`] is
    /// set, and 0, 1 and 2, which have a meaning, are not to be opened again.
    pub fn takes_any_descriptor(&self) -> bool {
        let are_open = || (0..=2).all(|fd| self.files.fd_flags(fd).is_ok());
        self.kernel.descriptor_choice() == DescriptorChoice::Any && are_open()
    }

    /// Reserves the lowest free descriptor, or any if the process may, for a file that must not be
    /// made without one.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM` from the table.
    pub fn reserve(&self, flags: OpenFlags) -> Result<Reservation<'_, RcuObject>, Errno> {
        let flags = flags.descriptor();
        Ok(match self.takes_any_descriptor() {
            true => self.files.reserve_any(flags)?,
            false => self.files.reserve(flags)?,
        })
    }

    /// Returns an open file that was not opened with `O_PATH`.
    ///
    /// # Errors
    /// `EBADF` if the descriptor has none.
    fn get_opened(&self, fd: impl FdArg) -> Result<FileRef<RcuObject>, Errno> {
        let file = self.files.get(fd)?;
        match file.status().contains(OpenFlags::PATH) {
            true => Err(Errno::EBADF),
            false => Ok(file),
        }
    }

    /// Installs the file that `make` makes, which no other process can observe before. Reserves the
    /// lowest free descriptor first, unless the process may take any.
    ///
    /// # Errors
    /// Errors of `make`; `EMFILE`, `ENOMEM` from the table.
    pub fn install(
        &self,
        flags: OpenFlags,
        make: impl FnOnce() -> Result<FileRef<RcuObject>, Errno>,
    ) -> Result<Fd, Errno> {
        if self.takes_any_descriptor() {
            return Ok(self.files.open_any(make()?, flags.descriptor())?);
        }
        let reservation = self.files.reserve(flags.descriptor())?;
        Ok(reservation.install(make()?))
    }

    /// Opens two objects at the two lowest free descriptors, or at any if the process may, or
    /// neither.
    fn pair<A: Object, B: Object>(
        &self,
        flags: OpenFlags,
        make: impl FnOnce(OpenFlags) -> (A, B),
    ) -> Result<(Fd, Fd), Errno> {
        let flags = flags.only(OpenFlags::CLOEXEC | OpenFlags::NONBLOCK)?;
        let (one, other) = make(flags);
        let pair = (file(one)?, file(other)?);
        if self.takes_any_descriptor() {
            let one = self.files.open_any(pair.0, flags.descriptor())?;
            let other = self.files.open_any(pair.1, flags.descriptor());
            let other = other.inspect_err(|_| {
                // It was not returned yet, so nothing uses it.
                let _ = self.files.close(one);
            })?;
            return Ok((one, other));
        }
        Ok(self.files.open_pair(pair, flags.descriptor())?)
    }
}
