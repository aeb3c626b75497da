//! The nodes of a tree: their heads, their counts, and how they are freed.

use core::ptr::{self, NonNull};

use super::FANOUT;
use crate::memory::MemoryBox;
use crate::radix::leaf::Leaf;
use fdtable_sync::bitmap::{BITS, Word};
use fdtable_sync::lock::{LockTag, RawLock};
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::atomic::{AtomicPtr, AtomicU32, AtomicU64};
#[cfg(not(loom))]
use fdtable_sync::prefetch::prefetch;
use fdtable_sync::rcu;
use fdtable_sync::unwind;

/// A leaf or an interior node, depending on the level. Both begin with a [`NodeHead`].
pub(super) type Erased = ();

/// Identifies the tree that may write a node.
pub(super) type OwnerId = u64;

/// The owner ID of a tree that has no node. No node of a tree has it.
pub(crate) const NONE: OwnerId = 0;

/// The owner ID of a leaf that was removed from its tree.
pub(super) const DETACHED: OwnerId = OwnerId::MAX;

pub(super) const FANOUT_BITS: u32 = FANOUT.trailing_zeros();

/// How many words hold one bit for each child.
const WORDS: usize = FANOUT.div_ceil(BITS);

/// Upper bound of a node's count: far more tables than there is memory for.
const TOO_MANY: u32 = 1 << 31;

/// The head of every node.
#[repr(C)]
pub(crate) struct NodeHead {
    /// First, so that its address is that of the node.
    rcu: rcu::Head,
    owner: AtomicU64,
    /// How many pointers lead to the node.
    count: AtomicU32,
    /// The lock of a leaf, named by the leaf's index. It is here because there is room for it.
    pub(crate) lock: RawLock,
}

/// An interior node.
#[repr(C, align(64))]
pub(super) struct Interior {
    pub(super) head: NodeHead,
    /// How many children there are. Guarded by the lock of the structure.
    children_count: AtomicU32,
    /// A bit for each child below which there is nothing free.
    full: [Word; WORDS],
    pub(super) children: [AtomicPtr<Erased>; FANOUT],
}

/// Returns which child of a node at `level` leads to the leaf of `index`. Level 1 is just above
/// the leaves.
#[inline(always)]
pub(super) fn child_number(index: usize, level: u32) -> usize {
    (index >> (FANOUT_BITS * (level - 1))) % FANOUT
}

/// Borrows the interior node behind a pointer.
///
/// # Safety
/// `node` was loaded with acquire from a tree, at a level above the leaves, and is kept for all
/// of `'n`.
#[inline(always)]
pub(super) unsafe fn interior<'n>(node: *mut Erased) -> &'n Interior {
    // SAFETY: nodes are complete before they are published, and only shared until they are freed.
    unsafe { &*node.cast::<Interior>() }
}

/// Borrows the leaf behind a pointer.
///
/// # Safety
/// As for [`interior`], at the level of the leaves.
#[inline(always)]
pub(super) unsafe fn leaf<'n, T: ?Sized, S>(node: *mut Erased) -> &'n Leaf<T, S> {
    // SAFETY: as above.
    unsafe { &*node.cast::<Leaf<T, S>>() }
}

/// Borrows the head of a node of any kind.
///
/// # Safety
/// The node is not null, and is kept for all of `'n`.
unsafe fn head<'n>(node: *mut Erased) -> &'n NodeHead {
    // SAFETY: all nodes begin with their head.
    unsafe { &*node.cast::<NodeHead>() }
}

impl NodeHead {
    /// Makes the head of a leaf, with the count of the tree that it is made for.
    pub(crate) fn of_leaf<T: ?Sized, S>(owner: OwnerId, name: LockTag) -> Self {
        Self::new(owner, name, free::<Leaf<T, S>>)
    }

    fn new(owner: OwnerId, name: LockTag, free: unsafe fn(NonNull<rcu::Head>)) -> Self {
        Self {
            rcu: rcu::Head::new(free),
            owner: AtomicU64::new(owner),
            count: AtomicU32::new(1),
            lock: RawLock::new(name),
        }
    }

