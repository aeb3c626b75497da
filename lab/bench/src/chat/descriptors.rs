//! The system calls of a chat on each table.

use std::os::fd::RawFd;

use fdtable::{FdFlags, Files};
use fdtable_vfs::socket::Socket;
use fdtable_vfs::{Errno, MemFs, Object, Process, RcuObject, file};

use crate::table::{NewFile, Table};

/// The calls of a process that a chat needs.
pub(super) trait Descriptors: Send + Sync + Sized + 'static {
    /// Name of the table in reports.
    const NAME: &'static str;

    fn with_limit(limit: u32) -> Self;
    fn open(&self, socket: Socket) -> Result<RawFd, Errno>;
    fn read(&self, fd: RawFd, buf: &mut [u8]) -> Result<usize, Errno>;
    fn write(&self, fd: RawFd, bytes: &[u8]) -> Result<usize, Errno>;

    /// Shuts down both directions of a socket, and wakes threads that wait in it.
    fn shutdown(&self, fd: RawFd) -> Result<(), Errno>;
}

/// Our table, through the vfs.
impl Descriptors for Process {
    const NAME: &'static str = <Files<RcuObject> as Table<dyn Object>>::NAME;

    fn with_limit(limit: u32) -> Self {
        Process::with(Files::with_limit(limit), MemFs::default())
    }

    fn open(&self, socket: Socket) -> Result<RawFd, Errno> {
        Ok(self.files().open(file(socket)?, FdFlags::empty())?.raw())
    }

    #[inline]
    fn read(&self, fd: RawFd, buf: &mut [u8]) -> Result<usize, Errno> {
        Process::read(self, fd, buf)
    }

    #[inline]
    fn write(&self, fd: RawFd, bytes: &[u8]) -> Result<usize, Errno> {
        Process::write(self, fd, bytes)
    }

    fn shutdown(&self, fd: RawFd) -> Result<(), Errno> {
        self.files().get(fd)?.release();
        Ok(())
    }
}

/// A table whose calls take a reference, since no other lookup of it allows waiting.
pub(super) struct Owned<Tb>(Tb);

impl<Tb: NewFile<dyn Object, Socket>> Descriptors for Owned<Tb> {
    const NAME: &'static str = Tb::NAME;

    fn with_limit(limit: u32) -> Self {
        Owned(Tb::with_limit(limit))
    }

    fn open(&self, socket: Socket) -> Result<RawFd, Errno> {
        Ok(self.0.open(Tb::new_file(socket))?)
    }

    #[inline]
    fn read(&self, fd: RawFd, buf: &mut [u8]) -> Result<usize, Errno> {
        self.0.get(fd)?.read(buf)
    }

    #[inline]
    fn write(&self, fd: RawFd, bytes: &[u8]) -> Result<usize, Errno> {
        self.0.get(fd)?.write(bytes)
    }

    fn shutdown(&self, fd: RawFd) -> Result<(), Errno> {
        self.0.get(fd)?.release();
        Ok(())
    }
}
