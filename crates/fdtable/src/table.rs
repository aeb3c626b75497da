//! The state of a table below its operations: leaves, what is kept in each, and the two paths.
//!
//! Descriptors are in leaves of 64 (see [`fdtable_objects::radix::leaf`]), and leaves in a tree
//! whose nodes can be shared with other tables (see [`fdtable_objects::radix`]). A descriptor that
//! is taken and has no file is *reserved*.
//!
//! # Fast path and slow path
//!
//! A change takes one of two paths. The fast path locks the one or two leaves that it changes, and
//! writes no other cache line that threads share. It is open while these leaves exist and belong to
//! the table alone, and while no feature has closed it for the whole table. The slow path holds the
//! lock of the table: it makes, shares and removes leaves, and searches.
//!
//! | | fast path | slow path |
//! |---|---|---|
//! | look up | no lock | |
//! | open the lowest | in the first leaf, or the one that the free hint names | search, in `open` |
//! | open two of the lowest | in the leaf that the free hint names | search, in `pair` |
//! | open any | in the leaf that the CPU has claimed | claim, in `any` |
//! | close, flags, `dup3` | in the descriptor's own leaf | make or copy the leaf; see `on_close` |
//! | reserve, install | in the first leaf, or one of the hint with reservations | elsewhere |
//! | ranges, fork | | always |
//!
//! Every change is atomic for all threads that change the table: a leaf's words and slots change
//! together, with the leaf locked. A lookup sees each change when the slot is written. `close`
//! clears the bit before it empties the slot. A lookup sees EBADF only after the descriptor is
//! free, so an open that follows can take it.
//!
//! Nothing is dropped with a lock held: removed files are returned to the caller, or are in a value
//! that is dropped after the lock is released.
//!
//! # Idle leaves
//!
//! Opens and closes come in bursts. If a leaf were freed as soon as it is empty, consecutive bursts
//! would each make it and free it, and clear its bytes. So the last few leaves of a table that
//! became empty stay where they are. An idle leaf is removed when as many others have become empty
//! after it, if it is still empty. A search finds an idle leaf like any other, and an open takes
//! its descriptors without a special case.

use alloc::boxed::Box;
use alloc::vec::Vec;

use fdtable_objects::object::Ref;
use fdtable_objects::radix;
use fdtable_objects::radix::leaf::{self, LeafState};
use fdtable_sync::bitmap::BITS;
use fdtable_sync::fallible::{OutOfMemory, try_box};

use crate::fd::{index_of, place_of};
use crate::rare::Rare;
use crate::{Error, Fd, FdData, FdFlags, Files, RawFd};

/// A limit above the highest descriptor has no effect.
pub(crate) const MAX_LIMIT: usize = Fd::MAX.index() + 1;

/// The number of descriptors that are reserved atomically: more than a message of `SCM_RIGHTS`
/// carries. A larger count is reserved in steps of that size, so that no call holds the lock for
/// long.
pub(crate) const AT_ONCE: usize = 256;

pub(crate) type Tree<T> = radix::Tree<T, LeafMeta, TableState<T>>;
pub(crate) type ReadGuard<'e, T> = radix::ReadGuard<'e, T, LeafMeta, TableState<T>>;
pub(crate) type Leaf<T> = leaf::Leaf<T, LeafMeta>;
pub(crate) type LeafGuard<'l, T> = leaf::LeafGuard<'l, T, LeafMeta>;
pub(crate) type NearLeaf<'t, T> = radix::NearLeaf<'t, T, LeafMeta>;
pub(crate) type LeafRef<'s, T> = leaf::LeafRef<'s, T, LeafMeta>;
pub(crate) type WriteGuard<'t, T> = radix::WriteGuard<'t, T, LeafMeta, TableState<T>>;

