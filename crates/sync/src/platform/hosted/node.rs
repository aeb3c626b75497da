//! The memory node of a CPU, read from the kernel once for each.

use core::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// How many CPUs are remembered. Others have no node.
const REMEMBERED: usize = 1024;

/// The node of each CPU.
static NODES: [AtomicU16; REMEMBERED] = [const { AtomicU16::new(UNKNOWN) }; REMEMBERED];

/// The node of the CPU has not been read yet.
pub(super) const UNKNOWN: u16 = u16::MAX;

/// Looks up the memory node of `cpu`, if it is not known yet. This thread has just run on `cpu`.
/// Asks the kernel once for each CPU.
#[inline]
pub fn know(cpu: usize) {
    if known(cpu) == UNKNOWN && cpu < REMEMBERED {
        ask();
    }
}

/// Returns the memory node of `cpu` if it is known, or else one that no CPU has.
#[inline]
pub fn known(cpu: usize) -> u16 {
    // Relaxed: the value is all that is published.
    NODES.get(cpu).map_or(UNKNOWN, |node| node.load(Relaxed))
}

/// Asks the kernel on which node the thread runs, and remembers the answer. Returns 0 if the kernel
/// refuses.
#[cold]
pub(super) fn ask() -> u16 {
    let (mut cpu, mut node) = (0_u32, 0_u32);
    let (to_cpu, to_node) = (&raw mut cpu, &raw mut node);
    // SAFETY: the call writes two integers, where they are on this frame.
    let answer = unsafe { libc::syscall(libc::SYS_getcpu, to_cpu, to_node, 0) };
    if answer != 0 {
        return 0;
    }
    let node = u16::try_from(node).unwrap_or(0);
    if let Some(place) = usize::try_from(cpu).ok().and_then(|cpu| NODES.get(cpu)) {
        // Relaxed: as above; a CPU stays on its node.
        place.store(node, Relaxed);
    }
    node
}
