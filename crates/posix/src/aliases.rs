//! The same calls by other names: by number, with a check of lengths, and as 64-bit twins.

mod fortify;
mod lfs64;
mod system_calls;

pub use system_calls::*;
