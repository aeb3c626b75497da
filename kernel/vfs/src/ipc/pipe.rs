//! Pipes: a buffer with a reading and a writing end.
//!
//! A pipe is a [`Fifo`] without a name: `/proc/self/fd` opens further ends of it.

use std::sync::Arc;

use crate::event::{Events, FileId, Pollee, Watcher};
use crate::fs::locks::LockSet;
use crate::fs::{Credentials, Inode, Stat};
use crate::ipc::anon_inode::AnonInode;
use crate::ipc::buffer::Buffer;
use crate::ipc::fifo::{Direction, Fifo};
use crate::{Errno, Object, OpenFlags, Status};

/// Capacity of a pipe in bytes: 65,536, as on Linux (`pipe(7)`).
pub const CAPACITY: usize = 65_536;

/// Largest capacity that a process may set without a capability: 1,048,576, the default
/// `fs.pipe-max-size` of Linux.
pub const MAX_CAPACITY: usize = 1 << 20;

/// Makes a pipe of [`CAPACITY`] bytes. Of `flags`, only `O_NONBLOCK` matters.
#[doc(alias = "pipe2")]
pub fn pipe(flags: OpenFlags) -> (PipeReader, PipeWriter) {
    with_capacity(CAPACITY, flags)
}

/// Makes a pipe like [`pipe`], which belongs to a user and a group.
pub(crate) fn pipe_of(maker: Credentials, flags: OpenFlags) -> (PipeReader, PipeWriter) {
    make(CAPACITY, maker, flags)
}

/// Makes a pipe of `capacity` bytes, and at least 4,096.
#[doc(alias = "F_SETPIPE_SZ")]
pub fn with_capacity(capacity: usize, flags: OpenFlags) -> (PipeReader, PipeWriter) {
    make(capacity, Credentials::ROOT, flags)
}

fn make(capacity: usize, maker: Credentials, flags: OpenFlags) -> (PipeReader, PipeWriter) {
    let fifo = Arc::new(Fifo::with_both_ends(capacity));
    let inode = AnonInode::pipe(Arc::clone(&fifo), maker);
    let nonblock = flags & OpenFlags::NONBLOCK;
    let reader = PipeReader {
        fifo: Arc::clone(&fifo),
        inode: Arc::clone(&inode),
        status: Status::new(nonblock | OpenFlags::RDONLY),
    };
    let writer = PipeWriter {
        fifo,
        inode,
        status: Status::new(nonblock | OpenFlags::WRONLY),
    };
    (reader, writer)
}

/// Reading end of a pipe.
#[derive(Debug)]
pub struct PipeReader {
    fifo: Arc<Fifo>,
    inode: Arc<AnonInode>,
    status: Status,
}

/// Writing end of a pipe.
#[derive(Debug)]
pub struct PipeWriter {
    fifo: Arc<Fifo>,
    inode: Arc<AnonInode>,
    status: Status,
}

impl PipeReader {
    pub(crate) fn buffer(&self) -> &Buffer {
        self.fifo.buffer()
    }
}

impl Object for PipeReader {
    fn status(&self) -> OpenFlags {
        self.status.get()
    }

    fn set_status(&self, flags: OpenFlags) -> Result<(), Errno> {
        self.status.set(flags);
        Ok(())
    }

    fn locks(&self) -> Option<&LockSet> {
        Some(self.fifo.locks())
    }

    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        Some(Arc::new(ReaderPollee(Arc::clone(&self.fifo))))
    }

    fn forget(&self) {
        self.buffer().forget_reader(FileId::of(self));
    }

    /// # Errors
    /// `EIO` if revoked.
    fn stat(&self) -> Result<Stat, Errno> {
        self.buffer().check_reader()?;
        Ok(self.inode.stat())
    }

    fn inode(&self) -> Option<Arc<dyn Inode>> {
        Some(Arc::clone(&self.inode) as _)
    }

    fn events(&self) -> Events {
        self.buffer().reader_events()
    }

    fn readable_bytes(&self) -> Result<usize, Errno> {
        Ok(self.buffer().readable_bytes())
    }

    fn try_read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.buffer().try_read(buf)
    }

    fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.buffer().read(buf)
    }

    fn release(&self) {
        self.fifo.remove(Direction::Read);
    }

    fn revoke(&self) {
        self.fifo.revoke(Direction::Read);
    }
}

impl PipeWriter {
    pub(crate) fn buffer(&self) -> &Buffer {
        self.fifo.buffer()
    }
}

impl Object for PipeWriter {
    fn status(&self) -> OpenFlags {
        self.status.get()
    }

