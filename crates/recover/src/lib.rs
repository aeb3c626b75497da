//! Counts, pins and locks in shared memory, exact also when a process dies in any instruction.
//!
//! Processes that are forks of one another share a mapping, at one address in all of them. Each
//! thread has a *record* there, in which it announces what it is about to do. When a process dies,
//! another one completes what its threads had announced: a *burial*. After it, each count is the
//! number of references that exist, no dead thread has a lock or a pin, and each object without
//! references has been released.
//!
//! | part | what it is |
//! |---|---|
//! | [`records`](mod@records) | the records of all threads: claims, forks, reuse |
//! | [`count`](mod@count) | a reference count that is changed by operations with a name |
//! | [`release`](mod@release) | how one thread claims the release of an object, for good |
//! | [`pins`](mod@pins) | a use of an object that does not change its count |
//! | [`lock`](mod@lock) | a lock of one word with the owner in it |
//! | [`once`](mod@once) | a cell that is made once |
//! | [`journal`](mod@journal) | several stores that all take place or none |
//! | [`burial`](mod@burial) | the order in which all this is completed |
//!
//! What the crate does not know, it asks the [`Kernel`] that uses it: whether a process lives, how
//! to repair what a lock guards, and what a release is.
//!
//! # What the caller promises
//!
//! A burial writes, in another process, to addresses that a thread has recorded. So the functions
//! that make a [`Thread`] or record an address are unsafe, and so is the trait [`Kernel`]. All else
//! depends on these rules:
//!
//! - The mapping is at one address in all processes, and is never unmapped. The code is too, since
//!   records have the addresses of objects.
//! - One thread uses a [`Thread`]; after a fork the child uses the one that was claimed for it.
//! - An operation on a count is given a *place*: the word that holds the reference. While the
//!   operation lasts, no other thread writes that word: it belongs to the thread, or is guarded by
//!   a lock that the thread holds.
//! - An object keeps its memory as long as a reference, a pin or a section can lead to it: a count
//!   of 0 begins its release, and its memory is used again only after a grace period. A grace
//!   period fences all CPUs (`membarrier` GLOBAL_EXPEDITED), and then waits until it has seen each
//!   record [outside a section](Records::is_in_section).
//! - No operation is begun inside another one of the same thread, as by a signal handler.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![cfg_attr(not(any(test, loom)), no_std)]

/// The examples of the file `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod burial;
pub mod count;
mod death;
pub mod journal;
pub mod lock;
pub mod once;
mod pair;
pub mod pins;
mod platform;
pub mod records;
pub mod release;

pub use burial::{Burial, Kernel};
pub use count::Count;
pub use lock::{Guard, Lock};
pub use once::Once;
pub use pins::Pin;
pub use records::{Claim, Records, Thread};

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
