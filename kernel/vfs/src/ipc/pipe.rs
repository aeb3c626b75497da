//! Pipes: a buffer with a reading and a writing end.
//!
//! A pipe is a [`Fifo`] without a name: `/proc/self/fd` opens further ends of it.

use std::sync::Arc;

use crate::OpenFlags;
use crate::fs::Credentials;
use crate::ipc::anon_inode::AnonInode;
use crate::ipc::fifo::{Fifo, FifoEnd};

pub use crate::ipc::buffer::PIPE_CAPACITY as CAPACITY;

/// Largest capacity that a process may set without a capability: 1,048,576, the default
/// `fs.pipe-max-size` of Linux.
pub const MAX_CAPACITY: usize = 1 << 20;

/// Makes a pipe of [`CAPACITY`] bytes, and returns its reading and its writing end. Of `flags`,
/// only `O_NONBLOCK`, and `O_DIRECT` of the writing end, matter. In Linux: `pipe2`.
pub fn pipe(flags: OpenFlags) -> (FifoEnd, FifoEnd) {
    pipe_of(Credentials::ROOT, flags)
}

/// Makes a pipe like [`pipe`], which belongs to a user and a group.
pub(crate) fn pipe_of(maker: Credentials, flags: OpenFlags) -> (FifoEnd, FifoEnd) {
    let fifo = Arc::new(Fifo::with_both_ends());
    let inode = AnonInode::pipe(Arc::clone(&fifo), maker);
    let end = |status| FifoEnd::of_pipe(&fifo, inode.clone(), status);
    let [nonblocking, direct] = [OpenFlags::NONBLOCK, OpenFlags::DIRECT].map(|flag| flags & flag);
    (
        end(nonblocking | OpenFlags::RDONLY),
        end(nonblocking | direct | OpenFlags::WRONLY),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Errno, Object};

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
        let (_reader, writer) = pipe(OpenFlags::empty());
        writer.fifo().buffer().set_capacity(1).unwrap();
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
