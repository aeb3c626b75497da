//! Any free descriptor: each CPU allocates in a leaf of its own.
//!
//! A CPU *claims* a leaf, and from then on opens of any descriptor on that CPU take descriptors of
//! that leaf: no cache line is written by two CPUs. When the leaf is full, the CPU gives it up and
//! claims another: the first leaf that is above the hint of searches for the lowest descriptor, has
//! room, and is unclaimed.
//!
//! Other operations are hardly disturbed. A search for the lowest descriptor treats a claimed leaf
//! like any other. When it gets there it takes over the claim, so that the two do not continue to
//! write the same lines. A close writes the descriptor's own leaf, from any CPU.
//!
//! *How sparse it gets.* A leaf is claimed when every unclaimed one between the hint and it is
//! full. So, at the time of a claim, the descriptors up to the new one are taken, except the free
//! ones in the claimed leaves, one for each CPU, and in the leaf of the hint. With *n* descriptors
//! taken at that time, those of the leaf are below *n* + 64 × (CPUs + 2). Closes leave holes, which
//! the next claims fill from below; a claim stays until its leaf is full.
//!
//! *When a CPU becomes idle*, its leaf stays claimed: at most 64 descriptors, and the memory of one
//! leaf, for each CPU. They are not lost: when no other descriptor is free below the limit, an open
//! takes one from any leaf.

use core::hint::cold_path;

use fdtable_base::bitmap::BITS;
use fdtable_base::counted::Ref;

use crate::open::Budget;
use crate::table::{LeafGuard, Structure, Way, take};
use crate::{Error, Fd, FdFlags, FileRef, Files};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Opens `file` at any free descriptor, not necessarily the lowest one that POSIX requires.
    /// Calls on different CPUs share no cache line: each CPU takes descriptors of its own leaf of
    /// 64. When a CPU begins with another leaf while *n* descriptors are taken, those of the leaf
    /// are below *n* + 64 × (CPUs + 2). May wait for the lock and allocate, about once in 64 calls.
    ///
    /// # Errors
    /// EINVAL, EMFILE and ENOMEM as for [`open`](Self::open); the reference is then dropped.
    #[doc(alias = "O_ANY")]
    #[inline]
    pub fn open_any(&self, file: FileRef<T>, flags: FdFlags) -> Result<Fd, Error> {
        flags.check()?;
        // Nearly always the lock of the leaf is free. Then this makes no calls.
        let opened = self.open_claimed(file.0, flags, Way::Prompt);
        opened.or_else(|file| self.open_any_patiently(file, flags))
    }

    /// If there is an error, the file is dropped, outside of all locks.
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

    /// Opens `file` in the leaf that this CPU has claimed, or returns it.
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

    /// Claims a leaf for this CPU, and takes a descriptor of it.
    fn claim(
        &self,
        structure: &mut Structure<'_, T>,
        take: &mut impl FnMut(&mut LeafGuard<'_, T>, usize),
    ) -> Result<Option<Fd>, Error> {
        self.room.prepare()?;
        let hint = self.take_notices(structure);
        let claimed = self.claim_above(structure, hint, take);
        // After the claim, so that the hint avoids the claimed leaves.
        self.hint_at(structure, hint);
        match claimed? {
            Claimed::Taken(fd) => Ok(Some(fd)),
            Claimed::Interrupted => Ok(None),
            // The remaining descriptors are in leaves that other CPUs have claimed, or at which
            // searches look.
            Claimed::Nothing => self.search_lowest(structure, take),
        }
    }

    /// Claims the first leaf above `hint` that has room and that no CPU has claimed.
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

    /// Gives up the leaf that a CPU has claimed.
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
    /// No unclaimed leaf below the limit has room.
    Nothing,
    /// The budget is used up.
    Interrupted,
}

/// Returns the mark of a CPU in the leaf that it claims.
fn claim_of(cpu: u32) -> u16 {
    // There are fewer CPUs than 2^15; two with the same mark share a leaf.
    (cpu & 0x7fff) as u16 + 1
}
