//! A radix tree from an index to a leaf, whose nodes never move, and which can be shared.
//!
//! A reader walks from the root to the leaf without a lock: a load and a shift for each level.
//! There are few: an interior node has [`FANOUT`] children, so leaves of 64 numbers need one
//! level for 32,768 numbers, two for 16 million and three for 2^31. The first leaf is part of the
//! tree itself: most tables have no other, and need no further memory, nor a walk.
//!
//! *Growing.* When an index is past what the root covers, a new root goes above the old one,
//! which becomes its child 0. Nothing is copied and nothing that a reader may hold goes away,
//! so there is no grace period and no stall. The height stands in the low bits of the root
//! pointer: a reader gets both with one load, and a reader with the old root is still right
//! about all that the old root covers.
//!
//! *Publishing.* A node is complete before the pointer to it is stored (release), and a reader
//! loads that pointer with acquire.
//!
//! # Who may write
//!
//! Every tree has a *token*, and every node has that of the tree that made it.
//!
//! > A node is written only through the tree whose token it has. When the tree is shared, it gets
//! > a new token: from then on nobody writes the nodes that it had.
//!
//! So a shared node is frozen for good. Each node counts the pointers that lead to it, from nodes
//! above and from trees. Who wants to write below a frozen node makes a copy with its own token,
//! from the root downwards ([`Structure::own`]), and gives up one count of the original: copying
//! a node adds one to the count of each child, so below a shared node everything counts as shared.
//! If the count is one, nobody else has the node, and what it holds moves to the copy.
//!
//! There are three kinds of writers, in the order of their number:
//! - Who writes in a leaf: inside the tree's [`gate`](mod@crate::gate), with the leaf locked
//!   ([`Entry::lock_leaf`]).
//! - Who changes nodes: one at a time, with the lock of the structure ([`Tree::lock`]). It keeps
//!   the others out of a leaf with the leaf's own lock, and can write leaves itself.
//! - Who shares the tree: with the lock of the structure, and the gate shut
//!   ([`Structure::share_with`]). Then nobody is inside a leaf, and the token can change.
//!
//! A leaf that has been locked is looked at again: its token may have changed since it was found.
//! A leaf that was taken out of the tree has no token that a tree has.
//!
//! # What keeps a node alive
//!
//! A node that is unlinked is freed after a grace period ([`rcu`]): readers reach
//! nodes inside read-side sections. Whoever gives up the last count frees it. It holds that
//! every tree that once led to the node has unlinked it before it gave up its count, so the grace
//! period begins after the last unlinking. The references of a leaf's objects are put at once,
//! before the grace period, so that what is closed is released promptly: see
//! [`leaf`](crate::leaf).
//!
//! # Full leaves
//!
//! Each interior node has a bit for each child that tells "there is nothing free below". A
//! search for room looks at these words, [`FANOUT`] / 64 in each node and all on one cache line,
//! instead of the leaves. They are kept by who holds the lock of the structure: see
//! [`Structure::mark_full`].

use core::cell::Cell;
use core::fmt;
use core::hint::cold_path;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};

use crate::bitmap::BITS;
use crate::counted::{Borrowed, Ref};
use crate::fence;
use crate::gate::{self, Gate};
use crate::leaf::{Leaf, LeafGuard, LeafRef, LeafState};
use crate::lock::Name;
use crate::prefetch::prefetch;
use crate::rcu::{self, Guard};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use crate::sync::{Mutex, MutexGuard, global, relax};
use crate::unwind;

mod node;
mod own;
mod search;
mod share;

pub(crate) use node::NodeHead;
use node::{Erased, Token, interior, leaf};

/// How many children an interior node has: a page of pointers. Models use few, so that trees
/// grow.
pub const FANOUT: usize = if cfg!(loom) { 2 } else { 512 };

/// How many indexes there are: 2^25, which is 2^31 numbers in leaves of 64.
pub const INDEXES: usize = 1 << 25;

