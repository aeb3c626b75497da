//! A leaf: 64 slots, their bits, and the counted object of each.
//!
//! The bits and the slots are one node of a [tree](crate::radix), so one walk finds a slot,
//! its bits and its object. A thread writes a leaf through a [`LeafGuard`], which holds the leaf's
//! lock. All other threads only read:
//!
//! | field | written | read |
//! |---|---|---|
//! | words, state | with the lock | with the lock, or as a hint |
//! | slots | with the lock | by any thread inside a read-side section |
//! | table of data | with the lock | likewise; see `slot_data` |
//!
//! # What keeps an object alive
//!
//! A slot holds a reference. The slot drops it when the slot is closed. It also drops it when the
//! leaf itself is released; then the pointer stays in place, for a reader that came before. A
//! reader reaches the leaf from the tree inside its section. So an object that it finds in a slot
//! had a reference at some time inside the section, and that reference was put after the section
//! began: the object stays until the section ends. It may be closed by then. A
//! reader that wants a reference and finds the count dead walks again.
//!
//! # The order of a close
//!
//! A close first reports that the slot is free, by its bit and, if needed, by a
//! [report](crate::free_hint). Then it empties the slot. So a thread that finds the slot empty,
//! without the lock, sees all these reports. If it then takes the lock to use the slot, it waits
//! for the closer there.
//!
//! # The steps of a slot
//!
//! The steps of lookup, install and removal, with letters that stand at the same steps in the
//! code. The writer holds the lock of the leaf:
//!
//! | | reader | | writer |
//! |---|---|---|---|
//! | (L) | load the pointer, acquire | (I) | store a pointer to an object that is complete, release |
//! | (M) | borrowed: use it until the section ends | (X) | store null, or the next object |
//! | (N) | owned: add to the count | (P) | put the slot's reference; the last one queues the free |
//! | (O) | the add met a dead count: walk again | | |
//!
//! *Install against lookup.* (I) and (L) pair: a reader that sees the pointer sees the object.
//!
//! *Removal against a borrowed lookup.* (L) before (X): the pointer was found inside a section
//! that began before (P), so the grace period that follows (P) waits for it (see
//! [`rcu`](fdtable_sync::rcu)). (L) after (X): nothing is found.
//!
//! *Removal against an owned lookup.* If (N) comes before the burial in (P), the reader has a
//! reference, and the put was not the last. If it comes after, the count is dead, the slot has been
//! emptied before, and (O) finds it empty or with its next object.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use fdtable_sync::hint::cold_path;

use crate::object::header::{Header, RawObject, object, prefetch_count};
use crate::object::{Borrowed, Ref, SlotRef};
use crate::radix::node_head::NodeHead;
use crate::radix::place::Place;
use crate::radix::slot_data::{CLOEXEC, TablePlace};
pub use crate::radix::slot_data::{NeedsLock, NewTable, SlotData};
use fdtable_sync::bitmap::{BITS, Word, bits_of};
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::lock::LockTag;
use fdtable_sync::platform::atomic::AtomicPtr;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::rcu::Guard;
use fdtable_sync::unwind;

/// State that the user of a tree keeps with each leaf, guarded by the leaf's lock.
pub trait LeafState: Default + Send + Sync + 'static {
    /// Copies the state of the leaf, for a tree that is about to write it.
    #[must_use]
    fn copy(&self) -> Self;

    /// Makes the state of the first leaf of another tree, as a copy of this one.
    #[must_use]
    fn copy_first(&self) -> Self;
}