    #[inline(always)]
    pub(crate) fn owner(&self) -> OwnerId {
        // Relaxed: a tree's own owner ID in a node means that the node was made or kept by the holder
        // of that tree's structure, and the caller has synchronised with it. A leaf that was
        // removed had its owner ID changed with its lock held, which the caller holds.
        self.owner.load(Relaxed)
    }

    /// Changes which tree may write the node, and free it at once when the tree is dropped.
    ///
    /// # Safety
    /// The caller holds the lock of the structure of a tree that leads to the node, and the leaf's
    /// lock or a shut gate keeps writers out. The owner ID is [`DETACHED`], or it is the tree's own, and
    /// the tree owned the node until now: no other tree has led readers to it.
    pub(super) unsafe fn set_owner(&self, owner: OwnerId) {
        // Relaxed: as above.
        self.owner.store(owner, Relaxed);
    }

    /// Returns true if there is one count. The answer stays right for the holder of that one.
    pub(super) fn is_sole(&self) -> bool {
        // Acquire: pairs with the release in `uncount`, so reads of other holders come before later
        // writes of this holder.
        self.count.load(Acquire) == 1
    }

    /// Adds a count, unless there are too many.
    pub(super) fn try_count(&self) -> bool {
        // Relaxed: the caller holds a count, so the node is there; the count publishes nothing.
        let few = self.count.fetch_add(1, Relaxed) < TOO_MANY;
        if !few {
            // Relaxed: as above; the added count is removed, and another one is left.
            self.count.fetch_sub(1, Relaxed);
        }
        few
    }

    /// Gives up a count. Returns true if it was the last.
    fn uncount(&self) -> bool {
        // Release: this holder's accesses to the node come before it is freed.
        if self.count.fetch_sub(1, Release) != 1 {
            return false;
        }
        // Acquire: pairs with the releases of all holders before. The load reads the last of an
        // unbroken chain of exchanges, and so from all of them.
        self.count.load(Acquire) == 0
    }
}

/// Makes the model checker report later reads of the node.
#[cfg(loom)]
impl Drop for NodeHead {
    fn drop(&mut self) {
        self.owner.with_mut(|_| ());
    }
}