/// A tree from an index, below [`INDEXES`], to a [`Leaf`]. `S` is kept with each leaf, and `D` with
/// the tree, under the lock of its structure.
pub struct Tree<T: ?Sized, S: LeafState, D> {
    shared: Shared,
    /// The leaf of index 0. It is always this tree's own.
    first: Leaf<T, S>,
    data: Mutex<D>,
    owns: PhantomData<Leaf<T, S>>,
}

/// What every reader reads, and hardly anybody writes: a cache line of its own.
#[repr(align(64))]
struct Shared {
    /// The root, with its height in the low bits; null at first.
    root: AtomicPtr<Erased>,
    /// The token of the tree, or nobody's while it has no node. Changes with the lock held, and
    /// with the gate shut if there are nodes.
    token: AtomicU64,
    gate: Gate,
    /// The leaves that most opens and closes are in. Saves writers the walk.
    recent: [Recent; RECENT],
}

/// A leaf, and its index; null if there is none. Changes with the lock of the structure held; the
/// index is only a hint, and who uses the leaf checks it.
struct Recent {
    leaf: AtomicPtr<Erased>,
    index: AtomicUsize,
}

/// How many leaves are found without a walk.
pub const RECENT: usize = 2;

impl Recent {
    /// Names a leaf. With the lock of the structure held.
    fn set(&self, leaf: *mut Erased, index: usize) {
        // Relaxed, both: who holds the lock writes them.
        if self.leaf.load(Relaxed) != leaf || self.index.load(Relaxed) != index {
            // Release: pairs with the acquire in `Tree::recent`.
            self.leaf.store(leaf, Release);
            // Relaxed: a hint.
            self.index.store(index, Relaxed);
        }
    }

    /// Finds the leaf, if one is named.
    ///
    /// # Safety
    /// For all of `'l` the caller is inside a section, or keeps the structure from being changed.
    #[inline(always)]
    unsafe fn get<'l, T: ?Sized, S>(&self) -> Option<&'l Leaf<T, S>> {
        // Acquire: pairs with the release in `set`; the leaf is seen complete.
        let found = self.leaf.load(Acquire);
        // SAFETY: `forget` takes it away before the leaf is unlinked, so it is kept as one that
        // was reached from the root.
        (!found.is_null()).then(|| unsafe { leaf::<T, S>(found) })
    }

    /// Names none. With the lock of the structure held.
    fn clear(&self) {
        // Relaxed: nothing is published.
        self.leaf.store(ptr::null_mut(), Relaxed);
    }
}

/// What a root pointer says.
#[derive(Clone, Copy)]
struct Root {
    node: *mut Erased,
    /// How many interior levels there are; none only in an empty tree.
    height: u32,
}

/// The part of a root pointer that is the height. Nodes are aligned to more.
const HEIGHT: usize = 63;

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
        index >> (node::FANOUT_BITS * self.height) == 0
    }
}

global! {
    /// The next token. Zero is nobody's.
    pub(crate) static TOKENS: AtomicU64 = AtomicU64::new(1);
}

fn new_token() -> Token {
    // Relaxed: tokens only have to differ. They do not run out: 2^64 trees.
    TOKENS.fetch_add(1, Relaxed)
}

impl<T: ?Sized + Send + Sync, S: LeafState, D> Tree<T, S, D> {
    /// Makes a tree that has the first leaf alone. Does not allocate.
    #[must_use]
    pub fn new(data: D) -> Self {
        Self {
            shared: Shared {
                root: AtomicPtr::new(ptr::null_mut()),
                token: AtomicU64::new(node::NOBODY),
                gate: Gate::new(),
                recent: core::array::from_fn(|_| Recent {
                    leaf: AtomicPtr::new(ptr::null_mut()),
                    index: AtomicUsize::new(0),
                }),
            },
            // The first leaf's own token is not looked at.
            first: Leaf::new(NodeHead::of_leaf::<T, S>(node::NOBODY, Name::of(0))),
            data: Mutex::new(data),
            owns: PhantomData,
        }
    }

