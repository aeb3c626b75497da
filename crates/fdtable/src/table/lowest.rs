//! The lowest free number.
//!
//! The short way takes it in the leaf that the [`Room`](fdtable_base::room) hints at, and
//! [`room`](fdtable_base::room) tells why that one is the lowest. If that leaf is full, it takes it
//! in the second leaf of the hint. The long way searches, with the lock of the structure:
//!
//! 1. Take the notices. Each names a leaf in which something was freed; the hint goes down to the
//!    lowest of them.
//! 2. Look at the leaf of the hint, with its lock. If it is full, mark it as passed, in the leaf
//!    and in the tree, and go on with the next leaf that the tree does not know as full.
//! 3. A leaf with a free number is found, and is locked still. The hint is set to it and, as its
//!    second leaf, to the next one that is there and not known as full. If there are notices again,
//!    start over. If not, take the number.
//!
//! *Why it is the lowest.* At the moment at which the leaf was locked, every leaf below it was
//! marked as passed. A number that had been freed in one of them by then has left a notice, and
//! the look for notices comes later. Nobody but a search takes notices, and only one searches at
//! a time. So, when there are none, everything below was taken at that moment; and the number is
//! the lowest of its own leaf, which is locked. A number below that is freed after that moment is
//! freed after this open.
//!
//! *From a number upwards* (`F_DUPFD`) it is the same, with one leaf more: of the leaf of `min`
//! only a part counts, so it may have room and still nothing to offer, and then no notice tells
//! what is freed there. So that leaf stays locked until the number is taken.
//!
//! Each time that the search starts over, a descriptor was closed meanwhile, or the search has used
//! up its *budget*: a table that was filled by name, or shared by a fork, may have any number of
//! full leaves that no search has marked yet. After a few of them the search sets the hint to where
//! it is, lets other threads have the lock, and goes on from there.

use core::hint::cold_path;

use fdtable_base::bitmap::BITS;
use fdtable_base::counted::Ref;
use fdtable_base::rcu;
use fdtable_base::room::Hint;

use super::{
    AT_ONCE, Entry, FdTable, Found, LeafGuard, Mark, Structure, Way, index_of, mask, place_of, take,
};
use crate::{Error, Fd, FdFlags, RawFd};

