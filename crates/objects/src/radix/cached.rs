//! Cached leaves: those of most opens and closes, which are locked in one step.
//!
//! A thread that walks to a leaf needs a section, which keeps the memory, and the read side of the
//! tree, which keeps the owner ID. The first leaf needs neither, and so do the *cached* ones: the
//! tree has a few *places*, and the lock of a cached leaf is that of its place. The steps, with
//! letters that stand at the same steps in the code:
//!
//! | | a thread that locks the leaf of an index | | the holder of the tree's lock |
//! |---|---|---|---|
//! | (U) | take the lock of the place whose tag is the index | (A) | take the leaf's own lock |
//! | (V) | or else walk, and take the leaf's own lock | (B) | take the lock of the empty place, store the leaf, release the lock with the leaf's index as its tag |
//! | | | (C) | take the lock of the place, and keep it, with the tag of an empty one |
//! | (W) | if it is taken: look for a place again | (D) | release the leaf's own lock |
//!
//! From (A) to (D) the leaf's own lock is taken. So the thread of (V) and that of (U) are never
//! both in the leaf. Tag and lock are one word, so (U) fails before (B) and after (C). The holder
//! of the tree's lock does (C) before it unlinks the leaf or changes the tree's owner ID, and
//! before it relies on an exclusion of readers; and it caches only leaves that the tree owns. So
//! the thread of (U) has a leaf that is in the tree, and the tree's own, until it releases the
//! lock.
//!
//! *Waiting.* A thread that holds a leaf waits for the locks of leaves with a higher index alone.
//! In (A) and (C) the holder of the tree's lock waits for one lock. The own locks of cached leaves
//! are taken meanwhile, but others go to the places. A stream of threads that lock one leaf may
//! hold up (C), as any other thread that waits for the leaf.
//!
//! *A full leaf.* A place says whether its leaf is full, since a thread that looks before it takes
//! the lock has nothing that keeps the leaf's memory. A close stores that there is room before it
//! empties the slot: a thread that finds the slot empty finds that there is room (see the order of
//! a close in [`leaf`](mod@super::leaf)).

use core::ptr;

use super::leaf::{Leaf, LeafGuard, LeafRef, LeafState};
use super::node::leaf;
use super::slot_data::SlotData;
use super::{Tree, WriteGuard};
use crate::object::Borrowed;
use fdtable_sync::hint::cold_path;
use fdtable_sync::lock::LockTag;
use fdtable_sync::platform::{KeptCpu, back_off, keep_cpu};

/// How many leaves are cached.
pub const CACHED_LEAVES: usize = 2;

/// A leaf that was locked without the read side: the first one, or a cached one.
pub struct NearLeaf<'t, T: ?Sized, S> {
    /// The leaf, whose lock may be released before the rest is dropped.
    pub leaf: LeafGuard<'t, T, S>,
    /// Dropped after the lock.
    _keeps_cpu: KeptCpu,
}

impl<T: ?Sized + Send + Sync, S: LeafState, D> Tree<T, S, D> {
    /// Returns true if every slot is taken in the leaf of `index`, which is the first one or cached
    /// at `place`, without its lock. Then writes before the last slot was taken are visible.
    /// Another leaf may be cached there, if the holder of the tree's lock has changed that; then
    /// writes before are visible too.
    ///
    /// # Panics
    /// If `place` is not below [`CACHED_LEAVES`].
    #[inline(always)]
    #[must_use]
    pub fn is_near_full(&self, place: usize, index: usize) -> bool {
        match index {
            0 => self.first.open.is_full_acquire(),
            _ => self.places[place].is_full(),
        }
    }

    /// Returns the place at which the leaf of `index` is cached, or any if it is the first one. A
    /// hint.
    #[inline(always)]
    pub fn place_of(&self, index: usize) -> Option<usize> {
        if index == 0 {
            return Some(0);
        }
        self.places.iter().position(|place| place.index() == index)
    }