    /// Finds the leaf of `index`, if there is one. Neither blocks nor allocates.
    #[inline(always)]
    pub fn leaf<'s>(&'s self, index: usize, section: &'s Guard<'_>) -> Option<LeafRef<'s, T, S>> {
        // SAFETY: what is reached stays until the section ends.
        let leaf = unsafe { self.find(index) }?;
        // SAFETY: reached above, inside of the section.
        Some(unsafe { LeafRef::new(leaf, section) })
    }

    /// Looks at the object of a number without taking a reference. Neither blocks nor allocates.
    #[inline(always)]
    pub fn borrow<'g>(&self, number: usize, section: &'g Guard<'_>) -> Option<Borrowed<'g, T>> {
        // The first leaf by itself: most lookups are there, and need not wait for anything to be
        // decided.
        if number < BITS {
            // SAFETY: it is this tree's, and holds its references for as long.
            return unsafe { self.first.borrow(number, section) };
        }
        cold_path();
        // SAFETY: what is reached stays until the section ends.
        let leaf = unsafe { self.find(number / BITS) }?;
        // SAFETY: reached above, inside of the section.
        unsafe { leaf.borrow(number % BITS, section) }
    }

    /// Looks at the object of a number and takes a reference. One atomic add; neither blocks nor
    /// allocates.
    #[inline(always)]
    pub fn get(&self, number: usize, section: &Guard<'_>) -> Option<Ref<T>> {
        loop {
            // A dead count means that the number was closed since, or that the leaf was given
            // up: another walk finds what is there now.
            if let Some(object) = self.borrow(number, section)?.upgrade() {
                return Some(object);
            }
            relax(0);
        }
    }

    /// Tells that a number has no object; what who took it away, or took its leaf out, did before
    /// is seen. Takes no lock, neither blocks nor allocates.
    ///
    /// Two threads that have each put an object somewhere do not both find the other's place
    /// vacant.
    #[inline]
    pub fn is_vacant(&self, number: usize, section: &Guard<'_>) -> bool {
        // Pairs with itself: of two threads the one that passes it later sees what the other has
        // put before. The exchange of a lock would not do, also where it is a full fence: what was
        // put under the lock may still be on its way when the lock is given back.
        fence::full();
        // No leaf: the acquire of the walk pairs with the release that took it out.
        self.leaf(number / BITS, section)
            .is_none_or(|leaf| leaf.is_vacant(number % BITS))
    }

    /// Finds the first leaf whose index is `from` or more. Neither blocks nor allocates.
    pub fn next<'s>(
        &'s self,
        from: usize,
        section: &'s Guard<'_>,
    ) -> Option<(usize, LeafRef<'s, T, S>)> {
        if from == 0 {
            // SAFETY: it is this tree's, and holds its references for as long.
            return Some((0, unsafe { LeafRef::new(&self.first, section) }));
        }
        let root = self.root();
        if !root.covers(from) || root.node.is_null() {
            return None;
        }
        // SAFETY: `root` loaded the node with acquire, together with its height; what is reached
        // stays until the section ends.
        let (index, leaf) = unsafe { search::next_leaf(root.node, root.height, from) }?;
        // SAFETY: reached above, inside of the section.
        Some((index, unsafe { LeafRef::new(leaf, section) }))
    }

    /// Enters the gate, to write in leaves, unless it is shut. Never waits; allocates at a thread's
    /// first section. The caller must be out again before it waits for the lock of the structure.
    #[inline(always)]
    pub fn enter(&self) -> Option<Entry<'_, T, S, D>> {
        let inside = self.shared.gate.enter()?;
        Some(Entry { tree: self, inside })
    }

    /// As [`enter`](Self::enter), but may refuse inside of sections, and refuses at a thread's
    /// first one, and where readers take full fences. For paths that must not call anything.
    #[inline(always)]
    pub fn try_enter(&self) -> Option<Entry<'_, T, S, D>> {
        let inside = self.shared.gate.try_enter()?;
        Some(Entry { tree: self, inside })
    }

    /// Waits for the lock of the structure and takes it.
    pub fn lock(&self) -> Structure<'_, T, S, D> {
        Structure {
            tree: self,
            data: self.data.lock(),
            freed: Freed::default(),
        }
    }

    /// Borrows what is kept under the lock of the structure. Nobody else can, as the tree is
    /// borrowed alone.
    pub fn data_mut(&mut self) -> &mut D {
        self.data.get_mut()
    }

    /// Takes the lock of the structure if nobody holds it. Never waits.
    pub fn try_lock(&self) -> Option<Structure<'_, T, S, D>> {
        Some(Structure {
            tree: self,
            data: self.data.try_lock()?,
            freed: Freed::default(),
        })
    }

    #[inline(always)]
    fn root(&self) -> Root {
        // Acquire: pairs with the releases of `set_root`; the node is seen complete.
        Root::unpack(self.shared.root.load(Acquire))
    }

    /// Publishes a root.
    fn set_root(&self, root: Root) {
        // Release: pairs with the acquire in `root`.
        self.shared.root.store(root.pack(), Release);
    }

    /// Returns the token, and draws it if this is the first node.
    fn draw_token(&self) -> Token {
        if self.token() == node::NOBODY {
            // Relaxed: the node that gets it is published with a release.
            self.shared.token.store(new_token(), Relaxed);
        }
        self.token()
    }

    fn token(&self) -> Token {
        // Relaxed: it changes while the gate is shut and the structure locked; who is inside of
        // either has acquired the change.
        self.shared.token.load(Relaxed)
    }

    /// Tells whether the leaf of `index` is the tree's own. The first one always is.
    #[inline(always)]
    fn owns(&self, leaf: &Leaf<T, S>, index: usize) -> bool {
        index == 0 || leaf.head.token() == self.token()
    }

    /// Finds the leaf of `index`.
    ///
    /// # Safety
    /// For all of `'l` the caller is inside a section, or keeps the structure from being changed.
    #[inline(always)]
    unsafe fn find<'l>(&self, index: usize) -> Option<&'l Leaf<T, S>>
    where
        Self: 'l,
    {
        if index == 0 {
            // SAFETY: the tree outlives every use of it; the lifetime is one of its borrows.
            return Some(unsafe { &*ptr::from_ref(&self.first) });
        }
        let root = self.root();
        // The first two are for the compiler: it knows the shifts then.
        if root.height == 1 {
            if index >= FANOUT {
                return None;
            }
            // SAFETY: `root` loaded the node with acquire, together with its height, and the
            // caller keeps all below it. A tree of some height has a node.
            return unsafe { walk(root.node, index, 1) };
        }
        if !root.covers(index) || root.node.is_null() {
            return None;
        }
        if root.height == 2 {
            // SAFETY: as above.
            return unsafe { walk(root.node, index, 2) };
        }
        // SAFETY: as above.
        unsafe { walk(root.node, index, root.height) }
    }

    /// Locks the leaf of `index`, if there is one that may be written.
    ///
    /// # Safety
    /// As [`find`](Self::find); and for all of `'l` the token of the tree does not change.
    #[inline(always)]
    unsafe fn lock_own<'l>(&self, index: usize) -> Option<LeafGuard<'l, T, S>>
    where
        Self: 'l,
    {
        // SAFETY: as the caller promises.
        let guard = match unsafe { self.lock_recent(index) } {
            Some(guard) => guard,
            None => {
                // SAFETY: as the caller promises.
                let leaf = unsafe { self.find(index) }?;
                // SAFETY: whether it is the tree's own is looked at next.
                unsafe { leaf.lock(index) }
            }
        };
        // After the lock: the leaf may have been taken out while we waited.
        self.owns(&guard, index).then_some(guard)
    }

    /// Locks a leaf that was found, if it is that of `index` and may be written, unless somebody
    /// holds the lock.
    ///
    /// # Safety
    /// As for [`lock_own`](Self::lock_own).
    #[inline(always)]
    unsafe fn try_lock_found<'l>(
        &self,
        leaf: &'l Leaf<T, S>,
        index: usize,
    ) -> Option<LeafGuard<'l, T, S>> {
        // SAFETY: whether it is the tree's own is looked at next.
        let guard = unsafe { leaf.try_lock(index) }?;
        // After the lock: the leaf may have been taken out before.
        if self.owns(&guard, index) {
            return Some(guard);
        }
        cold_path();
        None
    }

    /// Locks the leaf of `index` if it is the one that [`Structure::set_recent`] named, and nobody
    /// holds its lock. Whether it is the tree's own is for the caller to find out.
    ///
    /// # Safety
    /// As for [`find`](Self::find).
    #[inline(always)]
    unsafe fn lock_recent<'l>(&self, index: usize) -> Option<LeafGuard<'l, T, S>>
    where
        Self: 'l,
    {
        // SAFETY: as the caller promises.
        let leaf = unsafe { self.recent(index) }?;
        // SAFETY: whether it is the tree's own is for the caller to find out.
        unsafe { leaf.try_lock(index) }
    }

    /// Finds the leaf that [`Structure::set_recent`] named for `index`, or another: the caller asks
    /// for its name.
    ///
    /// # Safety
    /// As for [`find`](Self::find).
    #[inline(always)]
    unsafe fn recent<'l>(&self, index: usize) -> Option<&'l Leaf<T, S>>
    where
        Self: 'l,
    {
        // The first leaf is never named, and is as easily found.
        if index == 0 {
            return None;
        }
        let named = self.shared.recent.iter();
        // Relaxed: a hint.
        let recent = named
            .into_iter()
            .find(|recent| recent.index.load(Relaxed) == index)?;
        // SAFETY: as the caller promises.
        unsafe { recent.get() }
    }
}

