//! How many objects are revoked and not yet freed, in the whole process.
//!
//! Most programs revoke nothing, and then a lookup does not have to read the object's block. The
//! block's state stands on the cache line of the count, and every thread that takes a reference
//! writes that line. So lookups look here first, at a word that stays in every CPU's cache.
//!
//! # Why no thread misses a revocation
//!
//! A revocation is counted before its object says that it is revoked, and no longer once its block
//! is freed. A thread knows that the revocation has begun because it was informed, or because it
//! found the object revoked. So it has synchronised with the revocation, and finds the word as the
//! revocation left it, or as later revocations and frees have left it. The object's own free is not
//! among those while a thread can ask: it has a reference, or is in a section in which the object
//! was found. Until then the word includes at least this revocation.

use crossbeam_utils::CachePadded;

use fdtable_sync::platform::atomic::AtomicUsize;
use fdtable_sync::platform::atomic::Ordering::Relaxed;
use fdtable_sync::platform::global;

global! {
    pub(super) static REVOCATIONS: Revocations = Revocations::new();
}

/// The count, on its own cache line.
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

    /// Returns true if any object may be revoked.
    #[inline(always)]
    pub(super) fn any(&self) -> bool {
        // Relaxed: for the same reason as the read of the bit in the object's state.
        self.0.load(Relaxed) != 0
    }

    /// Counts an object that was revoked.
    pub(super) fn begin(&self) {
        // Relaxed: whatever orders the bit with threads that know of the revocation orders this
        // too.
        self.0.fetch_add(1, Relaxed);
    }

    /// Uncounts an object whose block is freed.
    pub(super) fn end(&self) {
        // Relaxed: no thread can ask for that object any more.
        self.0.fetch_sub(1, Relaxed);
    }
}