/// A leaf: [`BITS`] slots.
#[repr(C, align(64))]
pub struct Leaf<T: ?Sized, S> {
    pub(super) head: NodeHead,
    /// The slots that are taken: open, or reserved where the slot is empty. Changed only with the
    /// leaf locked: a concurrent change is lost. While the leaf may be cached, by
    /// [`take`](LeafGuard::take) and [`free`](LeafGuard::free). A bit that is cleared while its
    /// slot has an object leaks the object when the leaf is dropped or copied.
    pub open: Word,
    /// The close-on-exec bits. Changed only with the leaf locked.
    pub cloexec: Word,
    /// The data of the slots, once one of them has some.
    table: TablePlace,
    state: UnsafeCell<S>,
    /// Dropped by hand: see the head of this file.
    pub(super) slots: ManuallyDrop<Slots<T>>,
}

/// The slots have cache lines of their own. Opens and closes of other slots write the words, and
/// so do not disturb a lookup.
#[repr(align(64))]
pub(super) struct Slots<T: ?Sized>(pub(super) [Slot<T>; BITS]);

// SAFETY: the holder of the lock alone accesses the state, or, in a leaf that no thread writes any
// more, threads only read it; `S` is `Send` and `Sync` for that. Everything else may be shared.
unsafe impl<T: ?Sized + Send + Sync, S: Send + Sync> Sync for Leaf<T, S> {}
// SAFETY: as above; a leaf owns references, which may be sent.
unsafe impl<T: ?Sized + Send + Sync, S: Send + Sync> Send for Leaf<T, S> {}

/// A leaf that was found inside a read-side section.
pub struct LeafRef<'s, T: ?Sized, S> {
    leaf: &'s Leaf<T, S>,
    /// The section in which the leaf was reached. Objects found in the leaf stay as long as this
    /// section lasts, and not as long as any other.
    section: &'s Guard<'s>,
}

/// Exclusive write access to a leaf. Holds the leaf's lock until it is dropped.
#[must_use = "the leaf is unlocked when this is dropped"]
pub struct LeafGuard<'l, T: ?Sized, S> {
    leaf: &'l Leaf<T, S>,
    tag: LockTag,
    /// The place whose lock is held, if the leaf is [cached](super::cached).
    place: Option<&'l Place>,
    /// Not `Send`: a lock is released on the thread that took it.
    stays: PhantomData<*const ()>,
}

impl<T: ?Sized, S: LeafState> Leaf<T, S> {
    pub(super) fn new(head: NodeHead) -> Self {
        Self {
            head,
            open: Word::new(),
            cloexec: Word::new(),
            table: TablePlace::new(),
            state: UnsafeCell::new(S::default()),
            slots: ManuallyDrop::new(Slots(core::array::from_fn(|_| Slot::new()))),
        }
    }

    /// Copies the leaf, without the objects.
    ///
    /// # Safety
    /// No thread writes the leaf: it is locked by the caller, or frozen.
    pub(super) unsafe fn try_copy(&self, head: NodeHead) -> Result<Self, OutOfMemory> {
        let copy = Self::new(head);
        copy.open.replace(self.open.bits());
        copy.cloexec.replace(self.cloexec.bits());
        // SAFETY: as the caller promises.
        let state = unsafe { &*self.state.get() }.copy();
        Ok(Self {
            table: self.table.try_copy(self.open.bits())?,
            state: UnsafeCell::new(state),
            ..copy
        })
    }

    /// Returns true if no slot is taken, and there is no table.
    pub(super) fn is_new(&mut self) -> bool {
        self.open.bits() == 0 && !self.table.is_set()
    }

    /// Copies the slots that have an object to the empty first leaf of another tree.
    ///
    /// # Safety
    /// No thread writes the leaf: the caller holds its lock.
    ///
    /// # Panics
    /// If the other leaf is not empty.
    pub(super) unsafe fn copy_to(&self, other: &mut Self) -> Result<(), OutOfMemory> {
        assert!(other.open.bits() == 0, "the other leaf is empty");
        // SAFETY: as the caller promises.
        *other.state.get_mut() = unsafe { &*self.state.get() }.copy_first();
        let mut installed = 0;
        self.prefetch_objects();
        for bit in bits_of(self.open.bits()) {
            // SAFETY: as the caller promises.
            if let Some(object) = unsafe { self.slots.0[bit].share() } {
                installed |= 1 << bit;
                // SAFETY: the other one is borrowed alone; its slot is empty.
                unsafe { other.slots.0[bit].fill(object) };
            }
        }
        other.open.replace(installed);
        other.cloexec.replace(self.cloexec.bits() & installed);
        // Last, since only now the slots are known. If it fails, the other tree drops its objects.
        other.table = self.table.try_copy(installed)?;
        Ok(())
    }

