//! A place of a tree for a leaf that is [cached](mod@super::cached), with the lock of that leaf.

use core::ptr;

use super::node_head::Erased;
use fdtable_sync::hint::cold_path;
use fdtable_sync::lock::{LockTag, RawLock};
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::atomic::{AtomicBool, AtomicPtr};

/// The tag of an empty place: that of the first leaf, which is never cached.
const EMPTY: LockTag = LockTag::of(0);

/// A place for a cached leaf. Each has a cache line of its own.
#[repr(align(64))]
pub(super) struct Place {
    /// Taken while the place is empty.
    lock: RawLock,
    /// Written with the lock.
    full: AtomicBool,
    /// Written with the lock; unused in an empty place.
    leaf: AtomicPtr<Erased>,
}

impl Place {
    pub(super) fn new() -> Self {
        Self {
            lock: RawLock::new_taken(EMPTY),
            full: AtomicBool::new(false),
            leaf: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns the index of the leaf that is here, 0 if there is none. A hint, unless the caller
    /// holds the lock of the tree.
    #[inline(always)]
    pub(super) fn index(&self) -> usize {
        self.lock.tag().index()
    }

    /// (U) Takes the lock of the leaf of `index`, which is not 0, if the leaf is here and the lock
    /// is free. Returns the leaf and the tag of the lock.
    #[inline(always)]
    pub(super) fn try_lock(&self, index: usize) -> Option<(*mut Erased, LockTag)> {
        let tag = LockTag::of(index);
        if !self.lock.try_lock_inner(tag) {
            cold_path();
            return None;
        }
        // Relaxed: the lock acquires the store of (B).
        Some((self.leaf.load(Relaxed), tag))
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds it, with this tag, by [`try_lock`](Self::try_lock), and no longer uses the
    /// leaf.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self, tag: LockTag) {
        // SAFETY: as the caller promises.
        unsafe { self.lock.unlock_inner(tag) };
    }

    /// Returns true if every slot of the leaf is taken, without the lock. Then writes before the
    /// last one was taken are visible.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        // Acquire: pairs with the release in `note_taken`.
        self.full.load(Acquire)
    }

    /// Notes that the leaf is full, if it is, for the holder of the lock.
    #[inline(always)]
    pub(super) fn note_taken(&self, full: bool) {
        if full {
            // Release: pairs with the acquire in `is_full`.
            self.full.store(true, Release);
        }
    }

    /// Notes that the leaf has room, for the holder of the lock.
    #[inline(always)]
    pub(super) fn note_room(&self) {
        // Relaxed, both: only the holder of the lock writes it, and the store that empties the slot
        // releases this one.
        if self.full.load(Relaxed) {
            // weaken: room-that-is-told-last
            self.full.store(false, Relaxed);
        }
    }

    /// (B) Puts a leaf here, for the holder of the tree's lock. The place is empty.
    pub(super) fn fill(&self, index: usize, leaf: *mut Erased, full: bool) {
        // Relaxed: the release of the lock publishes it.
        self.leaf.store(leaf, Relaxed);
        self.note_taken(full);
        // SAFETY: the lock of an empty place is that of the holder of the tree's lock; no thread
        // waits for it.
        unsafe { self.lock.unlock_inner(LockTag::of(index)) };
    }

    /// (C) Takes the leaf away, for the holder of the tree's lock. Waits for the lock of the leaf.
    /// The place is not empty.
    pub(super) fn clear(&self) -> *mut Erased {
        // weaken: place-that-is-emptied-without-its-lock
        self.lock.lock_inner(self.lock.tag());
        self.note_room();
        // SAFETY: locked above; a thread that waits looks at the tag each time.
        unsafe { self.lock.set_tag(EMPTY) };
        // Relaxed: the holder of the tree's lock stored it.
        self.leaf.load(Relaxed)
    }
}
