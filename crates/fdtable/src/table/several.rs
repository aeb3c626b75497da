//! Opens several of the lowest free descriptors atomically, or none.
//!
//! If the first leaf with a free descriptor has enough of them, they are taken like one. When
//! [`lowest`](super::lowest) may take the first, everything below is taken and the leaf is locked,
//! so the next ones in the leaf are the next lowest.
//!
//! If they are in several leaves, the tree's gate is shut for the search. Then no thread is inside
//! a leaf, and every change waits for the lock of the structure, which the search holds: it takes
//! the lowest one by one, and all of them count as taken when the gate opens. If there are too few,
//! it frees those that it has taken, and no other thread has seen them taken.
//!
//! Shutting the gate costs a fence on all CPUs that run threads of the process. A pair pays it
//! where it crosses a leaf, once in 32 pairs that are opened in a row.
//!
//! Before the gate is shut, a *survey* walks over the same leaves with the gate open, in holds of
//! the lock that are as short as those of any search. It marks full leaves and copies shared ones,
//! so the search has little left to do but to take. If other threads have undone that meanwhile,
//! the search frees the descriptors that it has taken, lets others have the lock, and begins anew
//! with a larger budget; the largest is enough for leaves that are all shared by a fork each time.

use super::lowest::{Budget, Pass};
use super::{FdTable, LeafGuard, Structure, place_of, take};
use crate::{Error, Fd, FdFlags};
use fdtable_base::bitmap::BITS;
use fdtable_base::leaf::bits_of;

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Takes as many of the lowest free descriptors as `fds` has places, or none. They have no
    /// files yet. `prepare` is called each time that the lock was taken anew; `structure` is still
    /// locked at the end.
    pub(super) fn search_several(
        &self,
        structure: &mut Structure<'_, T>,
        fds: &mut [Fd],
        flags: FdFlags,
        prepare: impl Fn(&mut Structure<'_, T>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut budget = Budget::of_one_hold();
        loop {
            self.end_due(structure);
            prepare(structure)?;
            let taken = match self.take_in_one_leaf(structure, fds, flags) {
                Ok(Some(Taken::TooFew)) => self.take_in_leaves(structure, fds, flags, &mut budget),
                // Descriptors in quarantine are given out before the table counts as full.
                Err(Error::TooManyFiles) if self.would_end_one(structure) => {
                    self.take_in_leaves(structure, fds, flags, &mut budget)
                }
                taken => taken,
            };
            if taken? == Some(Taken::All) {
                // Descriptors from quarantine are not taken in ascending order.
                fds.sort_unstable();
                Self::count_opens(structure, fds.len());
                return Ok(());
            }
            structure.let_others();
        }
    }

    /// Takes all in the first leaf with a free descriptor, if it has enough. Returns nothing if the
    /// search has to begin anew.
    fn take_in_one_leaf(
        &self,
        structure: &mut Structure<'_, T>,
        fds: &mut [Fd],
        flags: FdFlags,
    ) -> Result<Option<Taken>, Error> {
        let budget = &mut Budget::of_one_hold();
        self.search_first(structure, budget, |leaf, index, free| {
            if (free.count_ones() as usize) < fds.len() {
                return Taken::TooFew;
            }
            take_some(leaf, index, free, fds, flags);
            Taken::All
        })
    }

    /// Takes all, wherever they are, while no other thread can change the table. Returns nothing if
    /// the search has to begin anew.
    fn take_in_leaves(
        &self,
        structure: &mut Structure<'_, T>,
        fds: &mut [Fd],
        flags: FdFlags,
        budget: &mut Budget,
    ) -> Result<Option<Taken>, Error> {
        if self.survey(structure, fds.len())? == Pass::Interrupted {
            return Ok(None);
        }
        budget.double();
        structure.shut_gate();
        let taken = self.take_all(structure, fds, flags, budget.clone());
        structure.open_gate();
        taken
    }

    /// Marks and copies leaves until `count` free descriptors are found. Stops where one hold of
    /// the lock ends. The gate is open, so the result may become stale.
    fn survey(&self, structure: &mut Structure<'_, T>, count: usize) -> Result<Pass, Error> {
        let mut budget = Budget::of_one_hold();
        let mut index = self.room.hinted();
        let mut found = 0;
        while found < count && index * BITS < self.room.limit() {
            if structure.leaf(index).is_some() {
                if !structure.is_own(index) && !budget.spend() {
                    return Ok(Pass::Interrupted);
                }
                self.own(structure, index)?;
                if self.pass_over(structure, index)? && !budget.spend() {
                    return Ok(Pass::Interrupted);
                }
            }
            // A leaf that is not there is made when the descriptors are taken.
            let open = structure.leaf(index).map_or(0, |leaf| leaf.open.bits());
            found += (!open & self.below_limit(index)).count_ones() as usize;
            index = structure.next_not_full(index + 1);
        }
        Ok(Pass::Room)
    }

    /// Takes all with the gate shut.
    fn take_all(
        &self,
        structure: &mut Structure<'_, T>,
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
            match self.search_first(structure, &mut budget, |leaf, index, free| {
                take_some(leaf, index, free, rest, flags)
            }) {
                Ok(Some(some)) => {
                    taken += some;
                    // The leaf may be full now, and is to be marked.
                    budget.earn();
                }
                Ok(None) => break Ok(None),
                Err(Error::TooManyFiles) if self.end_several(structure, missing) => {}
                Err(error) => break Err(error),
            }
        };
        for fd in &fds[..taken] {
            let (index, bit) = place_of(fd.index());
            if let Some(mut leaf) = structure.lock_leaf(index) {
                // The next search takes the notices.
                let _ = self.free_in(&mut leaf, index, bit);
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
            take(leaf, bit, flags, None);
            *fd = Fd::from_index(index * BITS + bit);
        })
        .count()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::table::MAX_LIMIT;
    use crate::{Error, FdFlags, FileRef, Files};

    const NONE: FdFlags = FdFlags::empty();

    /// Makes a table whose descriptors below 64 times `leaves` were all opened by `dup_to`, except
    /// 5.
    fn unmarked(leaves: usize) -> Files<()> {
        let files = Files::with_limit(MAX_LIMIT as u32);
        let first = files.open(FileRef::new(()), NONE).expect("there is room");
        for fd in (1..(leaves * BITS) as i32).filter(|&fd| fd != 5) {
            files.dup_to(first, fd, NONE).expect("there is room");
        }
        files
    }

    #[test]
    fn a_survey_marks_few_leaves_in_one_hold_of_the_lock() {
        let files = unmarked(500);
        let table = &files.table;
        let mut structure = table.tree.lock();
        table.settle(&mut structure);
        let survey = |structure: &mut _| table.survey(structure, 2).expect("there is memory");
        let holds = (0..1000).position(|_| survey(&mut structure) == Pass::Room);
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
        files.set_limit(all as u32).expect("below the hard limit");
        let refused = files.open_pair(pair(), NONE);
        assert_eq!(refused, Err(Error::TooManyFiles));
        assert_eq!(files.open_count(), LEAVES * BITS - 1);
    }
}
