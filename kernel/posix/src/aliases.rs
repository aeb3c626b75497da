//! The same calls by number.

mod host_calls;
mod system_calls;

pub use host_calls::*;
pub use system_calls::*;
