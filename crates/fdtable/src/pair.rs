//! Several descriptors at once: `pipe(2)`, `socketpair(2)`, and the messages of `SCM_RIGHTS`.
//!
//! The fast path takes both descriptors of a pair in the leaf of the free hint, with its lock. The
//! slow path first tries the same with the first leaf that has a free descriptor: every leaf below
//! is full.
//!
//! If that leaf has too few, the search finds the next one with a free descriptor, and locks both:
//! every leaf below them and between them is full, or the hint is marked. So a pair that crosses a
//! leaf, one in 32 that are opened in a row, keeps no other thread out.
//!
//! If the descriptors are in more leaves, or too few may be free, the fast path is closed for the
//! search. Then no thread is inside a leaf, and every change waits for the lock of the table, which
//! the search holds: it takes the lowest one by one, and all of them count as taken when the fast
//! path opens again. If there are too few, it frees those that it has taken, and no other thread
//! has seen them taken. Closing the fast path costs a fence on all CPUs that run threads of the
//! process.
//!
//! Before that, a *survey* walks over the same leaves with the fast path open, in holds of the lock
//! that are as short as those of any search. It marks full leaves and copies shared ones, so the
//! search has little left to do but to take. If other threads have undone that meanwhile, the
//! search frees the descriptors that it has taken, lets others have the lock, and begins anew with
//! a larger budget; the largest is enough for leaves that are all shared by a fork each time.

use alloc::vec::Vec;

use fdtable_objects::object::Ref;
use fdtable_sync::bitmap::{BITS, bits_of};
use fdtable_sync::hint::cold_path;

use crate::fd::place_of;
use crate::open::{Budget, FIRST, Scan};
use crate::table::{AT_ONCE, LeafGuard, LockMode, WriteGuard, take};
use crate::{Error, Fd, FdFlags, FileRef, Files, Reservations};

type Pair<T> = (Ref<T>, Ref<T>);

