//! The two fences for models: they promise no more than those of `membarrier(2)`.
//!
//! Every thread has a word. A light fence exchanges the thread's own word, a heavy one the words
//! of all threads. So a light and a heavy fence order what is before the earlier and what is
//! after the later one; two light fences, or a light one and a full one, order nothing. A single
//! `fence(SeqCst)` in both places would, and would hide a heavy fence that is missing.

use super::NotRestarted;
use crate::platform::atomic::Ordering::AcqRel;
use crate::platform::atomic::{AtomicUsize, is_fence_left_out};
use crate::sequence;
use std::sync::atomic::AtomicUsize as Count;
use std::sync::atomic::Ordering::SeqCst;

struct Words {
    words: [AtomicUsize; loom::MAX_THREADS],
    /// How many words have an owner. Not an atomic of the model: it is not part of what is
    /// modelled.
    owned: Count,
}

loom::lazy_static! {
    static ref WORDS: Words = Words::new();
}

loom::thread_local! {
    static NUMBER: usize = WORDS.draw();
}

impl Words {
    fn new() -> Self {
        Self {
            words: core::array::from_fn(|_| AtomicUsize::new(0)),
            owned: Count::new(0),
        }
    }

    /// Gives the thread a word. Full fence: a heavy fence that came before it did not know of
    /// this thread.
    fn draw(&self) -> usize {
        super::full();
        self.owned.fetch_add(1, SeqCst)
    }
}

std::thread_local! {
    static MISSING: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// Runs `f`, which explores a model, as if the system call were missing.
#[cfg(test)]
pub fn without_membarrier(f: impl FnOnce()) {
    // A model's threads all run on the thread that explores it.
    MISSING.set(true);
    f();
    MISSING.set(false);
}

/// Gives the thread its word, before its first light fence.
pub(crate) fn register() -> bool {
    NUMBER.with(|_| !MISSING.get())
}

#[track_caller]
pub(super) fn light() {
    if is_fence_left_out() {
        return;
    }
    NUMBER.with(|&own| WORDS.words[own].fetch_add(0, AcqRel));
}

#[track_caller]
pub(crate) fn heavy() {
    if is_fence_left_out() {
        return;
    }
    super::full();
    if MISSING.get() {
        return;
    }
    let owned = WORDS.owned.load(SeqCst);
    NUMBER.with(|&own| {
        (0..owned).filter(|&other| other != own).for_each(|other| {
            WORDS.words[other].fetch_add(0, AcqRel);
        });
    });
}

std::thread_local! {
    static UNTIL_FAILURE: core::cell::Cell<Option<usize>> = const { core::cell::Cell::new(None) };
}

/// Has a restart fail, after so many that succeed.
pub fn fail_restart_after(count: usize) {
    UNTIL_FAILURE.set(Some(count));
}

/// Restarts sequences, between two fences of this thread.
pub(crate) fn restart() -> Result<(), NotRestarted> {
    let left = UNTIL_FAILURE.get();
    UNTIL_FAILURE.set(left.and_then(|left| left.checked_sub(1)));
    if left == Some(0) {
        return Err(NotRestarted);
    }
    super::full();
    sequence::model::interrupt_all();
    super::full();
    Ok(())
}
