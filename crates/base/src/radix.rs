//! A radix tree from an index to a leaf, whose nodes never move.
//!
//! A reader walks from the root to the leaf without a lock: a load and a shift for each level.
//! There are few: an interior node has [`FANOUT`] children, so leaves of 64 slots need none for
//! 64 slots, one level for 32,768, two for 16 million and three for 2^31.
//!
//! *Growing.* When an index is past what the root covers, a new root goes above the old one,
//! which becomes its child 0. Nothing is copied and nothing that a reader may hold goes away,
//! so there is no grace period and no stall. The height stands in the low bits of the root
//! pointer: a reader gets both with one load, and a reader with the old root is still right
//! about all that the old root covers.
//!
//! *Publishing.* A node is complete before the pointer to it is stored (release), and a reader
//! loads that pointer with acquire. A pointer to a node is stored once, in an empty place, by
//! compare-and-swap, and never changed: so a node that was reached stays for the life of the
//! tree, and the tree gives out `&L`.
//!
//! *Full leaves.* Each interior node has a bit for each child that tells "there is nothing free
//! below". A search for room looks at these words, [`FANOUT`] / 64 in each node and all on one
//! cache line, instead of the leaves. They are kept by callers that hold a lock around them:
//! see [`Tree::mark_full`].

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use alloc::boxed::Box;

use crossbeam_utils::CachePadded;

use crate::bitmap::{BITS, Word};
use crate::fallible::{OutOfMemory, try_box};
use crate::sync::atomic::AtomicPtr;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// How many children an interior node has: a page of pointers. Models use few, so that trees
/// grow.
pub const FANOUT: usize = if cfg!(loom) { 2 } else { 512 };

const FANOUT_BITS: u32 = FANOUT.trailing_zeros();

/// How many words hold one bit for each child.
const WORDS: usize = FANOUT.div_ceil(BITS);

/// The part of a root pointer that is the height. Nodes are aligned to more.
const HEIGHT: usize = 63;

/// How many indexes there are: 2^25, which is 2^31 slots in leaves of 64.
pub const INDEXES: usize = 1 << 25;

/// A leaf or an interior node; the level tells which.
type Erased = ();

/// A leaf of the tree with its index.
#[repr(C, align(64))]
struct LeafNode<L> {
    index: usize,
    leaf: L,
}

/// An interior node.
#[repr(C, align(64))]
struct Interior {
    /// A bit for each child below which there is nothing free.
    full: [Word; WORDS],
    children: [AtomicPtr<Erased>; FANOUT],
}

/// A tree from an index, below [`INDEXES`], to a leaf of type `L`.
///
/// ```
/// use fdtable_base::radix::Tree;
///
/// let tree: Tree<Box<str>> = Tree::new();
/// assert!(tree.get(70_000).is_none());
/// let leaf = tree.get_or_insert_with(70_000, || "far away".into())?;
/// assert!(std::ptr::eq(tree.get(70_000).unwrap(), leaf));
/// # Ok::<(), fdtable_base::fallible::OutOfMemory>(())
/// ```
pub struct Tree<L> {
    /// The root, with the number of interior levels in its low bits; null at first. On a cache
    /// line of its own: every reader reads it, and writers keep changing `recent`.
    root: CachePadded<AtomicPtr<Erased>>,
    /// The leaf that a writer used last; null at first. Saves writers the walk, and with it the
    /// cold cache lines on the way.
    recent: AtomicPtr<LeafNode<L>>,
    owns: PhantomData<LeafNode<L>>,
}

/// What a root pointer says.
#[derive(Clone, Copy)]
struct Root {
    node: *mut Erased,
    height: u32,
}

impl Root {
    #[inline(always)]
    fn unpack(word: *mut Erased) -> Self {
        // At most 63, so it fits.
        let height = (word.addr() & HEIGHT) as u32;
        Self {
            node: word.map_addr(|address| address & !HEIGHT),
            height,
        }
    }

    fn pack(self) -> *mut Erased {
        self.node.map_addr(|address| address | self.height as usize)
    }