/// Walks down to the leaf of `index`, if there is one.
///
/// # Safety
/// `node` was loaded with acquire from a tree, at `level`, which is above the leaves, and is not
/// null; all below it is kept for all of `'l`.
#[inline(always)]
unsafe fn walk<'l, T: ?Sized, S>(
    mut node: *mut Erased,
    index: usize,
    mut level: u32,
) -> Option<&'l Leaf<T, S>> {
    while level > 0 {
        // SAFETY: loaded with acquire, at a level above the leaves, and not null.
        let parent = unsafe { interior(node) };
        // Acquire: pairs with the release in `set_child`; the node is seen complete.
        node = parent.child(index, level).load(Acquire);
        if node.is_null() {
            return None;
        }
        level -= 1;
    }
    // SAFETY: loaded with acquire, at the level of the leaves.
    Some(unsafe { leaf(node) })
}

/// The right to write in leaves of a tree. Drop it before waiting for anything.
#[must_use = "the thread leaves the gate when this is dropped"]
pub struct Entry<'e, T: ?Sized, S: LeafState, D> {
    tree: &'e Tree<T, S, D>,
    inside: gate::Entry<'e>,
}

impl<T: ?Sized + Send + Sync, S: LeafState, D> Entry<'_, T, S, D> {
    /// As [`Tree::get`].
    #[inline(always)]
    pub fn get(&self, number: usize) -> Option<Ref<T>> {
        self.tree.get(number, &self.inside.section())
    }

    /// Locks the leaf of `index`, if there is one and it is the tree's own. May wait a moment for
    /// the leaf's lock. Who locks two takes the one with the lower index first.
    #[inline(always)]
    pub fn lock_leaf(&self, index: usize) -> Option<LeafGuard<'_, T, S>> {
        // SAFETY: the entry is a section too, and being inside keeps the token.
        unsafe { self.tree.lock_own(index) }
    }

    /// Finds the leaf of `index`, to look at it before it is locked. Never waits.
    #[inline(always)]
    pub fn find(&self, index: usize) -> Option<Found<'_, T, S, D>> {
        // SAFETY: the entry is a section too.
        let leaf = match unsafe { self.tree.recent(index) } {
            // If another has been named meanwhile, its lock is not had.
            Some(leaf) => leaf,
            // SAFETY: as above.
            None => unsafe { self.tree.find(index) }?,
        };
        Some(Found {
            tree: self.tree,
            leaf,
            index,
        })
    }

    /// As [`lock_leaf`](Self::lock_leaf), unless somebody holds the leaf's lock; for a leaf that
    /// [`Structure::set_recent`] has not named, most likely. Never waits.
    #[inline(always)]
    pub fn try_lock_by_walk(&self, index: usize) -> Option<LeafGuard<'_, T, S>> {
        // SAFETY: the entry is a section too.
        let leaf = unsafe { self.tree.find(index) }?;
        // SAFETY: as in `lock_leaf`.
        unsafe { self.tree.try_lock_found(leaf, index) }
    }

    /// Finds the leaf of `index` if it is the first one, or else the one that
    /// [`Structure::set_recent`] named at `place`, to look at it before it is locked. It may have
    /// named another leaf there. Never waits.
    ///
    /// # Panics
    /// If `place` is not below [`RECENT`].
    #[inline(always)]
    pub fn recent(&self, place: usize, index: usize) -> Option<Found<'_, T, S, D>> {
        let leaf = if index == 0 {
            &self.tree.first
        } else {
            // SAFETY: the entry is a section too.
            unsafe { self.tree.shared.recent[place].get() }?
        };
        Some(Found {
            tree: self.tree,
            leaf,
            index,
        })
    }

    /// Fetches the line of the leaf that is named at `place`, if one is, for who may need it soon.
    ///
    /// # Panics
    /// If `place` is not below [`RECENT`].
    #[inline(always)]
    pub fn prefetch_recent(&self, place: usize) {
        // Relaxed: the pointer is not followed.
        let leaf = self.tree.shared.recent[place].leaf.load(Relaxed);
        if !leaf.is_null() {
            prefetch(leaf);
        }
    }
}

