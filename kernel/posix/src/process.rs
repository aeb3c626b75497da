//! Calls on the state of the process: descriptors, limits, credentials and signals.

pub(crate) mod closing;
pub(crate) mod credentials;
pub(crate) mod descriptors;
pub(crate) mod fork;
pub(crate) mod io_signals;
pub(crate) mod ioctl;
pub(crate) mod limits;
pub(crate) mod signals;
pub(crate) mod supervisor;
pub(crate) mod tree;

pub use credentials::*;
pub use descriptors::*;
pub use ioctl::*;
pub use limits::*;
pub use signals::*;
