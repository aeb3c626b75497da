//! The head of every node: which tree may write it, how many pointers lead to it, and how it is
//! freed.

use core::ptr::NonNull;

use crate::memory::MemoryBox;
use fdtable_sync::lock::{LockTag, RawLock};
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::atomic::{AtomicU32, AtomicU64};
use fdtable_sync::platform::global;
use fdtable_sync::rcu;

/// A leaf or an interior node, depending on the level. Both begin with a [`NodeHead`].
pub(super) type Erased = ();

/// Identifies the tree that may write a node.
pub(super) type OwnerId = u64;

/// The owner ID of a tree that has no node. No node of a tree has it.
pub(super) const NONE: OwnerId = 0;

/// The owner ID of a leaf that was removed from its tree.
pub(super) const DETACHED: OwnerId = OwnerId::MAX;

/// Upper bound of a node's count: far more tables than there is memory for.
const TOO_MANY: u32 = 1 << 31;

global! {
    /// The next owner ID. Zero is `NONE`.
    pub(super) static OWNER_IDS: AtomicU64 = AtomicU64::new(1);
}

/// Draws an owner ID that no tree has had.
pub(super) fn new_owner_id() -> OwnerId {
    // Relaxed: owner IDs only have to differ. They do not run out: 2^64 trees.
    OWNER_IDS.fetch_add(1, Relaxed)
}

/// The head of every node.
#[repr(C)]
pub(super) struct NodeHead {
    /// First, so that its address is that of the node.
    pub(super) rcu: rcu::Head,
    owner: AtomicU64,
    /// How many pointers lead to the node.
    count: AtomicU32,
    /// The lock of a leaf, with the leaf's index as its tag. It is here because there is space for
    /// it.
    pub(super) lock: RawLock,
}

impl NodeHead {
    /// Makes the head of a node of type `N`, with the count of the tree that it is made for.
    pub(super) fn of<N>(owner: OwnerId, tag: LockTag) -> Self {
        Self {
            rcu: rcu::Head::new(free::<N>),
            owner: AtomicU64::new(owner),
            count: AtomicU32::new(1),
            lock: RawLock::new(tag),
        }
    }

    #[inline(always)]
    pub(super) fn owner(&self) -> OwnerId {
        // Relaxed: a tree's own owner ID in a node means that the node was made or kept by the
        // holder of that tree's lock, and the caller has synchronised with it. A leaf that was
        // removed had its owner ID changed with its lock held, which the caller holds.
        self.owner.load(Relaxed)
    }

    /// Changes which tree may write the node, and free it at once when the tree is dropped.
    ///
    /// # Safety
    /// The caller holds the tree's lock of a tree that leads to the node, and the leaf's lock or
    /// the exclusion of readers keeps writers out. The owner ID is [`DETACHED`], or it is the
    /// tree's own, and the tree owned the node until now: no other tree has led readers to it.
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
    pub(super) fn uncount(&self) -> bool {
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

/// Borrows the head of a node of any kind.
///
/// # Safety
/// The node is not null, and is kept for all of `'n`.
pub(super) unsafe fn head<'n>(node: *mut Erased) -> &'n NodeHead {
    // SAFETY: all nodes begin with their head.
    unsafe { &*node.cast::<NodeHead>() }
}

/// Frees a node, but nothing below it, once its readers have left.
///
/// # Safety
/// All trees and nodes have unlinked the node, and its contents have been put or have moved to a
/// copy. The caller was the last holder.
pub(super) unsafe fn free_after_readers(node: *mut Erased) {
    // SAFETY: nodes are not null, and begin with their head, which begins with this.
    let rcu = unsafe { NonNull::new_unchecked(node.cast::<rcu::Head>()) };
    // Later: the caller may hold the tree's lock, and other callbacks run foreign code.
    // SAFETY: the memory stays until `free` is called, and any thread may call it.
    // weaken: moved-leaf-that-is-freed-at-once
    // weaken: removed-leaf-that-is-freed-at-once
    unsafe { rcu::call_later(rcu::Effect::FreesMemory, 1, rcu) };
}

/// Frees the box of a node.
///
/// # Safety
/// `rcu` is at the head of an `N` that came from a box and is no longer used.
unsafe fn free<N>(rcu: NonNull<rcu::Head>) {
    // SAFETY: as the caller promises. The contents of a leaf are not dropped with it.
    drop(unsafe { MemoryBox::from_raw(rcu.cast::<N>()) });
}
