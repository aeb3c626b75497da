//! A slab allocator in user space: caches of objects of one size, with magazines for each CPU.
//!
//! A [`Cache`] cuts *slabs* of 64 KiB (of a page without `std`) into places for its objects. A
//! freed object waits, in a *magazine* of the CPU, for the next allocation there. Both operations
//! are a few instructions on lines that no other CPU writes, without a lock and without an atomic
//! exchange.
//!
//! ```
//! use fdtable_slab::{Cache, infos};
//!
//! let cache = Cache::new("numbers")?;
//! let numbers: Vec<_> = (0..1000).map(|number| cache.insert(number)).collect::<Result<_, _>>()?;
//! assert!(numbers.iter().map(|number| **number).eq(0..1000));
//!
//! infos().iter().for_each(|info| println!("{info:?}"));
//! # Ok::<(), fdtable_sync::fallible::OutOfMemory>(())
//! ```
//!
//! # When to use it
//!
//! - [`Cache`]: many threads allocate and free objects of one type, and one thread often frees what
//!   another has allocated.
//! - [`SlabArc`]: a counted pointer to a value of any type, with its memory in slabs.
//! - [`general`]: memory by its size, for a layout that is a constant where it is allocated.
//!
//! It is no global allocator: a program that allocates objects of many sizes, for a short time, on
//! few threads, is better served by one. All memory can come from there instead ([`choose`]), to
//! compare.
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `std` | yes | magazines by restartable sequences (Linux on x86-64), memory from `mmap(2)`. Without it: a lock of one word for each CPU, and memory from the global allocator |
//! | `debug` | no | checks in the general caches: writes to free memory, overflows, memory that is freed twice. Slow |
//!
//! Slabs and colours are after Bonwick (*The Slab Allocator*, USENIX 1994), magazines and their
//! depot after Bonwick and Adams (*Magazines and Vmem*, USENIX 2001).
//!
//! # The parts
//!
//! | | contents | guarded by |
//! |---|---|---|
//! | [`local`] | two [magazines](magazine) for each CPU | the CPU |
//! | [`depot`] | full and empty magazines | a lock |
//! | [`slabs`] | the slabs of a cache, by how full they are | a lock |
//! | [`region`] | chunks of memory for slabs, for all caches | a lock |
//!
//! A thread that finds nothing in one part asks the next: [`cache`]. A [`header`] is at the
//! beginning of each slab, and a [`shape`] tells where its objects are. On top are [`Cache`], the
//! public type, and [`general`] caches for memory by its size; [`SlabArc`] uses these. Their memory
//! may come from elsewhere, if so [chosen](choose) at the start. Beside them are [`check`] and
//! [`Info`].
//!
//! # What keeps memory alive
//!
//! A slab is freed when all of its objects are free. An object that is never freed keeps its slab
//! forever, even when its cache is gone. A caller whose objects have readers under RCU frees an
//! object after a grace period.
//!
//! # Rules
//!
//! The rules for a `fork(2)` of the host are in [`host_fork`](fdtable_sync::host_fork): without it,
//! a call in the child waits forever if another thread held a lock of a cache. Signal handlers may
//! not use a cache that the interrupted thread may be using: they cannot take its locks. A child of
//! `vfork(2)` without thread data of its own may use no cache at all. A library that contains this
//! code must not be unloaded: the kernel knows of its sequences.
//!
//! No call here runs code of others under a lock, nor RCU callbacks: each may be called under a
//! lock.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

/// The examples of the file `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod arc;
#[cfg_attr(
    loom,
    allow(dead_code, reason = "general memory of models is never in caches")
)]
mod backing;
mod cache;
mod check;
mod chunk;
mod depot;
#[cfg(not(loom))]
pub mod general;
/// General memory of models.
#[cfg(loom)]
pub mod general {
    use core::alloc::Layout;
    use core::ptr::NonNull;

    /// Takes memory for a layout.
    pub fn alloc(layout: Layout) -> Option<NonNull<u8>> {
        super::heap::alloc(layout)
    }

    /// Frees memory.
    ///
    /// # Safety
    /// It was allocated by [`alloc`] with the same layout, and not freed since; it is no longer
    /// used.
    pub unsafe fn free(place: NonNull<u8>, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { super::heap::free(place, layout) };
    }
}
mod handle;
mod header;
mod heap;
mod info;
mod list;
mod local;
mod magazine;
mod object;
mod region;
mod registry;
#[cfg(all(test, not(loom)))]
mod scarcity;
mod shape;
mod slabs;

pub use arc::{SlabArc, SlabWeak};
pub use backing::{AlreadyChosen, Backing, choose};
pub use info::Info;
pub use object::{Cache, Object};
pub use registry::{infos, shrink};
pub use shape::Colouring;

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;

/// Overwrites what is freed, so that a model does not find freed memory as it was.
#[cfg(all(test, loom))]
#[global_allocator]
static ALLOCATOR: fdtable_sync::model::Overwriting = fdtable_sync::model::Overwriting;