/// A leaf that was found inside of an [`Entry`], and is not locked.
pub struct Found<'e, T: ?Sized, S: LeafState, D> {
    tree: &'e Tree<T, S, D>,
    /// Maybe another than that of the index, and maybe not the tree's own any more.
    leaf: &'e Leaf<T, S>,
    index: usize,
}

impl<T: ?Sized, S: LeafState, D> Clone for Found<'_, T, S, D> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized, S: LeafState, D> Copy for Found<'_, T, S, D> {}

impl<'e, T: ?Sized + Send + Sync, S: LeafState, D> Found<'e, T, S, D> {
    /// Returns the index.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.index
    }

    /// Tells whether it looks as if every number was taken. Does not write the leaf's line.
    #[inline(always)]
    pub fn looks_full(self) -> bool {
        self.leaf.open.is_full()
    }

    /// Tells whether it is the tree's own and every number is taken, without its lock; and if they
    /// are, what came before the last one was taken by
    /// [`set_release`](crate::bitmap::Word::set_release) is seen. Never waits.
    #[inline(always)]
    pub fn is_full(self) -> bool {
        // In either order: no bit changes any more in a leaf that is not the tree's own.
        self.leaf.open.is_full_acquire() && self.tree.owns(self.leaf, self.index)
    }

    /// Tells whether it looks as if a number had an object. Does not write the leaf's line.
    #[inline(always)]
    pub fn looks_open(self, bit: usize) -> bool {
        self.leaf.has(bit)
    }

    /// As [`Entry::lock_leaf`].
    #[inline(always)]
    pub fn lock(self) -> Option<LeafGuard<'e, T, S>> {
        // SAFETY: the entry is a section too, and being inside keeps the token.
        unsafe { self.tree.lock_own(self.index) }
    }

    /// As [`lock`](Self::lock), unless somebody holds the leaf's lock. Never waits.
    #[inline(always)]
    pub fn try_lock(self) -> Option<LeafGuard<'e, T, S>> {
        // SAFETY: the entry is a section too, and being inside keeps the token.
        unsafe { self.tree.try_lock_found(self.leaf, self.index) }
    }
}

