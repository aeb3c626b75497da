//! The lowest free number.
//!
//! The short way takes it in the leaf that the [`Room`](fdtable_base::room) hints at, and
//! [`room`](fdtable_base::room) tells why that one is the lowest. If that leaf is full, it takes it in
//! the second leaf of the hint. The long way searches, with the lock of the structure:
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
//! Each time that the search starts over, somebody has closed a descriptor.

use core::hint::cold_path;

use fdtable_base::bitmap::BITS;
use fdtable_base::counted::Ref;
use fdtable_base::rcu;
use fdtable_base::room::Hint;

use super::{Entry, FdTable, Found, LeafGuard, Mark, Structure, Way, index_of, place_of, take};
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

    /// Finds the lowest free number, and has it taken.
    pub(super) fn search(
        &self,
        structure: &mut Structure<'_, T>,
        mut take: impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Fd, Error> {
        self.count_search(structure, 0, |structure| {
            self.search_lowest(structure, &mut take)
        })
    }

    /// Finds the lowest free number that is `min` or more, and has it taken.
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

    pub(super) fn search_lowest(
        &self,
        structure: &mut Structure<'_, T>,
        take: &mut impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Fd, Error> {
        loop {
            let mut index = self.take_notices(structure);
            let found = self.find_room(structure, &mut index);
            let second = self.choose_second(structure, index);
            // Locked, or full or gone to the limit; and then a look for notices.
            let leaf = structure.lock_leaf(index);
            self.room.set_hint(index, second);
            if self.room.has_notices() {
                continue;
            }
            found?;
            // Somebody who wanted this very number may have been faster.
            let Some((mut leaf, bit)) = lowest_in(leaf, 0) else {
                continue;
            };
            let number = index * BITS + bit;
            if number >= self.room.limit() {
                return Err(Error::TooManyFiles);
            }
            // Who allocates any number here goes elsewhere, so that the two do not write one line.
            leaf.state_mut().claim = 0;
            take(&mut leaf, bit);
            return Ok(Fd::from_index(number));
        }
    }

    /// Finds the first leaf at or after `index` that has room, makes sure that it can be written,
    /// and leaves `index` there, or where it failed: all leaves from the first one on up to there
    /// were passed over.
    fn find_room(&self, structure: &mut Structure<'_, T>, index: &mut usize) -> Result<(), Error> {
        while *index * BITS < self.room.limit() {
            self.own(structure, *index)?;
            if !self.pass_over(structure, *index)? {
                return Ok(());
            }
            *index = structure.next_not_full(*index + 1);
        }
        Err(Error::TooManyFiles)
    }

    /// Tells whether a number is free.
    pub(crate) fn has_free(&self, structure: &mut Structure<'_, T>) -> Result<Option<()>, Error> {
        if self.would_end_one(structure) {
            return Ok(Some(()));
        }
        let mut index = self.take_notices(structure);
        let found = self.find_room(structure, &mut index);
        // Before the hint is set: that may take out leaves.
        let free = lowest_in(structure.lock_leaf(index), 0).map(|(_, bit)| index * BITS + bit);
        self.hint_at(structure, index);
        match found {
            Ok(()) => Ok(free
                .filter(|&number| number < self.room.limit())
                .map(|_| ())),
            Err(Error::TooManyFiles) => Ok(None),
            Err(error) => Err(error),
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

    fn search_lowest_from(
        &self,
        structure: &mut Structure<'_, T>,
        min: Fd,
        take: &mut impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Fd, Error> {
        let (first, first_bit) = place_of(min.index());
        loop {
            self.settle(structure);
            self.own(structure, first)?;
            let mut index = first;
            let has_room = {
                let leaf = structure.lock_leaf(first);
                lowest_in(leaf, first_bit).is_some()
            };
            let found = if has_room {
                Ok(())
            } else {
                index = structure.next_not_full(first + 1);
                self.find_room(structure, &mut index)
            };
            // The lower one first. It is held, if it is another, until the number is taken.
            let below = (index != first)
                .then(|| structure.lock_leaf(first))
                .flatten();
            let leaf = structure.lock_leaf(index);
            let missed = below
                .as_ref()
                .is_some_and(|leaf| leaf.open.lowest_clear(first_bit).is_some());
            if missed || self.room.has_notices() {
                continue;
            }
            found?;
            let bit = if index == first { first_bit } else { 0 };
            let Some((mut leaf, bit)) = lowest_in(leaf, bit) else {
                continue;
            };
            let number = index * BITS + bit;
            if number >= self.room.limit() {
                return Err(Error::TooManyFiles);
            }
            take(&mut leaf, bit);
            return Ok(Fd::from_index(number));
        }
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
