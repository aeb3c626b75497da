//! Pipes: one buffer with a reading and a writing end.

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::{Errno, Object, OpenFlags};

/// Capacity of a pipe in bytes: 65,536, as Linux (`pipe(7)`).
pub const CAPACITY: usize = 65_536;

/// Makes a pipe of [`CAPACITY`]. Of `flags`, only `O_NONBLOCK` matters to the ends.
#[doc(alias = "pipe2")]
pub fn pipe(flags: OpenFlags) -> (PipeReader, PipeWriter) {
    with_capacity(CAPACITY, flags)
}

/// Makes a pipe of `capacity` bytes, and at least 4,096.
#[doc(alias = "F_SETPIPE_SZ")]
pub fn with_capacity(capacity: usize, flags: OpenFlags) -> (PipeReader, PipeWriter) {
    let buffer = Arc::new(Buffer::new(capacity));
    let nonblock = flags & OpenFlags::NONBLOCK;
    let reader = PipeReader {
        buffer: Arc::clone(&buffer),
        status: nonblock | OpenFlags::RDONLY,
    };
    let writer = PipeWriter {
        buffer,
        status: nonblock | OpenFlags::WRONLY,
    };
    (reader, writer)
}

/// Reading end of a pipe.
#[derive(Debug)]
pub struct PipeReader {
    buffer: Arc<Buffer>,
    status: OpenFlags,
}

/// Writing end of a pipe.
#[derive(Debug)]
pub struct PipeWriter {
    buffer: Arc<Buffer>,
    status: OpenFlags,
}

impl Object for PipeReader {
    fn status(&self) -> OpenFlags {
        self.status
    }

    fn try_read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.buffer.try_read(buf)
    }

    fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.buffer.read(buf)
    }

    fn release(&self) {
        self.buffer.close_reader();
    }

    fn revoke(&self) {
        self.buffer.revoke_reader();
    }
}

impl Object for PipeWriter {
    fn status(&self) -> OpenFlags {
        self.status
    }

    fn try_write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.buffer.try_write(bytes)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.buffer.write(bytes)
    }

    fn release(&self) {
        self.buffer.close_writer();
    }

    fn revoke(&self) {
        self.buffer.revoke_writer();
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
        let (_reader, writer) = pipe(OpenFlags::empty());
        assert_eq!(writer.try_write(&vec![0; 100_000]), Ok(65_536));
        assert_eq!(writer.try_write(b"x"), Err(Errno::EAGAIN));
    }

    #[test]
    fn a_capacity_below_pipe_buf_is_rounded_up() {
        let (_reader, writer) = with_capacity(1, OpenFlags::empty());
        assert_eq!(writer.try_write(&[0; CAPACITY]), Ok(4096));
    }

    #[test]
    fn an_end_that_was_released_answers_ebadf() {
        let (reader, writer) = pipe(OpenFlags::empty());
        writer.write(b"lost").unwrap();
        reader.release();
        assert_eq!(reader.try_read(&mut [0; 4]), Err(Errno::EBADF));
        assert_eq!(writer.try_write(b"x"), Err(Errno::EPIPE));
        writer.release();
        assert_eq!(writer.try_write(b"x"), Err(Errno::EBADF));
    }

    #[test]
    fn an_end_that_was_revoked_answers_eio_and_the_other_meets_the_end() {
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
