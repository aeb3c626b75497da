//! The table: which descriptors are taken, and the file of each.
//!
//! Descriptors are in leaves of 64 (see [`fdtable_base::leaf`]), and leaves in a tree whose nodes
//! can be shared with other tables (see [`fdtable_base::tree`]). A descriptor that is taken and has
//! no file is *reserved*.
//!
//! # Fast path and slow path
//!
//! A change takes one of two paths. The fast path passes the tree's gate, locks the one or two
//! leaves that it changes, and writes no other cache line. It is open while these leaves exist and
//! belong to the table alone. All else takes the slow path, with the lock of the structure: making,
//! sharing and removing leaves, searches, reservations.
//!
//! | | fast path | slow path |
//! |---|---|---|
//! | look up | no lock | |
//! | open the lowest | in the leaf that the [`Room`](fdtable_base::room::Room) hints at | search, in `lowest` |
//! | open two of the lowest | in that leaf, if it has two | search, in `several` |
//! | open any | in the leaf that the CPU has claimed | claim, in `any` |
//! | close, flags, `dup_to` | in the descriptor's own leaf | make or copy the leaf |
//! | reserve, install, ranges, fork | | always |
//!
//! Every change is atomic for all threads that change the table: a leaf's words and slots change
//! together, with the leaf locked. A lookup sees each change when the slot is written. `close`
//! clears the bit before it empties the slot. A lookup sees EBADF only after the descriptor is
//! free, so an open that follows can take it.
//!
//! Nothing is dropped with a lock held: removed files are returned to the caller, or are in a value
//! that is dropped after the lock is released.

use fdtable_base::bitmap::BITS;
use fdtable_base::counted::Ref;
use fdtable_base::fallible::OutOfMemory;
use fdtable_base::leaf::{self, LeafState};
use fdtable_base::tree;

#[cfg(feature = "std")]
use crate::in_use::UseCounts;
use crate::quarantine::Quarantine;
use crate::reserve::Reserved;
use crate::tag::Tags;
use crate::wait::Waiters;
use crate::{Error, Fd, FdFlags, Files, RawFd};

/// A limit above the highest descriptor has no effect.
pub(crate) const MAX_LIMIT: usize = Fd::MAX.index() + 1;

pub(crate) type Tree<T> = tree::Tree<T, Notes, Numbers>;
pub(crate) type Entry<'e, T> = tree::Entry<'e, T, Notes, Numbers>;
pub(crate) type Found<'e, T> = tree::Found<'e, T, Notes, Numbers>;
pub(crate) type Leaf<T> = leaf::Leaf<T, Notes>;
pub(crate) type LeafGuard<'l, T> = leaf::LeafGuard<'l, T, Notes>;
pub(crate) type LeafRef<'s, T> = leaf::LeafRef<'s, T, Notes>;
pub(crate) type Structure<'t, T> = tree::Structure<'t, T, Notes, Numbers>;

/// The data that the lock of the structure guards besides the nodes.
pub(crate) struct Numbers {
    /// Inclusive upper bound for the limit.
    pub(crate) hard_limit: usize,
    pub(crate) reserved: Reserved,
    idle: Idle,
    pub(crate) quarantine: Quarantine,
    #[cfg(feature = "std")]
    pub(crate) in_use: UseCounts,
    pub(crate) waiters: Waiters,
}

/// The data of the table in each leaf.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) mark: Mark,
    /// The CPU that allocates any descriptor here, counted from 1; 0 for none.
    pub(crate) claim: u16,
    /// The next leaf with a notice, which [`Room`](fdtable_base::room::Room) reads and writes.
    pub(crate) next_notice: u32,
    /// The tags of the descriptors, once one has a tag.
    pub(crate) tags: Option<Tags>,
}

/// The state of a leaf for searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Searches look at it.
    #[default]
    Open,
    /// It was full, and is marked so in the tree: searches skip it.
    Passed,
    /// It is marked as full, but has a notice: a descriptor was freed since.
    Noticed,
}

