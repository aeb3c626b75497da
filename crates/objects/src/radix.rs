//! A radix tree from an index to a leaf, whose nodes never move, and which can be shared.
//!
//! A reader walks from the root to the leaf without a lock: a load and a shift for each level.
//! There are few levels: an interior node has [`FANOUT`] children, so leaves of 64 slots need one
//! level for 32,768 slots, two for 16 million and three for 2^31. The first leaf is part of the
//! tree itself: most tables have no other, and need no further memory and no walk.
//!
//! *Growing.* If an index is past the range of the root, a new root goes above the old one, which
//! becomes its child 0. Nothing is copied and no node that a reader may hold is freed, so there is
//! no grace period and no stall. The height is in the low bits of the root pointer: a reader gets
//! both with one load, and a reader with the old root is still right about all that the old root
//! covers.
//!
//! *Publishing.* A node is complete before the pointer to it is stored (release), and a reader
//! loads that pointer with acquire.
//!
//! # Write permission
//!
//! Every tree has an *owner ID*, and every node has the owner ID of the tree that made it.
//!
//! > A node is written only through the tree whose owner ID it has. When the tree is shared, it
//! > gets a new owner: from then on no thread writes the nodes that it had.
//!
//! So a shared node is permanently frozen. Each node counts the pointers to it, from nodes above
//! and from trees. To write below a frozen node, a thread makes a copy with its tree's own owner
//! ID, from the root downwards ([`WriteGuard::make_writable`]), and gives up one count of the
//! original. Copying a node adds one to the count of each child, so below a shared node everything
//! counts as shared. If the count is one, no other tree or node leads to the node, and its contents
//! move to the copy.
//!
//! There are three kinds of writers, from the most to the least frequent:
//! - Writers of a leaf: readers of the tree's [big-reader lock](mod@fdtable_sync::brlock), with the
//!   leaf locked ([`ReadGuard::lock_leaf`]). In the first leaf its lock is enough
//!   ([`Tree::try_lock_near`]): the leaf is the tree's own for good, and a thread that excludes
//!   readers takes that lock once, and then no writer is in the leaf. It is enough, too, in a leaf
//!   that is [cached](mod@cached).
//! - Writers of nodes: one at a time, with the tree's lock ([`Tree::write`]). The leaf's
//!   own lock keeps the others out of a leaf, and a writer of nodes can write leaves itself.
//! - Sharing of the tree: with the tree's lock, and with readers excluded
//!   ([`WriteGuard::share_with`]). Then no thread writes a leaf, and the owner ID can change.
//!
//! A writer that has walked to a leaf and locked it checks it again: its owner ID may have changed
//! since the leaf was found. A leaf that was removed from the tree has no owner ID that a tree has.
//!
//! # What keeps a node alive
//!
//! An unlinked node is freed after a grace period ([`rcu`]): readers reach nodes inside read-side
//! sections. The thread that gives up the last count frees it. Every tree that once led to the node
//! has unlinked it before it gave up its count, so the grace period begins after the last
//! unlinking. The references of a leaf's objects are put at once, before the grace period, so that
//! closed objects are released promptly: see [`leaf`](mod@leaf).
//!
//! # Full leaves
//!
//! Each interior node has a bit for each child that means "there is nothing free below". A search
//! for a free slot reads these words, [`FANOUT`] / 64 in each node and all on one cache line,
//! instead of the leaves. The holder of the tree's lock maintains them: see
//! [`WriteGuard::mark_full`].

use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr;
use fdtable_sync::hint::cold_path;

use crate::object::{Borrowed, Ref};
use crate::radix::leaf::{Leaf, LeafGuard, LeafRef, LeafState};
use fdtable_sync::bitmap::BITS;
use fdtable_sync::brlock::{self, BrLock};
use fdtable_sync::fence;
use fdtable_sync::lock::LockTag;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::atomic::{AtomicPtr, AtomicU64};
use fdtable_sync::platform::{Mutex, MutexGuard, let_others, relax};
use fdtable_sync::rcu::{self, Guard};
use fdtable_sync::refcount::spread;
use fdtable_sync::unwind;

mod cached;
mod cow;
mod exclusive;
pub mod leaf;
mod node;
mod node_head;
mod owned;
mod place;
mod search;
mod share;
mod slot_data;

