//! Finds the lowest free descriptor.
//!
//! The fast path takes it in the leaf of the [`Room`](fdtable_base::room)'s hint;
//! [`room`](fdtable_base::room) proves that it is the lowest. If that leaf is full, it takes it in
//! the second leaf of the hint. The slow path searches, with the lock of the structure:
//!
//! 1. Take the notices. Each names a leaf in which a descriptor was freed; the hint goes down to
//!    the lowest of them.
//! 2. Look at the leaf of the hint, with its lock. If it is full, mark it as passed, in the leaf
//!    and in the tree, and continue with the next leaf that the tree does not mark as full.
//! 3. A leaf with a free descriptor is found, and is still locked. The hint is set to it and, as
//!    its second leaf, to the next one that exists and is not marked as full. If there are notices
//!    again, start over. If not, take the descriptor.
//!
//! *Why it is the lowest.* When the leaf was locked, every leaf below it was marked as passed. If a
//! descriptor had been freed in one of them by then, a notice was left, and the check for notices
//! comes later. Only searches take notices, and only one searches at a time. So, when there are
//! none, everything below was taken when the leaf was locked; and the descriptor is the lowest of
//! its own leaf, which is locked. A lower descriptor that is freed after that is freed after this
//! open.
//!
//! *From a minimum upwards* (`F_DUPFD`) it is the same, with one leaf more. Only a part of the leaf
//! of `min` counts, so it may have room and still no descriptor to take, and then no notice reports
//! what is freed there. So that leaf stays locked until the descriptor is taken.
//!
//! Each time that the search starts over, a descriptor was closed meanwhile, or the search has used
//! up its *budget*: a table that was filled by `dup_to`, or shared by a fork, may have any number
//! of full leaves that no search has marked yet. After a few of them the search sets the hint to
//! its position, lets other threads have the lock, and continues from there.

use core::hint::cold_path;

use fdtable_base::bitmap::BITS;
use fdtable_base::counted::Ref;
use fdtable_base::room::{Hint, List, Notices};

use crate::pair::AT_ONCE;
use crate::table::{Entry, Found, LeafGuard, Mark, Structure, Way, mask, place_of, take};
use crate::{Error, Fd, FdFlags, FileRef, Files};

