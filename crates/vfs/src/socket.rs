//! Stream sockets: two buffers, crossed.

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::{Errno, Object, OpenFlags};

/// Capacity of each direction in bytes: 212,992, the usual `net.core.wmem_default` of Linux
/// (`socket(7)`), which there counts the kernel's own overhead too.
pub const CAPACITY: usize = 212_992;

/// Makes a connected pair with [`CAPACITY`] each way. Of `flags`, only `O_NONBLOCK` matters.
#[doc(alias = "socketpair")]
pub fn pair(flags: OpenFlags) -> (StreamSocket, StreamSocket) {
    with_capacity(CAPACITY, flags)
}

/// Makes a connected pair with `capacity` bytes each way, and at least 4,096.
#[doc(alias = "SO_SNDBUF")]
pub fn with_capacity(capacity: usize, flags: OpenFlags) -> (StreamSocket, StreamSocket) {
    let status = flags & OpenFlags::NONBLOCK | OpenFlags::RDWR;
    let (one, other) = (
        Arc::new(Buffer::new(capacity)),
        Arc::new(Buffer::new(capacity)),
    );
    let near = StreamSocket {
        incoming: Arc::clone(&one),
        outgoing: Arc::clone(&other),
        status,
    };
    let far = StreamSocket {
        incoming: other,
        outgoing: one,
        status,
    };
    (near, far)
}

/// One end of a connected pair of stream sockets.
#[derive(Debug)]
pub struct StreamSocket {
    incoming: Arc<Buffer>,
    outgoing: Arc<Buffer>,
    status: OpenFlags,
}

impl Object for StreamSocket {
    fn status(&self) -> OpenFlags {
        self.status
    }

    fn try_read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.incoming.try_read(buf)
    }

    fn try_write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.outgoing.try_write(bytes)
    }

    fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.incoming.read(buf)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.outgoing.write(bytes)
    }

    fn release(&self) {
        self.incoming.close_reader();
        self.outgoing.close_writer();
    }

    fn revoke(&self) {
        self.incoming.revoke_reader();
        self.outgoing.revoke_writer();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_end_writes_the_other_reads() {
        let (near, far) = pair(OpenFlags::empty());
        near.write(b"ping").unwrap();
        far.write(b"pong!").unwrap();
        let mut buf = [0; 8];
        assert_eq!(far.read(&mut buf), Ok(4));
        assert_eq!(&buf[..4], b"ping");
        assert_eq!(near.read(&mut buf), Ok(5));
        assert_eq!(&buf[..5], b"pong!");
    }

    #[test]
    fn each_direction_holds_its_capacity() {
        let (near, far) = pair(OpenFlags::empty());
        let long = vec![0; 300_000];
        assert_eq!(near.try_write(&long), Ok(212_992));
        assert_eq!(near.try_write(b"x"), Err(Errno::EAGAIN));
        assert_eq!(far.try_write(&long), Ok(212_992));
    }

    #[test]
    fn releasing_one_end_ends_both_directions() {
        let (near, far) = pair(OpenFlags::empty());
        near.write(b"bye").unwrap();
        near.release();
        let mut buf = [0; 8];
        assert_eq!(far.read(&mut buf), Ok(3));
        assert_eq!(far.read(&mut buf), Ok(0));
        assert_eq!(far.write(b"x"), Err(Errno::EPIPE));
        assert_eq!(near.try_read(&mut buf), Err(Errno::EBADF));
        assert_eq!(near.try_write(b"x"), Err(Errno::EBADF));
    }

    #[test]
    fn revoking_one_end_ends_both_directions_with_eio() {
        let (near, far) = pair(OpenFlags::empty());
        near.revoke();
        assert_eq!(near.try_read(&mut [0; 8]), Err(Errno::EIO));
        assert_eq!(near.try_write(b"x"), Err(Errno::EIO));
        assert_eq!(far.read(&mut [0; 8]), Ok(0));
        assert_eq!(far.write(b"x"), Err(Errno::EPIPE));
    }

    #[test]
    fn a_socket_has_no_position() {
        let (near, _far) = pair(OpenFlags::empty());
        assert_eq!(near.seek(std::io::SeekFrom::Start(0)), Err(Errno::ESPIPE));
    }
}
