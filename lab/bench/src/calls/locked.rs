//! The calls on a table under a reader-writer lock.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;

use fdtable::{FdFlags, FileRef, Files};
use fdtable_vfs::event::Events;
use fdtable_vfs::fs::Credentials;
use fdtable_vfs::socket::SocketType;
use fdtable_vfs::{
    At, CloneFlags, Errno, FdSet, Mode, Object, OpenFlags, PollFd, Process, RcuObject, SeekTo,
    Transfer, file, pipe, select_now, socket,
};

use super::{Calls, with_devices};
use crate::baseline::{RwLocked, State};
use crate::table::{RcuFile, Table};

/// Type of reference that both sides hold.
type File = RcuFile<dyn Object>;

/// Process whose table is a baseline.
pub struct Locked<Tb> {
    table: Tb,
    /// Holds the file system. Its own table stays empty.
    names: Process,
}

/// Transfer at an offset that does not block.
fn at(offset: u64) -> Transfer<'static> {
    Transfer {
        at: Some(offset),
        ..Transfer::SECTION
    }
}

impl<S: State<Ref = File>> Locked<RwLocked<S>> {
    /// Tries a transfer under the read lock, and takes a reference to wait: as ours does in a
    /// section.
    #[inline]
    fn transfer(
        &self,
        fd: RawFd,
        attempt: impl FnOnce(&dyn Object) -> Result<usize, Errno>,
    ) -> Result<Attempt, Errno> {
        let held = self.table.hold();
        let object = held.file(fd)?;
        match attempt(object) {
            Ok(count) => Ok(Attempt::Done(count)),
            Err(Errno::EAGAIN) if !object.is_nonblocking() => {
                drop(held);
                Ok(Attempt::MustWait(self.table.get(fd)?))
            }
            Err(errno) => Err(errno),
        }
    }
}

/// Outcome of a transfer without a reference.
enum Attempt {
    Done(usize),
    MustWait(File),
}

impl<S: State<Ref = File>> Calls for Locked<RwLocked<S>> {
    const NAME: &'static str = S::NAME;

    fn with_limit(limit: u32) -> Result<Self, Errno> {
        Ok(Locked {
            table: Table::with_limit(limit),
            names: with_devices(Files::new())?,
        })
    }

    fn names(&self) -> &Process {
        &self.names
    }

    fn install(&self, file: FileRef<RcuObject>, flags: FdFlags) -> Result<RawFd, Errno> {
        let fd = self.table.open(RcuFile(file))?;
        if !flags.is_empty() {
            self.table.set_flags(fd, flags)?;
        }
        Ok(fd)
    }

    #[inline]
    fn open(&self, path: &str, flags: OpenFlags) -> Result<RawFd, Errno> {
        let opened = self
            .names
            .open_file(At::Cwd, path, flags, Mode::DEFAULT_FILE)?;
        Ok(self.table.open(RcuFile(opened))?)
    }

    #[inline]
    fn close(&self, fd: RawFd) -> Result<(), Errno> {
        FileRef::put_as_last(self.table.take(fd)?.0);
        Ok(())
    }

    #[inline]
    fn dup(&self, fd: RawFd) -> Result<RawFd, Errno> {
        Ok(self.table.dup(fd)?)
    }

    #[inline]
    fn get_flags(&self, fd: RawFd) -> Result<FdFlags, Errno> {
        Ok(self.table.flags(fd)?)
    }

    #[inline]
    fn set_flags(&self, fd: RawFd, flags: FdFlags) -> Result<(), Errno> {
        Ok(self.table.set_flags(fd, flags)?)
    }

    #[inline]
    fn status(&self, fd: RawFd) -> Result<OpenFlags, Errno> {
        Ok(self.table.with(fd, |object| object.status())?)
    }

    #[inline]
    fn seek(&self, fd: RawFd, offset: u64) -> Result<u64, Errno> {
        let to = SeekTo::Start(offset);
        match self.table.with(fd, |object| object.try_seek(to))? {
            Err(Errno::EAGAIN) => self.table.get(fd)?.seek(to),
            done => done,
        }
    }

    #[inline]
    fn read(&self, fd: RawFd, buf: &mut [u8]) -> Result<usize, Errno> {
        match self.transfer(fd, |object| object.try_read(buf))? {
            Attempt::Done(count) => Ok(count),
            Attempt::MustWait(file) => file.read(buf),
        }
    }

    #[inline]
    fn write(&self, fd: RawFd, bytes: &[u8]) -> Result<usize, Errno> {
        match self.transfer(fd, |object| object.try_write(bytes))? {
            Attempt::Done(count) => Ok(count),
            Attempt::MustWait(file) => file.write(bytes),
        }
    }

    #[inline]
    fn pread(&self, fd: RawFd, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        match self.transfer(fd, |object| {
            object.read_to(&mut [IoSliceMut::new(buf)], at(offset))
        })? {
            Attempt::Done(count) => Ok(count),
            Attempt::MustWait(file) => file.read_at(buf, offset),
        }
    }

    #[inline]
    fn pwrite(&self, fd: RawFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        match self.transfer(fd, |object| {
            object.write_from(&[IoSlice::new(bytes)], at(offset))
        })? {
            Attempt::Done(count) => Ok(count),
            Attempt::MustWait(file) => file.write_at(bytes, offset),
        }
    }

    #[inline]
    fn writev(&self, fd: RawFd, bufs: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let how = Transfer {
            is_vectored: true,
            ..Transfer::WAIT
        };
        self.table.get(fd)?.write_from(bufs, how)
    }

    #[inline]
    fn pipe(&self) -> Result<(RawFd, RawFd), Errno> {
        let (reader, writer) = pipe::pipe(OpenFlags::empty());
        Ok(self
            .table
            .open_pair(RcuFile(file(reader)?), RcuFile(file(writer)?))?)
    }

    #[inline]
    fn socketpair(&self) -> Result<(RawFd, RawFd), Errno> {
        let namespace = self.names.kernel().sockets();
        let Credentials { uid, gid, .. } = self.names.credentials();
        let whose = socket::Ucred {
            pid: self.names.id(),
            uid,
            gid,
        };
        let kind = SocketType::Stream;
        let (one, other) = socket::pair_in(namespace, kind, OpenFlags::empty(), whose);
        Ok(self
            .table
            .open_pair(RcuFile(file(one)?), RcuFile(file(other)?))?)
    }

    #[inline]
    fn poll(&self, fds: &mut [PollFd]) -> Result<usize, Errno> {
        let held = self.table.hold();
        let mut ready = 0;
        for one in fds {
            let events = match one.fd {
                ..0 => Events::empty(),
                fd => held.file(fd).map_or(Events::NVAL, Object::events),
            };
            ready += usize::from(one.note(events, Events::ALWAYS | Events::NVAL));
        }
        Ok(ready)
    }

    #[inline]
    fn select(&self, nfds: RawFd, read: &mut FdSet) -> Result<usize, Errno> {
        let held = self.table.hold();
        select_now(nfds, [Some(read), None, None], |fd| {
            Ok(held.file(fd)?.events())
        })
    }

    fn fork(&self) -> Result<Self, Errno> {
        Ok(Locked {
            table: self.table.fork()?,
            // The state of a process beside its table is copied as ours is.
            names: self.names.clone_with(CloneFlags::FILES)?,
        })
    }

    fn exec(&mut self) -> Result<(), Errno> {
        self.table.exec();
        Ok(())
    }
}
