//! Calls that wait for several descriptors: `poll`, `select`, `epoll`, `eventfd` and timers.

pub(crate) mod events;
mod host_events;
pub(crate) mod polling;

pub use events::*;
pub use host_events::*;
pub use polling::*;
