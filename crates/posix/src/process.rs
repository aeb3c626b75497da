//! What belongs to the process: its descriptors, limits and rights.

pub(crate) mod descriptors;
pub(crate) mod identity;
pub(crate) mod ioctl;
pub(crate) mod limits;

pub use descriptors::*;
pub use identity::*;
pub use ioctl::*;
pub use limits::*;
