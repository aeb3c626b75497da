//! How often a thread has seen what is worth a change only if it comes often.

#[cfg(all(feature = "std", not(loom)))]
use core::cell::Cell;
#[cfg(all(feature = "std", not(loom)))]
use std::time::{Duration, Instant};

/// How many changes of a count's CPU within 100 µs are enough to spread the count. Fewer cost less
/// than what spreading would save.
pub const CHANGES: u32 = 32;

/// How many lookups of counts that are not spread, within a millisecond, are enough to look for
/// spread ones no more.
#[cfg(not(loom))]
const LOOKS: u32 = 4096;

/// Events of one kind that a thread has seen since the time that is noted.
#[cfg(all(feature = "std", not(loom)))]
struct Pace {
    seen: Cell<u32>,
    since: Cell<Option<Instant>>,
}

#[cfg(all(feature = "std", not(loom)))]
impl Pace {
    const fn new() -> Self {
        Self {
            seen: Cell::new(0),
            since: Cell::new(None),
        }
    }

    /// Notes one more. Returns true if it is the last of so many within a time.
    fn note(&self, many: u32, time: Duration) -> bool {
        self.seen.set(self.seen.get() + 1);
        if self.seen.get() < many {
            return false;
        }
        self.seen.set(0);
        let now = Instant::now();
        let since = self.since.replace(Some(now));
        since.is_some_and(|since| now.duration_since(since) <= time)
    }
}

#[cfg(all(feature = "std", not(loom)))]
std::thread_local! {
    static CHANGED: Pace = const { Pace::new() };
    static LOOKED: Pace = const { Pace::new() };
}

/// Notes a change that this thread has seen. Returns true if it is the last of many in a short
/// time.
#[cfg(all(feature = "std", not(loom)))]
#[cold]
pub(super) fn note_change() -> bool {
    // A thread that is ending spreads nothing.
    let note = |pace: &Pace| pace.note(CHANGES, Duration::from_micros(100));
    CHANGED.try_with(note).unwrap_or(false)
}

/// Notes that this thread has looked in vain whether a count is spread. Returns true if it is the
/// last of many looks in a short time.
#[cfg(all(feature = "std", not(loom)))]
#[cold]
pub fn note_look() -> bool {
    let note = |pace: &Pace| pace.note(LOOKS, Duration::from_millis(1));
    LOOKED.try_with(note).unwrap_or(false)
}

/// In a kernel: the state is in the record of the thread, and the clock is a hook.
#[cfg(all(not(feature = "std"), not(loom)))]
mod kernel {
    use super::{CHANGES, LOOKS};
    use crate::announce::ThreadState;
    use crate::platform::hooks;
    use core::sync::atomic::AtomicUsize;
    use core::sync::atomic::Ordering::Relaxed;

    /// Notes one more. Returns true if it is the last of so many within so many nanoseconds. A
    /// clock that is always 0 is no clock.
    fn note([seen, since]: &[AtomicUsize; 2], many: u32, time: usize) -> bool {
        // Relaxed, all: only the thread uses it.
        seen.store(seen.load(Relaxed) + 1, Relaxed);
        if seen.load(Relaxed) < many as usize {
            return false;
        }
        seen.store(0, Relaxed);
        // A clock that wraps makes one difference wrong.
        let now = hooks::nanoseconds() as usize;
        let before = since.load(Relaxed);
        since.store(now, Relaxed);
        before != 0 && now.wrapping_sub(before) <= time
    }

    /// As with `std`.
    #[cold]
    pub(in crate::refcount::spread) fn note_change() -> bool {
        ThreadState::of_caller().is_some_and(|own| note(&own.changed, CHANGES, 100_000))
    }

    /// As with `std`.
    #[cold]
    pub fn note_look() -> bool {
        ThreadState::of_caller().is_some_and(|own| note(&own.looked, LOOKS, 1_000_000))
    }
}
#[cfg(all(not(feature = "std"), not(loom)))]
pub(super) use kernel::note_change;
#[cfg(all(not(feature = "std"), not(loom)))]
pub use kernel::note_look;

/// Returns false: models spread counts by themselves.
#[cfg(loom)]
pub(super) fn note_change() -> bool {
    false
}

/// Returns true: models have few looks.
#[cfg(loom)]
pub fn note_look() -> bool {
    true
}
