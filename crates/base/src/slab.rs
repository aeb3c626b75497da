//! Object caches.

mod cache;
mod check;
mod depot;
pub(crate) mod general;
mod header;
mod info;
mod local;
mod magazine;
mod options;
mod region;
mod registry;
mod shape;
mod slabs;

pub use info::Info;
pub use options::{Alignment, Checks, Colouring, Options};
