//! Services of another system than Linux: what `std` has.

use core::num::NonZero;
use std::thread;

pub(crate) use super::thread_index as cpu;
use crate::fence;

pub(crate) fn try_cpu() -> Option<usize> {
    Some(cpu())
}

pub(crate) fn node() -> u16 {
    0
}

pub(crate) fn know_node(_cpu: usize) {}

pub(crate) fn known_node(_cpu: usize) -> u16 {
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

pub(crate) fn can_restart() -> bool {
    false
}

pub(crate) fn restart() -> Result<(), fence::NotRestarted> {
    Ok(())
}
