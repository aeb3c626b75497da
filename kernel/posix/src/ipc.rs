//! Pipes and sockets.

pub(crate) mod messages;
pub(crate) mod pipes;
pub(crate) mod sockets;
mod to_host;

pub use messages::*;
pub use pipes::*;
pub use sockets::*;