pub use cached::{CACHED_LEAVES, NearLeaf};
pub use node::{FANOUT, INDEXES, Retired};
use node::{Root, next_leaf, put, walk};
use node_head::{Erased, NONE, NodeHead, OwnerId, new_owner_id};
pub use owned::NotFound;
use place::Place;

/// A tree from an index, below [`INDEXES`], to a [`Leaf`]. Each leaf has an `S`, and the tree has a
/// `D`, under the tree's lock.
pub struct Tree<T: ?Sized, S: LeafState, D> {
    shared: Shared,
    /// The leaves of most opens and closes.
    places: [Place; CACHED_LEAVES],
    /// The leaf of index 0. It is always this tree's own.
    first: Leaf<T, S>,
    data: Mutex<D>,
    owns: PhantomData<Leaf<T, S>>,
}

/// Read by every reader and rarely written: a cache line of its own.
#[repr(align(64))]
struct Shared {
    /// The root, with its height in the low bits; null at first.
    root: AtomicPtr<Erased>,
    /// The owner ID of the tree, or `NONE` while it has no node. Changes with the lock held, and
    /// with readers excluded if there are nodes.
    owner: AtomicU64,
    lock: BrLock,
}

const _: () = assert!(cfg!(loom) || size_of::<Shared>() == 64);

impl<T: ?Sized + Send + Sync, S: LeafState, D> Tree<T, S, D> {
    /// Makes a tree that has only the first leaf. Does not allocate. The first tree of a process
    /// maps memory for [counts by CPU](fdtable_sync::refcount::spread).
    #[must_use]
    pub fn new(data: D) -> Self {
        spread::prepare();
        Self {
            shared: Shared {
                root: AtomicPtr::new(ptr::null_mut()),
                owner: AtomicU64::new(NONE),
                lock: BrLock::new(),
            },
            places: core::array::from_fn(|_| Place::new()),
            // The first leaf's own owner ID is never read.
            first: Leaf::new(NodeHead::of::<Leaf<T, S>>(NONE, LockTag::of(0))),
            data: Mutex::new(data),
            owns: PhantomData,
        }
    }

