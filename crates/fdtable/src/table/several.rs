//! Several of the lowest free descriptors at one moment, or none.
//!
//! If the first leaf with a free descriptor has enough of them, they are taken like one: at the
//! moment at which [`lowest`](super::lowest) may take the first, everything below is taken and the
//! leaf is locked, so the next ones in the leaf are the next lowest.
//!
//! If they are in several leaves, the tree's gate is shut for the search. Then no thread is inside a
//! leaf, and every change waits for the lock of the structure, which the search holds: it takes the
//! lowest one by one, and all of them count as taken when the gate opens. If there are too few, it
//! frees those that it has taken, and no other thread has seen them taken.
//!
//! Shutting the gate costs a fence on all CPUs that run threads of the process. A pair pays it where
//! it crosses a leaf, once in 32 pairs that are opened in a row.
//!
//! The search has a budget for leaves that have to be marked, copied or made. If it is used up, the
//! search frees what it has taken, lets others have the lock, and begins anew: the leaves stay marked
//! and copied. The budget is doubled each time, so that a thread that forks the table again and again
//! cannot keep the search from its end.

use super::lowest::Budget;
use super::{FdTable, LeafGuard, Structure, place_of, take};
use crate::{Error, Fd, FdFlags};
use fdtable_base::bitmap::BITS;
use fdtable_base::leaf::bits_of;

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Takes as many of the lowest free descriptors as `fds` has places, or none. They have no files
    /// yet. `prepare` is called each time that the lock was taken anew; `structure` is still locked
    /// at the end.
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
                Ok(Some(Taken::TooFew)) => self.take_alone(structure, fds, flags, &budget),
                // Descriptors in quarantine are given out before the table counts as full.
                Err(Error::TooManyFiles) if self.would_end_one(structure) => {
                    self.take_alone(structure, fds, flags, &budget)
                }
                taken => taken,
            };
            if taken? == Some(Taken::All) {
                Self::count_opens(structure, fds.len());
                return Ok(());
            }
            budget = budget.doubled();
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
    fn take_alone(
        &self,
        structure: &mut Structure<'_, T>,
        fds: &mut [Fd],
        flags: FdFlags,
        budget: &Budget,
    ) -> Result<Option<Taken>, Error> {
        structure.shut_gate();
        let taken = self.take_all(structure, fds, flags, budget.doubled());
        structure.open_gate();
        taken
    }

    /// With the gate shut.
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

/// What a search has taken of what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    All,
    /// Nothing: the leaf has fewer.
    TooFew,
}

/// Takes the lowest of the free descriptors of a locked leaf, as many as `fds` has places for, and
/// returns how many.
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
