//! The state of a thread: the record that it keeps, and what it counts.

#[cfg(feature = "std")]
mod local;
#[cfg(not(feature = "std"))]
#[path = "thread/kernel.rs"]
mod local;

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicIsize};

use crate::refcount::spread::pace::Pace;
pub(crate) use local::*;

/// Counts and marks of a thread. Only the thread uses them, so they are not part of what is
/// modelled, and all accesses are relaxed.
#[derive(Debug)]
pub(crate) struct ThreadState {
    /// How many sections of the thread are not on its own record: those of online quiescent-state
    /// readers, and those that claimed a record each.
    unowned: AtomicIsize,
    is_inside_callback: AtomicBool,
    /// The [changes of CPU](crate::refcount::spread::pace) of counts that it has seen.
    pub(crate) changed: Pace,
}

impl ThreadState {
    pub(super) const fn new() -> Self {
        Self {
            unowned: AtomicIsize::new(0),
            is_inside_callback: AtomicBool::new(false),
            changed: Pace::new(),
        }
    }
}

/// Returns how many sections of this thread are not on its own record.
pub(crate) fn unowned_sections() -> isize {
    with_state(|state| state.unowned.load(Relaxed)).unwrap_or(0)
}

/// Counts nothing for a thread without state.
pub(crate) fn count_unowned_section(change: isize) {
    with_state(|state| state.unowned.fetch_add(change, Relaxed));
}

/// Returns true if the calling thread runs a callback, as far as can be known.
pub(crate) fn inside_callback() -> bool {
    with_state(|state| state.is_inside_callback.load(Relaxed)).unwrap_or(false)
}

/// Notes whether the thread runs a callback. Returns the previous value.
pub(crate) fn replace_inside_callback(inside: bool) -> bool {
    let replace = |state: &ThreadState| {
        let before = state.is_inside_callback.load(Relaxed);
        state.is_inside_callback.store(inside, Relaxed);
        before
    };
    with_made_state(replace).unwrap_or(false)
}
