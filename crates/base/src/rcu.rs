//! Read-copy-update: readers pay nothing, updaters wait before they free.
//!
//! A reader enters a *read-side critical section* ([`read_lock`]), reads published pointers,
//! and leaves when the [`Guard`] drops. An updater unpublishes an object, waits for a *grace
//! period*, a span of time in which every section that was under way has ended, and only then
//! frees the object. No reader that found the object can still be inside, and no later one can
//! find it.
//!
//! # How it works
//!
//! Every reader has a [record](reader::Record) with one word, which it alone writes: the depth of
//! nesting, and a sequence number that grows whenever the reader leaves its outermost section.
//! The steps, with letters that stand at the same steps in the code:
//!
//! | | reader | | updater |
//! |---|---|---|---|
//! | (A) | depth 0 → 1, a plain store | (P) | unpublish the object |
//! | (B) | light fence | (Q) | heavy fence |
//! | (C) | load the pointer, read the object | (R) | look at every record: who is inside? |
//! | (D) | depth 1 → 0, sequence + 1, release | (S) | wait until each of those has another sequence; acquire |
//! | | | (T) | free the object |
//!
//! *Case 1, (B) is ordered before (Q).* Then (R) sees (A), or a later store of the same reader.
//! If it sees the reader inside, (S) waits for its (D), and the release-acquire pair puts all
//! of (C) before (T). If it sees that the reader has left, it has read that (D) itself, with
//! acquire, and the same holds.
//!
//! *Case 2, (B) is ordered after (Q).* Then (C) sees (P): the reader cannot find the object.
//!
//! The fences are those of [`fence`](mod@crate::fence): the light one costs the reader nothing
//! where `membarrier(2)` works. A reader that leaves and enters again has another sequence
//! number, so it is not waited for twice, and no updater starves. A sequence number that wraps
//! makes an updater wait for a section that it need not wait for, never the reverse.
//!
//! Grace periods are numbered and shared ([`grace`]): whoever needs one takes a ticket, and one
//! heavy fence serves all who took theirs before it began. Callbacks wait in per-processor
//! queues and pay for it in batches ([`callbacks`]).
//!
//! # Variants of the read side
//!
//! - [`read_lock`]: any thread, any time. The record is the thread's own, claimed at its first
//!   section. During thread exit, and without `std`, each section claims a record of its own.
//! - [`qsbr::Reader`]: quiescent-state based, for loops that have a natural point at which they
//!   hold nothing. The section lasts from one such point to the next, and entering is free even
//!   where `membarrier(2)` is missing.
//!
//! # Rules
//!
//! A section must be short and must not block: while it lasts, nothing that was unpublished
//! during it is freed, anywhere in the process. [`synchronize`] and [`barrier`] refuse to run
//! inside one. After a `fork(2)` of the host, the child has the records of threads that it does
//! not have; if one of them was inside a section, grace periods in the child do not end (memory
//! is kept, nothing is freed early).

mod callbacks;
mod grace;
pub mod qsbr;
mod reader;

pub use callbacks::{Head, call, defer};
pub use reader::{Guard, read_lock};

use core::fmt;

/// The error of waiting for a grace period from a place that the grace period waits for:
/// inside a read-side section, on a thread with an online [`qsbr::Reader`], or, for
/// [`barrier`], inside a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldDeadlock;

impl fmt::Display for WouldDeadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("waiting for a grace period here would wait for itself")
    }
}

impl core::error::Error for WouldDeadlock {}

/// Waits until every read-side section that was under way has ended. Blocks.
///
/// ```
/// use fdtable_base::rcu;
///
/// rcu::synchronize()?;
/// let guard = rcu::read_lock();
/// assert_eq!(rcu::synchronize(), Err(rcu::WouldDeadlock));
/// # drop(guard);
/// # Ok::<(), rcu::WouldDeadlock>(())
/// ```
///
/// # Errors
/// [`WouldDeadlock`] inside a section of this thread. Without `std` the library cannot know
/// its caller, and a call inside a section waits forever.
#[doc(alias = "synchronize_rcu")]
pub fn synchronize() -> Result<(), WouldDeadlock> {
    if reader::inside_section() {
        return Err(WouldDeadlock);
    }
    grace::GRACE.wait(grace::GRACE.ticket());
    Ok(())
}

/// Waits until every callback has run that was queued by [`call`] or [`defer`] before, by any
/// thread. Blocks, and runs callbacks.
///
/// # Errors
/// [`WouldDeadlock`] inside a section of this thread or inside a callback. Without `std` the
/// library cannot know its caller, and such a call waits forever.
#[doc(alias = "rcu_barrier")]
pub fn barrier() -> Result<(), WouldDeadlock> {
    if reader::inside_section() || callbacks::inside_callback() {
        return Err(WouldDeadlock);
    }
    callbacks::drain();
    Ok(())
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests;
