//! Descriptors in use, counted for closes that wait until no thread uses them.
//!
//! Only registered uses are counted, with the lock of the structure: a table without waiting closes
//! pays nothing.

use alloc::vec::Vec;

use fdtable_base::counted::Ref;
use fdtable_base::rcu;
use fdtable_base::room::Notices;

use super::free::take_file;
use super::{FdTable, Structure, index_of, place_of};
use crate::{Error, Fd, RawFd};

/// The number of uses of each descriptor.
#[derive(Default)]
pub(super) struct InUse {
    /// Short: a thread uses one or two at once.
    numbers: Vec<(usize, usize)>,
}

impl InUse {
    fn count(&self, number: usize) -> usize {
        self.numbers
            .iter()
            .find(|&&(used, _)| used == number)
            .map_or(0, |&(_, count)| count)
    }

    fn add(&mut self, number: usize) -> Result<(), Error> {
        if let Some((_, count)) = self.numbers.iter_mut().find(|(used, _)| *used == number) {
            *count += 1;
            return Ok(());
        }
        self.numbers.try_reserve(1).map_err(|_| Error::NoMemory)?;
        self.numbers.push((number, 1));
        Ok(())
    }

    fn remove(&mut self, number: usize) {
        if let Some(at) = self.numbers.iter().position(|&(used, _)| used == number) {
            self.numbers[at].1 -= 1;
            if self.numbers[at].1 == 0 {
                self.numbers.swap_remove(at);
            }
        }
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Finds the file of a descriptor, and counts a use of the descriptor.
    pub(crate) fn begin_use(&self, fd: RawFd) -> Result<(Fd, Ref<T>), Error> {
        let checked = Fd::new(fd)?;
        let mut structure = self.tree.lock();
        let file = {
            let section = rcu::read_lock();
            self.get(fd, &section).ok_or(Error::BadFd)?
        };
        if Ref::is_revoked(&file) {
            // The reference is dropped after the lock is released.
            drop(structure);
            return Err(Error::Revoked);
        }
        let counted = structure.in_use.add(index_of(fd));
        drop(structure);
        counted.map(|()| (checked, file))
    }

    /// Ends a use.
    pub(crate) fn end_use(&self, fd: Fd) {
        let mut structure = self.tree.lock();
        structure.in_use.remove(fd.index());
        let woken = Self::take_waiters(&mut structure);
        drop(structure);
        drop(woken);
    }

    /// Removes the file of an open descriptor, and leaves the descriptor reserved.
    pub(crate) fn close_to_reserved(&self, fd: RawFd) -> Result<(Fd, Ref<T>), Error> {
        let checked = Fd::new(fd)?;
        let (index, bit) = place_of(checked.index());
        let mut structure = self.tree.lock();
        if structure.leaf(index).is_none_or(|leaf| leaf.is_vacant(bit)) {
            return Err(Error::BadFd);
        }
        structure.reserved.prepare(1)?;
        self.own(&mut structure, index)?;
        let file = {
            let mut leaf = structure.lock_leaf(index).ok_or(Error::BadFd)?;
            // The descriptor stays taken.
            take_file(&mut leaf, bit, 0, |_| Notices::Few)?.0
        };
        structure.reserved.add(index);
        Ok((checked, file))
    }

    /// Returns true if a descriptor has no registered use.
    pub(crate) fn is_unused(&self, structure: &Structure<'_, T>, fd: Fd) -> bool {
        structure.in_use.count(fd.index()) == 0
    }
}