    /// Finds the leaf of `index`, if there is one. Neither blocks nor allocates.
    #[inline(always)]
    pub fn leaf<'s>(&'s self, index: usize, section: &'s Guard<'_>) -> Option<LeafRef<'s, T, S>> {
        // SAFETY: nodes that are reached stay until the section ends.
        let leaf = unsafe { self.find(index) }?;
        // SAFETY: reached above, inside the section.
        Some(unsafe { LeafRef::new(leaf, section) })
    }

    /// Borrows the object of a slot without taking a reference. Neither blocks nor allocates.
    #[inline(always)]
    pub fn borrow<'g>(&self, slot: usize, section: &'g Guard<'_>) -> Option<Borrowed<'g, T>> {
        // A separate path for the first leaf: most lookups are there, and need not wait for any
        // branch.
        if slot < BITS {
            // SAFETY: the leaf is this tree's, and holds its references for as long.
            return unsafe { self.first.borrow(slot, section) };
        }
        cold_path();
        // SAFETY: nodes that are reached stay until the section ends.
        let leaf = unsafe { self.find(slot / BITS) }?;
        // SAFETY: reached above, inside the section.
        unsafe { leaf.borrow(slot % BITS, section) }
    }

    /// Returns true if a slot has no object. Then everything that the remover of the object, or
    /// of its leaf, did before is visible. Takes no lock; neither blocks nor allocates.
    ///
    /// If two threads have each put an object somewhere, they do not both find the other's place
    /// vacant.
    #[inline]
    pub fn is_vacant(&self, slot: usize, _section: &Guard<'_>) -> bool {
        // SAFETY: the guard is of a section that lasts until this returns.
        unsafe { self.is_vacant_in_section(slot) }
    }

    /// Like [`is_vacant`](Self::is_vacant).
    ///
    /// # Safety
    /// As for [`find`](Self::find).
    #[inline(always)]
    unsafe fn is_vacant_in_section(&self, slot: usize) -> bool {
        // Pairs with itself: of two threads the one that passes it later sees the object that the
        // other put before. The exchange of a lock would not do, even where it is a full fence: an
        // object that was put under the lock may not be visible yet when the lock is released.
        fence::full();
        // SAFETY: as the caller promises.
        let leaf = unsafe { self.find(slot / BITS) };
        // No leaf: the acquire of the walk pairs with the release that removed it.
        leaf.is_none_or(|leaf| leaf.is_vacant(slot % BITS))
    }

    /// Finds the first leaf whose index is `from` or more. Neither blocks nor allocates.
    pub fn next<'s>(
        &'s self,
        from: usize,
        section: &'s Guard<'_>,
    ) -> Option<(usize, LeafRef<'s, T, S>)> {
        // SAFETY: nodes that are reached stay until the section ends.
        let (index, leaf) = unsafe { self.find_next(from) }?;
        // SAFETY: reached above, inside the section.
        Some((index, unsafe { LeafRef::new(leaf, section) }))
    }

    /// Takes the read side, to write in leaves, unless readers are excluded. Never waits; allocates
    /// at a thread's first section. The caller must release it before it waits for the tree's lock.
    #[inline(always)]
    pub fn read(&self) -> Option<ReadGuard<'_, T, S, D>> {
        let reader = self.shared.lock.read()?;
        Some(ReadGuard { tree: self, reader })
    }

    /// Like [`read`](Self::read), but may refuse inside sections. Also refuses at a thread's
    /// first section, and where readers take full fences. For paths that must not call anything.
    #[inline(always)]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T, S, D>> {
        let reader = self.shared.lock.try_read()?;
        Some(ReadGuard { tree: self, reader })
    }

    /// Waits for the tree's lock and takes it.
    pub fn write(&self) -> WriteGuard<'_, T, S, D> {
        WriteGuard {
            tree: self,
            data: self.data.lock(),
            freed: Freed::default(),
        }
    }

    /// Returns true if the tree has only the first leaf, with no slot taken and no table.
    pub fn is_new(&mut self) -> bool {
        self.root().node.is_null() && self.first.is_new()
    }

    /// Takes the tree's lock if it is free. Never waits.
    pub fn try_write(&self) -> Option<WriteGuard<'_, T, S, D>> {
        Some(WriteGuard {
            tree: self,
            data: self.data.try_lock()?,
            freed: Freed::default(),
        })
    }

    #[inline(always)]
    fn root(&self) -> Root {
        // Acquire: pairs with the releases of `set_root`, so the complete node is visible.
        Root::unpack(self.shared.root.load(Acquire))
    }

    /// Publishes a root.
    fn set_root(&self, root: Root) {
        // Release: pairs with the acquire in `root`.
        self.shared.root.store(root.pack(), Release);
    }

    /// Returns the owner ID, and draws it if this is the first node.
    fn draw_owner_id(&self) -> OwnerId {
        if self.owner() == NONE {
            // Relaxed: the node that gets it is published with a release.
            self.shared.owner.store(new_owner_id(), Relaxed);
        }
        self.owner()
    }

    fn owner(&self) -> OwnerId {
        // Relaxed: it changes with readers excluded and the tree locked. A thread that holds the
        // read side or the lock has acquired the change.
        self.shared.owner.load(Relaxed)
    }

    /// Returns true if the tree owns the leaf of `index`. It always owns the first one.
    #[inline(always)]
    fn owns(&self, leaf: &Leaf<T, S>, index: usize) -> bool {
        index == 0 || leaf.head.owner() == self.owner()
    }

    /// Finds the leaf of `index`.
    ///
    /// # Safety
    /// For all of `'l` the caller is inside a section, or keeps the tree from being changed.
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
        // The first two are for the compiler: it then knows the shifts.
        if root.height == 1 {
            if index >= FANOUT {
                return None;
            }
            // SAFETY: `root` loaded the node with acquire, together with its height, and the caller
            // keeps all below it. A tree with a height has a node.
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

    /// Finds the first leaf whose index is `from` or more.
    ///
    /// # Safety
    /// As for [`find`](Self::find).
    unsafe fn find_next<'l>(&self, from: usize) -> Option<(usize, &'l Leaf<T, S>)>
    where
        Self: 'l,
    {
        if from == 0 {
            // SAFETY: as in `find`.
            return Some((0, unsafe { &*ptr::from_ref(&self.first) }));
        }
        let root = self.root();
        if !root.covers(from) || root.node.is_null() {
            return None;
        }
        // SAFETY: `root` loaded the node with acquire, together with its height, and the caller
        // keeps all below it.
        unsafe { next_leaf(root.node, root.height, from) }
    }
}

