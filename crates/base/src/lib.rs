//! The machine half of `fdtable`: what a kernel would keep in its `lib/` and `mm/` folders.
//!
//! Everything `unsafe` of the project and every memory ordering is in this crate. It knows
//! nothing of files. Read it in this order:
//!
//! 1. [`fence`](mod@fence): two fences, of which the frequent one is free.
//! 2. [`rcu`]: read-side critical sections, grace periods, callbacks.
//! 3. [`refcount`]: a count that is taken with one add, and saturates instead of wrapping.
//! 4. [`counted`]: an object that lives until its last reference goes and its readers leave.
//! 5. [`slot`]: a place that holds a counted object or nothing.
//! 6. [`radix`]: a tree of nodes that never move, from an index to a leaf.
//! 7. [`pool`]: counted objects under handles that are never mistaken for one another.
//! 8. [`percpu`], [`bitmap`] and [`fallible`] allocation, which the others use.
//!
//! With `--cfg loom` the same source runs under the model checker `loom`; the module `sync`
//! is the only place that knows.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod bitmap;
pub mod counted;
pub mod fallible;
pub mod fence;
#[cfg(all(test, loom))]
mod model;
pub mod percpu;
pub mod pool;
pub mod radix;
pub mod rcu;
pub mod refcount;
pub mod slot;
pub mod sync;
