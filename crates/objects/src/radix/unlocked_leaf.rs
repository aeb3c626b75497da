//! A leaf between the walk that found it and its lock.

use super::Tree;
use super::leaf::{Leaf, LeafGuard, LeafState};

/// A leaf that was found under a [`ReadGuard`](super::ReadGuard), and is not locked.
pub struct UnlockedLeaf<'e, T: ?Sized, S: LeafState, D> {
    pub(super) tree: &'e Tree<T, S, D>,
    /// Possibly another leaf than that of the index, or no longer owned by the tree.
    pub(super) leaf: &'e Leaf<T, S>,
    pub(super) index: usize,
}

impl<T: ?Sized, S: LeafState, D> Clone for UnlockedLeaf<'_, T, S, D> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized, S: LeafState, D> Copy for UnlockedLeaf<'_, T, S, D> {}

impl<'e, T: ?Sized + Send + Sync, S: LeafState, D> UnlockedLeaf<'e, T, S, D> {
    /// Returns true if every slot seems to be taken. Does not write the leaf's line.
    #[inline(always)]
    pub fn looks_full(self) -> bool {
        self.leaf.open.is_full()
    }

    /// Returns true if the tree owns the leaf and every slot is taken, without its lock. Then
    /// writes before the last slot was taken by
    /// [`set_release`](fdtable_sync::bitmap::Word::set_release) are visible. Never waits.
    #[inline(always)]
    pub fn is_full(self) -> bool {
        // In either order: bits no longer change in a leaf that the tree does not own.
        // weaken: full-leaf-that-was-copied
        // weaken: full-leaf-that-was-removed
        self.leaf.open.is_full_acquire() && self.tree.owns(self.leaf, self.index)
    }

    /// Returns true if a slot seems to have an object. Does not write the leaf's line.
    #[inline(always)]
    pub fn looks_open(self, bit: usize) -> bool {
        self.leaf.has(bit)
    }

    /// Like [`ReadGuard::lock_leaf`](super::ReadGuard::lock_leaf).
    #[inline(always)]
    pub fn lock(self) -> Option<LeafGuard<'e, T, S>> {
        // SAFETY: the read side is a section too, and while it lasts the owner ID does not change.
        unsafe { self.tree.lock_owned(self.index) }
    }

    /// Like [`lock`](Self::lock), unless another thread holds the leaf's lock. Never waits.
    #[inline(always)]
    pub fn try_lock(self) -> Option<LeafGuard<'e, T, S>> {
        // SAFETY: the read side is a section too, and while it lasts the owner ID does not change.
        unsafe { self.tree.try_lock_found(self.leaf, self.index) }
    }
}