    /// Gives `copy`, which has no references, its own reference to each object.
    ///
    /// # Safety
    /// No thread writes either leaf, and this one has not dropped its references.
    pub(super) unsafe fn share_objects(&self, copy: &Self) {
        self.prefetch_objects();
        for bit in bits_of(self.open.bits()) {
            // SAFETY: as the caller promises.
            let object = unsafe { self.slots.0[bit].share() };
            // SAFETY: as the caller promises; a slot of the copy is empty.
            drop(unsafe { copy.slots.0[bit].exchange(object) });
        }
    }

    /// Moves the references of this leaf to `copy`, which has none. The pointers stay for readers.
    ///
    /// # Safety
    /// As for [`share_objects`](Self::share_objects), and the leaf gives up its references once.
    pub(super) unsafe fn move_objects(&self, copy: &Self) {
        for bit in bits_of(self.open.bits()) {
            // SAFETY: as the caller promises.
            let object = unsafe { self.slots.0[bit].disown() }.map(SlotRef::into_slot);
            // SAFETY: as the caller promises; a slot of the copy is empty.
            drop(unsafe { copy.slots.0[bit].exchange(object) });
        }
    }

    /// Locks a leaf that the caller may write. `index` is the leaf's own. The caller holds the read
    /// side or the lock of the tree, or the leaf is the first one. A kernel keeps the CPU for it:
    /// else it [keeps its CPU](fdtable_sync::platform::keep_cpu) for as long.
    ///
    /// # Safety
    /// The leaf is not frozen, and has not dropped its references, or the caller finds that out
    /// before it writes.
    #[inline(always)]
    pub(super) unsafe fn lock(&self, index: usize) -> LeafGuard<'_, T, S> {
        let tag = LockTag::of(index);
        self.head.lock.lock_inner(tag);
        LeafGuard {
            leaf: self,
            tag,
            place: None,
            stays: PhantomData,
        }
    }

    /// Locks the leaf if it has this `index` and its lock is free.
    ///
    /// # Safety
    /// As for [`lock`](Self::lock).
    #[inline(always)]
    pub(super) unsafe fn try_lock(&self, index: usize) -> Option<LeafGuard<'_, T, S>> {
        let tag = LockTag::of(index);
        if !self.head.lock.try_lock_inner(tag) {
            cold_path();
            return None;
        }
        // Constructed only by the holder of the lock: dropping it unlocks.
        Some(LeafGuard {
            leaf: self,
            tag,
            place: None,
            stays: PhantomData,
        })
    }
}

impl<T: ?Sized, S> Leaf<T, S> {
    /// Puts every reference of the leaf, even if hooks panic. The pointers stay for readers. Runs
    /// release hooks.
    ///
    /// # Safety
    /// No thread writes the leaf any more, and it gives up its references once.
    pub(super) unsafe fn put_objects(&self) {
        self.prefetch_objects();
        let mut bits = bits_of(self.open.bits());
        unwind::finish(|| {
            for bit in bits.by_ref() {
                // SAFETY: as the caller promises.
                drop(unsafe { self.slots.0[bit].disown() });
            }
        });
    }

    /// Prefetches the counts of all objects. Each of the atomic operations that follow completes
    /// before the next begins: without the prefetch, so would the waits for their cache lines.
    fn prefetch_objects(&self) {
        for bit in bits_of(self.open.bits()) {
            self.slots.0[bit].prefetch();
        }
    }

