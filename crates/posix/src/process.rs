//! What belongs to the process: its descriptors, limits and rights.

pub(crate) mod credentials;
pub(crate) mod descriptors;
pub(crate) mod ioctl;
pub(crate) mod limits;

pub use credentials::*;
pub use descriptors::*;
pub use ioctl::*;
pub use limits::*;