impl Numbers {
    pub(crate) fn new() -> Self {
        Self {
            hard_limit: MAX_LIMIT,
            reserved: Reserved::default(),
            idle: Idle::default(),
            quarantine: Quarantine::new(),
            #[cfg(feature = "std")]
            in_use: UseCounts::default(),
            waiters: Waiters::default(),
        }
    }
}

impl Notes {
    /// Returns true if a close has nothing else to do: there are no tags, and either no search has
    /// passed over the leaf, or the notice is already left.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.mark != Mark::Passed && self.tags.is_none()
    }
}

impl LeafState for Notes {
    fn try_copy(&self) -> Result<Self, OutOfMemory> {
        debug_assert!(self.mark != Mark::Noticed, "notices are taken before");
        // A claim belongs to one table.
        Ok(Self {
            mark: self.mark,
            tags: self.copy_tags()?,
            ..Self::default()
        })
    }

    fn try_copy_first(&self) -> Result<Self, OutOfMemory> {
        // The other table's searches begin at this leaf.
        Ok(Self {
            tags: self.copy_tags()?,
            ..Self::default()
        })
    }
}

/// How the fast path is tried.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// The common case: the thread is in no section, and the lock of the leaf is free. There are no
    /// calls, so no registers have to be saved around them.
    Prompt,
    /// The general case.
    Patient,
}

impl Way {
    #[inline(always)]
    pub(crate) fn enter<T: ?Sized + Send + Sync>(self, tree: &Tree<T>) -> Option<Entry<'_, T>> {
        match self {
            Self::Prompt => tree.try_enter(),
            Self::Patient => tree.enter(),
        }
    }

    /// Locks a leaf that is not in the hint of the lowest descriptor.
    #[inline(always)]
    pub(crate) fn lock_by_walk<'e, T: ?Sized + Send + Sync>(
        self,
        entry: &'e Entry<'_, T>,
        index: usize,
    ) -> Option<LeafGuard<'e, T>> {
        match self {
            Self::Prompt => entry.try_lock_by_walk(index),
            Self::Patient => entry.lock_leaf(index),
        }
    }

    #[inline(always)]
    pub(crate) fn lock_found<'e, T: ?Sized + Send + Sync>(
        self,
        found: Found<'e, T>,
    ) -> Option<LeafGuard<'e, T>> {
        match self {
            Self::Prompt => found.try_lock(),
            Self::Patient => found.lock(),
        }
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Makes a leaf writable, and able to have notices.
    pub(crate) fn own(
        &self,
        structure: &mut Structure<'_, T>,
        index: usize,
    ) -> Result<(), OutOfMemory> {
        if index > 0 {
            self.room.prepare()?;
        }
        structure.own(index)
    }

    /// Locks the leaf of a descriptor that may be open, and calls `change`. Takes the fast path if
    /// that is open.
    pub(crate) fn with_leaf<R>(
        &self,
        fd: RawFd,
        change: impl FnOnce(&mut LeafGuard<'_, T>) -> R,
    ) -> Result<R, Error> {
        let number = index_of(fd);
        if let Some(entry) = self.tree.enter()
            && let Some(mut leaf) = entry.lock_leaf(number / BITS)
        {
            return Ok(change(&mut leaf));
        }
        let mut structure = self.tree.lock();
        self.own_open(&mut structure, number)?;
        let mut leaf = structure.lock_leaf(number / BITS).ok_or(Error::BadFd)?;
        Ok(change(&mut leaf))
    }

    /// Makes the leaf of an open descriptor writable. Another descriptor is not worth a copy.
    pub(crate) fn own_open(
        &self,
        structure: &mut Structure<'_, T>,
        number: usize,
    ) -> Result<(), Error> {
        let (index, bit) = place_of(number);
        // A thread that gets EBADF finds the descriptor free.
        if structure.leaf(index).is_none_or(|leaf| leaf.is_vacant(bit)) {
            return Err(Error::BadFd);
        }
        Ok(self.own(structure, index)?)
    }

    /// Removes a leaf if it is empty, unclaimed and without a notice.
    pub(crate) fn remove_if_empty(structure: &mut Structure<'_, T>, index: usize) {
        // Checked before, since a shared leaf is removed even if it is not empty.
        if Self::is_empty(structure, index) {
            // It stays if there is no memory, which does no harm. It has no files to release.
            drop(structure.remove_if(index, may_go));
        }
    }

    /// Returns true if a leaf exists that [`remove_if_empty`](Self::remove_if_empty) would remove.
    pub(crate) fn is_empty(structure: &Structure<'_, T>, index: usize) -> bool {
        structure.lock_leaf(index).is_some_and(|leaf| may_go(&leaf))
    }
}

