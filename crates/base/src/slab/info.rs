//! What there is in a cache, as `/proc/slabinfo` tells it.

use core::fmt;

/// Figures of one cache, of one moment: others take and give back meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The name that the cache was given.
    pub name: &'static str,
    /// The size of an object, in bytes.
    pub object_size: usize,
    /// Objects with users.
    pub in_use: usize,
    /// Objects in all slabs, in use or free.
    pub objects: usize,
    /// Objects in one slab, 1 or more.
    pub objects_per_slab: usize,
    /// Slabs, of 64 KiB each.
    pub slabs: usize,
    /// Different distances at which the first object of a slab is, 1 or more.
    pub colours: usize,
    /// Allocations that found an object in a magazine of their processor.
    pub hits: u64,
    /// Allocations that did not.
    pub misses: u64,
    /// Memory that the cache has taken, in bytes: slabs and magazines.
    pub bytes: usize,
}
