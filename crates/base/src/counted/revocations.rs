//! How many objects are revoked and not yet freed, in the whole process.
//!
//! Most programs revoke nothing, and then a lookup need not look at the object's block: its state
//! stands on the cache line of the count, which everybody writes who takes a reference. So lookups
//! look here first, at a word that stays in every processor's cache.
//!
//! # Why nobody misses a revocation
//!
//! A revocation is counted before its object says that it is revoked, and no longer once its block
//! is freed. Who knows that it has begun, since it was told so or has found the object revoked, has
//! synchronised with it, and so finds the word as it was left by it, or as later revocations and
//! frees have left it. The object's own free is not among those while somebody can ask: he has a
//! reference, or is in a section in which it was found. Until then the word has at least this one
//! in it.

use crossbeam_utils::CachePadded;

use crate::sync::atomic::AtomicUsize;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::global;

global! {
    pub(super) static REVOCATIONS: Revocations = Revocations::new();
}

/// The number, on a line of its own.
pub(super) struct Revocations(CachePadded<AtomicUsize>);

impl Revocations {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self(CachePadded::new(AtomicUsize::new(0)))
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self(CachePadded::new(AtomicUsize::new(0)))
    }

    /// Tells whether any object may be revoked.
    #[inline(always)]
    pub(super) fn any(&self) -> bool {
        // Relaxed: as the bit in the object's state is read, and for the same reason.
        self.0.load(Relaxed) != 0
    }

    /// Counts an object that was revoked.
    pub(super) fn begin(&self) {
        // Relaxed: what orders the bit with those who know of the revocation orders this too.
        self.0.fetch_add(1, Relaxed);
    }

    /// Forgets one whose block is freed.
    pub(super) fn end(&self) {
        // Relaxed: nobody can ask for that object any more.
        self.0.fetch_sub(1, Relaxed);
    }
}