/// A tree whose nodes are about to be changed, by the holder of the lock of its structure, and
/// what the user keeps under that lock.
pub struct Structure<'t, T: ?Sized, S: LeafState, D> {
    tree: &'t Tree<T, S, D>,
    data: MutexGuard<'t, D>,
    /// Dropped after the lock.
    freed: Freed,
}

/// Whether nodes were freed with the lock held. Then callbacks may be due, and are run after it.
#[derive(Default)]
struct Freed(Cell<bool>);

impl Drop for Freed {
    fn drop(&mut self) {
        if self.0.get() {
            rcu::catch_up();
        }
    }
}

/// A leaf that was taken out of a tree. Its objects are put when this is dropped: after the lock.
#[must_use = "dropping this runs release hooks; do it outside of the lock"]
pub struct Retired<T: ?Sized, S> {
    leaf: NonNull<Leaf<T, S>>,
}

impl<T: ?Sized, S, D> Deref for Structure<'_, T, S, D>
where
    S: LeafState,
{
    type Target = D;
    fn deref(&self) -> &D {
        &self.data
    }
}

impl<T: ?Sized, S: LeafState, D> DerefMut for Structure<'_, T, S, D> {
    fn deref_mut(&mut self) -> &mut D {
        &mut self.data
    }
}

