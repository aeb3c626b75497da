//! Calls on files, paths and file systems.

pub(crate) mod attributes;
pub(crate) mod copies;
pub(crate) mod directories;
pub(crate) mod locks;
pub(crate) mod mmap;
pub(crate) mod mounts;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod partial;
mod splice;
pub(crate) mod status;
pub(crate) mod transfers;
pub(crate) mod vectored;

pub use attributes::*;
pub use copies::*;
pub use directories::*;
pub use locks::*;
pub use mmap::*;
pub use mounts::*;
pub use names::*;
pub use open::*;
pub use splice::*;
pub use status::*;
pub use transfers::*;
pub use vectored::*;
