//! Counted objects for readers under RCU, and the structures that hold them.
//!
//! It knows nothing of descriptors. Read it in this order:
//!
//! 1. [`object`]: an object that lives until its last reference goes and its readers leave.
//! 2. [`radix`]: a tree of nodes that never move, from an index to a leaf of 64 slots. It can be
//!    shared, and is copied where it is written.
//! 3. [`free_hint`]: where slots are free, without a cache line that all threads write.
//! 4. [`slot_map`]: objects under handles that are never mistaken for one another.
//! 5. [`percpu_list`]: lists of objects under an lglock.
//!
//! Objects and nodes are in slabs, or with the feature `slab` off in the global allocator.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

/// The examples of the file `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod free_hint;
#[cfg(test)]
mod hooked;
mod memory;
pub mod object;
pub mod percpu_list;
pub mod radix;
pub mod slot_map;
#[cfg(doctest)]
mod variance;

/// Overwrites what is freed, so that a model does not find a freed node as it was.
#[cfg(all(test, loom))]
#[global_allocator]
static ALLOCATOR: fdtable_sync::model::Overwriting = fdtable_sync::model::Overwriting;
