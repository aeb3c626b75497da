//! Object caches: memory for many objects of one size, which is used again and again.
//!
//! A cache cuts *slabs* of 64 KiB into places for its objects. What is given back waits, in
//! *magazines* of the processor, for the next that is taken there: both are a few instructions on
//! lines that no other processor writes, without a lock and without an atomic exchange. Slabs,
//! colours and constructed objects are after Bonwick (*The Slab Allocator*, USENIX 1994), magazines
//! and their depot after Bonwick and Adams (*Magazines and Vmem*, USENIX 2001), and that readers
//! may look at what is free is Linux's `SLAB_TYPESAFE_BY_RCU`.
//!
//! ```
//! use fdtable_base::slab::{Cache, Info, infos};
//!
//! let cache = Cache::new("numbers")?;
//! let numbers: Vec<_> = (0..1000).map(|number| cache.insert(number)).collect::<Result<_, _>>()?;
//! assert!(numbers.iter().map(|number| **number).eq(0..1000));
//!
//! println!("{}", Info::HEADER);
//! infos().iter().for_each(|info| println!("{info}"));
//! # Ok::<(), fdtable_base::fallible::OutOfMemory>(())
//! ```
//!
//! # The parts
//!
//! | | what it has | guarded by |
//! |---|---|---|
//! | [`local`] | two [magazines](magazine) for each processor | the processor |
//! | [`depot`] | full and empty magazines | a lock |
//! | [`slabs`] | the slabs of a cache, by how full they are | a lock |
//! | [`region`] | chunks of memory for slabs, for all caches | a lock |
//!
//! A thread that finds nothing in one part asks the next: [`cache`]. A [`header`] is at the
//! beginning of each slab, and a [`shape`] tells where its objects are. On top are [`Cache`] and
//! [`ConstructedCache`], and [`general`] for memory by its size, which may come from elsewhere if
//! so [chosen](choose) at the start, of which [`SlabArc`] is made; beside them [`check`] and
//! [`Info`].
//!
//! # What keeps memory alive
//!
//! A slab is given back when all of its objects are free, and after a grace period. So:
//!
//! - who has an object has its slab;
//! - a reader who found an object inside a read-side section may look at its place until the
//!   section ends. It holds an object of the cache, or one that is free, or has been taken again
//!   meanwhile by somebody else: the reader has to find out which. In a [`ConstructedCache`] it
//!   is constructed in all three cases.
//!
//! An object that is never given back keeps its slab for ever, also when its cache is gone.
//!
//! # Rules
//!
//! What a `fork(2)` of the host leaves in the child is told in [`host_fork`](crate::host_fork):
//! without it, a call in the child waits for ever if another thread held a lock of a cache. Signal
//! handlers may not use a cache that the interrupted thread may be using: its locks are not for
//! them. A child of `vfork(2)` without thread data of its own may use no cache at all, and a
//! library that has this code in it must not be unloaded: the kernel knows of its sequences.
//!
//! Giving an object of a [`Cache`] or [`ConstructedCache`] back may give back a slab, and then runs
//! RCU callbacks that are due: not under a lock that they may want. The readers of a free place
//! must not meet who writes a new object there: that is for their type to see to, by atomics.

mod arc;
#[cfg_attr(
    loom,
    allow(dead_code, reason = "general memory of models is never in caches")
)]
mod backing;
mod boxed;
mod cache;
mod check;
mod constructed;
mod depot;
#[cfg_attr(
    loom,
    allow(dead_code, unused_imports, reason = "models take memory elsewhere")
)]
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

pub use arc::{SlabArc, SlabWeak};
pub use backing::{AlreadyChosen, Backing, choose};
pub(crate) use boxed::SlabBox;
pub use constructed::{Constructed, ConstructedCache};
pub use info::Info;
pub use object::{Cache, Object};
pub use options::{Alignment, Checks, Colouring, Options};

use alloc::vec::Vec;

/// Tells what there is in each cache that is alive, the general ones included; the cache that was
/// made last first. Takes locks, one cache after the other, and allocates: ends the process if
/// there is no memory for the answer, as a `Vec` does.
#[doc(alias = "slabinfo")]
#[must_use]
pub fn infos() -> Vec<Info> {
    registry::infos()
}

/// Gives back what is free in all caches, the general ones included: for a program that was told
/// that memory is short, or that has closed very many files. Returns how many bytes that is. Slabs
/// go back after a grace period: at once if [`rcu::barrier`](crate::rcu::barrier) follows. Takes
/// locks, one cache after the other, and runs RCU callbacks that are due; not to be called under a
/// lock that they may want.
///
/// ```
/// use fdtable_base::slab;
///
/// let cache = slab::Cache::new("short-lived")?;
/// drop(cache.insert([1; 100])?);
/// assert!(slab::shrink() >= 64 * 1024);
/// # Ok::<(), fdtable_base::fallible::OutOfMemory>(())
/// ```
pub fn shrink() -> usize {
    let bytes = registry::shrink();
    crate::rcu::catch_up();
    bytes
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests;