/// The data that the lock of the table guards besides the nodes.
pub(crate) struct TableState<T: ?Sized> {
    /// The leaves with reservations, in ascending order, and some that had reservations once. The
    /// first leaf is not among them: a fork copies what is open there.
    pub(crate) reserved: Vec<usize>,
    pub(crate) idle: Idle,
    /// Made with the first quarantine, waiter or hook.
    pub(crate) rare: Option<Box<Rare<T>>>,
}

/// The data of the table in each leaf.
#[derive(Default)]
pub(crate) struct LeafMeta {
    pub(crate) mark: Mark,
    /// The CPU that allocates any descriptor here, counted from 1; 0 for none.
    pub(crate) claim: u16,
    /// It is among the leaves with reservations: then a reservation here needs no list.
    pub(crate) listed: bool,
    /// The next leaf on the same freed-leaf list, which the free hint reads and writes.
    pub(crate) next_freed: u32,
}

/// The state of a leaf for searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Searches look at it.
    #[default]
    Open,
    /// It was full when a search looked, and is marked so in the tree: searches skip it.
    Full,
    /// It is on a freed-leaf list: it is marked as full in the tree and a descriptor was freed
    /// since, or it became empty.
    FreedSince,
}

impl<T: ?Sized> TableState<T> {
    pub(crate) fn new() -> Self {
        Self {
            reserved: Vec::new(),
            idle: Idle::default(),
            rare: None,
        }
    }

    /// Returns true if nothing is in quarantine or awaited, and there is no hook.
    pub(crate) fn is_new(&self) -> bool {
        self.rare.as_ref().is_none_or(|rare| rare.is_new())
    }

    /// Returns true if a thread or a task waits for a change.
    pub(crate) fn is_awaited(&self) -> bool {
        (self.rare.as_ref()).is_some_and(|rare| !rare.waiters.is_empty())
    }

    /// Returns true if a closed descriptor enters quarantine.
    pub(crate) fn is_quarantine_on(&self) -> bool {
        (self.rare.as_ref()).is_some_and(|rare| rare.quarantine.is_on())
    }

    /// Returns the state of rare operations. Makes it if there is none.
    pub(crate) fn make_rare(&mut self) -> Result<&mut Rare<T>, OutOfMemory> {
        let there = self.rare.take();
        let rare = there.map_or_else(|| try_box(Rare::new()), Ok)?;
        Ok(self.rare.insert(rare))
    }
}

impl LeafState for LeafMeta {
    fn copy(&self) -> Self {
        debug_assert!(
            self.mark != Mark::FreedSince,
            "a fork drains the lists first"
        );
        // A claim belongs to one table, and so does the list of leaves with reservations.
        Self {
            mark: self.mark,
            ..Self::default()
        }
    }

    fn copy_first(&self) -> Self {
        // The other table's searches begin at this leaf.
        Self::default()
    }
}

/// How the fast path is tried.
#[derive(Clone, Copy)]
pub(crate) enum LockMode {
    /// The common case: the thread is in one section at most, and the lock of the leaf is free.
    /// There are no calls, so no registers have to be saved around them.
    Try,
    /// The general case.
    Block,
}

impl LockMode {
    /// Locks the leaf of an index, if it is the first one or cached at `place`.
    #[inline(always)]
    pub(crate) fn lock_near<T: ?Sized + Send + Sync>(
        self,
        tree: &Tree<T>,
        place: usize,
        index: usize,
    ) -> Option<NearLeaf<'_, T>> {
        match self {
            Self::Try => tree.try_lock_near(place, index),
            Self::Block => tree.lock_near(place, index),
        }
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Makes a leaf writable, and prepares the list on which its frees are reported.
    pub(crate) fn make_writable(
        &self,
        writer: &mut WriteGuard<'_, T>,
        index: usize,
    ) -> Result<(), OutOfMemory> {
        if index > 0 {
            self.free_hint.prepare()?;
        }
        writer.make_writable(index)
    }

