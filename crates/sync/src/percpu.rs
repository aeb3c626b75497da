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

#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
mod node;
#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
pub mod rseq;

use crate::fallible::{OutOfMemory, try_box};
#[cfg(all(not(feature = "std"), not(loom)))]
use crate::platform::hooks;
use crate::platform::shared;
use alloc::boxed::Box;
use alloc::vec::Vec;
use crossbeam_utils::CachePadded;

/// The most CPUs for which there are copies. CPUs with higher indexes share them.
const MAX_CPUS: usize = 1 << 20;

/// How many different indexes threads draw where CPUs have none.
#[cfg(all(feature = "std", not(loom)))]
const MAX_COPIES: usize = 1024;

/// Returns the index of the CPU that runs this thread, if the system reports it. Elsewhere it
/// returns an index that the thread keeps. The index is a hint that may be out of date at once.
/// Neither blocks nor allocates.
///
/// ```
/// let cpu = fdtable_sync::percpu::current();
/// assert!(cpu < 1 << 20);
/// ```
#[inline]
pub fn current() -> usize {
    #[cfg(all(feature = "std", target_os = "linux", not(loom)))]
    {
        if let Some(cpu) = rseq::cpu_id() {
            return cpu;
        }
        system_cpu()
    }
    #[cfg(all(not(feature = "std"), not(loom)))]
    return hooks::cpu();
    #[cfg(any(loom, all(feature = "std", not(target_os = "linux"))))]
    thread_index()
}

/// Returns the memory node of the CPU that runs this thread, if the system reports it. The node is
/// a hint, as the CPU of [`current`] is. Neither blocks nor allocates.
#[doc(alias = "getcpu")]
#[inline]
pub fn current_node() -> u16 {
    #[cfg(all(feature = "std", target_os = "linux", not(loom)))]
    return node::node_of(current());
    #[cfg(all(not(feature = "std"), not(loom)))]
    return hooks::node();
    #[cfg(any(loom, all(feature = "std", not(target_os = "linux"))))]
    0
}

/// Looks up the memory node of `cpu`, if it is not known yet. This thread has just run on `cpu`.
/// Asks the kernel once for each CPU.
#[inline]
pub fn know_node(cpu: usize) {
    #[cfg(all(feature = "std", target_os = "linux", not(loom)))]
    node::know(cpu);
    #[cfg(not(all(feature = "std", target_os = "linux", not(loom))))]
    let _ = cpu;
}

/// Returns the memory node of `cpu` if it is known, or else one that no CPU has.
pub fn known_node(cpu: usize) -> u16 {
    #[cfg(all(feature = "std", target_os = "linux", not(loom)))]
    return node::known(cpu);
    #[cfg(not(all(feature = "std", target_os = "linux", not(loom))))]
    {
        let _ = cpu;
        0
    }
}

/// Returns what [`current`] does, but only where the thread's own memory tells it. For paths that
/// must not call anything.
#[inline]
pub fn try_current() -> Option<usize> {
    #[cfg(all(feature = "std", target_os = "linux", not(loom)))]
    return rseq::known_cpu_id();
    #[cfg(not(all(feature = "std", target_os = "linux", not(loom))))]
    Some(current())
}

#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
#[cold]
fn system_cpu() -> usize {
    // SAFETY: `sched_getcpu` takes nothing and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap_or_else(|_| thread_index())
}

/// Returns an index that the thread draws at its first call and keeps.
#[cfg(all(feature = "std", not(loom)))]
fn thread_index() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: the indexes only have to differ, and nothing else depends on them.
        static INDEX: usize = NEXT.fetch_add(1, Relaxed) % MAX_COPIES;
    }
    INDEX.try_with(|index| *index).unwrap_or(0)
}

/// Models are harder on shared copies.
#[cfg(loom)]
fn thread_index() -> usize {
    0
}

/// Returns how many copies a [`PerCpu`] has: the CPUs that this machine could have, rounded up to a
/// power of two, so that an index is a mask and never out of bounds.
pub fn copies() -> usize {
    copies_for(possible_cpus())
}

/// Returns how many copies `cpus` CPUs have: never 0, which has no mask.
const fn copies_for(cpus: usize) -> usize {
    match cpus {
        0 => 1,
        1..MAX_CPUS => cpus.next_power_of_two(),
        MAX_CPUS.. => MAX_CPUS,
    }
}

/// Computed once: the system looks it up in a file, and tables are made often.
#[cfg(all(feature = "std", not(loom)))]
static CPUS: std::sync::OnceLock<usize> = std::sync::OnceLock::new();

#[cfg(all(feature = "std", not(loom)))]
fn possible_cpus() -> usize {
    *CPUS.get_or_init(configured_cpus)
}

