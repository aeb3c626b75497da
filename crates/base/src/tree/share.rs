//! Sharing a tree: another one gets its root.

use super::node::{NodeHead, Token, interior, leaf};
use super::{Root, Structure, Tree, new_token};
use crate::fallible::OutOfMemory;
use crate::leaf::LeafState;
use crate::sync::atomic::Ordering::{Acquire, Relaxed};

impl<T: ?Sized + Send + Sync, S: LeafState, D> Structure<'_, T, S, D> {
    /// Has another tree, which is empty, get the same leaves, objects and flags, in one moment.
    /// What both have is shared, and copied when one of them writes it. Waits until nobody is
    /// inside the gate. Takes a reference to each object of the first leaf, and allocates if `kept`
    /// names leaves.
    ///
    /// `kept` are the indexes of leaves that stay the tree's own: the other tree gets copies of
    /// them at once. A leaf that is not the tree's own before, as one that an earlier share led
    /// another tree to, is not kept.
    ///
    /// # Errors
    /// [`OutOfMemory`]; this tree is then as it was, and the other one has anything.
    pub fn share_with(
        &mut self,
        other: &mut Tree<T, S, D>,
        kept: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), OutOfMemory> {
        let root = self.tree.root();
        if root.node.is_null() {
            return self.share_first(other);
        }
        self.tree.shared.gate.shut();
        let shared = self
            .share_first(other)
            .and_then(|()| self.share_nodes(root, other, kept));
        self.tree.shared.gate.open();
        shared
    }

    fn share_first(&mut self, other: &mut Tree<T, S, D>) -> Result<(), OutOfMemory> {
        // SAFETY: the first leaf is the tree's own. Its lock keeps those out who have no other
        // leaf, and so no gate to wait at.
        let guard = unsafe { self.tree.first.lock(0) };
        // SAFETY: locked above, and the other tree is borrowed alone.
        unsafe { guard.copy_to(&mut other.first) }
    }

    /// With the gate shut.
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
        let before = self.tree.token();
        // Relaxed: the gate is shut, and who enters when it is open acquires.
        self.tree.shared.token.store(new_token(), Relaxed);
        let copied = {
            let mut structure = other.lock();
            kept.clone().try_for_each(|index| structure.own(index))
        };
        match copied {
            Ok(()) => kept.for_each(|index| self.keep(index, before)),
            Err(OutOfMemory) => {
                other.clear_nodes();
                // All nodes are this tree's alone again.
                self.tree.shared.token.store(before, Relaxed);
            }
        }
        copied
    }

    /// Gives the nodes that lead to a leaf the tree's new token, as far as they had the one
    /// `before`, and no other tree leads to them: the one that was shared with has copies of them
    /// all.
    fn keep(&mut self, index: usize, before: Token) {
        let root = self.tree.root();
        if index == 0 || !root.covers(index) {
            return;
        }
        let mut node = root.node;
        for level in (1..=root.height).rev() {
            // SAFETY: an interior node of this tree; the structure is locked.
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
        // SAFETY: a leaf of this tree; the structure is locked.
        let leaf = unsafe { leaf::<T, S>(node) };
        // SAFETY: as `keep_node` asks.
        unsafe { self.keep_node(&leaf.head, before) };
    }

    /// Gives a node the tree's new token, if it is its own still. Returns whether it is.
    ///
    /// # Safety
    /// The tree leads to the node, its gate is shut, and its token was `before` until it was shared
    /// with a tree that no other thread has seen yet.
    unsafe fn keep_node(&self, node: &NodeHead, before: Token) -> bool {
        let token = self.tree.token();
        if node.token() == token {
            // Kept already, on the way to another leaf.
            return true;
        }
        // The count alone does not tell. A node with an earlier token was shared with a tree that
        // may have copied it since, and that tree's readers may still be in the original. The tree
        // frees nodes with its own token at once.
        if node.token() != before || !node.is_sole() {
            return false;
        }
        // SAFETY: it was the tree's own, so no other tree but the new one has led to it, which has
        // no readers and has given up its count. Writers are kept out by the lock and the gate.
        unsafe { node.set_token(token) };
        true
    }
}
