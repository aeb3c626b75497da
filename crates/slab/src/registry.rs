//! A list of all caches of the process, the newest first.

use core::ops::Deref;
use core::ptr::NonNull;

use alloc::vec::Vec;

use super::cache::RawCache;
use super::info::Info;
use super::list::{Element, Links, List};
use fdtable_sync::platform::{Mutex, global};

/// A cache on the list, for the holder of its lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed(NonNull<RawCache>);

// SAFETY: caches belong to no thread.
unsafe impl Send for Listed {}

impl Deref for Listed {
    type Target = RawCache;

    fn deref(&self) -> &RawCache {
        // SAFETY: a cache removes itself from the list before it is freed, and the list is locked.
        unsafe { self.0.as_ref() }
    }
}

impl Element for Listed {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

global! {
    pub(super) static REGISTRY: Mutex<List<Listed>> = Mutex::new(List::new());
}

/// Puts a cache on the list, unless it is there.
///
/// # Safety
/// It stays where it is, and alive, until it is [removed](remove).
pub(super) unsafe fn add(cache: &RawCache) {
    let cache = Listed(NonNull::from(cache));
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
    REGISTRY.lock().remove(Listed(NonNull::from(cache)));
}

/// Shrinks every cache on the list.
pub(super) fn shrink() -> usize {
    let registry = REGISTRY.lock();
    registry.iter().map(|cache| cache.shrink()).sum()
}

/// Collects the figures of every cache on the list, the newest first.
pub(super) fn infos() -> Vec<Info> {
    let registry = REGISTRY.lock();
    registry.iter().map(|cache| cache.info()).collect()
}
