//! Object caches.

mod cache;
mod check;
mod constructed;
mod depot;
pub(crate) mod general;
mod handle;
mod header;
mod info;
mod local;
mod magazine;
mod object;
mod options;
mod region;
mod registry;
#[cfg(all(test, not(loom)))]
mod scarcity;
mod shape;
mod slabs;

pub use constructed::{Constructed, ConstructedCache};
pub use info::Info;
pub use object::{Cache, Object};
pub use options::{Alignment, Checks, Colouring, Options};

use alloc::vec::Vec;

/// Tells what there is in each cache that is alive, the general ones included; the cache that was
/// made last first. Takes locks, one cache after the other, and allocates: ends the process if there
/// is no memory for the answer, as a `Vec` does.
#[doc(alias = "slabinfo")]
#[must_use]
pub fn infos() -> Vec<Info> {
    registry::infos()
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests;