    /// Returns true if a slot has an object. A hint, unless the leaf is locked.
    #[inline]
    pub fn has(&self, bit: usize) -> bool {
        !self.slots.0[bit].is_empty()
    }

    /// Returns true if a slot has no object. Then everything that its remover did before is
    /// visible.
    #[inline]
    pub fn is_vacant(&self, bit: usize) -> bool {
        self.slots.0[bit].is_empty_acquire()
    }

    /// Returns the slots that have an object. A hint, unless the leaf is locked.
    pub fn installed(&self) -> u64 {
        self.installed_of(u64::MAX)
    }

    /// Returns those of `slots` that have an object. A hint, unless the leaf is locked.
    pub fn installed_of(&self, slots: u64) -> u64 {
        bits_of(self.open.bits() & slots)
            .filter(|&bit| self.has(bit))
            .fold(0, |installed, bit| installed | 1 << bit)
    }

    /// Returns true if the leaf has a table of data. If not, every slot has the default data. A
    /// hint, unless the leaf is locked.
    #[inline(always)]
    pub fn has_table(&self) -> bool {
        self.table.is_set()
    }

    /// Returns the data of a slot that has an object.
    ///
    /// Correct while no thread writes the leaf: it is locked, or shared, or was removed. Otherwise
    /// flags and word may be those of different moments.
    pub fn data(&self, bit: usize) -> SlotData {
        self.table.get().map_or_else(
            || SlotData {
                flags: if self.cloexec.test(bit) { CLOEXEC } else { 0 },
                word: 0,
            },
            |table| table.get(bit),
        )
    }

    /// Takes a reference to the object of a slot.
    ///
    /// # Safety
    /// No thread writes the leaf, and it has not dropped its references.
    pub(super) unsafe fn share_object(&self, bit: usize) -> Option<Ref<T>> {
        // SAFETY: as the caller promises.
        unsafe { self.slots.0[bit].share() }
    }

    /// Borrows the object of a slot without a section. Also returns true if it was revoked.
    ///
    /// # Safety
    /// The caller has borrowed a tree with this leaf mutably, for all of `'l`.
    #[inline]
    pub(super) unsafe fn object<'l>(&self, bit: usize) -> Option<(&'l T, bool)> {
        // Relaxed: the caller has synchronised with the threads that had the tree, and the last one
        // that stored was one of them.
        let raw = NonNull::new(self.slots.0[bit].raw.load(Relaxed))?;
        // SAFETY: the slot's reference keeps the block.
        let is_revoked = unsafe { Header::of(raw) }.state.is_revoked();
        // SAFETY: as above; the slot is one of a `T`.
        Some((unsafe { object(raw) }, is_revoked))
    }

    /// Borrows the object of a slot without taking a reference. Neither blocks nor allocates.
    ///
    /// # Safety
    /// The leaf was reached from a tree inside the section. One that was reached before may have
    /// dropped its references, with its pointers still in place.
    #[inline(always)]
    pub(super) unsafe fn borrow<'g>(
        &self,
        bit: usize,
        section: &'g Guard<'_>,
    ) -> Option<Borrowed<'g, T>> {
        self.slots.0[bit].borrow(section)
    }
}

impl<'s, T: ?Sized, S> LeafRef<'s, T, S> {
    /// Wraps a leaf that was reached from a tree inside `section`.
    ///
    /// # Safety
    /// The leaf was reached so: see [`Leaf::borrow`].
    #[inline(always)]
    pub(super) unsafe fn new(leaf: &'s Leaf<T, S>, section: &'s Guard<'_>) -> Self {
        Self { leaf, section }
    }