    /// Locks the leaf of `index`, if it is the first one or cached at `place`, and its lock is
    /// free. Takes neither the read side nor a section. Never waits, and calls nothing.
    ///
    /// The first leaf is there as long as the tree, and a thread that excludes readers passes its
    /// lock before it relies on that. Refuses while readers are excluded. An index is below
    /// [`INDEXES`](super::INDEXES).
    ///
    /// # Panics
    /// If `place` is not below [`CACHED_LEAVES`], unless `index` is 0.
    #[inline(always)]
    pub fn try_lock_near(&self, place: usize, index: usize) -> Option<NearLeaf<'_, T, S>> {
        let keeps_cpu = keep_cpu();
        let leaf = if index == 0 {
            // SAFETY: the first leaf is always this tree's own.
            let first = unsafe { self.first.try_lock(0) }?;
            // After the lock: either the other thread passes it later, and waits for this one, or
            // this one sees that readers are excluded.
            // weaken: first-leaf-that-is-written-while-readers-are-excluded
            if self.shared.lock.excludes_readers() {
                cold_path();
                return None;
            }
            first
        } else {
            self.try_lock_place(place, index)?
        };
        Some(NearLeaf {
            leaf,
            _keeps_cpu: keeps_cpu,
        })
    }

    /// Locks a leaf as [`try_lock_near`](Self::try_lock_near) does. Waits for its lock, unless
    /// another leaf is cached at `place`, or readers are excluded.
    ///
    /// # Panics
    /// If `place` is not below [`CACHED_LEAVES`].
    pub fn lock_near(&self, place: usize, index: usize) -> Option<NearLeaf<'_, T, S>> {
        let mut attempts = 0;
        while match index {
            0 => !self.shared.lock.excludes_readers(),
            _ => self.places[place].index() == index,
        } {
            if let Some(near) = self.try_lock_near(place, index) {
                return Some(near);
            }
            back_off(attempts);
            attempts = attempts.saturating_add(1);
        }
        None
    }

    /// (U)
    #[inline(always)]
    fn try_lock_place(&self, place: usize, index: usize) -> Option<LeafGuard<'_, T, S>> {
        let place = &self.places[place];
        let (found, tag) = place.try_lock(index)?;
        // SAFETY: an empty place is locked, so there is a leaf of this tree. (C) comes before it is
        // unlinked, and waits for the lock.
        Some(LeafGuard::in_place(unsafe { leaf(found) }, place, tag))
    }

    /// Waits for the lock of the leaf of `index`, if there is one that may be written.
    ///
    /// # Safety
    /// The caller is inside a section, or keeps the tree from being changed. While it writes the
    /// leaf, the owner ID of the tree does not change.
    #[inline(always)]
    pub(super) unsafe fn lock_owned(&self, index: usize) -> Option<LeafGuard<'_, T, S>> {
        let mut attempts = 0;
        loop {
            if index != 0
                && let Some(place) = self.place_of(index)
                && let Some(guard) = self.try_lock_place(place, index)
            {
                return Some(guard);
            }
            // SAFETY: as the caller promises.
            let leaf = unsafe { self.find(index) }?;
            // (V)
            // SAFETY: the ownership is checked next.
            if let Some(guard) = unsafe { leaf.try_lock(index) } {
                // After the lock: the leaf may have been removed before.
                return self.owns(&guard, index).then_some(guard);
            }
            // (W)
            back_off(attempts);
            attempts = attempts.saturating_add(1);
        }
    }

    /// Borrows the object of a slot of a leaf of this tree, together with the data of the slot at
    /// that moment. May wait for the lock of the leaf; does not allocate.
    pub fn borrow_with_data_locked<'s>(
        &self,
        found: &LeafRef<'s, T, S>,
        index: usize,
        bit: usize,
    ) -> Option<(Borrowed<'s, T>, SlotData)> {
        let _keeps_cpu = keep_cpu();
        // Also if the tree does not own it: the owner ID may change now, in a section.
        // weaken: data-that-is-read-without-the-lock
        let _locked = self.lock_found(found, index);
        let object = found.borrow(bit)?;
        Some((object, found.data(bit)))
    }

    /// Keeps writers out of a leaf that was found at `index`. May wait.
    fn lock_found<'s>(&'s self, found: &'s Leaf<T, S>, index: usize) -> LeafGuard<'s, T, S> {
        let mut attempts = 0;
        loop {
            // If another leaf is cached there, the tree leads no more to the one that was found,
            // and no thread writes it.
            let place = self.place_of(index).filter(|_| index != 0);
            if let Some(guard) = place.and_then(|place| self.try_lock_place(place, index)) {
                return guard;
            }
            // SAFETY: the caller only keeps the guard, and writes nothing through it.
            if let Some(guard) = unsafe { found.try_lock(index) } {
                return guard;
            }
            back_off(attempts);
            attempts = attempts.saturating_add(1);
        }
    }
}

impl<T: ?Sized + Send + Sync, S: LeafState, D> WriteGuard<'_, T, S, D> {
    /// Caches the leaves of these indexes, if they exist and the tree owns them, until the next
    /// call, or until readers are excluded or the leaf is removed. Index 0, which is as near,
    /// caches none. The caller holds the lock of no leaf.
    pub fn cache_leaves(&mut self, indexes: [usize; CACHED_LEAVES]) {
        for (place, index) in indexes.into_iter().enumerate() {
            self.uncache(|at, cached| at == place && cached != index);
        }
        for (place, index) in indexes.into_iter().enumerate() {
            let is_cached = self.cached().contains(&index);
            if !is_cached && !self.tree.shared.lock.excludes_readers() && self.is_own(index) {
                self.cache(place, index);
            }
        }
    }

    /// Returns the indexes of the cached leaves, 0 for an empty place.
    pub(super) fn cached(&self) -> [usize; CACHED_LEAVES] {
        self.tree.places.each_ref().map(super::place::Place::index)
    }

    /// Caches a leaf that the tree owns.
    fn cache(&self, place: usize, index: usize) {
        let Some(found) = self.leaf(index) else {
            return;
        };
        // (A)
        // weaken: cached-leaf-whose-own-lock-is-free
        found.head.lock.lock_inner(LockTag::of(index));
        let erased = ptr::from_ref(found).cast_mut().cast();
        self.tree.places[place].fill(index, erased, found.open.is_full());
    }

    /// Caches those leaves no more that are meant, by place and index.
    pub(super) fn uncache(&self, is_meant: impl Fn(usize, usize) -> bool) {
        for (place, index) in self.cached().into_iter().enumerate() {
            if index != 0 && is_meant(place, index) {
                // SAFETY: cached until now, so the tree leads to it.
                let leaf = unsafe { leaf::<T, S>(self.tree.places[place].clear()) };
                // (D)
                // SAFETY: taken in (A), and no thread that found it taken has used the leaf.
                unsafe { leaf.head.lock.unlock_inner(LockTag::of(index)) };
            }
        }
    }
}
