//! Services of a system that tells the CPU of a thread, but not the node of another CPU, and whose
//! heavy fence restarts sequences.

use super::system::{cpu, has_heavy_fence, heavy_fence};
use crate::fence::NotRestarted;

/// Returns what [`current`](crate::percpu::current) does, but only where the thread's own memory
/// tells it. For paths that must not call anything.
#[inline(always)]
pub fn try_cpu() -> Option<usize> {
    Some(cpu())
}

/// Does nothing: nodes of other CPUs are unknown.
pub fn know_node(_cpu: usize) {}

/// Returns 0: as above.
pub fn known_node(_cpu: usize) -> u16 {
    0
}

pub(crate) fn can_restart() -> bool {
    has_heavy_fence()
}

pub(crate) fn restart() -> Result<(), NotRestarted> {
    heavy_fence();
    Ok(())
}