/// Where the tree records the leaves of the hint.
pub(crate) const FIRST: usize = 0;
const SECOND: usize = 1;

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Opens `file` at the lowest free descriptor: [reserves](Self::reserve) it and installs the
    /// file. May wait for the lock, and allocates when the table grows.
    ///
    /// To keep the file when no descriptor is free, [reserve](Self::reserve) first.
    ///
    /// # Errors
    /// EINVAL, EMFILE and ENOMEM as for [`reserve`](Self::reserve). The reference is then dropped,
    /// as a failing `open(2)` drops the file it opened.
    #[doc(alias = "fd_install")]
    #[inline]
    pub fn open(&self, file: FileRef<T>, flags: FdFlags) -> Result<Fd, Error> {
        flags.check()?;
        // Nearly always the lock of the leaf is free. Then this makes no calls.
        let opened = match self.tree.try_enter() {
            Some(entry) => self.open_hinted(&entry, file.0, flags, Way::Prompt),
            None => Err(file.0),
        };
        opened.or_else(|file| self.open_patiently(file, flags))
    }

    /// Opens `file` where [`open`](Self::open) has to block or to search. If there is an error, the
    /// file is dropped, outside of all locks.
    #[inline(never)]
    pub(crate) fn open_patiently(&self, file: Ref<T>, flags: FdFlags) -> Result<Fd, Error> {
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

    /// Opens `file` in a leaf of the hint, or returns it.
    #[inline(always)]
    pub(crate) fn open_hinted(
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
        // With a cold cache, one wait is enough for both.
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

    /// Opens `file` in a leaf of a hint, or returns it. `permit` is called with the leaf locked,
    /// and must return true.
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

    /// Finds the lowest free descriptor and takes it with `take`.
    pub(crate) fn search(
        &self,
        structure: &mut Structure<'_, T>,
        mut take: impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Fd, Error> {
        self.count_search(structure, 0, |structure| {
            self.search_lowest(structure, &mut take)
        })
    }

    /// Finds the lowest free descriptor that is `min` or more and takes it with `take`.
    pub(crate) fn search_from(
        &self,
        structure: &mut Structure<'_, T>,
        min: Fd,
        mut take: impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Fd, Error> {
        self.count_search(structure, min.index(), |structure| {
            self.search_lowest_from(structure, min, &mut take)
        })
    }

    /// Finds the lowest free descriptor and takes it with `take`. Returns nothing if the search has
    /// to begin anew, also if it needs more steps than one hold of the lock allows.
    pub(crate) fn search_lowest(
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

    /// Finds the first leaf with a free descriptor and passes it, locked, to `take`. The other
    /// arguments are its index and the set of its free descriptors below the limit, which is not
    /// empty. At that time everything below the leaf is taken.
    ///
    /// Returns nothing if the search has to begin anew: a descriptor was closed meanwhile, or the
    /// budget is used up. All leaves that it passed are marked, so the next search continues from
    /// there.
    pub(crate) fn search_first<R>(
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
        // Opens of any descriptor move elsewhere, so that the two do not write one line.
        leaf.state_mut().claim = 0;
        Ok(Some(take(&mut leaf, index, free)))
    }

    /// Returns the set of the descriptors of a leaf that are below the limit.
    pub(crate) fn below_limit(&self, index: usize) -> u64 {
        let count = self.room.limit().saturating_sub(index * BITS);
        let last = count.checked_sub(1);
        last.map_or(0, |last| mask(0, last.min(BITS - 1)))
    }

    /// Finds the first leaf at or after `index` that has room. Makes sure that it can be written,
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

    /// Returns a value if a descriptor is free. May release the lock of the structure briefly
    /// before its last check.
    pub(crate) fn has_free(&self, structure: &mut Structure<'_, T>) -> Result<Option<()>, Error> {
        loop {
            if self.would_end_one(structure) {
                return Ok(Some(()));
            }
            let mut index = self.take_notices(structure);
            let found = self.find_room(structure, &mut index, &mut Budget::of_one_hold());
            // Before the hint is set: that may remove leaves.
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

    /// Marks a leaf as passed if it is full, and returns true if it is.
    pub(crate) fn pass_over(
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
        // A notice that was left meanwhile stays, and makes the search start over.
        if leaf.state().mark == Mark::Open {
            leaf.state_mut().mark = Mark::Passed;
            structure.mark_full(index);
        }
        Ok(true)
    }

    /// Does the same as [`search_lowest`](Self::search_lowest) from `min` upwards.
    pub(crate) fn search_lowest_from(
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
        // The lower one first. If it is another leaf, it stays locked until the descriptor is
        // taken.
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

/// How a walk over full leaves ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// A leaf with room was found.
    Room,
    /// The budget is used up.
    Interrupted,
}

/// The number of leaves that a search may process in one hold of the lock. It counts leaves that
/// are marked, copied or made before the lock of the structure has to be released. Most searches
/// need one.
#[derive(Clone, Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    /// Enough for the leaves of one atomic reservation: to copy and mark each.
    const MAX: usize = 2 * AT_ONCE;

    /// Returns the budget of one hold of the lock: some microseconds, mostly for copies.
    pub(crate) fn of_one_hold() -> Self {
        Self(if cfg!(loom) { 2 } else { 16 })
    }

    /// Doubles the budget, up to the largest.
    pub(crate) fn double(&mut self) {
        self.0 = (self.0 * 2).min(Self::MAX);
    }

    /// Allows one leaf more.
    pub(crate) fn earn(&mut self) {
        self.0 += 1;
    }

    /// Spends one leaf. Returns false if none is left.
    pub(crate) fn spend(&mut self) -> bool {
        let left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        left
    }
}

/// Finds the lowest free descriptor of a leaf from `first` on.
fn lowest_in<T: ?Sized>(
    leaf: Option<LeafGuard<'_, T>>,
    first: usize,
) -> Option<(LeafGuard<'_, T>, usize)> {
    let leaf = leaf?;
    let bit = leaf.open.lowest_clear(first)?;
    Some((leaf, bit))
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Notes that a descriptor of the leaf of `index` was freed.
    #[inline(always)]
    pub(crate) fn note_freed(&self, leaf: &mut LeafGuard<'_, T>, index: usize) -> Notices {
        match leaf.state().mark {
            Mark::Noticed => Notices::Few,
            Mark::Open if leaf.open.bits() != 0 => Notices::Few,
            Mark::Open | Mark::Passed => self.leave_notice(leaf, index),
        }
    }

    /// Leaves a notice of a leaf, unless it is open and may be empty. So the leaf was passed over,
    /// or is empty and neither claimed nor hinted at.
    #[cold]
    fn leave_notice(&self, leaf: &mut LeafGuard<'_, T>, index: usize) -> Notices {
        if leaf.state().mark == Mark::Open && self.may_be_empty(leaf, index) {
            return Notices::Few;
        }
        leaf.state_mut().mark = Mark::Noticed;
        self.room
            .leave_notice(index, |next| leaf.state_mut().next_notice = next)
    }

    /// Returns true if a leaf stays when it is empty: an open there is likely soon.
    #[inline(always)]
    pub(crate) fn may_be_empty(&self, leaf: &LeafGuard<'_, T>, index: usize) -> bool {
        index == 0 || leaf.state().claim != 0 || self.room.is_hinted(index)
    }

    /// Takes the notices if they are many. If another thread holds the lock of the structure, that
    /// thread will take them.
    #[inline(always)]
    pub(crate) fn look_at(&self, notices: Notices) {
        if notices == Notices::Many {
            self.look_now();
        }
    }

    #[cold]
    fn look_now(&self) {
        if let Some(mut structure) = self.tree.try_lock() {
            self.settle(&mut structure);
        }
    }

    /// Takes all notices without a search, and returns the first leaf of the new hint.
    pub(crate) fn settle(&self, structure: &mut Structure<'_, T>) -> usize {
        let hint = self.take_notices(structure);
        self.hint_at(structure, hint);
        hint
    }

    /// Sets the hint to a leaf. All leaves below are passed, and every notice left since
    /// [`begin_search`](fdtable_base::room::Room::begin_search) was taken.
    pub(crate) fn hint_at(&self, structure: &mut Structure<'_, T>, index: usize) {
        let second = self.choose_second(structure, index);
        // It may not exist. A thread that removes or copies a leaf holds the lock of the structure,
        // which this thread holds now.
        drop(structure.lock_leaf(index));
        self.room.set_hint(index, second);
    }

    /// Chooses the second leaf for a hint that begins with `first`: the next one that is not
    /// passed, if it exists and no CPU has claimed it. Otherwise opens of the lowest descriptor
    /// would write the cache lines of another CPU. Where descriptors are opened one after another
    /// it does not exist. Records both in the tree, at [`FIRST`](super::lowest) and `SECOND`. The
    /// caller locks the first, and sets the hint.
    pub(crate) fn choose_second(
        &self,
        structure: &mut Structure<'_, T>,
        first: usize,
    ) -> Option<usize> {
        let next = structure.next_not_full(first + 1);
        let is_claimed = |leaf: LeafGuard<'_, T>| leaf.state().claim != 0;
        let second = structure
            .leaf(next)
            .filter(|_| !structure.lock_leaf(next).is_some_and(is_claimed))
            .map(|_| next);
        structure.set_recent([first, second.unwrap_or(0)]);
        let before = self.room.second();
        if before != second
            && let Some(before) = before
        {
            Self::leave_idle(structure, before, [first, second.unwrap_or(first)]);
        }
        second
    }

    /// Takes all notices, unmarks their leaves and leaves the empty ones idle. Returns the first
    /// leaf of the new hint, which the caller sets by [`hint_at`](Self::hint_at).
    pub(crate) fn take_notices(&self, structure: &mut Structure<'_, T>) -> usize {
        self.room.begin_search();
        let mut hint = self.room.hinted();
        while let Some(list) = self.room.take_notices() {
            let mut next = Some(list);
            while let Some(list) = next {
                let index = list.first();
                next = Self::take_notice(structure, index);
                // The search looks at the lower one next, so it stays; the other may be removed if
                // it is empty.
                let lower = index.min(hint);
                Self::leave_idle(structure, index.max(hint), [lower; 2]);
                hint = lower;
            }
        }
        hint
    }

    /// Takes the notice of a leaf, and returns the rest of its list.
    fn take_notice(structure: &Structure<'_, T>, index: usize) -> Option<List> {
        let leaf = structure.lock_leaf(index);
        debug_assert!(leaf.is_some(), "a leaf with a notice stays");
        let mut leaf = leaf?;
        leaf.state_mut().mark = Mark::Open;
        structure.mark_free(index);
        List::of(leaf.state().next_notice)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::RawFd;

    /// Makes a table whose descriptors below `LEAVES * 64` were all opened by `dup_to`. So no
    /// search has marked one of its leaves as full.
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

    /// Counts how often a search begins anew. The search is for the first descriptor above all
    /// leaves.
    fn holds(files: &Files<()>, mut search: impl FnMut(&mut Structure<'_, ()>) -> bool) -> usize {
        let mut structure = files.tree.lock();
        (0..1000)
            .position(|_| search(&mut structure))
            .expect("it comes to an end")
    }

    #[test]
    fn a_search_passes_few_leaves_in_one_hold_of_the_lock() {
        let files = unmarked();
        let table = &files;
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
        let table = &child;
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
        let table = &files;
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
