//! Addresses of sockets.

use std::sync::Arc;

use fdtable_shm::OnceCell;

/// Address of a socket. In Linux: `sockaddr_un`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SocketAddress {
    /// None: the socket is not bound.
    Unnamed,
    /// Name in the abstract namespace of the kernel: any bytes, at most 107, without the leading
    /// zero byte of `sun_path`.
    Abstract(Vec<u8>),
    /// Path of 1 to 108 bytes, at which there is an inode.
    Path(Vec<u8>),
}

/// Address of a socket, set once, and shared with the peer.
pub(super) type Name = Arc<OnceCell<Arc<SocketAddress>>>;