/// The read side of a tree's big-reader lock: permission to write in leaves. Drop it before waiting
/// for anything.
#[must_use = "the read side is released when this is dropped"]
pub struct ReadGuard<'e, T: ?Sized, S: LeafState, D> {
    tree: &'e Tree<T, S, D>,
    reader: brlock::ReadGuard<'e>,
}

impl<T: ?Sized + Send + Sync, S: LeafState, D> ReadGuard<'_, T, S, D> {
    /// Takes a reference to the object of a slot, in the section of the read side. One atomic add;
    /// neither blocks nor allocates.
    ///
    /// For a reference that goes into another slot. It does not count as a lookup that may spread
    /// the count of the object: the close of that slot would gather the count again.
    #[inline(always)]
    pub fn get(&self, slot: usize) -> Option<Ref<T>> {
        let section = self.reader.section();
        loop {
            // (N)
            // weaken: section-around-the-reference-of-a-duplicate
            if let Some(object) = self.tree.borrow(slot, &section)?.upgrade() {
                return Some(object);
            }
            // (O)
            // weaken: second-walk-of-a-duplicate
            cold_path();
            relax(0);
        }
    }

    /// Locks the leaf of `index`, if there is one and the tree owns it. May wait briefly for the
    /// leaf's lock. A thread that locks two leaves takes the one with the lower index first.
    #[inline(always)]
    pub fn lock_leaf(&self, index: usize) -> Option<LeafGuard<'_, T, S>> {
        // SAFETY: the read side is a section too, and while it lasts the owner ID does not change.
        unsafe { self.tree.lock_owned(index) }
    }

    /// Like [`Tree::is_vacant`].
    #[inline(always)]
    pub fn is_vacant(&self, slot: usize) -> bool {
        // SAFETY: the read side is a section too.
        unsafe { self.tree.is_vacant_in_section(slot) }
    }

    /// Like [`lock_leaf`](Self::lock_leaf), unless another thread holds the leaf's lock, the leaf
    /// is cached, or `permit`, which has the leaf before it is locked, refuses. Never waits.
    #[inline(always)]
    pub fn try_lock_by_walk(
        &self,
        index: usize,
        permit: impl FnOnce(&Leaf<T, S>) -> bool,
    ) -> Option<LeafGuard<'_, T, S>> {
        // SAFETY: the read side is a section too.
        let leaf = unsafe { self.tree.find(index) }.filter(|leaf| permit(leaf))?;
        // SAFETY: the ownership is checked next.
        let guard = unsafe { leaf.try_lock(index) }?;
        // After the lock: the leaf may have been removed before.
        // weaken: look-at-the-token-of-a-leaf-that-was-found
        self.tree.owns(&guard, index).then_some(guard)
    }
}

/// Exclusive access to the nodes of a tree, and to the user's data. Holds the tree's lock.
pub struct WriteGuard<'t, T: ?Sized, S: LeafState, D> {
    tree: &'t Tree<T, S, D>,
    data: MutexGuard<'t, D>,
    /// Dropped after the lock.
    freed: Freed,
}

/// Set if nodes were freed with the lock held. Then callbacks may be due, and run after it.
#[derive(Default)]
struct Freed(Cell<bool>);

impl Drop for Freed {
    fn drop(&mut self) {
        if self.0.get() {
            rcu::catch_up();
        }
    }
}

impl<T: ?Sized, S, D> Deref for WriteGuard<'_, T, S, D>
where
    S: LeafState,
{
    type Target = D;
    fn deref(&self) -> &D {
        &self.data
    }
}

impl<T: ?Sized, S: LeafState, D> DerefMut for WriteGuard<'_, T, S, D> {
    fn deref_mut(&mut self) -> &mut D {
        &mut self.data
    }
}

