//! The search for a leaf with a free slot.

use super::WriteGuard;
use super::leaf::LeafState;
use super::node::{FANOUT, FANOUT_BITS, child_index, interior};
use super::node_head::Erased;
use fdtable_sync::platform::atomic::Ordering::Acquire;

/// A summary of the caller's leaves: which children have nothing free below them. The holder of the
/// tree's lock marks and unmarks a leaf, which the tree owns then. Marks of a leaf that
/// the tree does not own belong to other trees too: their searches then pass over free slots, or
/// read a full leaf. These methods neither block nor allocate.
impl<T: ?Sized + Send + Sync, S: LeafState, D> WriteGuard<'_, T, S, D> {
    /// Marks the leaf of `index` as full. The first leaf is not marked.
    pub fn mark_full(&self, index: usize) {
        let root = self.tree.root();
        if index != 0 && root.covers(index) && !root.node.is_null() {
            // SAFETY: `root` loaded the node with acquire, together with its height.
            unsafe { mark_below(root.node, root.height, index) };
        }
    }

    /// Marks the leaf of `index` as having something free.
    pub fn mark_free(&self, index: usize) {
        let root = self.tree.root();
        let mut node = root.node;
        for level in (1..=root.height).rev() {
            if index == 0 || !root.covers(index) || node.is_null() {
                return;
            }
            // SAFETY: loaded with acquire, at a level above the leaves, not null; the tree is
            // locked.
            let parent = unsafe { interior(node) };
            debug_assert!(parent.head.owner() == self.tree.owner(), "it is shared");
            parent.unmark(child_index(index, level));
            // Acquire: pairs with the release in `set_child`.
            node = parent.child(index, level).load(Acquire);
        }
    }

    /// Finds the first index at or after `from`, which is 1 or more, with a leaf that is not marked
    /// as full. That leaf has something free, or is not there yet. Reads one word for each level,
    /// and one more for each time that the search has to go up.
    #[must_use]
    pub fn next_not_full(&self, from: usize) -> usize {
        let root = self.tree.root();
        if !root.covers(from) || root.node.is_null() {
            return from;
        }
        // SAFETY: `root` loaded the node with acquire, together with its height.
        let found = unsafe { next_not_full_below(root.node, root.height, from) };
        // All full: the first index that the root does not cover.
        found.unwrap_or(1 << (FANOUT_BITS * root.height))
    }
}

/// Marks a leaf as full in its parent, and parents that became full in theirs. Returns true if all
/// below `node` is full.
///
/// # Safety
/// `node` is null or was loaded with acquire from a tree, at `level`, and is kept.
unsafe fn mark_below(node: *mut Erased, level: u32, index: usize) -> bool {
    if level == 0 {
        return true;
    }
    if node.is_null() {
        return false;
    }
    // SAFETY: as the caller promises.
    let parent = unsafe { interior(node) };
    // Acquire: pairs with the release in `set_child`.
    let below = parent.child(index, level).load(Acquire);
    // SAFETY: loaded with acquire, one level further down.
    if unsafe { mark_below(below, level - 1, index) } {
        parent.mark(child_index(index, level));
    }
    parent.is_full()
}

/// The step of [`WriteGuard::next_not_full`] below `node`, which covers `from`.
///
/// # Safety
/// `node` was loaded with acquire from a tree, at `level`, and is not null and kept.
unsafe fn next_not_full_below(node: *mut Erased, level: u32, from: usize) -> Option<usize> {
    if level == 0 {
        return Some(from);
    }
    // SAFETY: as the caller promises.
    let parent = unsafe { interior(node) };
    let own = child_index(from, level);
    let span = 1 << (FANOUT_BITS * (level - 1));
    let base = from / (span * FANOUT) * (span * FANOUT);
    let mut first = own;
    while let Some(child) = parent.next_unmarked(first) {
        let start = if child == own {
            from
        } else {
            base + child * span
        };
        // Acquire: pairs with the release in `set_child`.
        let below = parent.children[child].load(Acquire);
        if below.is_null() {
            return Some(start);
        }
        // SAFETY: loaded with acquire, one level further down, not null.
        if let found @ Some(_) = unsafe { next_not_full_below(below, level - 1, start) } {
            return found;
        }
        first = child + 1;
    }
    None
}
