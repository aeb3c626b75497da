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
//! | open the lowest | in the leaf that the [`Room`] hints at | search, in `lowest` |
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
use fdtable_base::counted::{Borrowed, Ref};
use fdtable_base::fallible::OutOfMemory;
use fdtable_base::leaf::{self, LeafState, bits_of};
use fdtable_base::rcu::{self, Guard};
use fdtable_base::room::Room;
use fdtable_base::tree;

use crate::{Error, Fd, FdFlags, RawFd};

mod any;
mod end;
mod exact;
mod free;
mod idle;
#[cfg(feature = "std")]
mod in_use;
mod lowest;
mod notices;
mod pair;
mod quarantine;
mod range;
mod reserved;
mod several;
mod share;
mod tags;
mod waiters;

use idle::Idle;
#[cfg(feature = "std")]
use in_use::InUse;
use quarantine::Quarantine;
use reserved::Reserved;
use tags::Tags;
use waiters::Waiters;

pub(crate) use end::{Origin, TableEnd};
pub(crate) use range::Closed;
pub(crate) use reserved::AT_ONCE;
pub(crate) use waiters::Waiter;

/// A limit above the highest descriptor has no effect.
const MAX_LIMIT: usize = Fd::MAX.index() + 1;

/// The tree, and the hint where it has free descriptors.
pub(crate) struct FdTable<T: ?Sized> {
    tree: Tree<T>,
    room: Room,
    /// Dropped after the tree.
    end: TableEnd,
}

type Tree<T> = tree::Tree<T, Notes, Numbers>;
type Entry<'e, T> = tree::Entry<'e, T, Notes, Numbers>;
type Found<'e, T> = tree::Found<'e, T, Notes, Numbers>;
type Leaf<T> = leaf::Leaf<T, Notes>;
type LeafGuard<'l, T> = leaf::LeafGuard<'l, T, Notes>;
pub(crate) type LeafRef<'s, T> = leaf::LeafRef<'s, T, Notes>;
pub(crate) type Structure<'t, T> = tree::Structure<'t, T, Notes, Numbers>;

/// The data that the lock of the structure guards besides the nodes.
pub(crate) struct Numbers {
    /// Inclusive upper bound for the limit.
    hard_limit: usize,
    reserved: Reserved,
    idle: Idle,
    quarantine: Quarantine,
    #[cfg(feature = "std")]
    in_use: InUse,
    waiters: Waiters,
}

/// The data of the table in each leaf.
#[derive(Default)]
pub(crate) struct Notes {
    mark: Mark,
    /// The CPU that allocates any descriptor here, counted from 1; 0 for none.
    claim: u16,
    /// The next leaf with a notice, which [`Room`] reads and writes.
    next_notice: u32,
    /// The tags of the descriptors, once one has a tag.
    tags: Option<Tags>,
}

/// The state of a leaf for searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mark {
    /// Searches look at it.
    #[default]
    Open,
    /// It was full, and is marked so in the tree: searches skip it.
    Passed,
    /// It is marked as full, but has a notice: a descriptor was freed since.
    Noticed,
}

impl Notes {
    /// Returns true if a close has nothing else to do: there are no tags, and either no search has
    /// passed over the leaf, or the notice is already left.
    #[inline(always)]
    fn is_plain(&self) -> bool {
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
enum Way {
    /// The common case: the thread is in no section, and the lock of the leaf is free. There are no
    /// calls, so no registers have to be saved around them.
    Prompt,
    /// The general case.
    Patient,
}

impl Way {
    #[inline(always)]
    fn enter<T: ?Sized + Send + Sync>(self, tree: &Tree<T>) -> Option<Entry<'_, T>> {
        match self {
            Self::Prompt => tree.try_enter(),
            Self::Patient => tree.enter(),
        }
    }

    /// Locks a leaf that is not in the hint of the lowest descriptor.
    #[inline(always)]
    fn lock_by_walk<'e, T: ?Sized + Send + Sync>(
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
    fn lock_found<'e, T: ?Sized + Send + Sync>(
        self,
        found: Found<'e, T>,
    ) -> Option<LeafGuard<'e, T>> {
        match self {
            Self::Prompt => found.try_lock(),
            Self::Patient => found.lock(),
        }
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    pub(crate) fn new(limit: u32) -> Self {
        let numbers = Numbers {
            hard_limit: MAX_LIMIT,
            reserved: Reserved::default(),
            idle: Idle::default(),
            quarantine: Quarantine::new(),
            #[cfg(feature = "std")]
            in_use: InUse::default(),
            waiters: Waiters::default(),
        };
        let room = Room::new();
        room.set_limit((limit as usize).min(MAX_LIMIT));
        Self {
            tree: Tree::new(numbers),
            room,
            end: TableEnd::of(Origin::New),
        }
    }