impl<T: ?Sized + Send + Sync, S: LeafState, D> WriteGuard<'_, T, S, D> {
    /// Finds the leaf of `index`, if there is one.
    pub fn leaf(&self, index: usize) -> Option<&Leaf<T, S>> {
        // SAFETY: methods that unlink leaves borrow `self` mutably.
        unsafe { self.tree.find(index) }
    }

    /// Returns true if there is a leaf of `index` and the tree owns it:
    /// [`make_writable`](Self::make_writable) then has nothing to do.
    #[must_use]
    pub fn is_own(&self, index: usize) -> bool {
        self.leaf(index)
            .is_some_and(|leaf| self.tree.owns(leaf, index))
    }

    /// Releases the lock to a waiting thread, if there is one, and takes it again. The tree and the
    /// data under the lock may have changed.
    pub fn let_others(&mut self) {
        let_others(&mut self.data);
    }

    /// Finds the first leaf whose index is `from` or more.
    pub fn next(&self, from: usize) -> Option<(usize, &Leaf<T, S>)> {
        // SAFETY: methods that unlink leaves borrow `self` mutably.
        unsafe { self.tree.find_next(from) }
    }

    /// Takes a reference to the object of a slot.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<Ref<T>> {
        let (index, bit) = (slot / BITS, slot % BITS);
        if let Some(guard) = self.lock_leaf(index) {
            return guard.get(bit);
        }
        // SAFETY: the tree does not own the leaf, so no thread writes it, and the tree has a count
        // of it, which keeps its references.
        unsafe { self.leaf(index)?.share_object(bit) }
    }

    /// Locks the leaf of `index`, if there is one and the tree owns it. May wait briefly for the
    /// leaf's lock. A thread that locks two leaves takes the one with the lower index first.
    pub fn lock_leaf(&self, index: usize) -> Option<LeafGuard<'_, T, S>> {
        // SAFETY: methods that unlink leaves or change the owner ID borrow `self` mutably.
        unsafe { self.tree.lock_owned(index) }
    }

    /// Returns true if the tree has more than the first leaf.
    #[must_use]
    pub fn has_nodes(&self) -> bool {
        !self.tree.root().node.is_null()
    }

    /// Excludes readers until [`admit_readers`](Self::admit_readers): writers of leaves take the
    /// tree's lock meanwhile. Waits until all readers have left.
    pub fn exclude_readers(&mut self) {
        self.tree.shared.lock.exclude_readers();
        // Waits for a thread that uses the first leaf alone.
        // weaken: exclusion-that-does-not-pass-the-first-leaf
        drop(self.lock_leaf(0));
        // weaken: exclusion-that-leaves-leaves-cached
        self.uncache(|_, _| true);
    }

    /// Undoes one [`exclude_readers`](Self::exclude_readers).
    ///
    /// # Panics
    /// Without one.
    pub fn admit_readers(&mut self) {
        self.tree.shared.lock.admit_readers();
    }
}

impl<T: ?Sized, S: LeafState, D> Tree<T, S, D> {
    /// Borrows the data that the tree's lock guards. The tree is borrowed mutably, so no
    /// other thread can.
    pub fn data_mut(&mut self) -> &mut D {
        self.data.get_mut()
    }

    /// Gives up all leaves but the first.
    ///
    /// # Safety
    /// No other thread has the tree.
    unsafe fn clear_nodes(&self) {
        // Relaxed: only the owner has the tree, and has synchronised with all threads that used it.
        let root = Root::unpack(self.shared.root.load(Relaxed));
        let owner = self.shared.owner.load(Relaxed);
        if !root.node.is_null() {
            // Relaxed: as above. No leaf is set: the tree is about to be freed, or is the target of
            // a share that failed, which has set none.
            self.shared.root.store(ptr::null_mut(), Relaxed);
            // SAFETY: unlinked above, and the tree gives up its count of the root. No reader is in
            // a node with its owner: such a node was in no other tree.
            unsafe { put::<T, S>(root.node, root.height, owner) };
        }
    }
}

impl<T: ?Sized, S: LeafState, D> Drop for Tree<T, S, D> {
    fn drop(&mut self) {
        unwind::both(
            // SAFETY: the tree is borrowed mutably.
            || unsafe { self.clear_nodes() },
            // SAFETY: the tree owns the first leaf, and does not use it afterwards.
            || unsafe { self.first.put_objects() },
        );
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
