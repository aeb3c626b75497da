//! A list of all caches of the process, the newest first.

use alloc::vec::Vec;

use super::cache::{Listed, RawCache};
use super::info::Info;
use super::list::List;
use fdtable_sync::platform::{Mutex, global};

global! {
    pub(super) static REGISTRY: Mutex<List<Listed>> = Mutex::new(List::new());
}

/// Puts a cache on the list, unless it is there.
///
/// # Safety
/// It stays where it is, and alive, until it is [removed](remove).
pub(super) unsafe fn add(cache: &RawCache) {
    let cache = Listed::new(cache);
    let mut registry = REGISTRY.lock();
    if !registry.iter().any(|listed| listed == cache) {
        registry.push(cache);
    }
}

/// Removes a cache from the list.
///
/// # Safety
/// It is there.
pub(super) unsafe fn remove(cache: &RawCache) {
    REGISTRY.lock().remove(Listed::new(cache));
}

/// Frees unused memory of all caches, including the general ones. For a program that is short of
/// memory, or that has closed very many files. Returns how many bytes that is. Takes locks, one
/// cache after the other. The memory of files that were just closed is unused after a grace period,
/// such as that of [`rcu::barrier`](fdtable_sync::rcu::barrier).
///
/// If processes share memory, it moves the calling thread to each CPU and back. If the thread may
/// not run on one that is online, the objects that CPUs keep at hand stay with them.
///
/// ```
/// use fdtable_slab as slab;
///
/// let cache = slab::Cache::new("short-lived")?;
/// drop(cache.insert([1; 100])?);
/// assert!(slab::shrink() >= 64 * 1024);
/// # Ok::<(), fdtable_sync::fallible::OutOfMemory>(())
/// ```
pub fn shrink() -> usize {
    let mut empty = List::new();
    let registry = REGISTRY.lock();
    let caches = registry.iter();
    let bytes: usize = caches.map(|cache| cache.shrink_to(&mut empty)).sum();
    // Slabs go without the lock, for which a first allocation may wait inside a section.
    drop(registry);
    bytes + RawCache::free_slabs(empty)
}

/// Returns the figures of each live cache, including the general ones; the newest cache first.
/// Takes locks, one cache after the other, and allocates: aborts the process if there is no memory
/// for the result, as a `Vec` does.
#[doc(alias = "slabinfo")]
#[must_use]
pub fn infos() -> Vec<Info> {
    let registry = REGISTRY.lock();
    registry.iter().map(|cache| cache.info()).collect()
}
