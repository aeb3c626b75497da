//! Changes of nodes: making leaves, copying shared ones, and removing them.
//!
//! A copy is complete before it is published, and the one store that publishes it unlinks the
//! original. Nothing is changed before there is memory for it.

use core::ptr::{self, NonNull};

use super::WriteGuard;
use super::leaf::{Leaf, LeafGuard, LeafState};
use super::node::{FANOUT, INDEXES, Interior, Retired, Root, interior, leaf, put};
use super::node_head::{DETACHED, Erased, NONE, NodeHead, free_after_readers};
use crate::memory::MemoryBox;
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::lock::LockTag;
use fdtable_sync::platform::atomic::Ordering::Acquire;

impl<T: ?Sized + Send + Sync, S: LeafState, D> WriteGuard<'_, T, S, D> {
    /// Ensures that there is a leaf of `index` and that the tree owns it. Makes a missing leaf, and
    /// copies shared nodes. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`] if a node cannot be allocated, or `index` is [`INDEXES`] or more. The tree
    /// then leads to the same leaves as before.
    pub fn make_writable(&mut self, index: usize) -> Result<(), OutOfMemory> {
        if index >= INDEXES {
            return Err(OutOfMemory);
        }
        // The tree always owns it, even without an owner ID.
        if index == 0 {
            return Ok(());
        }
        let owner = self.tree.draw_owner_id();
        if self
            .leaf(index)
            .is_some_and(|leaf| leaf.head.owner() == owner)
        {
            return Ok(());
        }
        self.cover(index)?;
        let parent = self.make_path_writable(index)?;
        // Acquire: pairs with the release in `set_child`.
        let there = parent.child(index, 1).load(Acquire);
        let publish = |leaf: NonNull<Leaf<T, S>>| {
            parent.set_child(index, 1, leaf.as_ptr().cast());
        };
        if there.is_null() {
            let head = NodeHead::of::<Leaf<T, S>>(owner, LockTag::of(index));
            let new = MemoryBox::try_new(Leaf::<T, S>::new(head))?;
            publish(new.into_raw());
            return Ok(());
        }
        self.freed.0.set(true);
        self.copy_leaf(index, there, publish)
    }

    /// Replaces a shared leaf by a copy.
    fn copy_leaf(
        &self,
        index: usize,
        there: *mut Erased,
        publish: impl FnOnce(NonNull<Leaf<T, S>>),
    ) -> Result<(), OutOfMemory> {
        // SAFETY: a child at the level of the leaves, loaded with acquire; the tree is
        // locked, so it stays.
        let old = unsafe { leaf::<T, S>(there) };
        let head = NodeHead::of::<Leaf<T, S>>(self.tree.owner(), LockTag::of(index));
        // SAFETY: it does not have the tree's owner ID, so it is frozen.
        let copy = unsafe { old.try_copy(head) }?;
        let new = MemoryBox::try_new(copy)?.into_raw();
        // SAFETY: leaked above.
        let copy = unsafe { new.as_ref() };
        // Locked until the original is put: so none of the copy's references goes before, and the
        // put of the original is the last of no object. No hook runs here.
        // SAFETY: the tree owns it.
        let guard = unsafe { copy.lock(index) };
        if old.head.is_sole() {
            // SAFETY: the original is frozen, the copy unpublished. No other tree has the original
            // or can get it, and it is unlinked and freed: its references are put once.
            unsafe { old.move_objects(copy) };
            publish(new);
            // SAFETY: unlinked above, and its contents have moved to the copy.
            unsafe { free_after_readers(there) };
        } else {
            // SAFETY: the original is frozen, the copy unpublished. The tree's own count keeps
            // the references of the original.
            unsafe { old.share_objects(copy) };
            publish(new);
            // SAFETY: unlinked above; the tree gives up its count.
            unsafe { put::<T, S>(there, 0, NONE) };
        }
        drop(guard);
        Ok(())
    }

    /// Puts roots above the tree until it has a place for `index`.
    fn cover(&mut self, index: usize) -> Result<(), OutOfMemory> {
        let owner = self.tree.owner();
        loop {
            let root = self.tree.root();
            if !root.node.is_null() && root.covers(index) {
                return Ok(());
            }
            let new = MemoryBox::try_new(Interior::new(owner))?;
            // An empty tree gets a first root that is high enough at once.
            let mut height = root.height + 1;
            if root.node.is_null() {
                while !(Root { height, ..root }).covers(index) {
                    height += 1;
                }
                if height == 1 {
                    // Index 0 is not in the nodes: no slot of it is there.
                    new.mark(0);
                }
            } else {
                // The count of the old root passes to the new one.
                new.set_child(0, 1, root.node);
                // SAFETY: `root` loaded the node with acquire, together with its height.
                if unsafe { interior(root.node) }.is_full() {
                    new.mark(0);
                }
            }
            self.tree.set_root(Root {
                node: new.into_raw().as_ptr().cast(),
                height,
            });
        }
    }

    /// Ensures that the interior nodes above the leaf of `index` exist and that the tree owns them.
    /// Returns the last one. The root covers the index. Unlinks interior nodes; the caller has none
    /// of them borrowed.
    fn make_path_writable(&self, index: usize) -> Result<&Interior, OutOfMemory> {
        let root = self.tree.root();
        let publish = |node| self.tree.set_root(Root { node, ..root });
        let mut node = self.make_interior_writable(root.node, root.height, publish)?;
        for level in (2..=root.height).rev() {
            // SAFETY: an interior node of this tree, which owns it; the tree is locked.
            let parent = unsafe { interior(node) };
            // Acquire: pairs with the release in `set_child`.
            let there = parent.child(index, level).load(Acquire);
            let publish = |node| parent.set_child(index, level, node);
            node = if there.is_null() {
                self.add_interior(index, level - 1, publish)?
            } else {
                self.make_interior_writable(there, level - 1, publish)?
            };
        }
        // SAFETY: an interior node of this tree; the tree is locked for as long as it is
        // borrowed.
        Ok(unsafe { interior(node) })
    }

    fn add_interior(
        &self,
        index: usize,
        level: u32,
        publish: impl FnOnce(*mut Erased),
    ) -> Result<*mut Erased, OutOfMemory> {
        let new = MemoryBox::try_new(Interior::new(self.tree.owner()))?;
        if level == 1 && index < FANOUT {
            // Index 0 is not in the nodes: no slot of it is there.
            new.mark(0);
        }
        let node = new.into_raw().as_ptr().cast();
        publish(node);
        Ok(node)
    }

    /// Returns the node if the tree owns it, or else replaces it by a copy.
    fn make_interior_writable(
        &self,
        node: *mut Erased,
        level: u32,
        publish: impl FnOnce(*mut Erased),
    ) -> Result<*mut Erased, OutOfMemory> {
        let owner = self.tree.owner();
        debug_assert_ne!(owner, NONE, "a writer of nodes has drawn an owner ID");
        // SAFETY: an interior node of this tree; the tree is locked.
        let old = unsafe { interior(node) };
        if old.head.owner() == owner {
            return Ok(node);
        }
        let copy = MemoryBox::try_new(Interior::copy_of(old, owner))?;
        self.freed.0.set(true);
        let sole = old.head.is_sole();
        if !sole {
            // SAFETY: the children of a node that is kept are kept.
            // weaken: copy-that-is-not-counted
            unsafe { copy.count_children() };
        }
        let copy = copy.into_raw().as_ptr().cast();
        publish(copy);
        if sole {
            // SAFETY: unlinked by `publish`. No other tree has the node or can get it; its counts
            // of the children are the copy's now.
            unsafe { free_after_readers(node) };
        } else {
            // SAFETY: unlinked by `publish`; the tree gives up its count. That puts no object: the
            // copy has a count of each child.
            unsafe { put::<T, S>(node, level, NONE) };
        }
        Ok(copy)
    }

    /// Removes the leaf of `index` from the tree if it is there and, once it is locked, `permit`
    /// agrees. A shared leaf is removed without the lock and without `permit`. Allocates if the
    /// path to the leaf is shared. The objects of the leaf are put when the result is dropped. The
    /// first leaf stays.
    ///
    /// # Errors
    /// [`OutOfMemory`]; the leaf is then still in the tree.
    pub fn remove_if(
        &mut self,
        index: usize,
        permit: impl FnOnce(&LeafGuard<'_, T, S>) -> bool,
    ) -> Result<Option<Retired<T, S>>, OutOfMemory> {
        if index == 0 || self.leaf(index).is_none() {
            return Ok(None);
        }
        let owner = self.tree.draw_owner_id();
        let parent = self.make_path_writable(index)?;
        // Acquire: pairs with the release in `set_child`.
        let place = NonNull::new(parent.child(index, 1).load(Acquire).cast::<Leaf<T, S>>());
        let Some(place) = place else {
            return Ok(None);
        };
        // SAFETY: a leaf of this tree; the tree is locked.
        let leaf = unsafe { place.as_ref() };
        if leaf.head.owner() == owner {
            self.uncache(|_, cached| cached == index);
            // SAFETY: the tree owns it.
            let guard = unsafe { leaf.lock(index) };
            if !permit(&guard) {
                return Ok(None);
            }
            // SAFETY: the tree is locked, and so is the leaf.
            // weaken: token-of-a-leaf-that-was-taken-out
            unsafe { leaf.head.set_owner(DETACHED) };
        }
        self.freed.0.set(true);
        self.mark_free(index);
        parent.set_child(index, 1, ptr::null_mut());
        self.prune(index);
        Ok(Some(Retired { leaf: place }))
    }

    /// Removes the empty nodes above `index` from the tree. The tree owns them.
    fn prune(&self, index: usize) {
        let root = self.tree.root();
        for lowest in 1..=root.height {
            // The node at level `lowest` on the path to the index, and its parent.
            let (mut node, mut parent) = (root.node, None);
            for level in (lowest + 1..=root.height).rev() {
                // SAFETY: an interior node of this tree; the tree is locked.
                let above = unsafe { interior(node) };
                parent = Some((above, level));
                // Acquire: pairs with the release in `set_child`.
                node = above.child(index, level).load(Acquire);
            }
            // SAFETY: as above.
            if !unsafe { interior(node) }.is_childless() {
                return;
            }
            match parent {
                Some((above, level)) => {
                    above.set_child(index, level, ptr::null_mut());
                }
                None => self.tree.set_root(Root {
                    node: ptr::null_mut(),
                    height: 0,
                }),
            }
            // SAFETY: unlinked above; it has no children, and the tree had the one count of it.
            unsafe { put::<T, S>(node, lowest, NONE) };
        }
    }
}
