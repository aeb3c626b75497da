//! Magazines that belong to no CPU: a store of full ones and of empty ones.
//!
//! The depot moves objects cheaply from CPUs that free to CPUs that allocate: a magazine at a time,
//! with one lock for all its objects, and without access to their slabs. The store of full ones is
//! bounded; the objects of a surplus go back to their slabs.
//!
//! There are as many magazines as were ever in use at once, and they stay. Their number is bounded
//! by the bound of the store, two for each CPU, and those that threads hold. Only shrinking frees
//! some.

use super::chunk::CHUNK;
use super::magazine::{Magazine, MagazineList, ROUNDS};

/// How many objects, in bytes, the full magazines may hold.
const BYTES: usize = 16 * CHUNK;

/// The depot of a cache. The lock of the depot is around it.
pub(super) struct Depot {
    /// None of them is empty; most are full.
    full: MagazineList,
    empty: MagazineList,
    /// How many objects the magazines of `full` hold.
    objects: usize,
    /// How many magazines may be in `full`.
    limit: usize,
    /// Allocations that found no object in the magazines of a CPU.
    pub(super) misses: u64,
}

impl Depot {
    pub(super) fn new(stride: usize) -> Self {
        Self {
            full: MagazineList::new(),
            empty: MagazineList::new(),
            objects: 0,
            limit: limit(stride),
            misses: 0,
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

    /// Takes a magazine that is not empty.
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

    /// Puts a magazine into the store, and returns a surplus one: its objects should go back to
    /// their slabs.
    #[must_use = "the objects of a surplus magazine belong to their slabs"]
    pub(super) fn put(&mut self, magazine: Option<Magazine>) -> Option<Magazine> {
        let magazine = magazine?;
        if magazine.is_empty() {
            self.empty.push(magazine);
            return None;
        }
        if self.full.len() >= self.limit {
            return Some(magazine);
        }
        self.objects += magazine.len();
        self.full.push(magazine);
        None
    }
}

/// Returns how many full magazines are kept: one mebibyte of objects, but between 2 magazines and
/// 64.
fn limit(stride: usize) -> usize {
    if cfg!(loom) {
        return 1;
    }
    (BYTES / (stride * ROUNDS)).clamp(2, 64)
}