    /// Borrows the object of a slot without taking a reference. Neither blocks nor allocates.
    #[inline(always)]
    pub fn borrow(&self, bit: usize) -> Option<Borrowed<'s, T>> {
        // SAFETY: as `new` was promised.
        unsafe { self.leaf.borrow(bit, self.section) }
    }

    /// Borrows the object of a slot, together with the data of the slot at that moment. Neither
    /// blocks nor allocates.
    ///
    /// # Errors
    /// [`NeedsLock`] if the leaf has no table of data, or the slot is being changed. Then the lock
    /// of the leaf has to be taken for a consistent answer.
    #[inline(always)]
    pub fn borrow_with_data(
        &self,
        bit: usize,
    ) -> Result<Option<(Borrowed<'s, T>, SlotData)>, NeedsLock> {
        let Some(table) = self.leaf.table.get() else {
            cold_path();
            return Err(NeedsLock);
        };
        table.read(bit, || self.borrow(bit))
    }
}

impl<T: ?Sized, S> Deref for LeafRef<'_, T, S> {
    type Target = Leaf<T, S>;

    #[inline(always)]
    fn deref(&self) -> &Leaf<T, S> {
        self.leaf
    }
}

impl<'l, T: ?Sized, S> LeafGuard<'l, T, S> {
    /// Wraps a cached leaf, for the holder of the lock of its place.
    #[inline(always)]
    pub(super) fn in_place(leaf: &'l Leaf<T, S>, place: &'l Place, tag: LockTag) -> Self {
        Self {
            leaf,
            tag,
            place: Some(place),
            stays: PhantomData,
        }
    }

    /// Sets the bit of a free slot. Releases earlier writes to a thread that finds the leaf full by
    /// [`is_near_full`](super::Tree::is_near_full).
    #[inline(always)]
    pub fn take(&mut self, bit: usize) {
        self.leaf.open.set_release(bit);
        if let Some(place) = self.place {
            place.note_taken(self.leaf.open.is_full());
        }
    }

    /// Clears the bit of a taken slot, whose object the caller removes next, if it has one.
    #[inline(always)]
    pub fn free(&mut self, bit: usize) {
        self.leaf.open.clear(bit);
        if let Some(place) = self.place {
            place.note_room();
        }
    }

    /// Replaces the object of a slot, or removes it, and returns the old one. The caller drops
    /// that after it releases its locks. If the leaf is dropped or copied while the bit of an
    /// object in `open` is clear, the object leaks.
    ///
    /// # Panics
    /// If the slot is not below [`BITS`].
    #[inline(always)]
    #[must_use = "dropping the old reference may run its release hook"]
    pub fn exchange(&mut self, bit: usize, object: Option<Ref<T>>) -> Option<SlotRef<T>> {
        // SAFETY: the lock keeps other writers away.
        unsafe { self.leaf.slots.0[bit].exchange(object) }
    }

    /// Stores an object for a slot that has none. An object that it did have leaks.
    ///
    /// # Panics
    /// If the slot is not below [`BITS`].
    #[inline(always)]
    pub fn put(&mut self, bit: usize, object: Ref<T>) {
        // SAFETY: the lock keeps other writers away.
        unsafe { self.leaf.slots.0[bit].put(object) };
    }

    /// Takes a reference to the object of a slot.
    #[inline]
    #[must_use]
    pub fn get(&self, bit: usize) -> Option<Ref<T>> {
        // SAFETY: the lock keeps writers away, and the leaf has its references.
        unsafe { self.leaf.slots.0[bit].share() }
    }

    /// Removes the object of a slot, and clears the slot's data. Returns the object like
    /// [`exchange`](Self::exchange).
    ///
    /// # Panics
    /// If the slot is not below [`BITS`].
    #[inline(always)]
    #[must_use = "dropping the old reference may run its release hook"]
    pub fn remove(&mut self, bit: usize) -> Option<SlotRef<T>> {
        // (H)
        let object = self.exchange(bit, None);
        if self.has_table() {
            cold_path();
            self.clear_data(bit);
        }
        object
    }

