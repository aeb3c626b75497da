//! `open(2)`: the lowest free descriptor.
//!
//! Each leaf has a bit for each of its 64 descriptors, and the tree marks the leaves that a search
//! has found full. The *free hint* names the first leaf that may have a free descriptor, and maybe
//! a second one above it: every leaf below, and every leaf between the two, is full, or is on a
//! *freed-leaf list*, of which each CPU has one. [`fdtable_objects::free_hint`] has the protocol
//! between closes and opens, with its letters, and the proof that an open which finds the hint
//! unchanged took the lowest descriptor.
//!
//! - *An open* takes the lowest free descriptor in the leaf of the hint; if that leaf is full, in
//!   the second leaf. With the leaf locked, it confirms that the hint has not changed; in the first
//!   leaf of the table it need not, since nothing is lower. This is the fast path: it writes no
//!   cache line but those of the leaf and of its lock.
//! - *A close* clears the bit in the leaf. If a search has marked the leaf as full, the close also
//!   *reports* it: it puts the leaf on the list of its own CPU, and the first report after a search
//!   marks the hint. A close that empties a leaf only puts it on the list, unless the leaf stays.
//!   Each leaf is on one list at most, so two closes in different leaves write no common cache
//!   line.
//! - *A search* runs where the hint is marked or both its leaves are full, with the lock of the
//!   table:
//!   1. Drain the lists. Each leaf on them is no longer marked as full, and the hint goes down to
//!      the lowest of them.
//!   2. Look at the leaf of the hint, with its lock. If it is full, mark it, in the leaf and in the
//!      tree, and continue with the next leaf that the tree does not mark as full.
//!   3. A leaf with a free descriptor is found, and is still locked. Set the hint to it and, as its
//!      second leaf, to the next one that exists and is not marked as full. If a list has leaves
//!      again, start over. If not, take the descriptor.
//! - Now and then a thread that reports a leaf drains the lists itself: then a table's memory is
//!   freed also when no thread opens anything.
//!
//! *Why a search finds the lowest.* When the leaf was locked, every leaf below it was marked as
//! full. If a descriptor had been freed in one of them by then, it was reported, and the check of
//! the lists comes later. Only searches drain the lists, and only one searches at a time. So, if
//! the lists are empty, everything below was taken when the leaf was locked; and the descriptor is
//! the lowest of its own leaf, which is locked. A lower descriptor that is freed after that is
//! freed after this open.
//!
//! *A full table.* A search that finds nothing leaves the hint at the limit, so that the next opens
//! return EMFILE without one, and write no cache line at all.
//!
//! *From a minimum upwards* (`F_DUPFD`) it is the same, with one leaf more. Only a part of the leaf
//! of `min` counts, so it may have room and still no descriptor to take, and then no close reports
//! what it frees there. So that leaf stays locked until the descriptor is taken.
//!
//! Each time that the search starts over, a descriptor was closed meanwhile, or the search has used
//! up its *budget*: a table that was filled by `dup3`, or shared by a fork, may have any number
//! of full leaves that no search has marked yet. After a few of them the search sets the hint to
//! its position, lets other threads have the lock, and continues from there.

use fdtable_objects::free_hint::{FreedList, Reports};
use fdtable_objects::object::Ref;
use fdtable_objects::radix::leaf::NewTable;
use fdtable_sync::bitmap::BITS;
use fdtable_sync::hint::cold_path;

use crate::fd::place_of;
use crate::table::{AT_ONCE, LeafGuard, LockMode, Mark, NearLeaf, WriteGuard, mask, take};
use crate::{Error, Fd, FdData, FileRef, Files};

/// Places at which the tree records the leaves of the hint.
pub(crate) const FIRST: usize = 0;
const SECOND: usize = 1;

/// Choice of the descriptor that a search takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// The lowest free one that is this or more.
    Lowest(Fd),
    /// One of a leaf that this CPU claims: see [`open_any`](Files::open_any).
    Any,
}

impl Wanted {
    fn min(self) -> Fd {
        match self {
            Self::Lowest(min) => min,
            Self::Any => Fd::MIN,
        }
    }
}