/// The reason why no copies are made for a number of CPUs.
#[cfg(all(feature = "std", not(loom)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpusRefused {
    /// Copies were made before, for fewer CPUs.
    AlreadyCounted,
    /// There are copies for at most 2^20 CPUs.
    TooMany,
}

#[cfg(all(feature = "std", not(loom)))]
impl core::fmt::Display for CpusRefused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::AlreadyCounted => "there are copies for fewer CPUs already",
            Self::TooMany => "there are never copies for so many CPUs",
        })
    }
}

#[cfg(all(feature = "std", not(loom)))]
impl core::error::Error for CpusRefused {}

/// Makes copies for at least `count` CPUs, also if this machine could not have as many. For
/// programs that simulate a larger one. To be called before anything else here is used.
///
/// ```
/// # use fdtable_sync::percpu::{CpusRefused, PerCpu, expect_cpus};
/// assert_eq!(expect_cpus(usize::MAX), Err(CpusRefused::TooMany));
/// expect_cpus(6)?;
/// assert!(PerCpu::new(|cpu| cpu).iter().count() >= 8);
/// # Ok::<(), CpusRefused>(())
/// ```
///
/// # Errors
/// - [`CpusRefused::AlreadyCounted`] if copies were made before, for fewer CPUs.
/// - [`CpusRefused::TooMany`] for more than 2^20.
#[cfg(all(feature = "std", not(loom)))]
pub fn expect_cpus(count: usize) -> Result<(), CpusRefused> {
    if count > MAX_CPUS {
        return Err(CpusRefused::TooMany);
    }
    let cpus = *CPUS.get_or_init(|| configured_cpus().max(count));
    if cpus < count {
        return Err(CpusRefused::AlreadyCounted);
    }
    Ok(())
}

#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
fn configured_cpus() -> usize {
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
#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
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

#[cfg(all(feature = "std", not(target_os = "linux"), not(loom)))]
fn configured_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, core::num::NonZero::get)
}

#[cfg(loom)]
fn possible_cpus() -> usize {
    1
}

#[cfg(all(not(feature = "std"), not(loom)))]
fn possible_cpus() -> usize {
    hooks::cpus()
}

/// A value for each CPU, each on cache lines of its own.
///
/// ```
/// use fdtable_sync::percpu::PerCpu;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let opened = PerCpu::new(|_cpu| AtomicU64::new(0));
/// opened.this().fetch_add(1, Ordering::Relaxed);
/// let sum: u64 = opened.iter().map(|count| count.load(Ordering::Relaxed)).sum();
/// assert_eq!(sum, 1);
/// ```
#[derive(Debug)]
pub struct PerCpu<T> {
    copies: Box<[CachePadded<T>]>,
}

impl<T> PerCpu<T> {
    /// Makes a copy for each CPU that the machine could have; `make` gets the index of each, from
    /// 0. Allocates.
    pub fn new(make: impl FnMut(usize) -> T) -> Self {
        Self {
            copies: (0..copies()).map(make).map(CachePadded::new).collect(),
        }
    }

    /// As [`new`](Self::new).
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

    /// Makes one copy, which all CPUs share. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for the copy.
    pub fn try_one(value: T) -> Result<Self, OutOfMemory> {
        let copy: Box<[_; 1]> = try_box([CachePadded::new(value)])?;
        Ok(Self { copies: copy })
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
        let copies = PerCpu::new(|cpu| cpu);
        let places: Vec<usize> = copies
            .iter()
            .map(|copy| core::ptr::from_ref(copy).addr())
            .collect();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 64));
        assert!(copies.iter().copied().eq(0..places.len()));
    }

    #[test]
    fn an_index_past_the_last_copy_wraps_around() {
        let copies = PerCpu::new(|cpu| cpu);
        let count = copies.iter().count();
        assert_eq!(*copies.of(count), 0);
        assert_eq!(*copies.of(usize::MAX), count - 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_rseq_area_and_the_system_call_agree_when_the_thread_is_pinned() {
        let pinned = pin();
        assert_eq!(system_cpu(), pinned);
        assert_eq!(current(), pinned);
    }

    /// The others would share its copy, for as long as the process lives.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_is_pinned_counts_all_cpus() {
        let before = configured_cpus();
        pin();
        assert_eq!(configured_cpus(), before);
    }

    /// Pins the calling thread to the CPU that runs it, and returns that.
    #[cfg(target_os = "linux")]
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
        drop(PerCpu::new(|cpu| cpu));
        assert_eq!(expect_cpus(1), Ok(()));
        let refused = Err(CpusRefused::AlreadyCounted);
        assert_eq!(expect_cpus(1 << 20), refused);
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
        assert_eq!(expect_cpus(usize::MAX), Err(CpusRefused::TooMany));
    }

    #[test]
    fn threads_draw_different_indexes() {
        let other = std::thread::spawn(thread_index)
            .join()
            .expect("the thread ends");
        assert_ne!(thread_index(), other);
    }
}
