//! Sharing a tree: another tree gets its root.

use super::leaf::LeafState;
use super::node::{Root, interior, leaf};
use super::node_head::{NodeHead, OwnerId, new_owner_id};
use super::{Tree, WriteGuard};
use fdtable_sync::brlock::BrLock;
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed};

/// Admits the readers of a lock when it is dropped, also if a copy of a state panics.
struct Admits<'l>(&'l BrLock);

impl Drop for Admits<'_> {
    fn drop(&mut self) {
        // weaken: share-without-excluding-readers
        self.0.admit_readers();
    }
}

impl<T: ?Sized + Send + Sync, S: LeafState, D> WriteGuard<'_, T, S, D> {
    /// Gives another, empty tree the same leaves, objects and flags, atomically. The nodes are
    /// shared, and copied when one of the trees writes them. Excludes readers, and waits until they
    /// have left. Takes a reference to each object of the first leaf, and allocates if `kept` names
    /// leaves.
    ///
    /// `kept` are the indexes of leaves that stay the tree's own: the other tree gets copies of
    /// them at once. A leaf that the tree does not own before, such as one that it has shared
    /// earlier, is not kept.
    ///
    /// # Errors
    /// [`OutOfMemory`]; this tree is then unchanged, and the contents of the other one are
    /// unspecified.
    pub fn share_with(
        &mut self,
        other: &mut Tree<T, S, D>,
        kept: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), OutOfMemory> {
        let root = self.tree.root();
        if root.node.is_null() {
            return self.share_first(other);
        }
        let tree = self.tree;
        // Also waits for threads that use the first leaf or a cached one alone.
        // weaken: share-without-excluding-readers
        self.exclude_readers();
        let _admits = Admits(&tree.shared.lock);
        self.share_first(other)
            .and_then(|()| self.share_nodes(root, other, kept))
    }

    fn share_first(&mut self, other: &mut Tree<T, S, D>) -> Result<(), OutOfMemory> {
        // SAFETY: the tree owns the first leaf. Its lock excludes the threads that only use this
        // leaf: readers are excluded only if there are nodes.
        // weaken: share-of-the-first-leaf-unlocked
        let guard = unsafe { self.tree.first.lock(0) };
        // SAFETY: locked above, and the other tree is borrowed mutably.
        unsafe { guard.copy_to(&mut other.first) }
    }

    /// With readers excluded.
    fn share_nodes(
        &mut self,
        root: Root,
        other: &mut Tree<T, S, D>,
        kept: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), OutOfMemory> {
        assert!(other.root().node.is_null(), "the other tree is empty");
        // SAFETY: the root of this tree.
        if !unsafe { interior(root.node) }.head.try_count() {
            return Err(OutOfMemory);
        }
        other.set_root(root);
        let before = self.tree.owner();
        // Relaxed: readers are excluded, and a reader that is admitted again acquires.
        self.tree.shared.owner.store(new_owner_id(), Relaxed);
        let copied = {
            let mut writer = other.write();
            let copied = kept
                .clone()
                .try_for_each(|index| writer.make_writable(index));
            // Callbacks that are due run after this tree's lock, too.
            if writer.freed.0.take() {
                self.freed.0.set(true);
            }
            copied
        };
        match copied {
            Ok(()) => kept.for_each(|index| self.keep(index, before)),
            Err(OutOfMemory) => {
                // SAFETY: the other tree is borrowed mutably.
                unsafe { other.clear_nodes() };
                // This tree owns all nodes again.
                self.tree.shared.owner.store(before, Relaxed);
            }
        }
        copied
    }

    /// Gives the nodes that lead to a leaf the tree's new owner ID. It does so only for nodes that
    /// had the owner ID `before` and that no other tree leads to: the tree that was shared with has
    /// copies of them all.
    fn keep(&mut self, index: usize, before: OwnerId) {
        let root = self.tree.root();
        if index == 0 || !root.covers(index) {
            return;
        }
        let mut node = root.node;
        for level in (1..=root.height).rev() {
            // SAFETY: an interior node of this tree; the tree is locked.
            let parent = unsafe { interior(node) };
            // SAFETY: as `keep_node` asks.
            if !unsafe { self.keep_node(&parent.head, before) } {
                return;
            }
            // Acquire: pairs with the release in `set_child`.
            node = parent.child(index, level).load(Acquire);
            if node.is_null() {
                return;
            }
        }
        // SAFETY: a leaf of this tree; the tree is locked.
        let leaf = unsafe { leaf::<T, S>(node) };
        // SAFETY: as `keep_node` asks.
        unsafe { self.keep_node(&leaf.head, before) };
    }

    /// Gives a node the tree's new owner ID, if the tree still owns it. Returns true if so.
    ///
    /// # Safety
    /// The tree leads to the node, readers are excluded, and the owner ID was `before` until the
    /// tree was shared with a tree that no other thread has seen yet.
    unsafe fn keep_node(&self, node: &NodeHead, before: OwnerId) -> bool {
        let owner = self.tree.owner();
        if node.owner() == owner {
            // Kept already, on the path to another leaf.
            return true;
        }
        // The count alone is not enough. A node with an earlier owner ID was shared with a tree
        // that may have copied it since, and that tree's readers may still be in the original. The
        // tree frees nodes with its own owner ID at once.
        // weaken: node-that-is-kept-for-its-count-alone
        if node.owner() != before || !node.is_sole() {
            return false;
        }
        // SAFETY: the tree owned it, so no other tree but the new one has led to it, which has no
        // readers and has given up its count. The lock, and the exclusion of readers, keep
        // writers out.
        unsafe { node.set_owner(owner) };
        true
    }
}
