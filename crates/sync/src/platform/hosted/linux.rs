//! Services of Linux.

pub mod futex;
mod membarrier;
mod node;
pub mod rseq;

pub(crate) use membarrier::{can_restart, has_heavy_fence, heavy_fence, restart};
pub use node::{know as know_node, known as known_node};
pub use rseq::*;

/// Returns the index of the CPU that runs this thread, if the system reports it. Elsewhere it
/// returns an index that the thread keeps. The index is a hint that may be out of date at once.
/// Neither blocks nor allocates.
#[inline]
pub fn cpu() -> usize {
    cpu_id().unwrap_or_else(system_cpu)
}

#[cold]
fn system_cpu() -> usize {
    // SAFETY: `sched_getcpu` takes nothing and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap_or_else(|_| super::thread_index())
}

/// Returns the memory node of the CPU that runs this thread, if the system reports it, or else one
/// that no CPU has. The node is a hint, as the CPU of [`current`](crate::percpu::current) is.
/// Neither blocks nor allocates.
#[doc(alias = "getcpu")]
#[inline]
pub fn node() -> u16 {
    let known = known_node(cpu());
    match known {
        node::UNKNOWN => node::ask(),
        known => known,
    }
}

/// Returns how many CPUs the machine could have.
pub(crate) fn cpus() -> usize {
    // The `sysconf` of musl counts the CPUs that the calling thread may use. It has to do where
    // there is no such file.
    if cfg!(target_env = "musl")
        && let Some(last) = last_possible_cpu()
    {
        return last + 1;
    }
    // SAFETY: `sysconf` takes an integer and touches no memory of ours.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(configured).unwrap_or(1)
}

/// Reads the index of the last CPU that the machine could have, if the kernel tells it. Allocates
/// nothing: the caller may be an allocator.
fn last_possible_cpu() -> Option<usize> {
    use std::io::Read as _;
    // A list of ranges in ascending order, nearly always one: `0-7`.
    let mut list = [0; 64];
    let mut file = std::fs::File::open("/sys/devices/system/cpu/possible").ok()?;
    let length = file.read(&mut list).ok().filter(|&n| n < list.len())?;
    let list = core::str::from_utf8(&list[..length]).ok()?;
    let last = list.trim_end().rsplit([',', '-']).next()?;
    last.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rseq_area_and_the_system_call_agree_when_the_thread_is_pinned() {
        let pinned = pin();
        assert_eq!(system_cpu(), pinned);
        assert_eq!(cpu(), pinned);
    }

    /// The others would share its copy, for as long as the process lives.
    #[test]
    fn a_thread_that_is_pinned_counts_all_cpus() {
        let before = cpus();
        pin();
        assert_eq!(cpus(), before);
    }

    /// Pins the calling thread to the CPU that runs it, and returns that.
    fn pin() -> usize {
        let pinned = system_cpu();
        // SAFETY: an all-zero `cpu_set_t` is an empty set.
        let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
        // SAFETY: `pinned` is the number of a CPU, well below the size of the set.
        unsafe { libc::CPU_SET(pinned, &mut set) };
        // SAFETY: the set lives on this frame and has the given size.
        let answer = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
        assert_eq!(answer, 0);
        pinned
    }
}
