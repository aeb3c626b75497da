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

use fdtable_objects::object::Ref;
use fdtable_sync::bitmap::BITS;
use fdtable_sync::hint::cold_path;

use crate::open::{Budget, Take, Wanted};
use crate::table::{LeafGuard, LockMode, WriteGuard};
use crate::{Error, Fd, FdData, FileRef, Files, Reservation};

/// # Any free descriptor
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
    pub fn open_any(&self, file: FileRef<T>, data: impl Into<FdData>) -> Result<Fd, Error> {
        let data = data.into();
        self.admit(data.flags)?;
        // Nearly always the lock of the leaf is free. Then this makes no calls.
        let opened = self.open_claimed(file.0, data, LockMode::Try);
        opened.or_else(|file| self.open_any_blocking(file, data))
    }

    /// Reserves any free descriptor, of the leaf that [`open_any`](Self::open_any) takes it from.
    /// It takes the lock of the table, and allocates when the table grows.
    ///
    /// # Errors
    /// EINVAL, EMFILE and ENOMEM as for [`reserve`](Self::reserve).
    pub fn reserve_any(&self, data: impl Into<FdData>) -> Result<Reservation<'_, T>, Error> {
        let data = data.into();
        self.admit(data.flags)?;
        self.reserve_wanted(Wanted::Any, data)
    }

    /// Opens `file` where [`open_any`](Self::open_any) has to block or to claim a leaf. If there is
    /// an error, the file is dropped, outside of all locks.
    #[inline(never)]
    fn open_any_blocking(&self, file: Ref<T>, data: FdData) -> Result<Fd, Error> {
        let opened = self.open_claimed(file, data, LockMode::Block);
        opened.or_else(|file| {
            self.check_exhausted()?;
            self.open_searching(Wanted::Any, file, data)
        })
    }

    /// Opens `file` in the leaf that this CPU has claimed, or returns it.
    #[inline(always)]
    fn open_claimed(&self, file: Ref<T>, data: FdData, mode: LockMode) -> Result<Fd, Ref<T>> {
        let reader = match mode {
            LockMode::Try => self.tree.try_read(),
            LockMode::Block => self.tree.read(),
        };
        let Some(reader) = reader else {
            return Err(file);
        };
        let Some((index, cpu)) = self.free_hint.claimed() else {
            cold_path();
            return Err(file);
        };
        let leaf = match mode {
            LockMode::Try => reader.try_lock_by_walk(index, |_| true),
            LockMode::Block => reader.lock_leaf(index),
        };
        let permit = |leaf: &LeafGuard<'_, T>| leaf.state().claim == claim_of(cpu);
        self.open_in(leaf, index, permit, file, data)
    }

    /// Takes a descriptor of the leaf that this CPU has claimed, if it has room and no fork shares
    /// it.
    fn take_claimed(&self, writer: &mut WriteGuard<'_, T>, take: &mut Take<'_, T>) -> Option<Fd> {
        let (index, cpu) = self.free_hint.claimed()?;
        let mut leaf = writer.lock_leaf(index)?;
        let number = index * BITS + leaf.open.lowest_clear(0)?;
        if leaf.state().claim != claim_of(cpu) || number >= self.free_hint.limit() {
            return None;
        }
        take(&mut leaf, number % BITS);
        Some(Fd::from_index(number))
    }

    /// Takes a descriptor of the leaf that this CPU has claimed, or of one that it claims.
    pub(crate) fn search_any(
        &self,
        writer: &mut WriteGuard<'_, T>,
        take: &mut Take<'_, T>,
    ) -> Result<Option<Fd>, Error> {
        if let Some(fd) = self.take_claimed(writer, take) {
            return Ok(Some(fd));
        }
        self.free_hint.prepare()?;
        let hint = self.drain_freed(writer);
        let claimed = self.claim_above(writer, hint, take);
        // After the claim, so that the hint avoids the claimed leaves.
        self.set_hint(writer, hint);
        match claimed {
            // The remaining descriptors are in leaves that other CPUs have claimed, or at which
            // searches look.
            Err(Error::TooManyFiles) => self.search_lowest(writer, take),
            claimed => claimed,
        }
    }

    /// Claims the first leaf above `hint` that has room and that no CPU has claimed. Returns
    /// nothing if the budget is used up, and EMFILE if no leaf below the limit is such.
    fn claim_above(
        &self,
        writer: &mut WriteGuard<'_, T>,
        hint: usize,
        take: &mut Take<'_, T>,
    ) -> Result<Option<Fd>, Error> {
        let cpu = self.free_hint.cpu();
        self.give_up_claim(writer, cpu)?;
        let mut budget = Budget::of_one_hold();
        let mut index = writer.next_not_full(hint + 1);
        while index * BITS < self.free_hint.limit() {
            // Leaves that others have claimed cost nothing: there is one for each CPU.
            if !writer.is_own(index) && !budget.spend() {
                return Ok(None);
            }
            self.make_writable(writer, index)?;
            if self.mark_if_full(writer, index)? {
                if !budget.spend() {
                    return Ok(None);
                }
            } else if let Some(mut leaf) = writer.lock_leaf(index)
                && leaf.state().claim == 0
                && let Some(bit) = leaf.open.lowest_clear(0)
                && index * BITS + bit < self.free_hint.limit()
            {
                leaf.state_mut().claim = claim_of(cpu);
                self.free_hint.set_claimed(cpu, index);
                take(&mut leaf, bit);
                return Ok(Some(Fd::from_index(index * BITS + bit)));
            }
            index = writer.next_not_full(index + 1);
        }
        Err(Error::TooManyFiles)
    }

    /// Gives up the leaf that a CPU has claimed.
    fn give_up_claim(&self, writer: &mut WriteGuard<'_, T>, cpu: u32) -> Result<(), Error> {
        let Some(index) = self.free_hint.claimed_by(cpu) else {
            return Ok(());
        };
        self.free_hint.set_claimed(cpu, 0);
        let is_own = writer
            .lock_leaf(index)
            .filter(|leaf| leaf.state().claim == claim_of(cpu))
            .map(|mut leaf| leaf.state_mut().claim = 0)
            .is_some();
        if is_own && !self.mark_if_full(writer, index)? {
            Self::remove_if_empty(writer, index);
        }
        Ok(())
    }
}

/// Returns the mark of a CPU in the leaf that it claims.
fn claim_of(cpu: u32) -> u16 {
    // There are fewer CPUs than 2^15; two with the same mark share a leaf.
    (cpu & 0x7fff) as u16 + 1
}