/// # Several at once
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Opens two files at the two lowest free descriptors, or neither, like `pipe(2)` and
    /// `socketpair(2)`. Both descriptors are taken atomically, and a call that fails leaves no
    /// trace: no other call sees one of them taken, unless there is no memory for
    /// [`CLOFORK`](FdFlags::CLOFORK). A lookup may find the first before the second.
    /// May wait for the lock, and allocates when the table grows.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::with_limit(3);
    /// let pipe = || (FileRef::new("read end"), FileRef::new("write end"));
    /// let (from, to) = files.open_pair(pipe(), FdFlags::empty())?;
    /// assert_eq!((*files.get(from)?, *files.get(to)?), ("read end", "write end"));
    /// assert_eq!(files.open_pair(pipe(), FdFlags::empty()), Err(Error::TooManyFiles));
    /// assert_eq!(files.open_count(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// EINVAL, EMFILE and ENOMEM as for [`reserve_many`](Self::reserve_many). Both references are
    /// then dropped.
    #[inline]
    pub fn open_pair(
        &self,
        pair: (FileRef<T>, FileRef<T>),
        flags: FdFlags,
    ) -> Result<(Fd, Fd), Error> {
        self.admit(flags)?;
        if flags.contains(FdFlags::CLOFORK) {
            return self.open_pair_reserved(pair, flags);
        }
        let pair = (pair.0.0, pair.1.0);
        let opened = self
            .open_pair_hinted(pair, flags, LockMode::Try)
            .or_else(|pair| self.open_pair_hinted(pair, flags, LockMode::Block));
        opened.or_else(|pair| self.open_pair_searching(pair, flags))
    }

    /// The number of descriptors that [`reserve_many`](Self::reserve_many) reserves atomically:
    /// 256, more than one message of `SCM_RIGHTS` carries.
    pub const RESERVED_AT_ONCE: usize = AT_ONCE;

    /// Reserves the `count` lowest free descriptors, or none. May wait for the lock, and allocates.
    ///
    /// Up to [`RESERVED_AT_ONCE`](Self::RESERVED_AT_ONCE) descriptors are reserved atomically, and
    /// a call that fails then leaves no trace: no other call sees one of them taken. A larger count
    /// is reserved in steps of that size, each atomic, so that the lock is never held for long. If
    /// such a call fails in a later step, other threads may have found the descriptors of the
    /// earlier steps taken, and a [quarantine](Self::set_quarantine) counts them as opens. So may
    /// a call with [`CLOFORK`](FdFlags::CLOFORK) that fails with ENOMEM.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if a flag is unknown.
    /// - [`Error::TooManyFiles`] (EMFILE) if fewer than `count` descriptors are free below the
    ///   limit.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow, or there is no memory for the list
    ///   of descriptors.
    pub fn reserve_many(&self, count: usize, flags: FdFlags) -> Result<Reservations<'_, T>, Error> {
        self.admit(flags)?;
        let mut fds = Vec::new();
        if count > self.free_hint.limit() {
            return Err(Error::TooManyFiles);
        }
        fds.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
        self.reserve_in_steps(count, &mut fds, flags - FdFlags::CLOFORK)?;
        let reserved = Reservations {
            files: self,
            fds: fds.into_iter(),
        };
        if flags.contains(FdFlags::CLOFORK) {
            let mut each = reserved.fds().iter();
            each.try_for_each(|&fd| self.set_reserved_data(fd, flags.into()))?;
        }
        Ok(reserved)
    }

    /// Opens both with flags that need tables of data.
    #[cold]
    fn open_pair_reserved(
        &self,
        pair: (FileRef<T>, FileRef<T>),
        flags: FdFlags,
    ) -> Result<(Fd, Fd), Error> {
        let both = self.reserve_many(2, flags)?;
        let (first, second) = (both.fds()[0], both.fds()[1]);
        for (reserved, file) in both.zip([pair.0, pair.1]) {
            reserved.install(file);
        }
        Ok((first, second))
    }

    /// Opens both in the first leaf of the hint, if it has room for them, or returns them.
    #[inline(always)]
    fn open_pair_hinted(
        &self,
        pair: Pair<T>,
        flags: FdFlags,
        mode: LockMode,
    ) -> Result<(Fd, Fd), Pair<T>> {
        let hint = self.free_hint.hint();
        let hint = hint.filter(|hint| !self.tree.is_near_full(FIRST, hint.leaf()));
        let locked = hint.and_then(|hint| {
            let near = mode.lock_near(&self.tree, FIRST, hint.leaf())?;
            Some((hint, near))
        });
        let Some((hint, near)) = locked else {
            cold_path();
            return Err(pair);
        };
        let (mut leaf, index) = (near.leaf, hint.leaf());
        let two_from = |first| Some((first, leaf.open.lowest_clear(first + 1)?));
        let two = leaf.open.lowest_clear(0).and_then(two_from);
        // The limit first, as in an open. Below the first leaf is nothing.
        let may = |last| {
            let is_below_limit = index * BITS + last < self.free_hint.limit();
            // weaken: pair-that-does-not-confirm-its-hint
            is_below_limit && (index == 0 || self.free_hint.is_confirmed(hint))
        };
        let Some((first, second)) = two.filter(|two| may(two.1)) else {
            cold_path();
            return Err(pair);
        };
        take(&mut leaf, first, flags.into(), Some(pair.0));
        take(&mut leaf, second, flags.into(), Some(pair.1));
        let fd_of = |bit| Fd::from_index(index * BITS + bit);
        Ok((fd_of(first), fd_of(second)))
    }

    /// Opens both wherever they are. If there is an error, both are dropped, outside of all locks.
    #[inline(never)]
    fn open_pair_searching(&self, mut pair: Pair<T>, flags: FdFlags) -> Result<(Fd, Fd), Error> {
        let mut fds = [Fd::MIN; 2];
        let mut writer = self.tree.write();
        // While this thread waited for the lock, another one may have moved the hint. An argument
        // is dropped after the lock is released.
        pair = match self.open_pair_hinted(pair, flags, LockMode::Try) {
            Ok(fds) => return Ok(fds),
            Err(pair) => pair,
        };
        // Until the files are there, a call that asks for one of them by name finds it reserved.
        self.search_several(&mut writer, &mut fds, flags, |_| Ok(()))?;
        let [first, second] = fds;
        Self::install_locked(&writer, first, pair.0);
        Self::install_locked(&writer, second, pair.1);
        Ok((first, second))
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Reserves the `count` lowest free descriptors, or none, in atomic steps of [`AT_ONCE`]. `fds`
    /// is empty and has room for all.
    fn reserve_in_steps(
        &self,
        count: usize,
        fds: &mut Vec<Fd>,
        flags: FdFlags,
    ) -> Result<(), Error> {
        let mut writer = self.tree.write();
        while fds.len() < count {
            let reserved = fds.len();
            if reserved > 0 {
                writer.let_others();
            }
            // Step by step, so that a count that is refused soon does not write memory for all.
            fds.resize(count.min(reserved + AT_ONCE), Fd::MIN);
            let some = &mut fds[reserved..];
            let count = some.len();
            if let Err(error) = self.search_several(&mut writer, some, flags, |writer| {
                Ok(Self::prepare_reserved(writer, count)?)
            }) {
                fds.truncate(reserved);
                self.unreserve_locked(writer, fds);
                return Err(error);
            }
            for fd in some {
                Self::list_reserved(&mut writer, place_of(fd.index()).0);
            }
        }
        drop(writer);
        fds.sort_unstable();
        Ok(())
    }

    /// Takes as many of the lowest free descriptors as `fds` has places, or none. They have no
    /// files yet. `prepare` is called each time that the lock was taken anew; `writer` is still
    /// locked at the end.
    fn search_several(
        &self,
        writer: &mut WriteGuard<'_, T>,
        fds: &mut [Fd],
        flags: FdFlags,
        prepare: impl Fn(&mut WriteGuard<'_, T>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut budget = Budget::of_one_hold();
        loop {
            self.free_due(writer);
            prepare(writer)?;
            let taken = match self.take_in_one_leaf(writer, fds, flags) {
                Ok(Some(Taken::TooFew)) => match self.take_in_two_leaves(writer, fds, flags) {
                    Ok(Some(Taken::TooFew)) => self.take_in_leaves(writer, fds, flags, &mut budget),
                    taken => taken,
                },
                // Descriptors in quarantine are given out before the table counts as full.
                Err(Error::TooManyFiles) if self.can_free_one(writer) => {
                    self.take_in_leaves(writer, fds, flags, &mut budget)
                }
                taken => taken,
            };
            if taken? == Some(Taken::All) {
                // Descriptors from quarantine are not taken in ascending order.
                fds.sort_unstable();
                Self::count_opens(writer, fds.len());
                return Ok(());
            }
            writer.let_others();
        }
    }

    /// Takes all in the first leaf with a free descriptor, if it has enough. Returns nothing if the
    /// search has to begin anew.
    fn take_in_one_leaf(
        &self,
        writer: &mut WriteGuard<'_, T>,
        fds: &mut [Fd],
        flags: FdFlags,
    ) -> Result<Option<Taken>, Error> {
        let budget = &mut Budget::of_one_hold();
        self.search_first(writer, budget, |leaf, index, free| {
            if (free.count_ones() as usize) < fds.len() {
                return Taken::TooFew;
            }
            take_some(leaf, index, free, fds, flags);
            Taken::All
        })
    }

    /// Takes all in the leaf of the hint and the next one with a free descriptor, if these have
    /// enough. Returns nothing if the search has to begin anew.
    fn take_in_two_leaves(
        &self,
        writer: &mut WriteGuard<'_, T>,
        fds: &mut [Fd],
        flags: FdFlags,
    ) -> Result<Option<Taken>, Error> {
        let first = self.free_hint.hinted();
        let mut next = writer.next_not_full(first + 1);
        match self.find_free(writer, &mut next, &mut Budget::of_one_hold()) {
            Ok(Scan::Found) => {}
            Ok(Scan::Interrupted) => return Ok(None),
            Err(Error::TooManyFiles) => return Ok(Some(Taken::TooFew)),
            Err(error) => return Err(error),
        }
        // The lower one first. With both locked, the check of the lists: everything below them and
        // between them is taken.
        let leaves = [writer.lock_leaf(first), writer.lock_leaf(next)];
        // weaken: pair-that-does-not-look-at-the-mark
        if self.free_hint.is_marked() {
            return Ok(None);
        }
        let [Some(mut first_leaf), Some(mut next_leaf)] = leaves else {
            return Ok(None);
        };
        let free_of = |leaf: &LeafGuard<'_, T>, index| !leaf.open.bits() & self.below_limit(index);
        let free = [free_of(&first_leaf, first), free_of(&next_leaf, next)];
        if ((free[0].count_ones() + free[1].count_ones()) as usize) < fds.len() {
            return Ok(Some(Taken::TooFew));
        }
        let taken = take_some(&mut first_leaf, first, free[0], fds, flags);
        take_some(&mut next_leaf, next, free[1], &mut fds[taken..], flags);
        Ok(Some(Taken::All))
    }

    /// Takes all, wherever they are, while no other thread can change the table. Returns nothing if
    /// the search has to begin anew.
    fn take_in_leaves(
        &self,
        writer: &mut WriteGuard<'_, T>,
        fds: &mut [Fd],
        flags: FdFlags,
        budget: &mut Budget,
    ) -> Result<Option<Taken>, Error> {
        if self.survey(writer, fds.len())? == Scan::Interrupted {
            return Ok(None);
        }
        budget.double();
        writer.exclude_readers();
        let taken = self.take_all(writer, fds, flags, budget.clone());
        writer.admit_readers();
        taken
    }

    /// Marks and copies leaves until `count` free descriptors are found. Stops where one hold of
    /// the lock ends. The fast path is open, so the result may become stale.
    fn survey(&self, writer: &mut WriteGuard<'_, T>, count: usize) -> Result<Scan, Error> {
        let mut budget = Budget::of_one_hold();
        let mut index = self.free_hint.hinted();
        let mut found = 0;
        while found < count && index * BITS < self.free_hint.limit() {
            if writer.leaf(index).is_some() {
                if !writer.is_own(index) && !budget.spend() {
                    return Ok(Scan::Interrupted);
                }
                self.make_writable(writer, index)?;
                if self.mark_if_full(writer, index)? && !budget.spend() {
                    return Ok(Scan::Interrupted);
                }
            }
            // A leaf that is not there is made when the descriptors are taken.
            let open = writer.leaf(index).map_or(0, |leaf| leaf.open.bits());
            found += (!open & self.below_limit(index)).count_ones() as usize;
            index = writer.next_not_full(index + 1);
        }
        Ok(Scan::Found)
    }

    /// Takes all with the fast path closed.
    fn take_all(
        &self,
        writer: &mut WriteGuard<'_, T>,
        fds: &mut [Fd],
        flags: FdFlags,
        mut budget: Budget,
    ) -> Result<Option<Taken>, Error> {
        let mut taken = 0;
        let outcome = loop {
            let rest = &mut fds[taken..];
            if rest.is_empty() {
                return Ok(Some(Taken::All));
            }
            let missing = rest.len();
            match self.search_first(writer, &mut budget, |leaf, index, free| {
                take_some(leaf, index, free, rest, flags)
            }) {
                Ok(Some(some)) => {
                    taken += some;
                    // The leaf may be full now, and needs its mark.
                    budget.earn();
                }
                Ok(None) => break Ok(None),
                Err(Error::TooManyFiles) if self.free_several(writer, missing) => {}
                Err(error) => break Err(error),
            }
        };
        for fd in &fds[..taken] {
            let (index, bit) = place_of(fd.index());
            if let Some(mut leaf) = writer.lock_leaf(index) {
                // The next search drains the lists.
                let _ = self.free_without_file(&mut leaf, index, bit);
            }
        }
        outcome
    }
}

/// How many of the wanted descriptors a search has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    All,
    /// Nothing: the leaf has fewer.
    TooFew,
}