    /// Makes a leaf writable, and able to have notices.
    fn own(&self, structure: &mut Structure<'_, T>, index: usize) -> Result<(), OutOfMemory> {
        if index > 0 {
            self.room.prepare()?;
        }
        structure.own(index)
    }

    pub(crate) fn limit(&self) -> usize {
        self.room.limit()
    }

    pub(crate) fn limits(&self) -> (usize, usize) {
        let structure = self.tree.lock();
        (self.room.limit(), structure.hard_limit)
    }

    /// Copies the limits of another table into a table that no other thread uses.
    fn set_limits_of(&mut self, soft: usize, hard: usize) {
        self.room.set_limit(soft);
        self.tree.data_mut().hard_limit = hard;
    }

    /// Sets the soft limit, and the hard one if one is given.
    pub(crate) fn set_limits(&self, soft: u32, hard: Option<u32>) -> Result<(), Error> {
        let soft = (soft as usize).min(MAX_LIMIT);
        let mut structure = self.tree.lock();
        let hard = hard.map_or(structure.hard_limit, |hard| (hard as usize).min(MAX_LIMIT));
        if soft > hard {
            return Err(Error::InvalidArgument);
        }
        structure.hard_limit = hard;
        self.room.set_limit(soft);
        // There may be free descriptors below the new limit.
        let woken = Self::take_waiters(&mut structure);
        drop(structure);
        drop(woken);
        Ok(())
    }

    /// Borrows the file of a descriptor. A negative descriptor becomes an index above all leaves.
    #[inline(always)]
    pub(crate) fn borrow<'g>(&self, fd: RawFd, section: &'g Guard<'_>) -> Option<Borrowed<'g, T>> {
        self.tree.borrow(index_of(fd), section)
    }

    /// Finds a leaf of 64 descriptors, if it exists.
    #[inline(always)]
    pub(crate) fn leaf<'s>(
        &'s self,
        index: usize,
        section: &'s Guard<'_>,
    ) -> Option<LeafRef<'s, T>> {
        self.tree.leaf(index, section)
    }

    /// Finds the file of a descriptor and takes a reference.
    #[inline(always)]
    pub(crate) fn get(&self, fd: RawFd, section: &Guard<'_>) -> Option<Ref<T>> {
        self.tree.get(index_of(fd), section)
    }

    /// Returns the flags of an open descriptor.
    pub(crate) fn flags(&self, fd: RawFd) -> Result<FdFlags, Error> {
        let section = rcu::read_lock();
        let (index, bit) = place_of(index_of(fd));
        let leaf = self.tree.leaf(index, &section).ok_or(Error::BadFd)?;
        // A thread that finds the file also finds the flags of its open: they were written before.
        leaf.borrow(bit).ok_or(Error::BadFd)?;
        Ok(flags_in(&leaf, bit))
    }

    /// Finds the lowest open descriptor that is `from` or more.
    pub(crate) fn next_open(&self, from: usize) -> Option<Fd> {
        let mut first = from;
        loop {
            let section = rcu::read_lock();
            let (index, leaf) = self.tree.next(first / BITS, &section)?;
            first = first.max(index * BITS);
            let found = bits_of(leaf.installed() & mask(first % BITS, BITS - 1)).next();
            if let Some(bit) = found {
                return Some(Fd::from_index(index * BITS + bit));
            }
            first = (index + 1) * BITS;
        }
    }

    /// Counts the descriptors that are taken.
    pub(crate) fn taken(&self) -> usize {
        let section = rcu::read_lock();
        let (mut taken, mut next) = (0, 0);
        while let Some((index, leaf)) = self.tree.next(next, &section) {
            taken += leaf.open.bits().count_ones() as usize;
            next = index + 1;
        }
        taken
    }
}

/// Takes a descriptor of a locked leaf.
#[inline(always)]
fn take<T: ?Sized>(leaf: &mut LeafGuard<'_, T>, bit: usize, flags: FdFlags, file: Option<Ref<T>>) {
    // (o)
    leaf.open.set_release(bit);
    set_flags(leaf, bit, flags);
    if let Some(file) = file {
        // A free descriptor has no file.
        leaf.put(bit, file);
    }
}

fn flags_in<T: ?Sized>(leaf: &Leaf<T>, bit: usize) -> FdFlags {
    if leaf.cloexec.test(bit) {
        FdFlags::CLOEXEC
    } else {
        FdFlags::empty()
    }
}

#[inline(always)]
fn set_flags<T: ?Sized>(leaf: &Leaf<T>, bit: usize, flags: FdFlags) {
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
fn mask(first: usize, last: usize) -> u64 {
    if first > last {
        0
    } else {
        (u64::MAX << first) & (u64::MAX >> (63 - last))
    }
}
