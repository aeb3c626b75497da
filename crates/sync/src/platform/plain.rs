//! Services of a system that tells the CPU of a thread, but not the node of another CPU, and whose
//! heavy fence restarts sequences.

use super::system::{cpu, has_heavy_fence, heavy_fence};
use crate::fence::NotRestarted;

#[inline(always)]
pub(crate) fn try_cpu() -> Option<usize> {
    Some(cpu())
}

pub(crate) fn know_node(_cpu: usize) {}

pub(crate) fn known_node(_cpu: usize) -> u16 {
    0
}

pub(crate) fn can_restart() -> bool {
    has_heavy_fence()
}

pub(crate) fn restart() -> Result<(), NotRestarted> {
    heavy_fence();
    Ok(())
}
