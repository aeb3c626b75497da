//! A list of all caches of the process.

use core::ptr;

use alloc::vec::Vec;

use super::cache::{Links, RawCache};
use super::info::Info;
use fdtable_sync::platform::{Mutex, global};

/// The list: the cache that was added last.
pub(super) struct Registry {
    first: *const RawCache,
}

// SAFETY: caches belong to no thread, and the lock guards their links.
unsafe impl Send for Registry {}

global! {
    pub(super) static REGISTRY: Mutex<Registry> = Mutex::new(Registry { first: ptr::null() });
}

/// Returns the links of a cache on the list.
///
/// # Safety
/// The caller holds the lock, and drops one borrow before it asks for another; the cache is alive.
#[expect(clippy::mut_from_ref, reason = "the lock of the list guards them")]
unsafe fn links(cache: &RawCache) -> &mut Links {
    // SAFETY: as the caller promises.
    unsafe { &mut *cache.links.get() }
}

/// Puts a cache on the list, unless it is there.
///
/// # Safety
/// It stays where it is, and alive, until it is [removed](remove).
pub(super) unsafe fn add(cache: &RawCache) {
    let mut registry = REGISTRY.lock();
    // SAFETY: the lock is held, and no other links are borrowed.
    let own = unsafe { links(cache) };
    if own.is_listed {
        return;
    }
    *own = Links {
        next: registry.first,
        before: ptr::null(),
        is_listed: true,
    };
    // SAFETY: null, or a cache that is on the list: it removes itself before it is freed.
    if let Some(first) = unsafe { registry.first.as_ref() } {
        // SAFETY: as above; the cache's own links are not used any more.
        unsafe { links(first) }.before = cache;
    }
    registry.first = cache;
}

/// Removes a cache from the list, if it is there.
pub(super) fn remove(cache: &RawCache) {
    let mut registry = REGISTRY.lock();
    // SAFETY: the lock is held, and no other links are borrowed.
    let own = core::mem::replace(unsafe { links(cache) }, Links::new());
    if !own.is_listed {
        return;
    }
    // SAFETY: null, or a cache on the list.
    if let Some(next) = unsafe { own.next.as_ref() } {
        // SAFETY: the lock is held, and no other links are borrowed.
        unsafe { links(next) }.before = own.before;
    }
    // SAFETY: null, or a cache on the list.
    match unsafe { own.before.as_ref() } {
        // SAFETY: the lock is held, and no other links are borrowed.
        Some(before) => unsafe { links(before) }.next = own.next,
        None => registry.first = own.next,
    }
}

/// Shrinks every cache on the list.
pub(super) fn shrink() -> usize {
    let registry = REGISTRY.lock();
    let mut bytes = 0;
    let mut place = registry.first;
    // SAFETY: null, or a cache on the list: it cannot be freed while the lock is held.
    while let Some(cache) = unsafe { place.as_ref() } {
        bytes += cache.shrink();
        // SAFETY: the lock is held, and no other links are borrowed.
        place = unsafe { links(cache) }.next;
    }
    bytes
}

/// Collects the figures of every cache on the list, the newest first.
pub(super) fn infos() -> Vec<Info> {
    let registry = REGISTRY.lock();
    let mut infos = Vec::new();
    let mut place = registry.first;
    // SAFETY: null, or a cache on the list: it cannot be freed while the lock is held.
    while let Some(cache) = unsafe { place.as_ref() } {
        infos.push(cache.info());
        // SAFETY: the lock is held, and no other links are borrowed.
        place = unsafe { links(cache) }.next;
    }
    infos
}
