//! Services of another system than Linux: what `std` has.

use core::num::NonZero;
use std::thread;

pub use super::queues as futex;
use crate::fence;
pub use crate::platform::plain::*;

/// Returns the index of the CPU that runs this thread, if the system reports it. Elsewhere it
/// returns an index that the thread keeps. The index is a hint that may be out of date at once.
/// Neither blocks nor allocates.
pub fn cpu() -> usize {
    super::thread_index()
}

/// Returns 0: the node is unknown.
pub fn node() -> u16 {
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
