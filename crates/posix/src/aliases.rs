//! The same calls by other names: by number, with a check of lengths, and as 64-bit twins.

mod fortify;
mod system_calls;
mod twins;

pub use system_calls::*;