/// How many leaves of a table may be idle: 512 descriptors, in five kilobytes.
const MAX_IDLE: usize = if cfg!(loom) { 1 } else { 8 };

/// The leaves that were found empty last. Some may have descriptors again, or be removed.
#[derive(Default)]
struct Idle {
    /// Their indexes. The first leaf of a table, 0, always stays: here 0 means none.
    leaves: [u32; MAX_IDLE],
    /// The position of the oldest.
    oldest: usize,
}

impl Idle {
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
    pub(crate) fn leave_idle(structure: &mut Structure<'_, T>, index: usize, kept: [usize; 2]) {
        if index != 0
            && Self::is_empty(structure, index)
            && let Some(before) = structure.idle.note(index)
            && !kept.contains(&before)
        {
            Self::remove_if_empty(structure, before);
        }
    }

    /// Removes the leaves that are idle, also those that opens look at: the next open searches.
    pub(crate) fn remove_idle(structure: &mut Structure<'_, T>) {
        let idle = core::mem::take(&mut structure.idle);
        for index in idle.leaves {
            Self::remove_if_empty(structure, index as usize);
        }
    }
}

/// Returns true if a leaf is empty, unclaimed and without a notice.
fn may_go<T: ?Sized>(leaf: &LeafGuard<'_, T>) -> bool {
    leaf.open.bits() == 0 && leaf.state().claim == 0 && leaf.state().mark == Mark::Open
}

/// Takes a descriptor of a locked leaf.
#[inline(always)]
pub(crate) fn take<T: ?Sized>(
    leaf: &mut LeafGuard<'_, T>,
    bit: usize,
    flags: FdFlags,
    file: Option<Ref<T>>,
) {
    // (o)
    leaf.open.set_release(bit);
    set_flags(leaf, bit, flags);
    if let Some(file) = file {
        // A free descriptor has no file.
        leaf.put(bit, file);
    }
}

pub(crate) fn flags_in<T: ?Sized>(leaf: &Leaf<T>, bit: usize) -> FdFlags {
    if leaf.cloexec.test(bit) {
        FdFlags::CLOEXEC
    } else {
        FdFlags::empty()
    }
}

#[inline(always)]
pub(crate) fn set_flags<T: ?Sized>(leaf: &Leaf<T>, bit: usize, flags: FdFlags) {
    let before = leaf.cloexec.test(bit);
    if before == flags.contains(FdFlags::CLOEXEC) {
        // The common case: the next exchange need not wait for a store that is left out.
        return;
    }
    if before {
        leaf.cloexec.clear(bit);
    } else {
        leaf.cloexec.set(bit);
    }
}

/// Returns the index of a descriptor. A negative descriptor becomes an index above all leaves.
#[inline(always)]
pub(crate) fn index_of(fd: RawFd) -> usize {
    fd.cast_unsigned() as usize
}

/// Returns the index of a descriptor's leaf, and its bit there.
#[inline(always)]
pub(crate) fn place_of(number: usize) -> (usize, usize) {
    (number / BITS, number % BITS)
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
