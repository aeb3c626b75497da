//! `fork(2)`, `clone(2)`, `unshare(2)`, and the effect of `execve(2)` on a table.
//!
//! There are two ways of sharing. A *clone* of a [`Process`] is another handle of the same process,
//! as a thread has it. [`Process::clone_with`] makes another process, which may share the table of
//! descriptors as well.

use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::{Error, Files};
use fdtable_shm::MutexGuard;
use fdtable_slab::SlabArc;

use super::Process;
use super::descriptors::CloseRangeFlags;
use super::limits::{FileSize, NR_OPEN_MAX};
use crate::fs::locks::TableLocks;
use crate::{Errno, RcuObject};

bitflags::bitflags! {
    /// Resources that a new process shares with the old one, with the values of Linux.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct CloneFlags: u32 {
        /// The working directory and the umask. In Linux: `CLONE_FS`.
        const FS = 0x200;
        /// The table of descriptors, with its soft limit and its record locks.
        /// In Linux: `CLONE_FILES`.
        const FILES = 0x400;
    }
}

/// State that the clones of a process share, apart from its files. In Linux: `signal_struct`.
#[derive(Debug)]
pub(super) struct ThreadGroup {
    pub(super) id: AtomicCell<i32>,
    /// One for each table. It counts this process as a user unless it has ended.
    pub(super) locks: Arc<TableLocks>,
    has_ended: AtomicCell<bool>,
    pub(super) file_size: FileSize,
    /// Hard limit of descriptors.
    pub(super) hard_descriptors: AtomicCell<u64>,
}

impl ThreadGroup {
    pub(super) fn new(id: i32) -> Self {
        ThreadGroup {
            id: AtomicCell::new(id),
            locks: Arc::new(TableLocks::new()),
            has_ended: AtomicCell::new(false),
            file_size: FileSize::default(),
            hard_descriptors: AtomicCell::new(NR_OPEN_MAX),
        }
    }

    /// Makes that of a process with the same limits, which `locks` counts.
    fn with(&self, id: i32, locks: Arc<TableLocks>) -> Self {
        ThreadGroup {
            id: AtomicCell::new(id),
            locks,
            has_ended: AtomicCell::new(false),
            file_size: self.file_size.clone(),
            hard_descriptors: AtomicCell::new(self.hard_descriptors.load()),
        }
    }

    fn end(&self) {
        if !self.has_ended.swap(true) {
            self.locks.users.fetch_sub(1);
        }
    }
}

impl Drop for ThreadGroup {
    fn drop(&mut self) {
        self.end();
    }
}

impl Process {
    /// Makes a child with the same open files in a table of its own. The positions of the files are
    /// shared, the limits copied, and record locks of the process not inherited. Allocates.
    ///
    /// # Errors
    /// `ENOMEM` from the table.
    pub fn fork(&self) -> Result<Process, Errno> {
        self.clone_with(CloneFlags::empty())
    }

    /// Makes a child that shares what `flags` say, and has copies of the rest. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if a flag is unknown; `ENOMEM` from the table.
    pub fn clone_with(&self, flags: CloneFlags) -> Result<Process, Errno> {
        check(flags)?;
        let (files, locks) = if flags.contains(CloneFlags::FILES) {
            (self.files.clone(), Arc::clone(&self.group.locks))
        } else {
            (fork(&self.files)?, Arc::new(TableLocks::new()))
        };
        let context = if flags.contains(CloneFlags::FS) {
            Arc::clone(&self.context)
        } else {
            Arc::new(self.context.copy()?)
        };
        if flags.contains(CloneFlags::FILES) {
            locks.users.fetch_add(1);
        }
        let id = self.kernel.next_process();
        Ok(Process {
            kernel: Arc::clone(&self.kernel),
            files,
            context,
            ids: Arc::new(self.ids.copy()),
            group: Arc::new(self.group.with(id, locks)),
        })
    }

    /// Makes what `flags` say the process's own, if it is shared with another process. Record locks
    /// stay with the shared table, and existing clones keep what is shared. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if a flag is unknown; `ENOMEM` from the table. On an error, nothing has changed.
    pub fn unshare(&mut self, flags: CloneFlags) -> Result<(), Errno> {
        check(flags)?;
        if flags.contains(CloneFlags::FILES) && self.shares_files() {
            self.files = copy(&self.files)?;
            let locks = Arc::new(TableLocks::new());
            self.group = Arc::new(self.group.with(self.id(), locks));
        }
        if flags.contains(CloneFlags::FS) && Arc::strong_count(&self.context) > 1 {
            self.context = Arc::new(self.context.copy()?);
        }
        Ok(())
    }

    /// Closes the descriptors with `CLOEXEC`: the effect of `exec` on a table. A table shared with
    /// another process stays as it is, and this process gets its own. Clones of this process, which
    /// stand for its threads, keep their table: an `exec` ends threads.
    ///
    /// # Errors
    /// `ENOMEM` from the table.
    pub fn exec(&mut self) -> Result<(), Errno> {
        self.unshare(CloneFlags::FILES)?;
        let locks = &self.group.locks;
        Ok(self
            .files
            .close_on_exec(|closed| locks.close_all(&closed))?)
    }

    /// Returns true if another process, which has not ended, shares the table of descriptors.
    /// Neither blocks nor allocates.
    #[must_use]
    pub fn shares_files(&self) -> bool {
        self.group.locks.users.load() > 1
    }

    /// Closes all descriptors at the end of the process, unless another one shares the table: the
    /// last one closes them. The process opens no more files then. It can be called again.
    pub fn end(&self) {
        self.group.end();
        if self.group.locks.users.load() == 0 {
            // Without a flag it cannot fail.
            let _ = self.close_range(0, u32::MAX, CloseRangeFlags::empty());
        }
    }

    /// Locks a mutex of the table of descriptors that no call here takes: for an embedder that
    /// searches the table for a file, and calls that duplicate descriptors meanwhile.
    pub fn lock_moves(&self) -> MutexGuard<'_, ()> {
        self.group.locks.moves.lock()
    }
}

/// Forks a table into a slab: allocating and freeing it is fast there.
fn fork(files: &Files<RcuObject>) -> Result<SlabArc<Files<RcuObject>>, Error> {
    SlabArc::try_new_with(Files::new(), |child| files.fork_into(child))
}

/// Copies a table, also the descriptors that no fork keeps.
fn copy(files: &Files<RcuObject>) -> Result<SlabArc<Files<RcuObject>>, Error> {
    SlabArc::try_new_with(Files::new(), |copy| {
        *copy = files.fork_keeping(|_, _, _| true)?;
        Ok(())
    })
}

fn check(flags: CloneFlags) -> Result<(), Errno> {
    CloneFlags::from_bits(flags.bits())
        .map(drop)
        .ok_or(Errno::EINVAL)
}