    /// Tells whether the tree below this root has a place for the leaf of `index`.
    #[inline(always)]
    fn covers(self, index: usize) -> bool {
        // Heights are small: 25 levels of models are 25 bits.
        index >> (FANOUT_BITS * self.height) == 0
    }
}

/// Returns which child of a node at `level` leads to the leaf of `index`. Level 1 is just above
/// the leaves.
#[inline(always)]
fn child_number(index: usize, level: u32) -> usize {
    (index >> (FANOUT_BITS * (level - 1))) % FANOUT
}

impl Interior {
    fn new() -> Self {
        Self {
            full: core::array::from_fn(|_| Word::new()),
            children: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    #[inline(always)]
    fn child(&self, index: usize, level: u32) -> &AtomicPtr<Erased> {
        &self.children[child_number(index, level)]
    }

    fn mark(&self, child: usize) {
        self.full[child / BITS].set(child % BITS);
    }

    fn unmark(&self, child: usize) {
        self.full[child / BITS].clear(child % BITS);
    }

    fn is_marked(&self, child: usize) -> bool {
        self.full[child / BITS].test(child % BITS)
    }

    fn next_unmarked(&self, first: usize) -> Option<usize> {
        (first / BITS..WORDS)
            .find_map(|word| {
                let start = first.saturating_sub(word * BITS);
                self.full[word]
                    .lowest_clear(start)
                    .map(|bit| word * BITS + bit)
            })
            .filter(|&child| child < FANOUT)
    }
}

/// Borrows the interior node behind a child pointer.
///
/// # Safety
/// `node` was loaded with acquire from a tree, at a level above the leaves, and the tree lives
/// for all of `'t`.
#[inline(always)]
unsafe fn interior<'t>(node: *mut Erased) -> &'t Interior {
    // SAFETY: nodes are complete before they are published, stay where they are until the tree
    // is dropped, and are only shared until then.
    unsafe { &*node.cast::<Interior>() }
}

impl<L: Send + Sync> Tree<L> {
    /// Makes an empty tree. Does not allocate.
    #[must_use]
    pub fn new() -> Self {
        Self {
            root: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            recent: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// Finds the leaf of `index`, if there is one. Neither blocks nor allocates.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&L> {
        self.node(index).map(|node| &node.leaf)
    }

    /// As [`get`](Self::get), for writers: saves the walk when the leaf is the one that was
    /// found so last.
    #[inline]
    pub fn get_recent(&self, index: usize) -> Option<&L> {
        // Acquire: pairs with the release in `remember`.
        // SAFETY: null, or a leaf of this tree, which stays as long as the tree does.
        if let Some(recent) = unsafe { self.recent.load(Acquire).as_ref() }
            && recent.index == index
        {
            return Some(&recent.leaf);
        }
        self.node(index).map(|node| self.remember(node))
    }

    /// Has the processor fetch the leaf that a writer found last, while the caller does something
    /// else first: wait for its lock. A hint; costs a load.
    #[inline(always)]
    pub fn prefetch_recent(&self) {
        // Relaxed: the pointer is not followed.
        prefetch(self.recent.load(Relaxed));
    }

    /// Finds the leaf of `index`, or makes it with `make` and puts it there. Never blocks;
    /// allocates the leaf and the interior nodes that lead to it. If another thread puts a leaf
    /// there at the same time, that one is returned, and the one made here is dropped.
    ///
    /// # Errors
    /// [`OutOfMemory`] if a node cannot be allocated, or `index` is [`INDEXES`] or more. The
    /// tree is then as it was, but for interior nodes that lead to nothing yet.
    pub fn get_or_insert_with(
        &self,
        index: usize,
        make: impl FnOnce() -> L,
    ) -> Result<&L, OutOfMemory> {
        if let Some(leaf) = self.get_recent(index) {
            return Ok(leaf);
        }
        let leaf = self.insert(index, make)?;
        // SAFETY: a leaf of this tree, which stays as long as the tree does.
        Ok(self.remember(unsafe { leaf.as_ref() }))
    }

    /// Finds the first leaf whose index is `from` or more. Neither blocks nor allocates.
    pub fn next(&self, from: usize) -> Option<(usize, &L)> {
        let root = self.root();
        if !root.covers(from) || root.node.is_null() {
            return None;
        }
        // SAFETY: `root` loaded the node with acquire, together with its height.
        let node = unsafe { self.next_below(root.node, root.height, from) }?;
        Some((node.index, &node.leaf))
    }

    #[inline(always)]
    fn root(&self) -> Root {
        // Acquire: pairs with the release in `grow` and `publish`; the node is seen complete.
        Root::unpack(self.root.load(Acquire))
    }

    #[inline(always)]
    fn node(&self, index: usize) -> Option<&LeafNode<L>> {
        let root = self.root();
        if !root.covers(index) {
            return None;
        }
        let mut node = root.node;
        let mut level = root.height;
        while level > 0 {
            // SAFETY: loaded with acquire, here or in `root`, at a level above the leaves, and
            // not null: a root above the leaves never is, and a null child ends the walk.
            let parent = unsafe { interior(node) };
            // Acquire: pairs with the release in `publish`; the node is seen complete.
            node = parent.child(index, level).load(Acquire);
            if node.is_null() {
                return None;
            }
            level -= 1;
        }
        // SAFETY: loaded with acquire, at the level of the leaves; leaves stay as long as the
        // tree does. Null only if the tree is empty.
        unsafe { node.cast::<LeafNode<L>>().as_ref() }
    }

    fn remember<'t>(&'t self, node: &'t LeafNode<L>) -> &'t L {
        // Release: pairs with the acquire in `get_recent`, for a thread that has the leaf from
        // there alone.
        self.recent.store(ptr::from_ref(node).cast_mut(), Release);
        &node.leaf
    }

    /// Finds the first leaf at or after `from` below `node`, which covers `from`.
    ///
    /// # Safety
    /// `node` was loaded with acquire from this tree, at `level`, and is not null.
    unsafe fn next_below(
        &self,
        node: *mut Erased,
        level: u32,
        mut from: usize,
    ) -> Option<&LeafNode<L>> {
        if level == 0 {
            // SAFETY: a leaf of this tree, which stays as long as the tree does.
            return unsafe { node.cast::<LeafNode<L>>().as_ref() };
        }
        // SAFETY: as the caller promises.
        let parent = unsafe { interior(node) };
        for child in child_number(from, level)..FANOUT {
            // Acquire: pairs with the release in `publish`.
            let node = parent.children[child].load(Acquire);
            if !node.is_null() {
                // SAFETY: loaded with acquire from this tree, one level further down.
                if let found @ Some(_) = unsafe { self.next_below(node, level - 1, from) } {
                    return found;
                }
            }
            // The children to the right are searched from their beginning.
            from = 0;
        }
        None
    }

    /// Puts a new leaf in its place, with all that leads there, or finds that one is there.
    fn insert(
        &self,
        index: usize,
        make: impl FnOnce() -> L,
    ) -> Result<NonNull<LeafNode<L>>, OutOfMemory> {
        if index >= INDEXES {
            return Err(OutOfMemory);
        }
        let mut new = try_box(LeafNode {
            index,
            leaf: make(),
        })?;
        loop {
            let root = self.root();
            if !root.covers(index) {
                self.add_root(root)?;
                continue;
            }
            let lone = root.height == 0;
            let place = if lone {
                &*self.root
            } else {
                // SAFETY: `root` loaded the node with acquire; it is above the leaves, and the tree lives.
                unsafe { parent_place(root, index) }?
            };
            match publish(place, new) {
                Ok(leaf) => return Ok(leaf),
                Err((there, _)) if !lone => return Ok(there.cast()),
                // What is there is a leaf, or an interior root that came in between.
                Err((there, _)) if Root::unpack(there.as_ptr()).height == 0 => {
                    return Ok(there.cast());
                }
                Err((_, unused)) => new = unused,
            }
        }
    }

    /// Puts a root above `old`, unless somebody else just did.
    fn add_root(&self, old: Root) -> Result<(), OutOfMemory> {
        let new = try_box(Interior::new())?;
        if !old.node.is_null() {
            // Relaxed: the release below publishes it.
            new.children[0].store(old.node, Relaxed);
            // SAFETY: `root` loaded the node with acquire, together with its height.
            if unsafe { is_full(old) } {
                new.mark(0);
            }
        }
        let node = Box::into_raw(new);
        let word = Root {
            node: node.cast(),
            height: old.height + 1,
        }
        .pack();
        // Release: pairs with the acquire in `root`. Relaxed on failure: nothing is followed.
        if self
            .root
            .compare_exchange(old.pack(), word, Release, Relaxed)
            .is_err()
        {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(node) });
        }
        Ok(())
    }
}

/// Which children of the nodes have nothing free below them.
///
/// These operations keep a summary of what the caller knows of its leaves. Callers hold a lock
/// around them and around the change of the leaf; without it the summary may come out wrong,
/// which misleads a search and harms nothing else. They neither block nor allocate.
impl<L: Send + Sync> Tree<L> {
    /// Notes that the leaf of `index` has nothing free.
    pub fn mark_full(&self, index: usize) {
        let root = self.root();
        if root.covers(index) {
            // SAFETY: `root` loaded the node with acquire, together with its height.
            unsafe { mark_below(root.node, root.height, index) };
        }
    }

