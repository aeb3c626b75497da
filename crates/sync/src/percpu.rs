//! Data of which every CPU has its own copy, on cache lines of its own.
//!
//! [`current`] names the CPU that the thread runs on. The thread may be moved to another one at any
//! instruction, so the answer is a hint: what it selects must be correct from any CPU (a lock, an
//! atomic), only cheaper from its own.
//!
//! Where the index comes from, the cheapest first:
//! 1. the rseq area, which the kernel keeps up to date in the thread's memory (Linux ≥ 4.18 with
//!    glibc ≥ 2.35): three loads;
//! 2. `getcpu`, by way of `sched_getcpu(3)`: a call into the vDSO;
//! 3. an index that the thread draws once: not a CPU, but threads that run at the same time still
//!    tend to have different ones.
//!
//! Without `std` a [hook](crate::platform::kernel) of the kernel names it.
//!
//! ```
//! let cpu = fdtable_sync::percpu::current();
//! assert!(cpu < 1 << 20);
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use crossbeam_utils::CachePadded;

use crate::fallible::OutOfMemory;
#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
pub use crate::platform::system::rseq;
pub use crate::platform::system::{
    cpu as current, know_node, known_node, node as current_node, try_cpu as try_current,
};
use crate::platform::{shared, system};

/// The most CPUs for which there are copies. CPUs with higher indexes share them.
const MAX_CPUS: usize = 1 << 20;

/// How many CPUs the machine could have, or are expected; 0 until they are counted. The system
/// looks it up in a file, and tables are made often.
static CPUS: AtomicUsize = AtomicUsize::new(0);

/// Returns how many copies a [`PerCpu`] has: the CPUs that this machine could have, rounded up to a
/// power of two, so that an index is a mask and never out of bounds.
pub fn copies() -> usize {
    // Relaxed: the value is all that is published.
    let counted = match CPUS.load(Relaxed) {
        0 => count_cpus(0),
        counted => counted,
    };
    copies_for(counted)
}

/// Returns how many copies `cpus` CPUs have: never 0, which has no mask.
fn copies_for(cpus: usize) -> usize {
    cpus.clamp(1, MAX_CPUS).next_power_of_two()
}

/// Counts the CPUs as so many at least, unless they are counted.
#[cold]
fn count_cpus(at_least: usize) -> usize {
    let count = system::cpus().max(at_least);
    // Relaxed, both: as in `copies`.
    match CPUS.compare_exchange(0, count, Relaxed, Relaxed) {
        Ok(_) => count,
        Err(counted) => counted,
    }
}

/// Makes copies for at least `count` CPUs, also if this machine could not have as many. For
/// programs that simulate a larger one. To be called before anything else here is used. Returns
/// false if copies were made before, for fewer CPUs, and for more than 2^20.
///
/// ```
/// # use fdtable_sync::percpu::{copies, expect_cpus};
/// assert!(!expect_cpus(usize::MAX));
/// assert!(expect_cpus(6));
/// assert!(copies() >= 8);
/// ```
#[must_use]
pub fn expect_cpus(count: usize) -> bool {
    count <= MAX_CPUS && count_cpus(count) >= count
}

/// A value for each CPU, each on cache lines of its own.
///
/// ```
/// use fdtable_sync::percpu::PerCpu;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let opened = PerCpu::try_new(|_cpu| AtomicU64::new(0))?;
/// opened.this().fetch_add(1, Ordering::Relaxed);
/// let sum: u64 = opened.iter().map(|count| count.load(Ordering::Relaxed)).sum();
/// assert_eq!(sum, 1);
/// # Ok::<(), fdtable_sync::fallible::OutOfMemory>(())
/// ```
#[derive(Debug)]
pub struct PerCpu<T> {
    copies: Box<[CachePadded<T>]>,
}

impl<T> PerCpu<T> {
    /// Makes a copy for each CPU that the machine could have; `make` gets the index of each, from
    /// 0. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for the copies.
    pub fn try_new(make: impl FnMut(usize) -> T) -> Result<Self, OutOfMemory> {
        Self::try_with_copies(copies(), make)
    }

