//! Services of the model checker. There is one CPU: models are harder on shared copies.

pub(crate) use crate::fence::model::{heavy as heavy_fence, register as has_heavy_fence, restart};
pub(crate) use crate::sequence::model::are_there as can_restart;

pub(crate) fn cpu() -> usize {
    0
}

/// Returns the CPU on which the thread runs sequences.
pub(crate) fn try_cpu() -> Option<usize> {
    Some(crate::sequence::model::cpu())
}

pub(crate) fn node() -> u16 {
    0
}

pub(crate) fn know_node(_cpu: usize) {}

pub(crate) fn known_node(_cpu: usize) -> u16 {
    0
}

pub(crate) fn cpus() -> usize {
    1
}

#[inline(always)]
pub(crate) fn enter_lock() {}

pub(crate) unsafe fn leave_lock() {}

pub(crate) fn relax(attempts: u32) {
    // Repeated waiting for a thread that is never run shows a model nothing new.
    if attempts >= 3 {
        loom::skip_branch();
    }
    loom::thread::yield_now();
}

pub(crate) fn nanoseconds() -> u64 {
    0
}
