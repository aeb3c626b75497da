//! Pipes and sockets.

mod addresses;
mod host_paths;
pub(crate) mod messages;
mod options;
pub(crate) mod pipes;
mod scm_rights;
pub(crate) mod sockets;

pub use messages::*;
pub use pipes::*;
pub use sockets::*;