    /// Locks the leaf of a descriptor that may be open, and calls `change`. Takes the fast path if
    /// that is open.
    pub(crate) fn with_leaf<R>(
        &self,
        fd: RawFd,
        change: impl FnOnce(&mut LeafGuard<'_, T>) -> R,
    ) -> Result<R, Error> {
        let number = index_of(fd);
        if let Some(reader) = self.tree.read()
            && let Some(mut leaf) = reader.lock_leaf(number / BITS)
        {
            return Ok(change(&mut leaf));
        }
        let mut writer = self.tree.write();
        self.make_open_writable(&mut writer, number)?;
        let mut leaf = writer.lock_leaf(number / BITS).ok_or(Error::BadFd)?;
        Ok(change(&mut leaf))
    }

    /// Makes the leaf of an open descriptor writable. Another descriptor is not worth a copy.
    pub(crate) fn make_open_writable(
        &self,
        writer: &mut WriteGuard<'_, T>,
        number: usize,
    ) -> Result<(), Error> {
        let (index, bit) = place_of(number);
        // A thread that gets EBADF finds the descriptor free.
        // weaken: vacancy-that-is-read-without-the-lock-of-the-leaf
        if Self::look(writer, index, |leaf| leaf.is_vacant(bit)) != Some(false) {
            return Err(Error::BadFd);
        }
        Ok(self.make_writable(writer, index)?)
    }

    /// Removes a leaf if it is empty, unclaimed and on no freed-leaf list.
    pub(crate) fn remove_if_empty(writer: &mut WriteGuard<'_, T>, index: usize) {
        // Checked before, since a shared leaf is removed even if it is not empty.
        if Self::is_empty(writer, index) {
            // It stays if there is no memory, which does no harm. It has no files to release.
            drop(writer.remove_if(index, may_go));
        }
    }

    /// Returns true if a leaf exists that [`remove_if_empty`](Self::remove_if_empty) would remove.
    pub(crate) fn is_empty(writer: &WriteGuard<'_, T>, index: usize) -> bool {
        writer.lock_leaf(index).is_some_and(|leaf| may_go(&leaf))
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Lists a leaf with a reservation, after [`prepare_reserved`](Self::prepare_reserved).
    pub(crate) fn list_reserved(writer: &mut WriteGuard<'_, T>, index: usize) {
        if index != 0
            && let Err(place) = writer.reserved.binary_search(&index)
        {
            writer.reserved.insert(place, index);
        }
    }

    /// Makes room to list `count` more leaves with reservations. Forgets those that have none, if
    /// there is no room; then the list gets room for twice as many, so that this is rare.
    pub(crate) fn prepare_reserved(
        writer: &mut WriteGuard<'_, T>,
        count: usize,
    ) -> Result<(), OutOfMemory> {
        if writer.reserved.capacity() - writer.reserved.len() >= count {
            return Ok(());
        }
        Self::forget_installed(writer);
        let reserved = &mut writer.reserved;
        let more = reserved.len().max(count);
        reserved.try_reserve(more).map_err(|_| OutOfMemory)
    }

    /// Forgets the leaves that have no reservations any more.
    pub(crate) fn forget_installed(writer: &mut WriteGuard<'_, T>) {
        let mut reserved = core::mem::take(&mut writer.reserved);
        reserved.retain(|&index| {
            writer.lock_leaf(index).is_some_and(|mut leaf| {
                let has_reserved = leaf.open.bits() & !leaf.installed() != 0;
                leaf.state_mut().listed &= has_reserved;
                has_reserved
            })
        });
        writer.reserved = reserved;
    }
}

/// How many leaves of a table may be idle: 512 descriptors, in five kilobytes.
const MAX_IDLE: usize = if cfg!(loom) { 1 } else { 8 };

/// The leaves that were found empty last. Some may have descriptors again, or be removed.
#[derive(Default)]
pub(crate) struct Idle {
    /// Their indexes. The first leaf of a table, 0, always stays: here 0 means none.
    leaves: [u32; MAX_IDLE],
    /// The position of the oldest.
    oldest: usize,
}

impl Idle {
    /// Returns true if a leaf is idle.
    #[cfg(all(test, loom))]
    pub(crate) fn has(&self, index: usize) -> bool {
        self.leaves.contains(&(index as u32))
    }

    /// Notes a leaf, and returns the one that it replaces.
    fn note(&mut self, index: usize) -> Option<usize> {
        // Indexes are below 2^25.
        let index = index as u32;
        if self.leaves.contains(&index) {
            return None;
        }
        let before = core::mem::replace(&mut self.leaves[self.oldest], index);
        self.oldest = (self.oldest + 1) % MAX_IDLE;
        (before != 0).then_some(before as usize)
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Leaves an empty leaf idle, and removes the one that was idle longest. That one stays if it
    /// is in `kept`, since opens are to look there, or if it is not empty.
    pub(crate) fn leave_idle(writer: &mut WriteGuard<'_, T>, index: usize, kept: [usize; 2]) {
        if index != 0
            && Self::is_empty(writer, index)
            && let Some(before) = writer.idle.note(index)
            && !kept.contains(&before)
        {
            Self::remove_if_empty(writer, before);
        }
    }

    /// Removes the leaves that are idle, also those that opens look at: the next open searches.
    pub(crate) fn remove_idle(writer: &mut WriteGuard<'_, T>) {
        let idle = core::mem::take(&mut writer.idle);
        for index in idle.leaves {
            Self::remove_if_empty(writer, index as usize);
        }
    }
}

/// Returns true if a leaf is empty, unclaimed and on no freed-leaf list.
fn may_go<T: ?Sized>(leaf: &LeafGuard<'_, T>) -> bool {
    leaf.open.bits() == 0 && leaf.state().claim == 0 && leaf.state().mark == Mark::Open
}

/// Takes a descriptor of a locked leaf. The leaf has a table of data if the descriptor needs one.
#[inline(always)]
pub(crate) fn take<T: ?Sized>(
    leaf: &mut LeafGuard<'_, T>,
    bit: usize,
    data: FdData,
    file: Option<Ref<T>>,
) {
    // (o)
    leaf.take(bit);
    set_cloexec(leaf, bit, data.flags);
    // A free descriptor has the default data.
    if data != FdData::default() && leaf.has_table() {
        leaf.set_data(bit, data.into_slot());
    }
    if let Some(file) = file {
        // A free descriptor has no file.
        leaf.put(bit, file);
    }
}

/// Sets the flags of an open descriptor, with the leaf locked. The leaf has a table of data if a
/// flag needs one.
pub(crate) fn set_flags<T: ?Sized>(leaf: &mut LeafGuard<'_, T>, bit: usize, flags: FdFlags) {
    set_cloexec(leaf, bit, flags);
    if leaf.has_table() {
        leaf.set_flags(bit, FdData::from(flags).into_slot().flags);
    }
}

/// Sets the close-on-exec bit of a descriptor, with the leaf locked. A leaf with a table has the
/// flag there too.
#[inline(always)]
pub(crate) fn set_cloexec<T: ?Sized>(leaf: &Leaf<T>, bit: usize, flags: FdFlags) {
    let before = leaf.cloexec.test(bit);
    if before == flags.contains(FdFlags::CLOEXEC) {
        // The common case: the next exchange need not wait for a store that is left out.
        return;
    }
    if before {
        leaf.cloexec.clear(bit);
    } else {
        // With the notes of flags, for a thread that finds it.
        leaf.cloexec.set_release(bit);
    }
}

/// Returns the set of bits from `first` to `last`, both below 64.
pub(crate) fn mask(first: usize, last: usize) -> u64 {
    if first > last {
        0
    } else {
        (u64::MAX << first) & (u64::MAX >> (63 - last))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_many_goes() {
        let mut idle = Idle::default();
        for index in 1..=MAX_IDLE {
            assert_eq!(idle.note(index), None);
            assert_eq!(idle.note(index), None, "it is there already");
        }
        assert_eq!(idle.note(100), Some(1));
        assert_eq!(idle.note(1), Some(2));
    }
}