    /// Makes the given number of copies, as [`try_new`](Self::try_new) does.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for the copies.
    ///
    /// # Panics
    /// If `count` is not a power of two.
    pub fn try_with_copies(
        count: usize,
        make: impl FnMut(usize) -> T,
    ) -> Result<Self, OutOfMemory> {
        assert!(count.is_power_of_two(), "an index is a mask");
        let _shared = shared::allocate();
        let mut values = Vec::new();
        values.try_reserve_exact(count).map_err(|_| OutOfMemory)?;
        values.extend((0..count).map(make).map(CachePadded::new));
        // As long as its capacity, so this does not allocate.
        Ok(Self {
            copies: values.into_boxed_slice(),
        })
    }

    /// Returns the index of the copy that `cpu` uses.
    #[inline]
    pub fn clamp(&self, cpu: usize) -> usize {
        // The length is a power of two, so the mask keeps the index inside.
        cpu & (self.copies.len() - 1)
    }

    /// Returns the copy of the CPU that runs this thread now. The thread may move to another CPU
    /// while it holds the reference.
    #[inline]
    pub fn this(&self) -> &T {
        self.of(current())
    }

    /// Returns the copy of CPU `cpu`. Indexes past the last copy wrap around.
    #[inline]
    pub fn of(&self, cpu: usize) -> &T {
        // SAFETY: there is at least one copy, and their number is a power of two, so the mask keeps
        // the index below it.
        unsafe { self.copies.get_unchecked(self.clamp(cpu)) }
    }

    /// Returns all copies, one after the other in memory.
    pub fn as_slice(&self) -> &[CachePadded<T>] {
        &self.copies
    }

    /// Iterates over the copies of all CPUs.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.as_slice().iter().map(|copy| &**copy)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_processor_has_a_copy_on_its_own_line() {
        let copies = PerCpu::try_new(|cpu| cpu).expect("memory");
        let places: Vec<usize> = copies
            .iter()
            .map(|copy| core::ptr::from_ref(copy).addr())
            .collect();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 64));
        assert!(copies.iter().copied().eq(0..places.len()));
    }

    #[test]
    fn an_index_past_the_last_copy_wraps_around() {
        let copies = PerCpu::try_new(|cpu| cpu).expect("memory");
        let count = copies.iter().count();
        assert_eq!(*copies.of(count), 0);
        assert_eq!(*copies.of(usize::MAX), count - 1);
    }

    #[test]
    fn a_processor_has_the_node_that_the_system_tells() {
        let asked = node_of_system();
        assert_eq!(current_node(), asked);
        assert_eq!(current_node(), asked, "and remembers it");
    }

    /// On a machine with one node it is this one.
    fn node_of_system() -> u16 {
        let nodes = std::fs::read_dir("/sys/devices/system/node").map_or(1, |entries| {
            let named = |entry: &std::fs::DirEntry| {
                let name = entry.file_name();
                name.to_str().is_some_and(|name| {
                    name.strip_prefix("node")
                        .is_some_and(|number| number.parse::<u16>().is_ok())
                })
            };
            entries.flatten().filter(named).count()
        });
        if nodes <= 1 { 0 } else { current_node() }
    }

    #[test]
    fn more_processors_cannot_be_expected_once_there_are_copies() {
        drop(PerCpu::try_new(|cpu| cpu));
        assert!(expect_cpus(1));
        assert!(!expect_cpus(1 << 20));
    }

    /// Zero copies would have no mask: every index would be out of bounds.
    #[test]
    fn there_is_a_copy_whatever_the_number_of_cpus() {
        for (cpus, copies) in [(0, 1), (1, 1), (3, 4), (MAX_CPUS - 1, MAX_CPUS)] {
            assert_eq!(copies_for(cpus), copies);
        }
        for cpus in [MAX_CPUS, MAX_CPUS + 1, usize::MAX / 2 + 2, usize::MAX] {
            assert_eq!(copies_for(cpus), MAX_CPUS);
        }
        assert!(!expect_cpus(usize::MAX));
    }
}
