//! Calls on the state of the process: descriptors, limits and credentials.

pub(crate) mod credentials;
pub(crate) mod descriptors;
pub(crate) mod ioctl;
pub(crate) mod limits;
pub(crate) mod signals;

pub use credentials::*;
pub use descriptors::*;
pub use ioctl::*;
pub use limits::*;
pub use signals::*;