/// Takes the descriptor of a bit in a leaf that a search has found.
pub(crate) type Take<'t, T> = dyn FnMut(&mut LeafGuard<'_, T>, usize) + 't;

/// # Opening
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Opens `file` at the lowest free descriptor: [reserves](Self::reserve) it and installs the
    /// file. `data` is flags, or [flags and a word](FdData). May wait for the lock, and allocates
    /// when the table grows, or at the first word among 64 descriptors.
    ///
    /// To keep the file when no descriptor is free, [reserve](Self::reserve) first.
    ///
    /// # Errors
    /// EINVAL, EMFILE and ENOMEM as for [`reserve`](Self::reserve). The reference is then dropped,
    /// as a failing `open(2)` drops the file it opened.
    #[doc(alias = "fd_install")]
    #[inline]
    pub fn open(&self, file: FileRef<T>, data: impl Into<FdData>) -> Result<Fd, Error> {
        let data = data.into();
        self.admit(data.flags)?;
        let file = file.0;
        // Nearly always the lock of the leaf is free. Then this makes no calls, but for that at its
        // end: no registers have to be saved.
        let opened = match self.lock_first_with_room() {
            // The lowest of the first leaf is that of the table: the hint need not be confirmed.
            Some(first) => self.open_in(Some(first.leaf), 0, |_| true, file, data),
            None => self.open_hinted(file, data, LockMode::Try, |_| true),
        };
        match opened {
            Ok(fd) => Ok(fd),
            Err(file) => self.open_blocking(file, data),
        }
    }

    /// Locks the first leaf, if the hint leads there and it seems to have room. A table with less
    /// than 64 descriptors opens all of them there.
    #[inline(always)]
    pub(crate) fn lock_first_with_room(&self) -> Option<NearLeaf<'_, T>> {
        let is_hinted = self.free_hint.hint()?.leaf() == 0;
        // Before the lock, so that a full leaf is not written.
        let has_room = is_hinted && !self.tree.is_near_full(FIRST, 0);
        has_room.then(|| self.tree.try_lock_near(FIRST, 0))?
    }

    /// Opens `file` where [`open`](Self::open) has to block or to search. If there is an error, the
    /// file is dropped, outside of all locks.
    #[inline(never)]
    pub(crate) fn open_blocking(&self, file: Ref<T>, data: FdData) -> Result<Fd, Error> {
        let opened = self.open_hinted(file, data, LockMode::Block, |_| true);
        opened.or_else(|file| {
            self.check_exhausted()?;
            self.open_searching(Wanted::Lowest(Fd::MIN), file, data)
        })
    }

    /// Opens `file` at the descriptor that a search finds. If there is an error, the file is
    /// dropped, outside of all locks.
    pub(crate) fn open_searching(
        &self,
        wanted: Wanted,
        file: Ref<T>,
        data: FdData,
    ) -> Result<Fd, Error> {
        let (_table, fd, _writer) = self.take_wanted(wanted, Some(file), data)?;
        Ok(fd)
    }

    /// Finds a free descriptor, and opens it, or reserves it if there is no file. Returns it with
    /// the lock of the table, and a table of data that was not needed, to be dropped after the
    /// lock. If there is an error, the file is dropped, outside of all locks.
    pub(crate) fn take_wanted(
        &self,
        wanted: Wanted,
        mut file: Option<Ref<T>>,
        data: FdData,
    ) -> Result<(Option<NewTable>, Fd, WriteGuard<'_, T>), Error> {
        let is_reservation = file.is_none();
        let mut table = data.new_table()?;
        let mut writer = self.tree.write();
        let mut take = |leaf: &mut LeafGuard<'_, T>, bit: usize| {
            leaf.add_table(&mut table);
            leaf.state_mut().listed |= is_reservation;
            take(leaf, bit, data, file.take());
        };
        let fd = self.count_search(&mut writer, wanted.min().index(), |writer| {
            if is_reservation {
                // In each hold of the lock: another reservation may have used the memory.
                Self::prepare_reserved(writer, 1)?;
            }
            match wanted {
                Wanted::Lowest(Fd::MIN) => self.search_lowest(writer, &mut take),
                Wanted::Lowest(min) => self.search_above(writer, min, &mut take),
                Wanted::Any => self.search_any(writer, &mut take),
            }
        })?;
        Ok((table, fd, writer))
    }

    /// Returns EMFILE if the hint shows that no descriptor is free, without a write. Threads that
    /// find a table full again and again do not disturb each other, nor its users.
    pub(crate) fn check_exhausted(&self) -> Result<(), Error> {
        // While the fast path is closed, a search may free descriptors from quarantine.
        let Some(_reader) = self.tree.read() else {
            return Ok(());
        };
        if self.free_hint.is_exhausted() {
            return Err(Error::TooManyFiles);
        }
        Ok(())
    }

    /// Opens `file` in a leaf of the hint, or returns it. If there is no file, reserves. `may` is
    /// called with the leaf locked, and must return true, unless it is the first leaf.
    #[inline(always)]
    pub(crate) fn open_hinted<F: Into<Option<Ref<T>>>>(
        &self,
        file: F,
        data: FdData,
        mode: LockMode,
        may: impl Fn(&LeafGuard<'_, T>) -> bool,
    ) -> Result<Fd, F> {
        let Some(hint) = self.free_hint.hint() else {
            cold_path();
            return Err(file);
        };
        let index = hint.leaf();
        // weaken: open-that-does-not-confirm-its-hint
        let is_confirmed = || self.free_hint.is_confirmed(hint);
        // Before the lock, so that a full leaf is not written.
        if index == 0 && !self.tree.is_near_full(FIRST, 0) {
            // The lowest of the first leaf is that of the table: the hint need not be confirmed.
            let leaf = mode.lock_near(&self.tree, FIRST, 0);
            return self.open_near(leaf, 0, |_| true, file, data);
        }
        if index != 0 && !self.tree.is_near_full(FIRST, index) {
            let leaf = mode.lock_near(&self.tree, FIRST, index);
            let permit = |leaf: &LeafGuard<'_, T>| may(leaf) && is_confirmed();
            return self.open_near(leaf, index, permit, file, data);
        }
        // (a2)
        let second = self.free_hint.second();
        let Some(second) = second.filter(|&second| !self.tree.is_near_full(SECOND, second)) else {
            cold_path();
            return Err(file);
        };
        // (e)
        // weaken: first-leaf-that-is-looked-at-once
        let is_first_full = || self.tree.is_near_full(FIRST, index);
        // A search takes over the claim, or goes elsewhere.
        let permit = |leaf: &LeafGuard<'_, T>| may(leaf) && leaf.state().claim == 0;
        let permit = |leaf: &LeafGuard<'_, T>| permit(leaf) && is_first_full() && is_confirmed();
        let leaf = mode.lock_near(&self.tree, SECOND, second);
        self.open_near(leaf, second, permit, file, data)
    }

    /// Opens `file` as [`open_in`](Self::open_in) does.
    #[inline(always)]
    fn open_near<F: Into<Option<Ref<T>>>>(
        &self,
        leaf: Option<NearLeaf<'_, T>>,
        index: usize,
        permit: impl FnOnce(&LeafGuard<'_, T>) -> bool,
        file: F,
        data: FdData,
    ) -> Result<Fd, F> {
        let Some(near) = leaf else {
            cold_path();
            return Err(file);
        };
        self.open_in(Some(near.leaf), index, permit, file, data)
    }

    /// Opens `file` at the lowest free descriptor of a leaf, or returns it. `permit` is called with
    /// the leaf locked, and must return true.
    #[inline(always)]
    pub(crate) fn open_in<F: Into<Option<Ref<T>>>>(
        &self,
        leaf: Option<LeafGuard<'_, T>>,
        index: usize,
        permit: impl FnOnce(&LeafGuard<'_, T>) -> bool,
        file: F,
        data: FdData,
    ) -> Result<Fd, F> {
        let Some((mut leaf, bit)) = lowest_in(leaf, 0) else {
            cold_path();
            return Err(file);
        };
        let number = index * BITS + bit;
        // The limit first: if it was raised, `permit` sees what was closed before.
        // weaken: limit-that-is-read-after-the-hint-is-confirmed
        if number >= self.free_hint.limit() || !permit(&leaf) {
            cold_path();
            return Err(file);
        }
        // Only a search makes a table.
        if data.needs_table() && !leaf.has_table() {
            cold_path();
            return Err(file);
        }
        take(&mut leaf, bit, data, file.into());
        Ok(Fd::from_index(number))
    }

    /// Finds the lowest free descriptor and takes it with `take`. Returns nothing if the search has
    /// to begin anew, also if it needs more steps than one hold of the lock allows.
    pub(crate) fn search_lowest(
        &self,
        writer: &mut WriteGuard<'_, T>,
        take: &mut Take<'_, T>,
    ) -> Result<Option<Fd>, Error> {
        self.search_first(writer, &mut Budget::of_one_hold(), |leaf, index, free| {
            let bit = free.trailing_zeros() as usize;
            take(leaf, bit);
            Fd::from_index(index * BITS + bit)
        })
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
        writer: &mut WriteGuard<'_, T>,
        budget: &mut Budget,
        take: impl FnOnce(&mut LeafGuard<'_, T>, usize, u64) -> R,
    ) -> Result<Option<R>, Error> {
        let before = self.hinted();
        let taken = self.search_and_take(writer, budget, take);
        self.leave_unhinted(writer, before);
        taken
    }

    fn search_and_take<R>(
        &self,
        writer: &mut WriteGuard<'_, T>,
        budget: &mut Budget,
        take: impl FnOnce(&mut LeafGuard<'_, T>, usize, u64) -> R,
    ) -> Result<Option<R>, Error> {
        let mut index = self.drain_freed(writer);
        let found = self.find_free(writer, &mut index, budget);
        let second = self.choose_second(writer, index);
        // Locked, or full or gone to the limit; and then the check of the lists.
        let leaf = writer.lock_leaf(index);
        self.free_hint.set_hint(index, second);
        if self.free_hint.is_marked() || found? == Scan::Interrupted {
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
        let count = self.free_hint.limit().saturating_sub(index * BITS);
        let last = count.checked_sub(1);
        last.map_or(0, |last| mask(0, last.min(BITS - 1)))
    }

    /// Finds the first leaf at or after `index` that has room. Makes sure that it can be written,
    /// and leaves `index` there, or where it failed or was interrupted: all leaves from the first
    /// one on up to there are full.
    pub(crate) fn find_free(
        &self,
        writer: &mut WriteGuard<'_, T>,
        index: &mut usize,
        budget: &mut Budget,
    ) -> Result<Scan, Error> {
        while *index * BITS < self.free_hint.limit() {
            if !writer.is_own(*index) && !budget.spend() {
                return Ok(Scan::Interrupted);
            }
            self.make_writable(writer, *index)?;
            if !self.mark_if_full(writer, *index)? {
                return Ok(Scan::Found);
            }
            *index = writer.next_not_full(*index + 1);
            if !budget.spend() {
                return Ok(Scan::Interrupted);
            }
        }
        Err(Error::TooManyFiles)
    }

    /// Returns true if a descriptor is free. May release the lock of the table briefly before its
    /// last check.
    pub(crate) fn has_free(&self, writer: &mut WriteGuard<'_, T>) -> Result<bool, Error> {
        loop {
            if self.can_free_one(writer) {
                return Ok(true);
            }
            let mut index = self.drain_freed(writer);
            let found = self.find_free(writer, &mut index, &mut Budget::of_one_hold());
            // Before the hint is set: that may remove leaves.
            let free = lowest_in(writer.lock_leaf(index), 0).map(|(_, bit)| index * BITS + bit);
            self.set_hint(writer, index);
            match found {
                Ok(Scan::Found) => {
                    return Ok(free.is_some_and(|number| number < self.free_hint.limit()));
                }
                Ok(Scan::Interrupted) => writer.let_others(),
                Err(Error::TooManyFiles) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Marks a leaf as full if it is. Returns true if it is full.
    pub(crate) fn mark_if_full(
        &self,
        writer: &WriteGuard<'_, T>,
        index: usize,
    ) -> Result<bool, Error> {
        if !writer.leaf(index).is_some_and(|leaf| leaf.open.is_full()) {
            return Ok(false);
        }
        self.free_hint.prepare()?;
        let Some(mut leaf) = writer.lock_leaf(index) else {
            return Ok(false);
        };
        if !leaf.open.is_full() {
            return Ok(false);
        }
        match leaf.state().mark {
            Mark::Open => {
                leaf.state_mut().mark = Mark::Full;
                writer.mark_full(index);
            }
            Mark::Full => {}
            // (p) It stays on its list, and the search starts over.
            // weaken: listed-leaf-that-a-search-passes-over
            Mark::FreedSince => self.free_hint.mark(),
        }
        Ok(true)
    }

    /// Does the same as [`search_lowest`](Self::search_lowest) from `min` upwards.
    fn search_above(
        &self,
        writer: &mut WriteGuard<'_, T>,
        min: Fd,
        take: &mut Take<'_, T>,
    ) -> Result<Option<Fd>, Error> {
        let (first, first_bit) = place_of(min.index());
        self.drain_and_hint(writer);
        self.make_writable(writer, first)?;
        let mut index = first;
        let has_room = {
            let leaf = writer.lock_leaf(first);
            lowest_in(leaf, first_bit).is_some()
        };
        let found = if has_room {
            Ok(Scan::Found)
        } else {
            index = writer.next_not_full(first + 1);
            self.find_free(writer, &mut index, &mut Budget::of_one_hold())
        };
        // The lower one first. If it is another leaf, it stays locked until the descriptor is
        // taken.
        let below = (index != first).then(|| writer.lock_leaf(first)).flatten();
        let leaf = writer.lock_leaf(index);
        let missed = below
            .as_ref()
            .is_some_and(|leaf| leaf.open.lowest_clear(first_bit).is_some());
        if missed || self.free_hint.is_marked() || found? == Scan::Interrupted {
            return Ok(None);
        }
        let bit = if index == first { first_bit } else { 0 };
        let Some((mut leaf, bit)) = lowest_in(leaf, bit) else {
            return Ok(None);
        };
        let number = index * BITS + bit;
        if number >= self.free_hint.limit() {
            return Err(Error::TooManyFiles);
        }
        take(&mut leaf, bit);
        Ok(Some(Fd::from_index(number)))
    }
}

/// How a walk over full leaves ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// A leaf with room was found.
    Found,
    /// The budget is used up.
    Interrupted,
}

/// The number of leaves that a search may process in one hold of the lock. It counts leaves that
/// are marked, copied or made before the lock of the table has to be released. Most searches
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
    /// Reports a leaf in which a descriptor was freed, if searches would skip it otherwise, or its
    /// memory would not be freed.
    #[inline(always)]
    pub(crate) fn note_freed(&self, leaf: &mut LeafGuard<'_, T>, index: usize) -> Reports {
        match leaf.state().mark {
            Mark::FreedSince => Reports::Few,
            Mark::Open if leaf.open.bits() != 0 => Reports::Few,
            Mark::Open | Mark::Full => self.report_freed(leaf, index),
        }
    }

    /// Reports a leaf that is marked as full. Lists a leaf that is open and empty, unless it stays:
    /// it is neither claimed nor hinted at.
    #[cold]
    fn report_freed(&self, leaf: &mut LeafGuard<'_, T>, index: usize) -> Reports {
        let mark = leaf.state().mark;
        if mark == Mark::Open && self.stays_when_empty(leaf, index) {
            return Reports::Few;
        }
        leaf.state_mut().mark = Mark::FreedSince;
        let set_next = |next| leaf.state_mut().next_freed = next;
        match mark {
            Mark::Full => self.free_hint.report(index, set_next),
            Mark::Open | Mark::FreedSince => self.free_hint.list(index, set_next),
        }
    }

    /// Returns true if a leaf stays when it is empty: an open there is likely soon.
    #[inline(always)]
    pub(crate) fn stays_when_empty(&self, leaf: &LeafGuard<'_, T>, index: usize) -> bool {
        index == 0 || leaf.state().claim != 0 || self.free_hint.is_hinted(index)
    }

    /// Drains the freed-leaf lists if they are long, unless another thread holds the lock of the
    /// table. Then a later search does.
    pub(crate) fn drain_if_many(&self, reports: Reports) {
        if reports == Reports::Many
            && let Some(mut writer) = self.tree.try_write()
        {
            self.drain_and_hint(&mut writer);
        }
    }

    /// Drains the lists without a search, and returns the first leaf of the new hint.
    pub(crate) fn drain_and_hint(&self, writer: &mut WriteGuard<'_, T>) -> usize {
        let hint = self.drain_freed(writer);
        self.set_hint(writer, hint);
        hint
    }

    /// Sets the hint to a leaf. All leaves below are full, and the lists were drained since
    /// [`begin_search`](fdtable_objects::free_hint::FreeHint::begin_search).
    pub(crate) fn set_hint(&self, writer: &mut WriteGuard<'_, T>, index: usize) {
        let before = self.hinted();
        let second = self.choose_second(writer, index);
        // It may not exist. A thread that removes or copies a leaf holds the lock of the table,
        // which this thread holds now.
        drop(writer.lock_leaf(index));
        self.free_hint.set_hint(index, second);
        self.leave_unhinted(writer, before);
    }

    /// Returns the leaves of the hint.
    fn hinted(&self) -> [usize; 2] {
        let first = self.free_hint.hinted();
        [first, self.free_hint.second().unwrap_or(first)]
    }

    /// Leaves those leaves idle that the hint had before, and has no more, if they are empty. A
    /// close that empties a leaf of the hint does not list it. So this is after the hint is set:
    /// a close that this does not see finds, with the lock of the leaf, the new hint.
    fn leave_unhinted(&self, writer: &mut WriteGuard<'_, T>, before: [usize; 2]) {
        let now = self.hinted();
        for index in before {
            if !now.contains(&index) {
                Self::leave_idle(writer, index, now);
            }
        }
    }

    /// Chooses the second leaf for a hint that begins with `first`: the next one that is not marked
    /// as full, if it exists and no CPU has claimed it. Otherwise opens of the lowest descriptor
    /// would write the cache lines of another CPU. If descriptors are opened one after another,
    /// it does not exist. Records both in the tree, at [`FIRST`] and [`SECOND`]. The caller locks
    /// the first, and sets the hint.
    fn choose_second(&self, writer: &mut WriteGuard<'_, T>, first: usize) -> Option<usize> {
        let next = writer.next_not_full(first + 1);
        let is_claimed = |leaf: LeafGuard<'_, T>| leaf.state().claim != 0;
        let second = writer
            .leaf(next)
            .filter(|_| !writer.lock_leaf(next).is_some_and(is_claimed))
            .map(|_| next);
        // Not those at or above the limit: in a full table, opens would lock them for nothing.
        let limit = self.free_hint.limit();
        let below_limit = |index| if index * BITS < limit { index } else { 0 };
        writer.cache_leaves([first, second.unwrap_or(0)].map(below_limit));
        second
    }

    /// Drains the freed-leaf lists, unmarks their leaves and leaves the empty ones idle. Returns
    /// the first leaf of the new hint, which the caller sets by [`set_hint`](Self::set_hint).
    pub(crate) fn drain_freed(&self, writer: &mut WriteGuard<'_, T>) -> usize {
        self.free_hint.begin_search();
        let mut hint = self.free_hint.hinted();
        while let Some(list) = self.free_hint.take_list() {
            let mut next = Some(list);
            while let Some(list) = next {
                let index = list.first();
                next = Self::drain_leaf(writer, index);
                // The search looks at the lower one next, so it stays; the other may be removed if
                // it is empty.
                let lower = index.min(hint);
                Self::leave_idle(writer, index.max(hint), [lower; 2]);
                hint = lower;
            }
        }
        hint
    }

    /// Takes a leaf from its freed-leaf list, and returns the rest of the list.
    fn drain_leaf(writer: &WriteGuard<'_, T>, index: usize) -> Option<FreedList> {
        let leaf = writer.lock_leaf(index);
        debug_assert!(leaf.is_some(), "a leaf on a list stays");
        let mut leaf = leaf?;
        leaf.state_mut().mark = Mark::Open;
        writer.mark_free(index);
        FreedList::of(leaf.state().next_freed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{FdFlags, RawFd};

    /// Makes a table whose descriptors below `LEAVES * 64` were all opened by `dup3`. So no
    /// search has marked one of its leaves as full.
    fn unmarked() -> Files<()> {
        let files = Files::with_limit(u32::MAX);
        let none = FdFlags::empty();
        let first = files.open(FileRef::new(()), none).expect("there is room");
        for fd in 1..(LEAVES * BITS) as RawFd {
            files.dup3(first, fd, none).expect("there is room");
        }
        files
    }

    const LEAVES: usize = 100;

    /// Counts how often a search begins anew. The search is for the first descriptor above all
    /// leaves.
    fn holds(files: &Files<()>, mut search: impl FnMut(&mut WriteGuard<'_, ()>) -> bool) -> usize {
        let mut writer = files.tree.write();
        (0..1000)
            .position(|_| search(&mut writer))
            .expect("it comes to an end")
    }

    #[test]
    fn a_search_passes_few_leaves_in_one_hold_of_the_lock() {
        let files = unmarked();
        let table = &files;
        let found = |writer: &mut WriteGuard<'_, ()>| {
            let found = table.search_lowest(writer, &mut |_, _| ());
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
        let found = |writer: &mut WriteGuard<'_, ()>| {
            let found = table.search_lowest(writer, &mut |_, _| ());
            found.expect("there is room").is_some()
        };
        // A leaf that is copied and marked counts twice.
        assert_eq!(holds(&child, found), LEAVES / 8);
    }

    #[test]
    fn a_search_from_a_minimum_passes_few_leaves_in_one_hold_of_the_lock() {
        let files = unmarked();
        let table = &files;
        let min = Fd::new(100).expect("a descriptor");
        let found = |writer: &mut WriteGuard<'_, ()>| {
            let found = table.search_above(writer, min, &mut |_, _| ());
            found.expect("there is room").is_some()
        };
        assert_eq!(holds(&files, found), LEAVES / 17);
    }

    #[test]
    fn freed_leaves_are_drained_later_if_the_lock_was_held() {
        // Some leaves stay idle.
        let kept = 10;
        // Reports are counted by CPU: a thread that moves to another one may not drain the lists.
        assert!((0..5).any(|_| leaves_after_closes_under_the_lock() <= kept));
    }

    /// Closes all descriptors, all but a leaf of them while the table is locked. Returns how many
    /// leaves are left.
    fn leaves_after_closes_under_the_lock() -> usize {
        let files = unmarked();
        let close = |range: core::ops::Range<usize>| {
            for fd in range {
                drop(files.close(fd as RawFd).expect("it is open"));
            }
        };
        let writer = files.tree.write();
        close(0..(LEAVES - 1) * BITS);
        drop(writer);
        close((LEAVES - 1) * BITS..LEAVES * BITS);
        let writer = files.tree.write();
        (0..LEAVES)
            .filter(|&index| writer.leaf(index).is_some())
            .count()
    }

    #[test]
    fn what_is_interrupted_ends_with_the_right_descriptor() {
        let all = (LEAVES * BITS) as RawFd;
        let none = FdFlags::empty();
        let file = || FileRef::new(());
        assert_eq!(unmarked().open(file(), none).map(RawFd::from), Ok(all));
        assert_eq!(unmarked().open_any(file(), none).map(RawFd::from), Ok(all));
        assert_eq!(unmarked().dup_min(0, 70, none).map(RawFd::from), Ok(all));
        let files = unmarked();
        files.set_limit(all.unsigned_abs());
        assert_eq!(files.open(file(), none), Err(Error::TooManyFiles));
        let files = unmarked();
        drop(files.close(all - 1).expect("it is open"));
        drop(files.close(64).expect("it is open"));
        let pair = files
            .open_pair((file(), file()), none)
            .expect("there is room");
        assert_eq!((pair.0.raw(), pair.1.raw()), (64, all - 1));
    }
}