    /// Replaces the object of a slot and its data: one change for a thread that reads both by
    /// [`borrow_with_data`](LeafRef::borrow_with_data). Returns the object like
    /// [`exchange`](Self::exchange). The data is lost if the leaf has no table.
    ///
    /// # Panics
    /// If the slot is not below [`BITS`].
    #[must_use = "dropping the old reference may run its release hook"]
    pub fn replace(&mut self, bit: usize, object: Ref<T>, data: SlotData) -> Option<SlotRef<T>> {
        let leaf = self.leaf;
        match leaf.table.get() {
            // SAFETY: the lock keeps other writers away.
            Some(table) => table.replace(bit, data, || unsafe {
                leaf.slots.0[bit].exchange(Some(object))
            }),
            None => self.exchange(bit, Some(object)),
        }
    }

    /// Gives the leaf a table of data, if it has none and there is one.
    pub fn add_table(&mut self, new: &mut Option<NewTable>) {
        let cloexec = self.leaf.open.bits() & self.leaf.cloexec.bits();
        self.leaf.table.set(new, cloexec);
    }

    /// Sets the data of a slot that has no object. Does nothing if the leaf has no table.
    ///
    /// # Panics
    /// If the slot is not below [`BITS`].
    pub fn set_data(&mut self, bit: usize, data: SlotData) {
        if let Some(table) = self.leaf.table.get() {
            table.set(bit, data);
        }
    }

    /// Sets the word of a slot, and returns the one before, if the leaf has a table.
    ///
    /// # Panics
    /// If the slot is not below [`BITS`].
    #[inline(always)]
    pub fn exchange_word(&mut self, bit: usize, word: u64) -> Option<u64> {
        let table = self.leaf.table.get()?;
        let before = table.get(bit).word;
        table.set_word(bit, word);
        Some(before)
    }

    /// Sets the flags of a slot. Does nothing if the leaf has no table.
    ///
    /// # Panics
    /// If the slot is not below [`BITS`].
    pub fn set_flags(&mut self, bit: usize, flags: u16) {
        if let Some(table) = self.leaf.table.get() {
            table.set_flags(bit, flags);
        }
    }

    /// Clears the data of a slot that has no object.
    ///
    /// # Panics
    /// If the slot is not below [`BITS`].
    #[inline(always)]
    pub fn clear_data(&mut self, bit: usize) {
        if let Some(table) = self.leaf.table.get() {
            table.clear(bit);
        }
    }

    /// Borrows the state.
    #[inline(always)]
    pub fn state(&self) -> &S {
        // SAFETY: only the holder of the lock accesses the state, and `self` is borrowed.
        unsafe { &*self.leaf.state.get() }
    }

    /// Borrows the state, to change it.
    #[inline(always)]
    pub fn state_mut(&mut self) -> &mut S {
        // SAFETY: only the holder of the lock accesses the state, and `self` is borrowed mutably.
        unsafe { &mut *self.leaf.state.get() }
    }
}

impl<T: ?Sized, S> Deref for LeafGuard<'_, T, S> {
    type Target = Leaf<T, S>;

    #[inline(always)]
    fn deref(&self) -> &Leaf<T, S> {
        self.leaf
    }
}

impl<T: ?Sized, S> Drop for LeafGuard<'_, T, S> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.place {
            // SAFETY: locked when this was made, and the state is not borrowed any more.
            None => unsafe { self.leaf.head.lock.unlock_inner(self.tag) },
            // SAFETY: as above.
            Some(place) => unsafe { place.unlock(self.tag) },
        }
    }
}

/// A place for a counted object. It has a reference of its own, which the leaf puts: dropping a
/// slot puts nothing.
#[repr(transparent)]
pub(super) struct Slot<T: ?Sized> {
    pub(super) raw: AtomicPtr<RawObject>,
    owns: PhantomData<Ref<T>>,
    /// Both takes and returns references: invariant in `T`.
    exchanges: PhantomData<fn(Ref<T>) -> Ref<T>>,
}

impl<T: ?Sized> Slot<T> {
    /// Makes an empty slot.
    fn new() -> Self {
        Self {
            raw: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
            exchanges: PhantomData,
        }
    }

