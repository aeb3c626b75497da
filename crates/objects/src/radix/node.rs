//! The interior nodes of a tree: their children, the walks through them, and how nodes are freed.

use core::ptr::{self, NonNull};

use crate::object::Ref;
use crate::radix::leaf::Leaf;
use crate::radix::node_head::{Erased, NONE, NodeHead, OwnerId, free_after_readers, head};
use fdtable_sync::bitmap::{BITS, Word};
use fdtable_sync::lock::LockTag;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::atomic::{AtomicPtr, AtomicU32};
use fdtable_sync::prefetch::prefetch;
use fdtable_sync::rcu;
use fdtable_sync::unwind;

/// How many children an interior node has: a page of pointers. Models use few, so that trees grow.
pub const FANOUT: usize = if cfg!(loom) { 2 } else { 512 };

/// How many indexes there are: 2^25, which is 2^31 slots in leaves of 64.
pub const INDEXES: usize = 1 << 25;

pub(super) const FANOUT_BITS: u32 = FANOUT.trailing_zeros();

/// How many words hold one bit for each child.
const WORDS: usize = FANOUT.div_ceil(BITS);

/// An interior node.
#[repr(C, align(64))]
pub(super) struct Interior {
    pub(super) head: NodeHead,
    /// How many children there are. Guarded by the tree's lock.
    children_count: AtomicU32,
    /// No child is at this position or above. Never falls, so a walk over the children of a node
    /// that has few ends soon.
    end: AtomicU32,
    /// A bit for each child below which there is nothing free.
    full: [Word; WORDS],
    pub(super) children: [AtomicPtr<Erased>; FANOUT],
}

