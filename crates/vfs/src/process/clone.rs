//! Making processes: `fork(2)`, `clone(2)`, `unshare(2)` and what `execve(2)` does to a table.
//!
//! There are two ways of sharing. A *clone* of a [`Process`] is another handle of the same process,
//! as a thread has it. [`Process::clone_with`] makes another process, which may share the table of
//! descriptors all the same.

use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;

use super::Process;
use super::limits::FileSize;
use crate::Errno;
use crate::fs::locks::TableLocks;

bitflags::bitflags! {
    /// Set of what a new process shares with the old one, with the values of Linux.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct CloneFlags: u32 {
        /// The working directory and the umask.
        #[doc(alias = "CLONE_FS")]
        const FS = 0x200;
        /// The table of descriptors, with its limit and its record locks.
        #[doc(alias = "CLONE_FILES")]
        const FILES = 0x400;
    }
}

/// What the clones of a process share beside its files.
#[derive(Debug)]
#[doc(alias = "signal_struct")]
pub(super) struct ThreadGroup {
    pub(super) id: AtomicCell<i32>,
    /// One for each table: how many refer to it is how many processes share the table.
    pub(super) locks: Arc<TableLocks>,
    pub(super) file_size: FileSize,
}

impl ThreadGroup {
    pub(super) fn new(id: i32) -> Self {
        ThreadGroup {
            id: AtomicCell::new(id),
            locks: Arc::new(TableLocks::new()),
            file_size: FileSize::default(),
        }
    }
}

impl Process {
    /// Makes a child with the same open files, positions included, in a table of its own, and with
    /// a copy of the limits. Record locks of the process are not the child's. Allocates.
    ///
    /// # Errors
    /// `ENOMEM` from the table.
    pub fn fork(&self) -> Result<Process, Errno> {
        self.clone_with(CloneFlags::empty())
    }

    /// Makes a child that shares with this process what `flags` say, and has a copy of the rest.
    /// Allocates.
    ///
    /// # Errors
    /// `EINVAL` if a flag is unknown; `ENOMEM` from the table.
    pub fn clone_with(&self, flags: CloneFlags) -> Result<Process, Errno> {
        check(flags)?;
        let (files, locks) = if flags.contains(CloneFlags::FILES) {
            (self.files.clone(), Arc::clone(&self.group.locks))
        } else {
            (self.files.fork_in_slab()?, Arc::new(TableLocks::new()))
        };
        let context = if flags.contains(CloneFlags::FS) {
            Arc::clone(&self.context)
        } else {
            Arc::new(self.context.copy())
        };
        Ok(Process {
            kernel: Arc::clone(&self.kernel),
            files,
            context,
            ids: Arc::new(self.ids.copy()),
            group: Arc::new(ThreadGroup {
                id: AtomicCell::new(self.kernel.next_process()),
                locks,
                file_size: self.group.file_size.clone(),
            }),
        })
    }

    /// Gives the process what `flags` say as its own, if it shares that with another process. Its
    /// record locks stay with the shared table. Clones that were made before keep what is shared.
    /// Allocates.
    ///
    /// # Errors
    /// `EINVAL` if a flag is unknown; `ENOMEM` from the table. Nothing has changed then.
    pub fn unshare(&mut self, flags: CloneFlags) -> Result<(), Errno> {
        check(flags)?;
        if flags.contains(CloneFlags::FILES) && self.shares_files() {
            self.files = self.files.fork_in_slab()?;
            self.group = Arc::new(ThreadGroup {
                id: AtomicCell::new(self.id()),
                locks: Arc::new(TableLocks::new()),
                file_size: self.group.file_size.clone(),
            });
        }
        if flags.contains(CloneFlags::FS) && Arc::strong_count(&self.context) > 1 {
            self.context = Arc::new(self.context.copy());
        }
        Ok(())
    }

    /// Closes the descriptors that have `CLOEXEC`: what `exec` does to a table. A table that
    /// another process shares stays as it is, and this one gets its own. Clones of this process,
    /// which stand for its threads, keep the table that they have: an `exec` ends threads.
    ///
    /// # Errors
    /// `ENOMEM` from the table.
    pub fn exec(&mut self) -> Result<(), Errno> {
        self.unshare(CloneFlags::FILES)?;
        let locks = &self.group.locks;
        Ok(self.files.exec_flushing(|closed| locks.close_all(closed))?)
    }

    /// Returns true if another process shares the table of descriptors.
    pub(super) fn shares_files(&self) -> bool {
        Arc::strong_count(&self.group.locks) > 1
    }
}

fn check(flags: CloneFlags) -> Result<(), Errno> {
    CloneFlags::from_bits(flags.bits())
        .map(drop)
        .ok_or(Errno::EINVAL)
}