impl<T: ?Sized + Send + Sync, S: LeafState, D> Structure<'_, T, S, D> {
    /// Finds the leaf of `index`, if there is one.
    pub fn leaf(&self, index: usize) -> Option<&Leaf<T, S>> {
        // SAFETY: what unlinks leaves borrows `self` alone.
        unsafe { self.tree.find(index) }
    }

    /// Returns true if there is a leaf of `index` and it is the tree's own:
    /// [`own`](Self::own) then has nothing to do.
    #[must_use]
    pub fn is_own(&self, index: usize) -> bool {
        self.leaf(index)
            .is_some_and(|leaf| self.tree.owns(leaf, index))
    }

    /// Releases the lock to a thread that waits for it, if one does, and takes it again. The tree
    /// and what is kept under the lock may have changed.
    pub fn let_others(&mut self) {
        self.data.let_others();
    }

    /// Finds the first leaf whose index is `from` or more.
    pub fn next(&self, from: usize) -> Option<(usize, &Leaf<T, S>)> {
        let root = self.tree.root();
        if from == 0 {
            return Some((0, &self.tree.first));
        }
        if !root.covers(from) || root.node.is_null() {
            return None;
        }
        // SAFETY: `root` loaded the node with acquire, together with its height; what unlinks
        // leaves borrows `self` alone.
        unsafe { search::next_leaf(root.node, root.height, from) }
    }

    /// Takes a reference to the object of a number.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<Ref<T>> {
        let (index, bit) = (number / BITS, number % BITS);
        if let Some(guard) = self.lock_leaf(index) {
            return guard.get(bit);
        }
        // SAFETY: the leaf is not the tree's own, so nobody writes it, and the tree has a count
        // of it, which keeps its references.
        unsafe { self.leaf(index)?.share_object(bit) }
    }

    /// Locks the leaf of `index`, if there is one and it is the tree's own. May wait a moment for
    /// the leaf's lock. Who locks two takes the one with the lower index first.
    pub fn lock_leaf(&self, index: usize) -> Option<LeafGuard<'_, T, S>> {
        // SAFETY: what unlinks leaves or changes the token borrows `self` alone.
        unsafe { self.tree.lock_own(index) }
    }

    /// Tells whether there is more than the first leaf.
    #[must_use]
    pub fn has_nodes(&self) -> bool {
        !self.tree.root().node.is_null()
    }

    /// Shuts the gate until [`open_gate`](Self::open_gate): writers take the lock of the
    /// structure meanwhile. Waits until nobody is inside.
    pub fn shut_gate(&mut self) {
        self.tree.shared.gate.shut();
    }

    /// Undoes one [`shut_gate`](Self::shut_gate).
    ///
    /// # Panics
    /// Without one.
    pub fn open_gate(&mut self) {
        self.tree.shared.gate.open();
    }
}