    /// Notes that the leaf of `index` has something free.
    pub fn mark_free(&self, index: usize) {
        let root = self.root();
        let mut node = root.node;
        for level in (1..=root.height).rev() {
            if !root.covers(index) || node.is_null() {
                return;
            }
            // SAFETY: loaded with acquire, at a level above the leaves, not null.
            let parent = unsafe { interior(node) };
            let child = child_number(index, level);
            if parent.is_marked(child) {
                parent.unmark(child);
            }
            // Acquire: pairs with the release in `publish`.
            node = parent.children[child].load(Acquire);
        }
    }

    /// Finds the first index at or after `from` whose leaf is not noted as full: it has
    /// something free, or is not there yet. One word for each level, and one more for each time
    /// that the search has to go up.
    pub fn next_not_full(&self, from: usize) -> usize {
        let root = self.root();
        if !root.covers(from) || root.node.is_null() {
            return from;
        }
        // SAFETY: `root` loaded the node with acquire, together with its height.
        let found = unsafe { next_not_full_below(root.node, root.height, from) };
        // All full: the first index that the root does not cover.
        found.unwrap_or(1 << (FANOUT_BITS * root.height))
    }
}

/// Has the processor fetch a line that will be written soon.
#[inline(always)]
fn prefetch<N>(node: *const N) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address, also of null, has no effect that a program can see.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(node.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = node;
}

/// Tells whether a whole tree is noted as full. A lone leaf is not noted anywhere; it counts as
/// not full, and a search will look at it.
///
/// # Safety
/// As for [`interior`], and `root` is not null.
unsafe fn is_full(root: Root) -> bool {
    // SAFETY: as the caller promises.
    root.height > 0 && unsafe { interior(root.node) }.next_unmarked(0).is_none()
}

/// Marks a leaf as full in its parent, and parents that became full in theirs. Tells whether
/// all below `node` is full.
///
/// # Safety
/// `node` is null or was loaded with acquire from a tree, at `level`.
unsafe fn mark_below(node: *mut Erased, level: u32, index: usize) -> bool {
    if level == 0 {
        return true;
    }
    if node.is_null() {
        return false;
    }
    // SAFETY: as the caller promises.
    let parent = unsafe { interior(node) };
    let child = child_number(index, level);
    // Acquire: pairs with the release in `publish`.
    let below = parent.children[child].load(Acquire);
    // SAFETY: loaded with acquire, one level further down.
    if unsafe { mark_below(below, level - 1, index) } {
        parent.mark(child);
    }
    parent.next_unmarked(0).is_none()
}

/// The step of [`Tree::next_not_full`] below `node`, which covers `from`.
///
/// # Safety
/// `node` was loaded with acquire from a tree, at `level`, and is not null.
unsafe fn next_not_full_below(node: *mut Erased, level: u32, from: usize) -> Option<usize> {
    if level == 0 {
        return Some(from);
    }
    // SAFETY: as the caller promises.
    let parent = unsafe { interior(node) };
    let own = child_number(from, level);
    let span = 1 << (FANOUT_BITS * (level - 1));
    let base = from / (span * FANOUT) * (span * FANOUT);
    let mut first = own;
    while let Some(child) = parent.next_unmarked(first) {
        let start = if child == own {
            from
        } else {
            base + child * span
        };
        // Acquire: pairs with the release in `publish`.
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

/// Returns the place of the pointer to the leaf of `index`, and makes the nodes above it.
///
/// # Safety
/// The root is an interior node, was loaded with acquire, and its tree lives for all of `'t`.
unsafe fn parent_place<'t>(root: Root, index: usize) -> Result<&'t AtomicPtr<Erased>, OutOfMemory> {
    let mut node = root.node;
    let mut level = root.height;
    loop {
        // SAFETY: loaded with acquire or published just now, at a level above the leaves.
        let place = unsafe { interior(node) }.child(index, level);
        level -= 1;
        if level == 0 {
            return Ok(place);
        }
        // Acquire: pairs with the release in `publish`.
        node = place.load(Acquire);
        if node.is_null() {
            node = match publish(place, try_box(Interior::new())?) {
                Ok(new) => new.as_ptr().cast(),
                Err((there, _)) => there.as_ptr(),
            };
        }
    }
}

/// Puts a new node in an empty place. If the place is not empty, returns the pointer that is
/// there, and the new node.
fn publish<N>(
    place: &AtomicPtr<Erased>,
    new: Box<N>,
) -> Result<NonNull<N>, (NonNull<Erased>, Box<N>)> {
    let new = NonNull::from(Box::leak(new));
    // Release: pairs with the acquire of every walk. Acquire on failure: the node that is there
    // is followed.
    match place.compare_exchange(ptr::null_mut(), new.as_ptr().cast(), Release, Acquire) {
        Ok(_) => Ok(new),
        Err(there) => {
            // SAFETY: a strong exchange fails only where something other than null is.
            let there = unsafe { NonNull::new_unchecked(there) };
            // SAFETY: leaked above, and nobody else has seen it.
            Err((there, unsafe { Box::from_raw(new.as_ptr()) }))
        }
    }
}

impl<L: Send + Sync> Default for Tree<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L> Drop for Tree<L> {
    fn drop(&mut self) {
        // Acquire: what other threads put into the tree is seen whole, however the owner
        // learned that they are done.
        let root = Root::unpack(self.root.load(Acquire));
        // SAFETY: nobody else has the tree any more, and all its nodes are its own.
        unsafe { free_below::<L>(root.node, root.height) };
    }
}

/// Frees a node and all below it.
///
/// # Safety
/// `node` is null or a node at `level` of a tree that nobody uses any more, and is not used
/// after.
unsafe fn free_below<L>(node: *mut Erased, level: u32) {
    if node.is_null() {
        return;
    }
    if level == 0 {
        // SAFETY: leaves come from boxes of this type.
        return drop(unsafe { Box::from_raw(node.cast::<LeafNode<L>>()) });
    }
    // SAFETY: interior nodes come from boxes of this type.
    let parent = unsafe { Box::from_raw(node.cast::<Interior>()) };
    for child in &parent.children {
        // SAFETY: the caller owns all below the node. Acquire: as in `drop`.
        unsafe { free_below::<L>(child.load(Acquire), level - 1) };
    }
}

impl<L: Send + Sync + fmt::Debug> fmt::Debug for Tree<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = self.next(0);
        let leaves = core::iter::from_fn(|| {
            let (index, leaf) = next?;
            next = self.next(index + 1);
            Some((index, leaf))
        });
        f.debug_map().entries(leaves).finish()
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn tree_of(indexes: &[usize]) -> Tree<usize> {
        let tree = Tree::new();
        for &index in indexes {
            tree.get_or_insert_with(index, || index)
                .expect("there is memory");
        }
        tree
    }

    fn indexes(tree: &Tree<usize>) -> Vec<usize> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some((index, &leaf)) = tree.next(from) {
            assert_eq!(index, leaf);
            found.push(index);
            from = index + 1;
        }
        found
    }

    #[test]
    fn leaves_are_found_at_every_height() {
        let far = [0, 1, 511, 512, 262_143, 262_144, INDEXES - 1];
        let tree = tree_of(&far);
        assert_eq!(indexes(&tree), far);
        for index in far {
            assert_eq!(tree.get(index), Some(&index));
            assert_eq!(tree.get_recent(index), Some(&index));
            assert_eq!(tree.get_recent(index), Some(&index));
        }
        assert_eq!(tree.get(2), None);
        assert_eq!(tree.get(INDEXES), None);
        assert_eq!(tree.get(usize::MAX), None);
    }

    #[test]
    fn an_empty_tree_has_no_leaf() {
        let tree: Tree<usize> = Tree::new();
        assert_eq!(tree.get(0), None);
        assert_eq!(tree.next(0), None);
        assert_eq!(tree.next_not_full(5), 5);
        tree.mark_full(0);
        tree.mark_free(0);
    }

    #[test]
    fn an_index_past_the_last_is_refused() {
        let tree: Tree<usize> = Tree::new();
        assert_eq!(tree.get_or_insert_with(INDEXES, || 0), Err(OutOfMemory));
        assert_eq!(tree.get_or_insert_with(usize::MAX, || 0), Err(OutOfMemory));
    }

    #[test]
    fn a_leaf_stays_where_it_is_while_the_tree_grows() {
        let tree = tree_of(&[0]);
        let before = ptr::from_ref(tree.get(0).expect("inserted"));
        for index in [1, 600, 300_000] {
            tree.get_or_insert_with(index, || index)
                .expect("there is memory");
        }
        assert_eq!(ptr::from_ref(tree.get(0).expect("inserted")), before);
    }

    #[test]
    fn a_search_passes_over_what_is_marked_full() {
        let tree = tree_of(&[0, 1, 2, 3, 600]);
        for index in [0, 1, 3] {
            tree.mark_full(index);
        }
        assert_eq!(tree.next_not_full(0), 2);
        assert_eq!(tree.next_not_full(3), 4);
        tree.mark_free(1);
        assert_eq!(tree.next_not_full(0), 1);
    }

    #[test]
    fn a_search_leaves_a_full_subtree_for_the_next() {
        let tree = tree_of(&(0..1024).collect::<Vec<_>>());
        (0..1024).for_each(|index| tree.mark_full(index));
        assert_eq!(tree.next_not_full(0), 1024);
        assert_eq!(tree.next_not_full(700), 1024);
        tree.mark_free(513);
        assert_eq!(tree.next_not_full(0), 513);
        assert_eq!(tree.next_not_full(514), 1024);
    }

    #[test]
    fn a_full_root_is_full_under_a_new_one() {
        let tree = tree_of(&(0..512).collect::<Vec<_>>());
        (0..512).for_each(|index| tree.mark_full(index));
        assert_eq!(tree.next_not_full(0), 512);
        tree.get_or_insert_with(512, || 512)
            .expect("there is memory");
        assert_eq!(tree.next_not_full(0), 512);
        tree.mark_full(512);
        assert_eq!(tree.next_not_full(7), 513);
    }

    #[test]
    fn threads_that_insert_the_same_indexes_get_the_same_leaves() {
        let tree: Tree<usize> = Tree::new();
        let visit = |offset: usize| {
            let tree = &tree;
            move || {
                (0..2000)
                    .map(|step| (step * 7 + offset) % 2000 * 40)
                    .map(|index| tree.get_or_insert_with(index, || index).expect("memory"))
                    .for_each(|&leaf| assert_eq!(tree.get(leaf), Some(&leaf)));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(visit(0));
            scope.spawn(visit(13));
        });
        assert_eq!(indexes(&tree).len(), 2000);
    }
}
