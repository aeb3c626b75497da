//! Streams of the C library on our descriptors.

pub(crate) mod atfork;
pub(crate) mod directory_streams;
pub(crate) mod streams;

pub use directory_streams::*;
pub use streams::*;
