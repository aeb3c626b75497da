//! How often a thread has seen what is worth a change only if it comes often.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use crate::announce::with_made_state;
use crate::platform::system;

/// How many changes of a count's CPU within [`TIME`] are enough to spread the count. Fewer cost
/// less than what spreading would save.
const CHANGES: usize = 32;

/// In nanoseconds.
const TIME: usize = 100_000;

/// Changes that a thread has seen since the time that is noted. Only the thread uses it, so it is
/// not part of what is modelled.
#[derive(Debug)]
pub(crate) struct Pace {
    seen: AtomicUsize,
    /// In nanoseconds; 0 if there was none.
    since: AtomicUsize,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self {
            seen: AtomicUsize::new(0),
            since: AtomicUsize::new(0),
        }
    }

    /// Notes one more. Returns true if it is the last of many in a short time. A clock that is
    /// always 0 is no clock.
    fn note(&self) -> bool {
        // Relaxed, all: only the thread uses it.
        let seen = self.seen.load(Relaxed) + 1;
        if seen < CHANGES {
            self.seen.store(seen, Relaxed);
            return false;
        }
        self.seen.store(0, Relaxed);
        // A clock that wraps makes one difference wrong.
        let now = system::nanoseconds() as usize;
        let before = self.since.load(Relaxed);
        self.since.store(now, Relaxed);
        before != 0 && now.wrapping_sub(before) <= TIME
    }
}

/// Notes a change that this thread has seen. Returns true if it is the last of many in a short
/// time. Models spread counts by themselves.
#[cold]
pub(super) fn note_change() -> bool {
    // A thread that is ending spreads nothing.
    with_made_state(|state| state.changed.note()).unwrap_or(false)
}