    /// Returns true if the slot holds nothing. A hint, unless the caller keeps writers away.
    #[inline]
    fn is_empty(&self) -> bool {
        // Relaxed: the pointer is not dereferenced.
        self.raw.load(Relaxed).is_null()
    }

    /// Like [`is_empty`](Self::is_empty). If true, writes before the slot was emptied are visible.
    #[inline]
    fn is_empty_acquire(&self) -> bool {
        // Acquire: pairs with the release in (X).
        self.raw.load(Acquire).is_null()
    }

    /// Borrows the object without taking a reference. Neither blocks nor allocates.
    #[inline(always)]
    fn borrow<'g>(&self, guard: &'g Guard<'_>) -> Option<Borrowed<'g, T>> {
        // (L) Acquire: pairs with the release in (I).
        let raw = NonNull::new(self.raw.load(Acquire))?;
        // (M)
        // SAFETY: the object was in the slot, which holds a reference, inside the section.
        Some(unsafe { Borrowed::new(raw, guard) })
    }
}

/// For the holder of a lock that keeps other writers away: no exchange is needed then.
impl<T: ?Sized> Slot<T> {
    /// Replaces the object of the slot, or removes it, and returns the old one. The caller drops
    /// the old reference outside of its locks.
    ///
    /// # Safety
    /// No other thread writes the slot meanwhile, and the slot holds its own reference.
    #[inline(always)]
    unsafe fn exchange(&self, object: Option<Ref<T>>) -> Option<SlotRef<T>> {
        let new = object.map_or(ptr::null_mut(), |object| object.into_raw().as_ptr());
        // Relaxed: the lock orders this with the store of the previous writer.
        let old = self.raw.load(Relaxed);
        // (I), (X) Release: the object and its header are complete before the pointer is visible.
        self.raw.store(new, Release);
        // SAFETY: the slot held this reference, and the caller alone has taken it.
        NonNull::new(old).map(|old| SlotRef::new(unsafe { Ref::from_raw(old) }))
    }

    /// Puts an object into an empty slot, without reading the slot: its line may come later.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange).
    #[inline(always)]
    unsafe fn put(&self, object: Ref<T>) {
        debug_assert!(self.is_empty(), "an object in the slot would leak");
        // (I) Release: as above.
        self.raw.store(object.into_raw().as_ptr(), Release);
    }

    /// Puts an object into an empty slot that no reader can reach yet.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange).
    #[inline(always)]
    unsafe fn fill(&self, object: Ref<T>) {
        // Relaxed: whatever publishes the slot publishes the object.
        self.raw.store(object.into_raw().as_ptr(), Relaxed);
    }

    /// Prefetches the line of the object's count. In models that would be a useless extra step.
    #[inline(always)]
    fn prefetch(&self) {
        if !cfg!(loom) {
            // Relaxed: the pointer is not dereferenced.
            prefetch_count(self.raw.load(Relaxed));
        }
    }

    /// Takes the slot's reference, and leaves the pointer for readers.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange); and from here on the slot holds no reference, and is
    /// neither written nor dropped.
    unsafe fn disown(&self) -> Option<SlotRef<T>> {
        // Acquire: pairs with the release in (I); the object is dereferenced.
        let raw = NonNull::new(self.raw.load(Acquire))?;
        // SAFETY: the slot held this reference, and the caller takes it once.
        Some(SlotRef::new(unsafe { Ref::from_raw(raw) }))
    }

    /// Takes another reference to the slot's object.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange).
    unsafe fn share(&self) -> Option<Ref<T>> {
        // Acquire: pairs with the release in (I); the object is dereferenced.
        let raw = NonNull::new(self.raw.load(Acquire))?;
        // SAFETY: the slot's own reference, which stays where it is.
        let own = ManuallyDrop::new(unsafe { Ref::<T>::from_raw(raw) });
        Some((*own).clone())
    }
}
