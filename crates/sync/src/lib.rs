//! Synchronisation for read-mostly data: RCU, locks, reference counts and per-CPU data.
//!
//! Readers write only memory of their own thread or CPU, and updaters pay for both.
//!
//! ```
//! use fdtable_sync::{rcu, refcount::RefCount};
//!
//! // A read-side section is a load and a store of the thread's own memory.
//! let section = rcu::read_lock();
//! // A callback runs once all sections that are under way now have ended.
//! rcu::defer(|| println!("no reader is left"));
//! drop(section);
//! rcu::barrier()?;
//!
//! // A reference is taken with one add, also in contention.
//! let count = RefCount::new();
//! assert!(count.get() && !count.put() && count.put());
//! # Ok::<(), rcu::WouldDeadlock>(())
//! ```
//!
//! # When to use it
//!
//! Use it for tables that many threads read and few write: routes, descriptors, caches. A reader
//! may not block inside a section, and an updater frees memory a grace period later. If an `Arc` in
//! a `RwLock` is fast enough, take that.
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `std` | yes | a record for each thread, `membarrier(2)`, locks that sleep, host forks, and a thread for [timely callbacks](rcu::call_timely). Without it a kernel provides what these need: see [`platform::kernel`] |
//! | `platform` | no | without `std`: the program registers a [`Platform`](platform::kernel::Platform). Without it each section claims a record, readers take full fences, and locks spin |
//!
//! # The parts
//!
//! The crate knows nothing of descriptors, nor of memory for objects. Read it in this order:
//!
//! 1. [`fence`](mod@fence): two fences, of which the frequent one is free, and `announce`: a word
//!    of each thread, on which sections, the big-reader lock and the freezer stand.
//! 2. [`rcu`]: read-side critical sections, grace periods and callbacks.
//! 3. [`refcount`]: a count that is taken with one add, and saturates instead of wrapping.
//! 4. [`lock`] and [`spin`]: locks of one word, and [`brlock`](mod@brlock): a reader-writer lock
//!    whose readers pay nothing.
//! 5. [`percpu`] data, and [`lglock`](mod@lglock): a lock in parts, one for each CPU.
//! 6. [`host_fork`](mod@host_fork): how all of it continues in a child of the host process.
//! 7. [`sequence`]: restartable sequences, for data of a CPU.
//! 8. [`bitmap`], [`fallible`] allocation, [`unwind`] and [`hint`], which the others use.
//!
//! With `--cfg loom` the same source runs under the model checker `loom`: [`platform`] is the only
//! module that differs.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(
    feature = "platform",
    not(feature = "std"),
    target_arch = "x86_64",
    any(windows, target_vendor = "apple", target_os = "uefi")
))]
compile_error!("the feature `platform` needs a target with ELF objects on x86-64");
#[cfg(not(target_has_atomic = "64"))]
compile_error!("fdtable needs atomic operations of 64 bits, which this target does not have");

extern crate alloc;

/// The examples of the file `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod announce;
pub mod bitmap;
pub mod brlock;
pub mod fallible;
pub mod fence;
pub mod hint;
#[cfg(feature = "std")]
pub mod host_fork;
pub mod lglock;
pub mod lock;
#[cfg(loom)]
#[allow(missing_docs, reason = "for models, which are tests")]
pub mod model;
pub mod percpu;
pub mod platform;
pub mod prefetch;
pub mod rcu;
pub mod refcount;
pub mod sequence;
#[cfg(not(loom))]
pub mod spin;
pub mod unwind;

/// The lock has its own models. The models of what it guards would explore its every step again.
#[cfg(loom)]
pub mod spin {
    pub use crate::platform::{Mutex as SpinLock, MutexGuard as SpinGuard};
}

/// Overwrites what is freed, so that a model does not find a freed node as it was.
#[cfg(all(test, loom))]
#[global_allocator]
static ALLOCATOR: model::Overwriting = model::Overwriting;
