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
//! 6. [`gate`](mod@gate): a reader-writer lock whose readers pay nothing.
//! 7. [`leaf`](mod@leaf): sixty-four numbers, their bits and their objects.
//! 8. [`tree`]: a tree of nodes that never move, from an index to a leaf, which can be shared and
//!    is copied where it is written.
//! 9. [`room`]: where slots are free, without a cache line that all threads write.
//! 10. [`pool`]: counted objects under handles that are never mistaken for one another.
//! 11. [`slab`]: memory for many objects of one size, with magazines for each CPU.
//! 12. [`lglock`](mod@lglock): a lock in parts, one for each CPU.
//! 13. [`percpu_list`]: lists of counted objects under it.
//! 14. [`freezer`](mod@freezer) and [`host_fork`]: how all of it continues in a child of the
//!     host process.
//! 15. [`percpu`], [`bitmap`], [`fallible`] allocation and [`unwind`], which the others use.
//!
//! With `--cfg loom` the same source runs under the model checker `loom`; the module `sync`
//! is the only place that knows.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod bitmap;
pub mod counted;
pub mod fallible;
pub mod fence;
#[cfg(feature = "std")]
pub mod freezer;
pub mod gate;
#[cfg(feature = "std")]
pub mod host_fork;
pub mod leaf;
pub mod lglock;
mod lock;
#[cfg(all(test, loom))]
mod model;
pub mod percpu;
pub mod percpu_list;
pub mod pool;
mod prefetch;
pub mod rcu;
pub mod refcount;
pub mod room;
pub mod slab;
pub mod slot;
pub mod sync;
pub mod tree;
pub mod unwind;
#[cfg(doctest)]
mod variance;