// SAFETY: the leaf is unlinked, and given up by one holder; its objects may be put by any thread.
unsafe impl<T: ?Sized + Send + Sync, S: Send + Sync> Send for Retired<T, S> {}

impl<T: ?Sized, S> Retired<T, S> {
    /// Takes a reference to the object that a number had, if it had one. Neither blocks nor
    /// allocates.
    pub fn get(&self, bit: usize) -> Option<Ref<T>> {
        // SAFETY: the count that this has keeps the leaf.
        let leaf = unsafe { self.leaf.as_ref() };
        // SAFETY: it keeps the references of the leaf too. Nobody writes them: if the leaf was the
        // tree's own it is marked as gone, and what is shared is copied to be written.
        unsafe { leaf.share_object(bit) }
    }
}

impl<T: ?Sized, S> Drop for Retired<T, S> {
    fn drop(&mut self) {
        // SAFETY: unlinked, and this has the count that the tree had.
        unsafe { node::put::<T, S>(self.leaf.as_ptr().cast(), 0, node::NOBODY) };
    }
}

impl<T: ?Sized, S: LeafState, D> Tree<T, S, D> {
    /// Gives up all leaves but the first.
    fn clear_nodes(&mut self) {
        // SAFETY: the tree is borrowed alone.
        unsafe { Self::clear(&self.shared) };
    }

    /// Gives up the nodes of a tree.
    ///
    /// # Safety
    /// It is a tree of this type, and the caller's alone.
    unsafe fn clear(shared: &Shared) {
        // Relaxed: the tree is the owner's alone, who has synchronised with all who used it.
        let root = Root::unpack(shared.root.load(Relaxed));
        let token = shared.token.load(Relaxed);
        if !root.node.is_null() {
            // Relaxed: as above. No leaf is named: the tree is about to go, or is the other one of
            // a share that failed, which has named none.
            shared.root.store(ptr::null_mut(), Relaxed);
            // SAFETY: unlinked above, and the tree gives up its count of the root. No reader is in
            // a node with its token: such a node was in no other tree.
            unsafe { node::put::<T, S>(root.node, root.height, token) };
        }
    }
}

impl<T: ?Sized, S: LeafState, D> Drop for Tree<T, S, D> {
    fn drop(&mut self) {
        unwind::both(
            // SAFETY: the tree is borrowed alone.
            || unsafe { Self::clear(&self.shared) },
            // SAFETY: the first leaf is this tree's own, and is not used after.
            || unsafe { self.first.put_objects() },
        );
    }
}

impl<T: ?Sized + Send + Sync, S: LeafState, D> fmt::Debug for Tree<T, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let section = rcu::read_lock();
        let mut next = self.next(0, &section);
        let leaves = core::iter::from_fn(|| {
            let (index, leaf) = next.take()?;
            next = self.next(index + 1, &section);
            Some((index, leaf.open.bits()))
        });
        f.debug_map().entries(leaves).finish()
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests;
