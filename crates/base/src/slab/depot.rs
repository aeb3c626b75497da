//! Magazines that are not loaded: a store of full ones and of empty ones.
//!
//! There is one for all. It is what makes objects travel cheaply from processors that give back to those
//! that take: a magazine at a time, with one lock for all its objects, and without a look at their slabs.
//! The store of full ones is bounded; the objects of a surplus go back to their slabs.
//!
//! And each processor has one of its own. Objects that waited for a grace period come back in
//! batches, many magazines at once, and are taken one after the other. Were all of these in one store,
//! the processors would take each other's: an object is some cache lines, and each would have to
//! travel, as would those of the store. So the batch of a processor stays there, in the caches that have
//! it. What is more than a batch is for all. The objects of a processor that falls idle
//! are lost to the others until somebody [shrinks](super::RawCache::shrink) the cache, so that store is
//! small.
//!
//! Magazines are as many as were ever in use at once, and stay: that is bounded by the bound of
//! the store, two for each processor, and what threads have in hand. Only shrinking frees some.

use super::magazine::{Magazine, MagazineList, ROUNDS};
use super::region::CHUNK;

/// How many objects, in bytes, the full magazines may hold.
const BYTES: usize = 16 * CHUNK;

/// The same of one processor.
const OWN_BYTES: usize = 4 * CHUNK;

/// How many full magazines a processor has at most: the objects of a batch of RCU callbacks, and those
/// that gather before it is over.
const OWN: usize = 18;

/// A depot. A lock is around it.
pub(super) struct Depot {
    /// None of them is empty; most are full.
    full: MagazineList,
    empty: MagazineList,
    /// How many objects the magazines of `full` hold.
    objects: usize,
    /// How many magazines may be in `full`.
    limit: usize,
    /// How many may be in `empty`.
    empty_limit: usize,
    /// Allocations that found no object in the magazines of a processor.
    pub(super) misses: u64,
    /// Allocations from magazines that have been here since.
    pub(super) hits: u64,
}

impl Depot {
    /// Makes the one for all.
    pub(super) fn new(stride: usize) -> Self {
        let limit = (BYTES / (stride * ROUNDS)).clamp(2, 64);
        Self::with_limits(if cfg!(loom) { 1 } else { limit }, usize::MAX)
    }

    /// Makes that of a processor.
    pub(super) fn new_own(stride: usize) -> Self {
        let limit = (OWN_BYTES / (stride * ROUNDS)).min(OWN);
        let limit = if cfg!(loom) { 0 } else { limit };
        Self::with_limits(limit, limit)
    }

    fn with_limits(limit: usize, empty_limit: usize) -> Self {
        Self {
            full: MagazineList::new(),
            empty: MagazineList::new(),
            objects: 0,
            limit,
            empty_limit,
            misses: 0,
            hits: 0,
        }
    }

    /// Returns how many objects the magazines hold.
    pub(super) fn objects(&self) -> usize {
        self.objects
    }

    /// Returns how many magazines there are.
    pub(super) fn magazines(&self) -> usize {
        self.full.len() + self.empty.len()
    }

    /// Takes a magazine that has something.
    pub(super) fn take_full(&mut self) -> Option<Magazine> {
        let magazine = self.full.pop()?;
        self.objects -= magazine.len();
        Some(magazine)
    }

    /// Moves all magazines to a list.
    pub(super) fn move_to(&mut self, list: &mut MagazineList) {
        while let Some(magazine) = self.take_full().or_else(|| self.take_empty()) {
            list.push(magazine);
        }
    }

    /// Takes an empty magazine.
    pub(super) fn take_empty(&mut self) -> Option<Magazine> {
        self.empty.pop()
    }

    /// Puts a magazine into the store, and returns one that is too many.
    #[must_use = "the objects of a surplus magazine belong to their slabs"]
    pub(super) fn put(&mut self, magazine: Option<Magazine>) -> Option<Magazine> {
        let mut magazine = magazine?;
        self.hits += magazine.take_hits() as u64;
        let (list, limit) = match magazine.is_empty() {
            true => (&mut self.empty, self.empty_limit),
            false => (&mut self.full, self.limit),
        };
        if list.len() >= limit {
            return Some(magazine);
        }
        self.objects += magazine.len();
        list.push(magazine);
        None
    }
}
