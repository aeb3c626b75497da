//! Services of another system than Linux: what `std` has.

use core::num::NonZero;
use std::thread;

use crate::fence;
pub(crate) use crate::platform::plain::*;

pub(crate) fn cpu() -> usize {
    super::thread_index()
}

pub(crate) fn node() -> u16 {
    0
}

pub(crate) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

pub(crate) fn has_heavy_fence() -> bool {
    false
}

pub(crate) fn heavy_fence() {
    fence::full();
}

pub mod futex {
    //! Sleep on a word, and the wake-up, by looks at the word from time to time.

    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use core::time::Duration;
    use std::thread;

    /// Sleeps for a millisecond, or for a shorter time, if the word has this value. Returns 0.
    pub fn wait(word: &AtomicU32, value: u32, time: Option<Duration>) -> i32 {
        const NAP: Duration = Duration::from_millis(1);
        // Relaxed: only a look, as that of a kernel.
        if word.load(Relaxed) == value {
            thread::sleep(time.map_or(NAP, |time| time.min(NAP)));
        }
        0
    }

    /// Does nothing: every sleep is short.
    pub fn wake(_word: &AtomicU32, _count: i32) {}

    /// Sleeps as [`wait`] does. Returns false: no handler ends a sleep.
    pub(crate) fn wait_for_handler(
        word: &AtomicU32,
        value: u32,
        time: Option<Duration>,
        _restarts: bool,
    ) -> bool {
        wait(word, value, time);
        false
    }
}
