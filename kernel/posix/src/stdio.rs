//! Streams of the C library on our descriptors.

pub(crate) mod atfork;
pub(crate) mod directory_streams;
mod file_layout;
pub(crate) mod freopen;
pub(crate) mod standard;
pub(crate) mod streams;

pub use directory_streams::*;
pub use freopen::*;
pub use streams::*;
