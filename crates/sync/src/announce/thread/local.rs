//! In thread locals.

use core::cell::Cell;

#[cfg(loom)]
use loom::thread_local;
#[cfg(not(loom))]
use std::thread_local;

use super::super::{Record, no_record};
use super::ThreadState;
use crate::announce::{Unmodelled, Word};
use crate::platform::atomic::AtomicU64;
use crate::platform::const_fn;

#[cfg(not(loom))]
thread_local! {
    // No destructor, so reading it is one load; `RETURN` takes the record back.
    // A pointer: Rust 1.88 refuses constants with a reference to memory that changes.
    static RECORD: Cell<*const Record> = const { Cell::new(&raw const super::super::NO_RECORD) };
    static STATE: ThreadState = const { ThreadState::new() };
    static RETURN: Return = const { Return(Cell::new(None)) };
}
#[cfg(loom)]
thread_local! {
    static RECORD: Cell<*const Record> = Cell::new(no_record());
    static STATE: ThreadState = ThreadState::new();
    static RETURN: Return = Return(Cell::new(None));
}

/// Words of a thread that only the library with `std` has.
#[derive(Debug)]
pub(crate) struct Further {
    /// The nesting depth of the thread in the [freezer](crate::host_fork).
    pub(crate) freezer: Word,
    /// Not 0 if a signal handler has put something off until the thread is outside of the freezer.
    /// Only the owner and its handlers use it, so it is not part of what is modelled.
    pub(crate) put_off: Unmodelled,
}

impl Further {
    const_fn! {
        pub(in crate::announce) fn new() -> Self {
            Self {
                freezer: Word(AtomicU64::new(0)),
                put_off: Unmodelled::new(0),
            }
        }
    }
}

/// Releases the thread's record when the thread ends.
struct Return(Cell<Option<&'static Record>>);

impl Drop for Return {
    fn drop(&mut self) {
        // A model that failed is gone when its threads are cleared away.
        if cfg!(loom) && std::thread::panicking() {
            return;
        }
        // A thread that still announces something, or leaked a guard, keeps its record. Sections
        // that begin after this one claim a record each.
        if let Some(record) = self.0.take() {
            record.return_lent();
        }
    }
}

#[inline(always)]
pub(crate) fn own_or_none() -> &'static Record {
    let record = RECORD.try_with(Cell::get).unwrap_or_else(|_| no_record());
    // SAFETY: it comes from a `static` reference: `NO_RECORD` at first, and then what
    // `lend`, `keep` and `forget_own_record` store.
    unsafe { &*record }
}

/// Names the calling thread, by a nonzero number that no other living thread has. In a child of
/// a fork the forking thread keeps its name.
pub(crate) fn name() -> usize {
    RECORD
        .try_with(|own| core::ptr::from_ref(own).addr())
        .unwrap_or(1)
}

/// Makes `record` the thread's own until it is [forgotten](forget_own_record), while the thread
/// is ending.
pub(crate) fn lend(record: &'static Record) {
    let _ = RECORD.try_with(|own| own.set(record));
}

pub(crate) fn forget_own_record() {
    let _ = RECORD.try_with(|own| own.set(no_record()));
}

/// Keeps `record` as the thread's own until the thread ends. Refuses when it is ending.
pub(crate) fn keep(record: &'static Record) -> bool {
    RETURN
        .try_with(|place| {
            let kept = RECORD.try_with(|own| own.set(record)).is_ok();
            place.0.set(kept.then_some(record));
            kept
        })
        .unwrap_or(false)
}

/// Uses the state of the thread.
#[inline]
pub(crate) fn with_state<R>(f: impl FnOnce(&ThreadState) -> R) -> Option<R> {
    STATE.try_with(f).ok()
}

pub(crate) use with_state as with_made_state;
