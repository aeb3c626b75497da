//! In the word that a kernel keeps for each thread. Where it keeps none, the library knows nothing
//! of its caller, and each section claims a record.

use core::ptr;

use super::super::{Record, no_record, own_record};
use super::ThreadState;
use crate::platform::system;
use crate::rcu::first_record;

/// Further state in a record: there are no thread locals.
pub(crate) use super::ThreadState as Further;

#[inline(always)]
pub(crate) fn own_or_none() -> &'static Record {
    // SAFETY: null, or what `keep` stored on this thread: records are never freed and only
    // ever shared.
    unsafe { system::thread_word().cast::<Record>().as_ref() }.unwrap_or_else(no_record)
}

/// Names the calling thread by its record; 0 if it has none.
pub(crate) fn name() -> usize {
    own_record().map_or(0, |record| ptr::from_ref(record).addr())
}

/// Keeps `record` as the thread's own until the thread ends. Refuses where there is no place.
pub(crate) fn keep(record: &'static Record) -> bool {
    let word = ptr::from_ref(record).cast_mut().cast();
    // SAFETY: the library sets it to a record or to null.
    unsafe { system::set_thread_word(word) };
    ptr::eq(system::thread_word(), word)
}

pub(crate) fn forget_own_record() {
    // SAFETY: as in `keep`.
    unsafe { system::set_thread_word(ptr::null_mut()) };
}

/// Uses the state of a thread that has a record.
pub(crate) fn with_state<R>(f: impl FnOnce(&ThreadState) -> R) -> Option<R> {
    own_record().map(|record| f(&record.words.further))
}

/// Uses the state of the thread, which claims a record if it has none. Returns `None` if the
/// library does not know its threads.
pub(crate) fn with_made_state<R>(f: impl FnOnce(&ThreadState) -> R) -> Option<R> {
    let record = own_record().or_else(first_record)?;
    Some(f(&record.words.further))
}
