//! Services of another system than Linux: what `std` has.

use core::num::NonZero;
use std::thread;
use std::time::Instant;

pub use super::queues as futex;
use crate::fence;
pub(crate) use crate::platform::plain::*;

pub(crate) fn cpu() -> usize {
    super::thread_index()
}

pub(crate) fn node() -> u16 {
    0
}

/// Returns the time since the first call of the thread.
pub(crate) fn nanoseconds() -> u64 {
    std::thread_local! {
        static START: Instant = Instant::now();
    }
    let since = START.try_with(|start| start.elapsed().as_nanos() as u64);
    since.unwrap_or(0)
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