impl Interior {
    pub(super) fn new(owner: OwnerId) -> Self {
        Self {
            head: NodeHead::new(owner, LockTag::of(0), free::<Self>),
            children_count: AtomicU32::new(0),
            full: core::array::from_fn(|_| Word::new()),
            children: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Makes a copy. The counts of the children are left to the caller. The original is frozen.
    pub(super) fn copy_of(old: &Self, owner: OwnerId) -> Self {
        let copy = Self::new(owner);
        for (new, old) in copy.full.iter().zip(&old.full) {
            new.replace(old.bits());
        }
        for (new, old) in copy.children.iter().zip(&old.children) {
            // Acquire: pairs with the release in `set_child`. Relaxed: the copy is not published.
            new.store(old.load(Acquire), Relaxed);
        }
        // Relaxed, both: the original is frozen, and the copy not published.
        let count = old.children_count.load(Relaxed);
        copy.children_count.store(count, Relaxed);
        copy
    }

    /// Adds a count to each child.
    ///
    /// # Safety
    /// The children are kept.
    pub(super) unsafe fn count_children(&self) {
        // Prefetch: otherwise the waits for their lines come one after the other, like the atomic
        // adds.
        #[cfg(not(loom))]
        self.children().for_each(|child| prefetch(child));
        for child in self.children() {
            // SAFETY: as the caller promises. There is one count for each interior node that leads
            // there, which is a page of memory: the counts do not overflow.
            let counted = unsafe { head(child) }.try_count();
            debug_assert!(counted, "more nodes than memory");
        }
    }

    fn children(&self) -> impl Iterator<Item = *mut Erased> {
        self.children
            .iter()
            // Acquire: pairs with the release in `set_child`, so the complete child is visible.
            .map(|child| child.load(Acquire))
            .filter(|child| !child.is_null())
    }

    #[inline(always)]
    pub(super) fn child(&self, index: usize, level: u32) -> &AtomicPtr<Erased> {
        &self.children[child_number(index, level)]
    }

    /// Publishes or removes a child. With the lock of the structure held.
    pub(super) fn set_child(&self, index: usize, level: u32, child: *mut Erased) {
        let before = self.child(index, level);
        // Relaxed, all three: only the holder of the lock of the structure writes them.
        let count = self.children_count.load(Relaxed);
        let count =
            count + u32::from(!child.is_null()) - u32::from(!before.load(Relaxed).is_null());
        self.children_count.store(count, Relaxed);
        // Release: pairs with the acquire of every walk, so the node is complete there.
        before.store(child, Release);
    }

    pub(super) fn is_childless(&self) -> bool {
        // Relaxed: as in `set_child`.
        self.children_count.load(Relaxed) == 0
    }

    pub(super) fn mark(&self, child: usize) {
        self.full[child / BITS].set(child % BITS);
    }

    pub(super) fn unmark(&self, child: usize) {
        if self.full[child / BITS].test(child % BITS) {
            self.full[child / BITS].clear(child % BITS);
        }
    }

    pub(super) fn next_unmarked(&self, first: usize) -> Option<usize> {
        (first / BITS..WORDS)
            .find_map(|word| {
                let start = first.saturating_sub(word * BITS);
                self.full[word]
                    .lowest_clear(start)
                    .map(|bit| word * BITS + bit)
            })
            .filter(|&child| child < FANOUT)
    }

    pub(super) fn is_full(&self) -> bool {
        self.next_unmarked(0).is_none()
    }
}

/// Gives up a count of a node. The last one also gives up the counts of the children, puts the
/// objects of leaves, which may run release hooks, and frees the node: at once if it has the owner ID
/// `own`, else after a grace period. A panic of a hook prevents none of this.
///
/// # Safety
/// The tree or the node that led here has unlinked the node, and gives up its count once. No reader
/// is in a node with the owner ID `own`.
pub(super) unsafe fn put<T: ?Sized, S>(node: *mut Erased, level: u32, own: OwnerId) {
    // SAFETY: there is a count still, which keeps the node.
    let head = unsafe { head(node) };
    if !head.uncount() {
        return;
    }
    let put_below = || {
        if level == 0 {
            // SAFETY: only readers from before have the leaf.
            let leaf = unsafe { leaf::<T, S>(node) };
            // SAFETY: as above; it was the last count.
            unsafe { leaf.put_objects() };
            return;
        }
        // SAFETY: as above.
        let mut children = unsafe { interior(node) }.children();
        unwind::finish(|| {
            for child in children.by_ref() {
                // SAFETY: the node no longer leads there, and its count of the child is given up
                // once.
                unsafe { put::<T, S>(child, level - 1, own) };
            }
        });
    };
    let free = || {
        if own != NONE && head.owner() == own {
            let free = head.rcu.invoke();
            // SAFETY: nodes are not null, and begin with their head, which begins with this.
            let rcu = unsafe { NonNull::new_unchecked(node.cast::<rcu::Head>()) };
            // SAFETY: no reader is in the node, as the caller promises; it was made for this.
            unsafe { free(rcu) };
        } else {
            // SAFETY: unlinked everywhere.
            unsafe { free_after_readers(node) };
        }
    };
    unwind::both(put_below, free);
}

/// Frees a node, but nothing below it, once its readers have left.
///
/// # Safety
/// All trees and nodes have unlinked the node, and its contents have been put or have moved to a
/// copy. The caller was the last holder.
pub(super) unsafe fn free_after_readers(node: *mut Erased) {
    // SAFETY: nodes are not null, and begin with their head, which begins with this.
    let rcu = unsafe { NonNull::new_unchecked(node.cast::<rcu::Head>()) };
    // Later: the caller may hold the lock of the structure, and other callbacks run foreign code.
    // SAFETY: the memory stays until `free` is called, and any thread may call it.
    unsafe { rcu::call_later(rcu) };
}

/// Frees the box of a node.
///
/// # Safety
/// `rcu` is at the head of an `N` that came from a box and is no longer used.
unsafe fn free<N>(rcu: NonNull<rcu::Head>) {
    // SAFETY: as the caller promises. The contents of a leaf are not dropped with it.
    drop(unsafe { MemoryBox::from_raw(rcu.cast::<N>()) });
}
