//! The profiled tables: like `chat/descriptors.rs`, but no lookup is inlined.

use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::RawFd;

use fdtable::{FdFlags, FileRef, Files};
use fdtable_vfs::socket::Socket;
use fdtable_vfs::{Errno, Object, RcuObject, file};

use super::lookup::{enter, find, get, keep, leave, names, put};
use crate::chat::descriptors::Descriptors;
use crate::table::{NewFile, Table};

/// Our table, whose calls borrow, and take a reference only to wait, like the vfs's process.
pub(super) struct Borrowing<Tb>(Tb);

impl Borrowing<Files<RcuObject>> {
    /// Tries a transfer inside a section; returns the file if it has to wait.
    fn borrowed(
        &self,
        fd: RawFd,
        transfer: impl FnOnce(&dyn Object) -> Result<usize, Errno>,
    ) -> Result<ControlFlow<usize, FileRef<RcuObject>>, Errno> {
        let section = enter();
        let object = find(&self.0, fd, &section)?;
        match transfer(&*object) {
            Err(Errno::EAGAIN) if !object.is_nonblocking() => {
                let file = keep(object).ok_or(Errno::EBADF)?;
                leave(section);
                match names(&self.0, fd, &file) {
                    true => Ok(Continue(file)),
                    false => Err(Errno::EBADF),
                }
            }
            outcome => {
                leave(section);
                outcome.map(Break)
            }
        }
    }
}

impl Descriptors for Borrowing<Files<RcuObject>> {
    const NAME: &'static str = <Files<RcuObject> as Table<dyn Object>>::NAME;

    fn with_limit(limit: u32) -> Self {
        Borrowing(Files::with_limit(limit))
    }

    fn open(&self, socket: Socket) -> Result<RawFd, Errno> {
        Ok(self.0.open(file(socket)?, FdFlags::empty())?.raw())
    }

    fn read(&self, fd: RawFd, buf: &mut [u8]) -> Result<usize, Errno> {
        match self.borrowed(fd, |object| object.try_read(buf))? {
            Break(count) => Ok(count),
            Continue(file) => {
                let outcome = file.read(buf);
                put(file);
                outcome
            }
        }
    }

    fn write(&self, fd: RawFd, bytes: &[u8]) -> Result<usize, Errno> {
        match self.borrowed(fd, |object| object.try_write(bytes))? {
            Break(count) => Ok(count),
            Continue(file) => {
                let outcome = file.write(bytes);
                put(file);
                outcome
            }
        }
    }

    fn shutdown(&self, fd: RawFd) -> Result<(), Errno> {
        self.0.get(fd)?.release();
        Ok(())
    }
}

/// A table whose calls take a reference.
pub(super) struct Owning<Tb>(Tb);

impl<Tb: NewFile<dyn Object, Socket>> Descriptors for Owning<Tb> {
    const NAME: &'static str = Tb::NAME;

    fn with_limit(limit: u32) -> Self {
        Owning(Tb::with_limit(limit))
    }

    fn open(&self, socket: Socket) -> Result<RawFd, Errno> {
        Ok(self.0.open(Tb::new_file(socket))?)
    }

    fn read(&self, fd: RawFd, buf: &mut [u8]) -> Result<usize, Errno> {
        let file = get(&self.0, fd)?;
        let outcome = file.read(buf);
        put(file);
        outcome
    }

    fn write(&self, fd: RawFd, bytes: &[u8]) -> Result<usize, Errno> {
        let file = get(&self.0, fd)?;
        let outcome = file.write(bytes);
        put(file);
        outcome
    }

    fn shutdown(&self, fd: RawFd) -> Result<(), Errno> {
        self.0.get(fd)?.release();
        Ok(())
    }
}