/// Takes the lowest free descriptors of a locked leaf, and returns how many. It takes as many as
/// `fds` has places for.
fn take_some<T: ?Sized>(
    leaf: &mut LeafGuard<'_, T>,
    index: usize,
    free: u64,
    fds: &mut [Fd],
    flags: FdFlags,
) -> usize {
    fds.iter_mut()
        .zip(bits_of(free))
        .map(|(fd, bit)| {
            take(leaf, bit, flags.into(), None);
            *fd = Fd::from_index(index * BITS + bit);
        })
        .count()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::sync::{Arc, Weak};

    use super::*;
    use crate::table::MAX_LIMIT;
    use crate::{Error, FdFlags, FileRef, Files};

    const NONE: FdFlags = FdFlags::empty();

    /// Makes a table whose descriptors below 64 times `leaves` were all opened by `dup3`, except
    /// 5.
    fn unmarked(leaves: usize) -> Files<()> {
        let files = Files::with_limit(MAX_LIMIT as u32);
        let first = files.open(FileRef::new(()), NONE).expect("there is room");
        for fd in (1..(leaves * BITS) as i32).filter(|&fd| fd != 5) {
            files.dup3(first, fd, NONE).expect("there is room");
        }
        files
    }

    /// Takes the lock of its table when it is dropped.
    struct Locks(Weak<Files<Locks>>);

    impl Drop for Locks {
        fn drop(&mut self) {
            if let Some(files) = self.0.upgrade() {
                let _ = files.reserve_many(1, NONE);
            }
        }
    }

    #[test]
    fn a_pair_that_is_refused_is_dropped_outside_of_the_lock() {
        let files = Arc::new(Files::with_limit(1));
        let file = || FileRef::new(Locks(Arc::downgrade(&files)));
        let refused = files.open_pair((file(), file()), NONE);
        assert_eq!(refused, Err(Error::TooManyFiles));
    }

    #[test]
    fn a_survey_marks_few_leaves_in_one_hold_of_the_lock() {
        let files = unmarked(500);
        let table = &files;
        let mut writer = table.tree.write();
        table.drain_and_hint(&mut writer);
        let survey = |writer: &mut _| table.survey(writer, 2).expect("there is memory");
        let holds = (0..1000).position(|_| survey(&mut writer) == Scan::Found);
        // The first leaf has room, and the last one that a hold marks is the seventeenth.
        assert_eq!(holds, Some(499 / 17));
    }

    /// The leaves need more holds of the lock than a doubling `usize` has bits.
    #[test]
    fn a_pair_is_opened_around_any_number_of_leaves_that_no_search_has_marked() {
        const LEAVES: usize = 1200;
        let all = (LEAVES * BITS) as i32;
        let pair = || (FileRef::new(()), FileRef::new(()));
        let files = unmarked(LEAVES);
        let child = files.fork().expect("there is memory");
        for files in [files, child] {
            let (one, two) = files.open_pair(pair(), NONE).expect("there is room");
            assert_eq!((one.raw(), two.raw()), (5, all));
        }
        let files = unmarked(LEAVES);
        let many = files.reserve_many(100, NONE).expect("there is room");
        assert_eq!(many.fds().first().map(|fd| fd.raw()), Some(5));
        assert_eq!(many.fds().last().map(|fd| fd.raw()), Some(all + 98));
        drop(many);
        files.set_limit(all as u32);
        let refused = files.open_pair(pair(), NONE);
        assert_eq!(refused, Err(Error::TooManyFiles));
        assert_eq!(files.open_count(), LEAVES * BITS - 1);
    }
}
