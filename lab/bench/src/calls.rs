//! System calls of a small kernel on each table, for workloads that consist of calls.
//!
//! [`Calls`] has two kinds of implementations. [`Process`] is ours: the vfs as its users call it.
//! [`Locked`] has the same calls on a baseline. Below the table both run the same code: the
//! objects, the file system and the path walk are those of the vfs on both sides. The baselines
//! hold the same type of reference, so creating, counting and releasing an open file costs the
//! same. A difference between the two sides is therefore the cost of the table.
//!
//! Each side looks up in the way that is fastest for it. `fdtable` borrows in a read-side section
//! for operations that do not sleep. A baseline keeps its read lock meanwhile, which is cheaper for
//! it than a reference; it takes a reference only to wait, or where a call may sleep at any time.
//! The tables of that time took a reference for each call, so this favours the baselines.

use std::os::fd::RawFd;
use std::sync::Arc;

use fdtable::{FdFlags, FileRef, Files};
use fdtable_vfs::{DevFs, Errno, FdSet, MemFs, Object, OpenFlags, PollFd, Process, RcuObject};

use crate::table::Table;

mod locked;

pub use locked::Locked;

use std::io::IoSlice;
use std::time::Duration;

/// Process that makes system calls.
///
/// By default the calls are those of the vfs on our table. Others return the same results.
#[allow(clippy::missing_errors_doc)]
pub trait Calls: Send + Sync + Sized + 'static {
    /// Name of the table in reports.
    const NAME: &'static str;

    /// Creates a process without open files, for descriptors below `limit`. It has an empty file
    /// system with devices in `/dev`.
    fn with_limit(limit: u32) -> Result<Self, Errno>;

    /// Returns the vfs process with the same file system, for calls on names: `mkdir`, `unlink`,
    /// `mount`.
    fn names(&self) -> &Process;

    /// Installs an open file at the lowest free descriptor.
    fn install(&self, file: FileRef<RcuObject>, flags: FdFlags) -> Result<RawFd, Errno> {
        Ok(self.names().files().open(file, flags)?.raw())
    }

    /// Opens a path (`open`).
    #[inline]
    fn open(&self, path: &str, flags: OpenFlags) -> Result<RawFd, Errno> {
        Ok(Process::open(self.names(), path, flags)?.raw())
    }

    /// Closes a descriptor (`close`).
    #[inline]
    fn close(&self, fd: RawFd) -> Result<(), Errno> {
        Process::close(self.names(), fd)
    }

    /// Duplicates a descriptor (`dup`).
    #[inline]
    fn dup(&self, fd: RawFd) -> Result<RawFd, Errno> {
        Ok(Process::dup(self.names(), fd)?.raw())
    }

    /// Returns the flags of a descriptor (`F_GETFD`).
    #[inline]
    fn get_flags(&self, fd: RawFd) -> Result<FdFlags, Errno> {
        Process::get_flags(self.names(), fd)
    }

    /// Sets the flags of a descriptor (`F_SETFD`).
    #[inline]
    fn set_flags(&self, fd: RawFd, flags: FdFlags) -> Result<(), Errno> {
        Process::set_flags(self.names(), fd, flags)
    }

    /// Returns the status flags of an open file (`F_GETFL`): a lookup, and one read of the object.
    #[inline]
    fn status(&self, fd: RawFd) -> Result<OpenFlags, Errno> {
        Process::status(self.names(), fd)
    }

    /// Moves the file position to `offset` bytes from the start (`lseek`).
    #[inline]
    fn seek(&self, fd: RawFd, offset: u64) -> Result<u64, Errno> {
        Process::lseek(self.names(), fd, fdtable_vfs::SeekTo::Start(offset))
    }

    /// Reads at the file position (`read`).
    #[inline]
    fn read(&self, fd: RawFd, buf: &mut [u8]) -> Result<usize, Errno> {
        Process::read(self.names(), fd, buf)
    }

    /// Writes at the file position (`write`).
    #[inline]
    fn write(&self, fd: RawFd, bytes: &[u8]) -> Result<usize, Errno> {
        Process::write(self.names(), fd, bytes)
    }

    /// Reads at `offset` (`pread`).
    #[inline]
    fn pread(&self, fd: RawFd, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        Process::pread(self.names(), fd, buf, offset)
    }

    /// Writes at `offset` (`pwrite`).
    #[inline]
    fn pwrite(&self, fd: RawFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        Process::pwrite(self.names(), fd, bytes, offset)
    }

    /// Writes several buffers as one (`writev`).
    #[inline]
    fn writev(&self, fd: RawFd, bufs: &[IoSlice<'_>]) -> Result<usize, Errno> {
        Process::writev(self.names(), fd, bufs)
    }

    /// Creates a pipe, and returns its reading and its writing end (`pipe`).
    #[inline]
    fn pipe(&self) -> Result<(RawFd, RawFd), Errno> {
        let (reader, writer) = self.names().pipe2(OpenFlags::empty())?;
        Ok((reader.raw(), writer.raw()))
    }

    /// Creates a connected pair of stream sockets (`socketpair`).
    #[inline]
    fn socketpair(&self) -> Result<(RawFd, RawFd), Errno> {
        let (one, other) = Process::socketpair(self.names(), OpenFlags::empty())?;
        Ok((one.raw(), other.raw()))
    }

    /// Polls each descriptor without blocking, and returns how many are ready (`poll`).
    #[inline]
    fn poll(&self, fds: &mut [PollFd]) -> Result<usize, Errno> {
        Process::poll(self.names(), fds, Some(Duration::ZERO))
    }

    /// Polls each descriptor of a set without blocking. Leaves the readable ones in the set, and
    /// returns how many they are (`select`).
    #[inline]
    fn select(&self, nfds: RawFd, read: &mut FdSet) -> Result<usize, Errno> {
        Process::select(
            self.names(),
            nfds,
            Some(read),
            None,
            None,
            Some(Duration::ZERO),
        )
    }

    /// Creates a child with a table of its own (`fork`).
    fn fork(&self) -> Result<Self, Errno>;

    /// Closes the descriptors that close on exec (`execve`).
    fn exec(&mut self) -> Result<(), Errno>;
}

/// Creates a vfs process whose file system has devices in `/dev`.
fn with_devices(files: Files<RcuObject>) -> Result<Process, Errno> {
    let process = Process::with(files, MemFs::default());
    process.mkdir("/dev")?;
    process.mount("/dev", Arc::new(DevFs::default()))?;
    Ok(process)
}

/// Our table, through the vfs.
impl Calls for Process {
    const NAME: &'static str = <Files<RcuObject> as Table<dyn Object>>::NAME;

    fn with_limit(limit: u32) -> Result<Self, Errno> {
        with_devices(Files::with_limit(limit))
    }

    fn names(&self) -> &Process {
        self
    }

    fn fork(&self) -> Result<Self, Errno> {
        Process::fork(self)
    }

    fn exec(&mut self) -> Result<(), Errno> {
        Process::exec(self)
    }
}

#[cfg(test)]
mod tests;
