//! Any free number: each processor allocates in a leaf of its own.
//!
//! A processor *claims* a leaf, and from then on opens of any number that run there take numbers
//! of that leaf: no line is written that another processor writes. When it is full, the processor
//! gives it up and claims the first leaf above the one where searches for the lowest number are,
//! that has room and that nobody has claimed.
//!
//! The others are hardly disturbed. A search for the lowest number sees a claimed leaf as any
//! other, and takes over the claim when it gets there, so that the two do not go on writing the
//! same lines. Closing writes the number's own leaf, from any processor.
//!
//! *How sparse it gets.* A leaf is claimed when every unclaimed one between the hint and it is
//! full. So, at the moment of a claim, the numbers up to the new one are taken but for what is free
//! in the leaves that are claimed, one for each processor, and in the leaf of the hint. With *n*
//! numbers taken at that moment, those of the leaf are below *n* + 64 × (processors + 2). Closing
//! leaves holes, which the next claims fill from below; a claim stays until its leaf is full.
//!
//! *When a processor falls idle*, its leaf stays claimed: at most 64 numbers, and the memory of one
//! leaf, for each. They are not lost: when nothing else is free below the limit, the number is
//! taken wherever there is one.

use core::hint::cold_path;

use fdtable_base::bitmap::BITS;
use fdtable_base::counted::Ref;

use super::lowest::Budget;
use super::{FdTable, LeafGuard, Structure, Way, take};
use crate::{Error, Fd, FdFlags};

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Opens `file` under any free number.
    ///
    /// If there is an error, the file is dropped, outside of all locks.
    #[inline]
    pub(crate) fn open_any(&self, file: Ref<T>, flags: FdFlags) -> Result<Fd, Error> {
        // Nearly always the lock of the leaf is free. Then nothing is called.
        let opened = self.open_claimed(file, flags, Way::Prompt);
        opened.or_else(|file| self.open_any_patiently(file, flags))
    }

    #[inline(never)]
    fn open_any_patiently(&self, file: Ref<T>, flags: FdFlags) -> Result<Fd, Error> {
        let opened = self.open_claimed(file, flags, Way::Patient);
        opened.or_else(|file| {
            let mut file = Some(file);
            let mut structure = self.tree.lock();
            let found = self.search_any(&mut structure, |leaf, bit| {
                take(leaf, bit, flags, file.take());
            });
            drop(structure);
            found
        })
    }

    /// Opens `file` in the leaf that this processor has claimed, or gives it back.
    #[inline(always)]
    fn open_claimed(&self, file: Ref<T>, flags: FdFlags, way: Way) -> Result<Fd, Ref<T>> {
        let Some(entry) = way.enter(&self.tree) else {
            return Err(file);
        };
        let Some((index, cpu)) = self.room.claimed() else {
            cold_path();
            return Err(file);
        };
        let Some(mut leaf) = way.lock_by_walk(&entry, index) else {
            cold_path();
            return Err(file);
        };
        let Some(bit) = leaf.open.lowest_clear(0) else {
            cold_path();
            return Err(file);
        };
        let number = index * BITS + bit;
        if leaf.state().claim != claim_of(cpu) || number >= self.room.limit() {
            cold_path();
            return Err(file);
        }
        take(&mut leaf, bit, flags, Some(file));
        Ok(Fd::from_index(number))
    }

    fn search_any(
        &self,
        structure: &mut Structure<'_, T>,
        mut take: impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Fd, Error> {
        self.count_search(structure, 0, |structure| self.claim(structure, &mut take))
    }

    /// Claims a leaf for this processor, and has a number of it taken.
    fn claim(
        &self,
        structure: &mut Structure<'_, T>,
        take: &mut impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Option<Fd>, Error> {
        self.room.prepare()?;
        let hint = self.take_notices(structure);
        let claimed = self.claim_above(structure, hint, take);
        // Now that it is known which leaves are claimed.
        self.hint_at(structure, hint);
        match claimed? {
            Claimed::Taken(fd) => Ok(Some(fd)),
            Claimed::Interrupted => Ok(None),
            // What is left is in leaves that others have claimed, or that searches look at.
            Claimed::Nothing => self.search_lowest(structure, take),
        }
    }

    /// Claims the first leaf above `hint` that has room and that nobody has claimed.
    fn claim_above(
        &self,
        structure: &mut Structure<'_, T>,
        hint: usize,
        take: &mut impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Claimed, Error> {
        let cpu = self.room.processor();
        self.give_up_claim(structure, cpu)?;
        let mut budget = Budget::of_one_hold();
        let mut index = structure.next_not_full(hint + 1);
        while index * BITS < self.room.limit() {
            // Leaves that others have claimed cost nothing: there is one for each CPU.
            if !structure.is_own(index) && !budget.spend() {
                return Ok(Claimed::Interrupted);
            }
            self.own(structure, index)?;
            if self.pass_over(structure, index)? {
                if !budget.spend() {
                    return Ok(Claimed::Interrupted);
                }
            } else if let Some(mut leaf) = structure.lock_leaf(index)
                && leaf.state().claim == 0
                && let Some(bit) = leaf.open.lowest_clear(0)
                && index * BITS + bit < self.room.limit()
            {
                leaf.state_mut().claim = claim_of(cpu);
                self.room.set_claimed(cpu, index);
                take(&mut leaf, bit);
                return Ok(Claimed::Taken(Fd::from_index(index * BITS + bit)));
            }
            index = structure.next_not_full(index + 1);
        }
        Ok(Claimed::Nothing)
    }

    /// Gives up the leaf that a processor has claimed.
    fn give_up_claim(&self, structure: &mut Structure<'_, T>, cpu: u32) -> Result<(), Error> {
        let Some(index) = self.room.claimed_by(cpu) else {
            return Ok(());
        };
        self.room.set_claimed(cpu, 0);
        let is_own = structure
            .lock_leaf(index)
            .filter(|leaf| leaf.state().claim == claim_of(cpu))
            .map(|mut leaf| leaf.state_mut().claim = 0)
            .is_some();
        if is_own && !self.pass_over(structure, index)? {
            Self::remove_if_empty(structure, index);
        }
        Ok(())
    }
}

/// How the search for a leaf to claim ended.
enum Claimed {
    /// A descriptor of the leaf is taken.
    Taken(Fd),
    /// There is none below the limit that has room.
    Nothing,
    /// With the budget used up.
    Interrupted,
}

/// Says in a leaf that a processor has claimed it.
fn claim_of(cpu: u32) -> u16 {
    // There are fewer processors than 2^15; two that share a name share a leaf.
    (cpu & 0x7fff) as u16 + 1
}
