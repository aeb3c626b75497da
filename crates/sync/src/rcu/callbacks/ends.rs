//! Runs what is still queued at the end of a table or of a thread.
//!
//! The queues belong to CPUs, so they outlive a thread. But their callbacks run only while more are
//! queued, and after the end of a table or a thread that may not happen. So that end runs them. It
//! begins one grace period for all queues and does not wait for it. If a reader is in the way for
//! longer than a few looks, the callbacks stay queued, for the next callback, the next end, or the
//! next [`barrier`](crate::rcu::barrier).
//!
//! A thread that has queued nothing runs nothing at its end, and so does one that ends inside a
//! section, or while another thread has frozen the [freezer](crate::freezer). What is queued later
//! in the end of a thread, by destructors of other thread locals, stays queued.
//!
//! Callbacks of all tables and threads run at such an end, and with them `Drop` of their objects.
//! So a lock that a callback takes must not be held by a thread that drops a table, or that joins
//! another.
//!
//! Measured on a 2-CPU x86-64: the end of a thread that has closed a descriptor takes 1 to 5 µs
//! longer, of 15 µs for starting and joining it.

use super::{advance, queues};
use crate::platform::relax;

/// How many looks in a row may find a reader in the way.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 64 };

/// How many rounds run callbacks that the round before has queued: an object may hold the only
/// reference to another.
const ROUNDS: usize = 16;

/// Runs all callbacks that are queued now, and what these queue in turn. Stops if a reader is in
/// the way for long. Returns true if all callbacks that were queued at the call have run.
pub(in crate::rcu) fn drain_briefly() -> bool {
    let (all_ran, mut more) = thread::noting_queued(|| Progress::new().step());
    let mut goes_on = all_ran;
    for _ in 1..ROUNDS {
        if !(goes_on && more) {
            break;
        }
        (goes_on, more) = thread::noting_queued(|| Progress::new().step());
    }
    all_ran
}

/// Progress of a barrier that advances in steps.
///
/// It goes from queue to queue, and takes the target of each once, when it gets there. So callbacks
/// that are queued later do not hold it up.
#[derive(Clone, Copy, Debug)]
pub(in crate::rcu) struct Progress {
    /// How many queues are finished.
    done: usize,
    /// The target of the next queue, if it was taken.
    target: Option<u64>,
}

impl Progress {
    pub(in crate::rcu) const fn new() -> Self {
        Self {
            done: 0,
            target: None,
        }
    }

    /// Runs callbacks up to the targets, unless a reader is in the way for long. Returns true if
    /// all of them have run.
    pub(in crate::rcu) fn step(&mut self) -> bool {
        // Before the first grace period begins, so that one grace period serves all queues.
        for queue in queues::all().skip(self.done) {
            queue.lock().seal();
        }
        let mut vain = 0;
        for queue in queues::all().skip(self.done) {
            let target = *self.target.get_or_insert_with(|| queue.lock().queued);
            loop {
                let invoked = queue.lock().invoked;
                if invoked >= target {
                    break;
                }
                if vain == LOOKS {
                    return false;
                }
                advance(queue, usize::MAX);
                if queue.lock().invoked == invoked {
                    relax(vain);
                    vain += 1;
                }
            }
            self.done += 1;
            self.target = None;
        }
        true
    }
}

pub(super) use thread::note_queued;

#[cfg(all(feature = "std", not(loom)))]
mod thread {
    use crate::freezer;
    use crate::rcu::reader::inside_section;
    use crate::rcu::try_barrier;
    use core::cell::Cell;

    std::thread_local! {
        // No destructor, so reading it is one load.
        static HAS_QUEUED: Cell<bool> = const { Cell::new(false) };
        static AT_END: AtEnd = const { AtEnd };
    }

    /// Runs what is queued when the thread ends.
    struct AtEnd;

    impl Drop for AtEnd {
        fn drop(&mut self) {
            // The freezer may not be entered inside a section. Nor does the end wait for it: the
            // thread that has frozen it may wait for this end.
            if !inside_section()
                && let Some(_inside) = freezer::try_enter()
            {
                let _ = try_barrier();
            }
        }
    }

    /// Notes that the calling thread queues a callback. Allocates at the first one of a thread.
    #[inline]
    pub(in super::super) fn note_queued() {
        if !HAS_QUEUED.try_with(Cell::get).unwrap_or(true) {
            note_first();
        }
    }

    /// Runs `work`. Returns its answer, and true if the calling thread has queued callbacks in it.
    pub(super) fn noting_queued<R>(work: impl FnOnce() -> R) -> (R, bool) {
        let before = HAS_QUEUED.try_with(|place| place.replace(false));
        let answer = work();
        let has_queued = HAS_QUEUED.try_with(Cell::get).unwrap_or(false);
        let _ = HAS_QUEUED.try_with(|place| place.set(before.unwrap_or(false) || has_queued));
        (answer, has_queued)
    }

    #[cold]
    fn note_first() {
        let _ = HAS_QUEUED.try_with(|has_queued| has_queued.set(true));
        // The thread local is gone already in a thread that is ending: its callbacks stay queued
        // for the next end.
        let _ = AT_END.try_with(|_| ());
    }
}

/// The library sees no ends here. The models call what would run at one.
#[cfg(not(all(feature = "std", not(loom))))]
mod thread {
    pub(in super::super) fn note_queued() {}

    /// Whether a thread queues callbacks is unknown here.
    pub(super) fn noting_queued<R>(work: impl FnOnce() -> R) -> (R, bool) {
        (work(), false)
    }
}
