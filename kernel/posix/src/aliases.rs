//! Further names of the same calls: by number, with buffer checks, and with 64-bit offsets.

mod fortify;
mod host_calls;
mod lfs64;
mod system_calls;

pub use host_calls::*;
pub use system_calls::*;