    fn set_status(&self, flags: OpenFlags) -> Result<(), Errno> {
        self.status.set(flags);
        Ok(())
    }

    fn locks(&self) -> Option<&LockSet> {
        Some(self.fifo.locks())
    }

    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        Some(Arc::new(WriterPollee(Arc::clone(&self.fifo))))
    }

    fn forget(&self) {
        self.buffer().forget_writer(FileId::of(self));
    }

    /// # Errors
    /// `EIO` if revoked.
    fn stat(&self) -> Result<Stat, Errno> {
        self.buffer().check_writer()?;
        Ok(self.inode.stat())
    }

    fn inode(&self) -> Option<Arc<dyn Inode>> {
        Some(Arc::clone(&self.inode) as _)
    }

    fn events(&self) -> Events {
        self.buffer().writer_events()
    }

    fn readable_bytes(&self) -> Result<usize, Errno> {
        Ok(self.buffer().readable_bytes())
    }

    fn try_write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.buffer().try_write_by(&self.status, bytes)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.buffer().write(bytes)
    }

    fn release(&self) {
        self.fifo.remove(Direction::Write);
    }

    fn revoke(&self) {
        self.fifo.revoke(Direction::Write);
    }
}

/// Pollee of the reading end.
struct ReaderPollee(Arc<Fifo>);

impl Pollee for ReaderPollee {
    fn events(&self) -> Events {
        self.0.buffer().reader_events()
    }

    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        self.0.buffer().watch_reader(watcher, interest, file);
    }

    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        self.0.buffer().unwatch_reader(watcher);
    }

    fn forget(&self, file: FileId) {
        self.0.buffer().forget_reader(file);
    }

    fn is_revoked(&self) -> bool {
        self.0.buffer().reader_is_revoked()
    }
}

/// Pollee of the writing end.
struct WriterPollee(Arc<Fifo>);

impl Pollee for WriterPollee {
    fn events(&self) -> Events {
        self.0.buffer().writer_events()
    }

    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        self.0.buffer().watch_writer(watcher, interest, file);
    }

    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        self.0.buffer().unwatch_writer(watcher);
    }

    fn forget(&self, file: FileId) {
        self.0.buffer().forget_writer(file);
    }

    fn is_revoked(&self) -> bool {
        self.0.buffer().writer_is_revoked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_one_direction() {
        let (reader, writer) = pipe(OpenFlags::empty());
        assert_eq!(reader.write(b"x"), Err(Errno::EBADF));
        assert_eq!(reader.try_write(b"x"), Err(Errno::EBADF));
        assert_eq!(writer.read(&mut [0]), Err(Errno::EBADF));
        assert_eq!(writer.try_read(&mut [0]), Err(Errno::EBADF));
    }

    #[test]
    fn a_pipe_holds_its_capacity_and_no_more() {
        let (_reader, writer) = pipe(OpenFlags::NONBLOCK);
        assert_eq!(writer.try_write(&vec![0; 100_000]), Ok(65_536));
        assert_eq!(writer.try_write(b"x"), Err(Errno::EAGAIN));
    }

    #[test]
    fn a_capacity_below_pipe_buf_is_rounded_up() {
        let (_reader, writer) = with_capacity(1, OpenFlags::empty());
        assert_eq!(writer.try_write(&[0; CAPACITY]), Err(Errno::EAGAIN));
        writer.set_status(OpenFlags::NONBLOCK).unwrap();
        assert_eq!(writer.try_write(&[0; CAPACITY]), Ok(4096));
    }

    #[test]
    fn a_released_end_returns_ebadf() {
        let (reader, writer) = pipe(OpenFlags::empty());
        writer.write(b"lost").unwrap();
        reader.release();
        assert_eq!(reader.try_read(&mut [0; 4]), Err(Errno::EBADF));
        assert_eq!(writer.try_write(b"x"), Err(Errno::EPIPE));
        writer.release();
        assert_eq!(writer.try_write(b"x"), Err(Errno::EBADF));
    }

    #[test]
    fn a_revoked_end_returns_eio_and_the_other_sees_the_end() {
        let (reader, writer) = pipe(OpenFlags::empty());
        writer.write(b"kept").unwrap();
        writer.revoke();
        writer.release();
        assert_eq!(writer.try_write(b"x"), Err(Errno::EIO));
        assert_eq!(reader.try_read(&mut [0; 8]), Ok(4));
        assert_eq!(reader.try_read(&mut [0; 8]), Ok(0));
        reader.revoke();
        assert_eq!(reader.try_read(&mut [0; 8]), Err(Errno::EIO));
        reader.release();
        assert_eq!(reader.try_read(&mut [0; 8]), Err(Errno::EIO));
    }
}
