//! Calls that wait for several descriptors: `poll`, `select`, `epoll`, `eventfd` and timers.

pub(crate) mod events;
pub(crate) mod polling;

pub use events::*;
pub use polling::*;
