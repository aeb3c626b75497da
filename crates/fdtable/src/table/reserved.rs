//! Numbers that are taken and have no file yet.
//!
//! They belong to this table alone, also when it is shared by a fork. So the table knows in which
//! leaves there are some: such a leaf stays the table's own, and the child gets a copy at once
//! (see [`share`](super::share)). Then whoever has a reservation can always install or drop it
//! without memory.

use alloc::vec::Vec;

use fdtable_base::counted::Ref;
use fdtable_base::fallible::OutOfMemory;
use fdtable_base::room::Notices;

use super::{FdTable, LeafGuard, Structure, place_of, take};
use crate::{Error, Fd, FdFlags};

/// How many numbers are reserved in which leaf.
#[derive(Default)]
pub(crate) struct Reserved {
    /// Few: a process reserves what it is about to open.
    leaves: Vec<(usize, u32)>,
}

impl Reserved {
    /// Makes room for one more leaf.
    pub(super) fn prepare(&mut self) -> Result<(), OutOfMemory> {
        self.leaves.try_reserve(1).map_err(|_| OutOfMemory)
    }

    /// Counts one more in a leaf. After [`prepare`](Self::prepare).
    pub(super) fn add(&mut self, index: usize) {
        match self.leaves.iter_mut().find(|(leaf, _)| *leaf == index) {
            Some((_, count)) => *count += 1,
            None => self.leaves.push((index, 1)),
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        if let Some(at) = self.leaves.iter().position(|&(leaf, _)| leaf == index) {
            self.leaves[at].1 -= 1;
            if self.leaves[at].1 == 0 {
                self.leaves.swap_remove(at);
            }
        }
    }

    /// The indexes of the leaves.
    pub(super) fn leaves(&self) -> impl Iterator<Item = usize> {
        self.leaves.iter().map(|&(index, _)| index)
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Reserves the lowest free number that is `min` or more.
    pub(crate) fn reserve(&self, min: Fd, flags: FdFlags) -> Result<Fd, Error> {
        let mut structure = self.tree.lock();
        self.reserve_locked(&mut structure, min, flags)
    }

    /// Reserves as many of the lowest free numbers as `fds` has room for, or none.
    pub(crate) fn reserve_many(
        &self,
        count: usize,
        fds: &mut Vec<Fd>,
        flags: FdFlags,
    ) -> Result<(), Error> {
        let mut structure = self.tree.lock();
        for _ in 0..count {
            match self.reserve_locked(&mut structure, Fd::MIN, flags) {
                Ok(fd) => fds.push(fd),
                Err(error) => {
                    drop(structure);
                    fds.drain(..).for_each(|fd| self.unreserve(fd));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn reserve_locked(
        &self,
        structure: &mut Structure<'_, T>,
        min: Fd,
        flags: FdFlags,
    ) -> Result<Fd, Error> {
        structure.reserved.prepare()?;
        let reserve = |leaf: &mut LeafGuard<'_, T>, bit: usize| take(leaf, bit, flags, None);
        let fd = if min.index() == 0 {
            self.search(structure, reserve)?
        } else {
            self.search_from(structure, min, reserve)?
        };
        structure.reserved.add(place_of(fd.index()).0);
        Ok(fd)
    }

    /// Puts the file behind a number that the caller has reserved.
    pub(crate) fn install(&self, fd: Fd, file: Ref<T>) {
        self.end_reservation(fd, |leaf, _, bit| {
            let before = leaf.exchange(bit, Some(file));
            debug_assert!(before.is_none(), "only its holder installs a reservation");
            Notices::Few
        });
    }

    /// Frees a number that the caller has reserved.
    pub(crate) fn unreserve(&self, fd: Fd) {
        self.end_reservation(fd, |leaf, index, bit| self.free_in(leaf, index, bit));
    }

    fn end_reservation(
        &self,
        fd: Fd,
        end: impl FnOnce(&mut LeafGuard<'_, T>, usize, usize) -> Notices,
    ) {
        let (index, bit) = place_of(fd.index());
        let mut structure = self.tree.lock();
        structure.reserved.remove(index);
        let leaf = structure.lock_leaf(index);
        debug_assert!(leaf.is_some(), "a leaf with a reservation stays");
        let notices = leaf.map_or(Notices::Few, |mut leaf| end(&mut leaf, index, bit));
        let woken = Self::take_waiters(&mut structure);
        drop(structure);
        drop(woken);
        self.look_at(notices);
    }
}
