//! Addresses of sockets.

use std::sync::Weak;

use super::core::Core;

/// Address of a socket.
#[doc(alias = "sockaddr_un")]
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

/// Value in the inode of a socket: the socket that was bound there, while it is open.
#[derive(Debug)]
pub struct Bound(pub(super) Weak<Core>);