/// Returns which child of a node at `level` leads to the leaf of `index`. Level 1 is just above
/// the leaves.
#[inline(always)]
pub(super) fn child_index(index: usize, level: u32) -> usize {
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

impl Interior {
    pub(super) fn new(owner: OwnerId) -> Self {
        Self {
            head: NodeHead::of::<Self>(owner, LockTag::of(0)),
            children_count: AtomicU32::new(0),
            end: AtomicU32::new(0),
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
        let end = old.end();
        for (new, old) in copy.children.iter().zip(&old.children[..end]) {
            // Acquire: pairs with the release in `set_child`. Relaxed: the copy is not published.
            new.store(old.load(Acquire), Relaxed);
        }
        // Relaxed, all: the original is frozen, and the copy not published.
        let count = old.children_count.load(Relaxed);
        copy.children_count.store(count, Relaxed);
        copy.end.store(end as u32, Relaxed);
        copy
    }

    /// Adds a count to each child.
    ///
    /// # Safety
    /// The children are kept.
    pub(super) unsafe fn count_children(&self) {
        // Prefetch: otherwise the waits for their lines come one after the other, like the atomic
        // adds.
        if !cfg!(loom) {
            self.children().for_each(|child| prefetch(child));
        }
        for child in self.children() {
            // SAFETY: as the caller promises. There is one count for each interior node that leads
            // there, which is a page of memory: the counts do not overflow.
            let counted = unsafe { head(child) }.try_count();
            debug_assert!(counted, "more nodes than memory");
        }
    }

    fn children(&self) -> impl Iterator<Item = *mut Erased> {
        self.children[..self.end()]
            .iter()
            // Acquire: pairs with the release in `set_child`, so the complete child is visible.
            .map(|child| child.load(Acquire))
            .filter(|child| !child.is_null())
    }

    #[inline(always)]
    pub(super) fn child(&self, index: usize, level: u32) -> &AtomicPtr<Erased> {
        &self.children[child_index(index, level)]
    }

    /// Publishes or removes a child. With the tree's lock held.
    pub(super) fn set_child(&self, index: usize, level: u32, child: *mut Erased) {
        let before = self.child(index, level);
        // Relaxed, all: only the holder of the tree's lock writes them.
        let count = self.children_count.load(Relaxed);
        let count =
            count + u32::from(!child.is_null()) - u32::from(!before.load(Relaxed).is_null());
        self.children_count.store(count, Relaxed);
        let end = self.end().max(child_index(index, level) + 1);
        self.end.store(end as u32, Relaxed);
        // Release: pairs with the acquire of every walk, so the node is complete there.
        before.store(child, Release);
    }

    fn end(&self) -> usize {
        // Relaxed: a thread that has synchronised with the one that published a child finds an end
        // above it. Another may miss the child, as if it had come before.
        self.end.load(Relaxed) as usize
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

/// The decoded root pointer.
#[derive(Clone, Copy)]
pub(super) struct Root {
    pub(super) node: *mut Erased,
    /// How many interior levels there are; none only in an empty tree.
    pub(super) height: u32,
}

/// The part of a root pointer that is the height. Nodes are aligned to more.
pub(super) const HEIGHT: usize = 63;

impl Root {
    #[inline(always)]
    pub(super) fn unpack(word: *mut Erased) -> Self {
        // At most 63, so it fits.
        let height = (word.addr() & HEIGHT) as u32;
        Self {
            node: word.map_addr(|address| address & !HEIGHT),
            height,
        }
    }

    pub(super) fn pack(self) -> *mut Erased {
        self.node.map_addr(|address| address | self.height as usize)
    }

    /// Returns true if the tree below this root has a place for the leaf of `index`.
    #[inline(always)]
    pub(super) fn covers(self, index: usize) -> bool {
        // Heights are small: 25 levels of models are 25 bits.
        index >> (FANOUT_BITS * self.height) == 0
    }
}

/// Walks down to the leaf of `index`, if there is one.
///
/// # Safety
/// `node` was loaded with acquire from a tree, at `level`, which is above the leaves, and is not
/// null; all below it is kept for all of `'l`.
#[inline(always)]
pub(super) unsafe fn walk<'l, T: ?Sized, S>(
    mut node: *mut Erased,
    index: usize,
    mut level: u32,
) -> Option<&'l Leaf<T, S>> {
    while level > 0 {
        // SAFETY: loaded with acquire, at a level above the leaves, and not null.
        let parent = unsafe { interior(node) };
        // Acquire: pairs with the release in `set_child`, so the complete node is visible.
        node = parent.child(index, level).load(Acquire);
        if node.is_null() {
            return None;
        }
        level -= 1;
    }
    // SAFETY: loaded with acquire, at the level of the leaves.
    Some(unsafe { leaf(node) })
}

/// Finds the first leaf at or after `from` below `node`, which covers `from`.
///
/// # Safety
/// `node` was loaded with acquire from a tree, at `level`, and is not null; all below it is kept
/// for all of `'l`.
pub(super) unsafe fn next_leaf<'l, T: ?Sized, S>(
    node: *mut Erased,
    level: u32,
    from: usize,
) -> Option<(usize, &'l Leaf<T, S>)> {
    if level == 0 {
        // SAFETY: as the caller promises.
        return Some((from, unsafe { leaf(node) }));
    }
    // SAFETY: as the caller promises.
    let parent = unsafe { interior(node) };
    let own = child_index(from, level);
    let span = 1 << (FANOUT_BITS * (level - 1));
    let base = from / (span * FANOUT) * (span * FANOUT);
    for child in own..parent.end() {
        // Acquire: pairs with the release in `set_child`.
        let below = parent.children[child].load(Acquire);
        if below.is_null() {
            continue;
        }
        let start = if child == own {
            from
        } else {
            base + child * span
        };
        // SAFETY: loaded with acquire, one level further down.
        if let found @ Some(_) = unsafe { next_leaf(below, level - 1, start) } {
            return found;
        }
    }
    None
}

/// Gives up a count of a node. The last one also gives up the counts of the children, puts the
/// objects of leaves, which may run release hooks, and frees the node: at once if it has the owner
/// ID `own`, else after a grace period. A panic of a hook prevents none of this.
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

/// A leaf that was removed from a tree. Its objects are put when this is dropped: after the lock.
#[must_use = "dropping this runs release hooks; do it outside of the lock"]
pub struct Retired<T: ?Sized, S> {
    pub(super) leaf: NonNull<Leaf<T, S>>,
}

// SAFETY: the leaf is unlinked, and one holder gives it up; any thread may put its objects.
unsafe impl<T: ?Sized + Send + Sync, S: Send + Sync> Send for Retired<T, S> {}

impl<T: ?Sized, S> Retired<T, S> {
    /// Takes a reference to the object that a slot had, if any. Neither blocks nor allocates.
    pub fn get(&self, bit: usize) -> Option<Ref<T>> {
        // SAFETY: the count that this holds keeps the leaf.
        let leaf = unsafe { self.leaf.as_ref() };
        // SAFETY: it keeps the references of the leaf too. No thread writes them: a leaf that the
        // tree owned is marked as gone, and a shared leaf is copied to be written.
        unsafe { leaf.share_object(bit) }
    }

    /// Returns the leaf, which no thread writes any more.
    pub fn leaf(&self) -> &Leaf<T, S> {
        // SAFETY: the count that this holds keeps the leaf.
        unsafe { self.leaf.as_ref() }
    }
}

impl<T: ?Sized, S> Drop for Retired<T, S> {
    fn drop(&mut self) {
        // SAFETY: unlinked, and this has the count that the tree had.
        unsafe { put::<T, S>(self.leaf.as_ptr().cast(), 0, NONE) };
    }
}
