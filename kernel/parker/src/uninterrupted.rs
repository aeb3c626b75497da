//! Sleep on a word, where no handler interrupts it.

use core::time::Duration;

use fdtable_sync::platform::atomic::AtomicU32;
use fdtable_sync::platform::futex;

use super::Restart;

/// Sleeps as [`futex::wait`] does. Returns false: no handler ends a sleep.
pub(super) fn wait(word: &AtomicU32, value: u32, time: Option<Duration>, _: Restart) -> bool {
    futex::wait(word, value, time);
    false
}