/// Where the tree names the leaves of the hint.
pub(super) const FIRST: usize = 0;
const SECOND: usize = 1;

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Opens `file` under the lowest free number.
    ///
    /// If there is an error, the file is dropped, outside of all locks.
    #[inline]
    pub(crate) fn open_lowest(&self, file: Ref<T>, flags: FdFlags) -> Result<Fd, Error> {
        // Nearly always the lock of the leaf is free. Then nothing is called.
        let opened = match self.tree.try_enter() {
            Some(entry) => self.open_hinted(&entry, file, flags, Way::Prompt),
            None => Err(file),
        };
        opened.or_else(|file| self.open_patiently(file, flags))
    }

    /// Opens the file of `old` under the lowest free number too. It finds the file first, and then
    /// the number: two steps, in one section.
    #[inline]
    pub(crate) fn dup_lowest(&self, old: RawFd, flags: FdFlags) -> Result<Fd, Error> {
        let opened = match self.tree.try_enter() {
            Some(entry) => {
                let file = entry.get(index_of(old)).ok_or(Error::BadFd)?;
                self.open_hinted(&entry, file, flags, Way::Prompt)
            }
            None => Err(self.get(old, &rcu::read_lock()).ok_or(Error::BadFd)?),
        };
        opened.or_else(|file| self.open_patiently(file, flags))
    }

    #[inline(never)]
    fn open_patiently(&self, file: Ref<T>, flags: FdFlags) -> Result<Fd, Error> {
        let opened = match self.tree.enter() {
            Some(entry) => self.open_hinted(&entry, file, flags, Way::Patient),
            None => Err(file),
        };
        opened.or_else(|file| {
            let mut file = Some(file);
            let mut structure = self.tree.lock();
            let found = self.search(&mut structure, |leaf, bit| {
                take(leaf, bit, flags, file.take());
            });
            drop(structure);
            found
        })
    }

    /// Opens `file` in a leaf that is hinted at, or gives it back.
    #[inline(always)]
    fn open_hinted(
        &self,
        entry: &Entry<'_, T>,
        file: Ref<T>,
        flags: FdFlags,
        way: Way,
    ) -> Result<Fd, Ref<T>> {
        let Some(hint) = self.room.hint() else {
            cold_path();
            return Err(file);
        };
        let Some(first) = entry.recent(FIRST, hint.leaf()) else {
            cold_path();
            return Err(file);
        };
        // Where the cache is cold, one wait is enough for both.
        entry.prefetch_recent(SECOND);
        // Before the lock, so that a full leaf is not written.
        if !first.looks_full() {
            return self.open_in(first, hint, |_| true, file, flags, way);
        }
        // (a2)
        let Some(second) = self
            .room
            .second()
            .and_then(|index| entry.recent(SECOND, index))
        else {
            return Err(file);
        };
        // A search takes over the claim, or goes elsewhere. (e)
        let permit = |leaf: &LeafGuard<'_, T>| leaf.state().claim == 0 && first.is_full();
        self.open_in(second, hint, permit, file, flags, way)
    }

    /// Opens `file` in a leaf of a hint, if `permit` agrees when it is locked, or gives it back.
    #[inline(always)]
    fn open_in(
        &self,
        found: Found<'_, T>,
        hint: Hint,
        permit: impl FnOnce(&LeafGuard<'_, T>) -> bool,
        file: Ref<T>,
        flags: FdFlags,
        way: Way,
    ) -> Result<Fd, Ref<T>> {
        let Some((mut leaf, bit)) = lowest_in(way.lock_found(found), 0) else {
            cold_path();
            return Err(file);
        };
        let number = found.index() * BITS + bit;
        if !permit(&leaf) || number >= self.room.limit() || !self.room.is_confirmed(hint) {
            cold_path();
            return Err(file);
        }
        take(&mut leaf, bit, flags, Some(file));
        Ok(Fd::from_index(number))
    }

    /// Opens `file` under the lowest free number that is `min` or more.
    pub(crate) fn open_from(&self, min: Fd, file: Ref<T>, flags: FdFlags) -> Result<Fd, Error> {
        let mut file = Some(file);
        let mut structure = self.tree.lock();
        let found = self.search_from(&mut structure, min, |leaf, bit| {
            take(leaf, bit, flags, file.take());
        });
        drop(structure);
        found
    }

    /// Finds the lowest free descriptor and has it taken.
    pub(super) fn search(
        &self,
        structure: &mut Structure<'_, T>,
        mut take: impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Fd, Error> {
        self.count_search(structure, 0, |structure| {
            self.search_lowest(structure, &mut take)
        })
    }

    /// Finds the lowest free descriptor that is `min` or more and has it taken.
    pub(super) fn search_from(
        &self,
        structure: &mut Structure<'_, T>,
        min: Fd,
        mut take: impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Fd, Error> {
        self.count_search(structure, min.index(), |structure| {
            self.search_lowest_from(structure, min, &mut take)
        })
    }

    /// Finds the lowest free descriptor and has it taken, if that takes no more steps than one hold
    /// of the lock allows.
    pub(super) fn search_lowest(
        &self,
        structure: &mut Structure<'_, T>,
        take: &mut impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Option<Fd>, Error> {
        self.search_first(
            structure,
            &mut Budget::of_one_hold(),
            |leaf, index, free| {
                let bit = free.trailing_zeros() as usize;
                take(leaf, bit);
                Fd::from_index(index * BITS + bit)
            },
        )
    }

    /// Finds the first leaf with a free descriptor and passes it, locked, to `take`, with its index
    /// and the set of its free descriptors below the limit, of which there is one at least. At that
    /// moment everything below the leaf is taken.
    ///
    /// Returns nothing if the search has to begin anew: a descriptor was closed meanwhile, or the
    /// budget is used up. All leaves that it passed are marked, so the next one goes on from there.
    pub(super) fn search_first<R>(
        &self,
        structure: &mut Structure<'_, T>,
        budget: &mut Budget,
        take: impl FnOnce(&mut LeafGuard<'_, T>, usize, u64) -> R,
    ) -> Result<Option<R>, Error> {
        let mut index = self.take_notices(structure);
        let found = self.find_room(structure, &mut index, budget);
        let second = self.choose_second(structure, index);
        // Locked, or full or gone to the limit; and then a look for notices.
        let leaf = structure.lock_leaf(index);
        self.room.set_hint(index, second);
        if self.room.has_notices() || found? == Pass::Interrupted {
            return Ok(None);
        }
        // Another thread that wanted this very descriptor may have been faster.
        let Some(mut leaf) = leaf.filter(|leaf| !leaf.open.is_full()) else {
            return Ok(None);
        };
        let free = !leaf.open.bits() & self.below_limit(index);
        if free == 0 {
            return Err(Error::TooManyFiles);
        }
        // Opens of any descriptor go elsewhere, so that the two do not write one line.
        leaf.state_mut().claim = 0;
        Ok(Some(take(&mut leaf, index, free)))
    }

    /// Returns the set of the numbers of a leaf that are below the limit.
    pub(super) fn below_limit(&self, index: usize) -> u64 {
        let count = self.room.limit().saturating_sub(index * BITS);
        let last = count.checked_sub(1);
        last.map_or(0, |last| mask(0, last.min(BITS - 1)))
    }

    /// Finds the first leaf at or after `index` that has room, makes sure that it can be written,
    /// and leaves `index` there, or where it failed or was interrupted: all leaves from the first
    /// one on up to there were passed over.
    fn find_room(
        &self,
        structure: &mut Structure<'_, T>,
        index: &mut usize,
        budget: &mut Budget,
    ) -> Result<Pass, Error> {
        while *index * BITS < self.room.limit() {
            if !structure.is_own(*index) && !budget.spend() {
                return Ok(Pass::Interrupted);
            }
            self.own(structure, *index)?;
            if !self.pass_over(structure, *index)? {
                return Ok(Pass::Room);
            }
            *index = structure.next_not_full(*index + 1);
            if !budget.spend() {
                return Ok(Pass::Interrupted);
            }
        }
        Err(Error::TooManyFiles)
    }

    /// Returns a value if a descriptor is free. May release the lock of the structure for a moment
    /// before it looks for the last time.
    pub(crate) fn has_free(&self, structure: &mut Structure<'_, T>) -> Result<Option<()>, Error> {
        loop {
            if self.would_end_one(structure) {
                return Ok(Some(()));
            }
            let mut index = self.take_notices(structure);
            let found = self.find_room(structure, &mut index, &mut Budget::of_one_hold());
            // Before the hint is set: that may take out leaves.
            let free = lowest_in(structure.lock_leaf(index), 0).map(|(_, bit)| index * BITS + bit);
            self.hint_at(structure, index);
            match found {
                Ok(Pass::Room) => {
                    let free = free.filter(|&number| number < self.room.limit());
                    return Ok(free.map(|_| ()));
                }
                Ok(Pass::Interrupted) => structure.let_others(),
                Err(Error::TooManyFiles) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Marks a leaf as passed if it is full, and tells whether it is.
    pub(super) fn pass_over(
        &self,
        structure: &Structure<'_, T>,
        index: usize,
    ) -> Result<bool, Error> {
        if !structure
            .leaf(index)
            .is_some_and(|leaf| leaf.open.is_full())
        {
            return Ok(false);
        }
        self.room.prepare()?;
        let Some(mut leaf) = structure.lock_leaf(index) else {
            return Ok(false);
        };
        if !leaf.open.is_full() {
            return Ok(false);
        }
        // A notice that has come meanwhile stays, and has the search start over.
        if leaf.state().mark == Mark::Open {
            leaf.state_mut().mark = Mark::Passed;
            structure.mark_full(index);
        }
        Ok(true)
    }

    /// Does the same as [`search_lowest`](Self::search_lowest) from `min` upwards.
    pub(super) fn search_lowest_from(
        &self,
        structure: &mut Structure<'_, T>,
        min: Fd,
        take: &mut impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Option<Fd>, Error> {
        let (first, first_bit) = place_of(min.index());
        self.settle(structure);
        self.own(structure, first)?;
        let mut index = first;
        let has_room = {
            let leaf = structure.lock_leaf(first);
            lowest_in(leaf, first_bit).is_some()
        };
        let found = if has_room {
            Ok(Pass::Room)
        } else {
            index = structure.next_not_full(first + 1);
            self.find_room(structure, &mut index, &mut Budget::of_one_hold())
        };
        // The lower one first. It is held, if it is another, until the number is taken.
        let below = (index != first)
            .then(|| structure.lock_leaf(first))
            .flatten();
        let leaf = structure.lock_leaf(index);
        let missed = below
            .as_ref()
            .is_some_and(|leaf| leaf.open.lowest_clear(first_bit).is_some());
        if missed || self.room.has_notices() || found? == Pass::Interrupted {
            return Ok(None);
        }
        let bit = if index == first { first_bit } else { 0 };
        let Some((mut leaf, bit)) = lowest_in(leaf, bit) else {
            return Ok(None);
        };
        let number = index * BITS + bit;
        if number >= self.room.limit() {
            return Err(Error::TooManyFiles);
        }
        take(&mut leaf, bit);
        Ok(Some(Fd::from_index(number)))
    }
}

/// How a walk over leaves that are full ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// At a leaf that has room.
    Room,
    /// With the budget used up.
    Interrupted,
}

/// How many leaves a search may mark, copy or make before it has to release the lock of the
/// structure. Most searches need one.
#[derive(Clone, Debug)]
pub(super) struct Budget(usize);

impl Budget {
    /// Enough for as many leaves as are searched at one moment, each of them to be copied and
    /// marked.
    const MAX: usize = 2 * AT_ONCE;

    /// Returns what one hold of the lock allows: some microseconds, of which copying takes the
    /// most.
    pub(super) fn of_one_hold() -> Self {
        Self(if cfg!(loom) { 2 } else { 16 })
    }

    /// Doubles the budget, up to the largest.
    pub(super) fn double(&mut self) {
        self.0 = (self.0 * 2).min(Self::MAX);
    }

    /// Allows one leaf more.
    pub(super) fn earn(&mut self) {
        self.0 += 1;
    }

    /// Spends one leaf. Returns false if none is left.
    pub(super) fn spend(&mut self) -> bool {
        let left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        left
    }
}

/// Finds the lowest free number of a leaf from `first` on.
fn lowest_in<T: ?Sized>(
    leaf: Option<LeafGuard<'_, T>>,
    first: usize,
) -> Option<(LeafGuard<'_, T>, usize)> {
    let leaf = leaf?;
    let bit = leaf.open.lowest_clear(first)?;
    Some((leaf, bit))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{FileRef, Files};

    /// A table whose descriptors below `LEAVES * 64` were all opened by name, so that no search has
    /// marked a leaf of them as full.
    fn unmarked() -> Files<()> {
        let files = Files::with_limit(u32::MAX);
        let none = FdFlags::empty();
        let first = files.open(FileRef::new(()), none).expect("there is room");
        for fd in 1..(LEAVES * BITS) as RawFd {
            files.dup_to(first, fd, none).expect("there is room");
        }
        files
    }

    const LEAVES: usize = 100;

    /// How often a search begins anew before it has found the first descriptor above all leaves.
    fn holds(files: &Files<()>, mut search: impl FnMut(&mut Structure<'_, ()>) -> bool) -> usize {
        let mut structure = files.table.tree.lock();
        (0..1000)
            .position(|_| search(&mut structure))
            .expect("it comes to an end")
    }

    #[test]
    fn a_search_passes_few_leaves_in_one_hold_of_the_lock() {
        let files = unmarked();
        let table = &files.table;
        let found = |structure: &mut Structure<'_, ()>| {
            let found = table.search_lowest(structure, &mut |_, _| ());
            found.expect("there is room").is_some()
        };
        // Sixteen, and the one at which the budget is found to be used up.
        assert_eq!(holds(&files, found), LEAVES / 17);
        assert_eq!(holds(&files, found), 0, "all of them are marked");
    }

    #[test]
    fn a_search_copies_few_leaves_in_one_hold_of_the_lock() {
        let child = unmarked().fork().expect("there is memory");
        let table = &child.table;
        let found = |structure: &mut Structure<'_, ()>| {
            let found = table.search_lowest(structure, &mut |_, _| ());
            found.expect("there is room").is_some()
        };
        // A leaf that is copied and passed counts twice.
        assert_eq!(holds(&child, found), LEAVES / 8);
    }

    #[test]
    fn a_search_from_a_minimum_passes_few_leaves_in_one_hold_of_the_lock() {
        let files = unmarked();
        let table = &files.table;
        let min = Fd::new(100).expect("a descriptor");
        let found = |structure: &mut Structure<'_, ()>| {
            let found = table.search_lowest_from(structure, min, &mut |_, _| ());
            found.expect("there is room").is_some()
        };
        assert_eq!(holds(&files, found), LEAVES / 17);
    }

    #[test]
    fn what_is_interrupted_ends_with_the_right_descriptor() {
        let all = (LEAVES * BITS) as RawFd;
        let none = FdFlags::empty();
        let file = || FileRef::new(());
        assert_eq!(unmarked().open(file(), none).map(RawFd::from), Ok(all));
        assert_eq!(unmarked().open_any(file(), none).map(RawFd::from), Ok(all));
        assert_eq!(unmarked().dup_from(0, 70, none).map(RawFd::from), Ok(all));
        let files = unmarked();
        files
            .set_limit(all.unsigned_abs())
            .expect("below the hard limit");
        assert_eq!(files.open(file(), none), Err(Error::TooManyFiles));
        let files = unmarked();
        files.close(all - 1).expect("it is open");
        files.close(64).expect("it is open");
        let pair = files
            .open_pair((file(), file()), none)
            .expect("there is room");
        assert_eq!((pair.0.raw(), pair.1.raw()), (64, all - 1));
    }
}
