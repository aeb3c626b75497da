//! Waiting for many descriptors: `poll`, `select`, `epoll`, `eventfd` and timers.

pub(crate) mod events;
pub(crate) mod polling;

pub use events::*;
pub use polling::*;
