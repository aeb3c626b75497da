//! Addresses of sockets.

use std::sync::Weak;

use super::core::Core;

/// Address of a socket.
#[doc(alias = "sockaddr_un")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SocketAddress {
    /// None: the socket is not bound.
    Unnamed,
    /// Any bytes, at most 107, in a name space of their own that each kernel has. The first zero
    /// byte of `sun_path` is not among them.
    Abstract(Vec<u8>),
    /// A path of 1 to 108 bytes, at which there is an inode.
    Path(Vec<u8>),
}

/// What the inode of a socket holds: the socket that was bound there, as long as it is open.
#[derive(Debug)]
pub struct Bound(pub(super) Weak<Core>);
