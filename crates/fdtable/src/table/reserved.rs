//! Reserved descriptors: they are taken and have no file yet.
//!
//! They belong to this table alone, also when it is shared by a fork. So the table keeps a list of
//! the leaves with reservations. Such a leaf stays the table's own, and the child gets a copy at
//! once (see [`share`](super::share)). So a reservation can always be installed or dropped without
//! memory.

use alloc::vec::Vec;

use fdtable_base::counted::Ref;
use fdtable_base::fallible::OutOfMemory;
use fdtable_base::room::Notices;

use super::{FdTable, LeafGuard, Structure, place_of, take};
use crate::{Error, Fd, FdFlags};

/// The number of descriptors that are reserved atomically: more than a message of `SCM_RIGHTS`
/// carries. A larger count is reserved in steps of that size, so that no call holds the lock for
/// long.
pub(crate) const AT_ONCE: usize = 256;

/// The number of reserved descriptors in each leaf.
#[derive(Default)]
pub(crate) struct Reserved {
    /// In ascending order of the leaves.
    leaves: Vec<(usize, u32)>,
}

impl Reserved {
    /// Makes room for `leaves` more leaves.
    pub(super) fn prepare(&mut self, leaves: usize) -> Result<(), OutOfMemory> {
        self.leaves.try_reserve(leaves).map_err(|_| OutOfMemory)
    }

    fn place(&self, index: usize) -> Result<usize, usize> {
        self.leaves.binary_search_by_key(&index, |&(leaf, _)| leaf)
    }

    /// Counts one more reservation in a leaf. Call [`prepare`](Self::prepare) first.
    pub(super) fn add(&mut self, index: usize) {
        match self.place(index) {
            Ok(there) => self.leaves[there].1 += 1,
            Err(there) => self.leaves.insert(there, (index, 1)),
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        if let Ok(there) = self.place(index) {
            self.leaves[there].1 -= 1;
            if self.leaves[there].1 == 0 {
                self.leaves.remove(there);
            }
        }
    }

    /// The indexes of the leaves.
    pub(super) fn leaves(&self) -> impl Iterator<Item = usize> {
        self.leaves.iter().map(|&(index, _)| index)
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Reserves the lowest free descriptor that is `min` or more.
    pub(crate) fn reserve(&self, min: Fd, flags: FdFlags) -> Result<Fd, Error> {
        let mut structure = self.tree.lock();
        self.reserve_locked(&mut structure, min, flags)
    }

    /// Reserves the `count` lowest free descriptors, or none, in atomic steps of [`AT_ONCE`]. `fds`
    /// is empty and has room for all.
    pub(crate) fn reserve_many(
        &self,
        count: usize,
        fds: &mut Vec<Fd>,
        flags: FdFlags,
    ) -> Result<(), Error> {
        let mut structure = self.tree.lock();
        while fds.len() < count {
            let reserved = fds.len();
            if reserved > 0 {
                structure.let_others();
            }
            // Step by step, so that a count that is refused soon does not write memory for all.
            fds.resize(count.min(reserved + AT_ONCE), Fd::MIN);
            if let Err(error) = self.reserve_some(&mut structure, &mut fds[reserved..], flags) {
                fds.truncate(reserved);
                self.unreserve_locked(structure, fds);
                return Err(error);
            }
        }
        drop(structure);
        fds.sort_unstable();
        Ok(())
    }

    /// Reserves the lowest free descriptors atomically, or none.
    fn reserve_some(
        &self,
        structure: &mut Structure<'_, T>,
        fds: &mut [Fd],
        flags: FdFlags,
    ) -> Result<(), Error> {
        let count = fds.len();
        self.search_several(structure, fds, flags, |structure| {
            Ok(structure.reserved.prepare(count)?)
        })?;
        fds.iter()
            .for_each(|fd| structure.reserved.add(place_of(fd.index()).0));
        Ok(())
    }

    /// Frees descriptors that the caller has reserved.
    pub(crate) fn unreserve_many(&self, fds: &[Fd]) {
        if !fds.is_empty() {
            self.unreserve_locked(self.tree.lock(), fds);
        }
    }

    /// Frees descriptors that the caller has reserved, [`AT_ONCE`] in one hold of the lock.
    fn unreserve_locked(&self, mut structure: Structure<'_, T>, fds: &[Fd]) {
        for some in fds.chunks(AT_ONCE) {
            for &fd in some {
                // Taken below.
                let _ = self.free_reserved(&mut structure, fd);
            }
            if self.room.has_notices() {
                self.settle(&mut structure);
            }
            structure.let_others();
        }
        let woken = Self::take_waiters(&mut structure);
        drop(structure);
        drop(woken);
    }

    fn reserve_locked(
        &self,
        structure: &mut Structure<'_, T>,
        min: Fd,
        flags: FdFlags,
    ) -> Result<Fd, Error> {
        let mut reserve = |leaf: &mut LeafGuard<'_, T>, bit: usize| take(leaf, bit, flags, None);
        let fd = self.count_search(structure, min.index(), |structure| {
            // In each hold of the lock: another reservation may have used the memory.
            structure.reserved.prepare(1)?;
            match min {
                Fd::MIN => self.search_lowest(structure, &mut reserve),
                min => self.search_lowest_from(structure, min, &mut reserve),
            }
        })?;
        structure.reserved.add(place_of(fd.index()).0);
        Ok(fd)
    }

    /// Installs a file at a descriptor that the caller has reserved.
    pub(crate) fn install(&self, fd: Fd, file: Ref<T>) {
        let (index, bit) = place_of(fd.index());
        let mut structure = self.tree.lock();
        structure.reserved.remove(index);
        let before = {
            let leaf = structure.lock_leaf(index);
            let mut leaf = leaf.expect("a leaf with a reservation stays");
            leaf.exchange(bit, Some(file))
        };
        debug_assert!(before.is_none(), "only its holder installs a reservation");
        let woken = Self::take_waiters(&mut structure);
        drop(structure);
        drop(woken);
    }

    /// Frees a descriptor that the caller has reserved.
    pub(crate) fn unreserve(&self, fd: Fd) {
        let mut structure = self.tree.lock();
        let notices = self.free_reserved(&mut structure, fd);
        let woken = Self::take_waiters(&mut structure);
        drop(structure);
        drop(woken);
        self.look_at(notices);
    }

    /// Frees a reserved descriptor that was open before. It goes into quarantine, if that is on and
    /// there is memory.
    #[cfg(feature = "std")]
    pub(crate) fn unreserve_closed(&self, fd: Fd) {
        let mut structure = self.tree.lock();
        let waits =
            structure.quarantine.is_on() && Self::prepare_quarantine(&mut structure).is_ok();
        let notices = if waits {
            structure.reserved.remove(place_of(fd.index()).0);
            self.enter_quarantine(&mut structure, fd.index())
        } else {
            self.free_reserved(&mut structure, fd)
        };
        let woken = Self::take_waiters(&mut structure);
        drop(structure);
        drop(woken);
        self.look_at(notices);
    }

    fn free_reserved(&self, structure: &mut Structure<'_, T>, fd: Fd) -> Notices {
        let (index, bit) = place_of(fd.index());
        structure.reserved.remove(index);
        let leaf = structure.lock_leaf(index);
        debug_assert!(leaf.is_some(), "a leaf with a reservation stays");
        leaf.map_or(Notices::Few, |mut leaf| self.free_in(&mut leaf, index, bit))
    }
}
