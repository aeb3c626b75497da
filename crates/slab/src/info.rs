//! The figures of a cache, like a line of `/proc/slabinfo`.

use super::chunk::CHUNK;

/// Snapshot of the figures of one cache; other threads allocate and free meanwhile.
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
    /// Slabs, of 64 KiB each, or of a page without `std`.
    pub slabs: usize,
    /// Different distances at which the first object of a slab is, 1 or more.
    pub colours: usize,
    /// Allocations that did not find an object in a magazine of their CPU.
    pub misses: u64,
    /// Memory that the cache has taken, in bytes: slabs and magazines.
    pub bytes: usize,
}

impl Info {
    /// Returns the memory of the objects with users, in bytes: their share of their slabs.
    #[must_use]
    pub fn bytes_in_use(&self) -> usize {
        self.in_use * CHUNK / self.objects_per_slab
    }
}
