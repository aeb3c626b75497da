//! Closing a number, and changing its flags.

use fdtable_base::counted::Ref;
use fdtable_base::rcu;
use fdtable_base::room::Notices;

use super::{FdTable, LeafGuard, index_of, place_of, set_flags};
use crate::{Error, FdFlags, RawFd};

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Takes the file out of an open number and frees the number. The caller drops the file.
    #[inline]
    pub(crate) fn close(&self, fd: RawFd) -> Result<Ref<T>, Error> {
        let (index, bit) = place_of(index_of(fd));
        let (file, notices) = self.with_leaf(fd, |leaf| self.close_in(leaf, index, bit))??;
        self.look_at(notices);
        Ok(file)
    }

    /// Sets the flags of an open number.
    pub(crate) fn set_flags(&self, fd: RawFd, flags: FdFlags) -> Result<(), Error> {
        let (_, bit) = place_of(index_of(fd));
        self.with_leaf(fd, |leaf| {
            if !leaf.has(bit) {
                return Err(Error::BadFd);
            }
            set_flags(leaf, bit, flags);
            Ok(())
        })?
    }

    /// Locks the leaf of a number that may be open, and has it changed; the short way if it is
    /// there.
    #[inline(always)]
    fn with_leaf<R>(
        &self,
        fd: RawFd,
        change: impl Fn(&mut LeafGuard<'_, T>) -> R,
    ) -> Result<R, Error> {
        let (index, _) = place_of(index_of(fd));
        let section = rcu::read_lock();
        if let Some(entry) = self.tree.enter(&section)
            && let Some(mut leaf) = entry.lock_leaf(index)
        {
            return Ok(change(&mut leaf));
        }
        drop(section);
        self.with_shared_leaf(fd, change)
    }

    /// The same, the long way: the leaf is not there, or shared, or the gate is shut.
    #[cold]
    fn with_shared_leaf<R>(
        &self,
        fd: RawFd,
        change: impl Fn(&mut LeafGuard<'_, T>) -> R,
    ) -> Result<R, Error> {
        let (index, bit) = place_of(index_of(fd));
        let mut structure = self.tree.lock();
        // A number that is not open is not worth a copy.
        if !structure.leaf(index).is_some_and(|leaf| leaf.has(bit)) {
            return Err(Error::BadFd);
        }
        self.own(&mut structure, index)?;
        let mut leaf = structure.lock_leaf(index).ok_or(Error::BadFd)?;
        Ok(change(&mut leaf))
    }

    /// Closes a number of a locked leaf.
    #[inline(always)]
    fn close_in(
        &self,
        leaf: &mut LeafGuard<'_, T>,
        index: usize,
        bit: usize,
    ) -> Result<(Ref<T>, Notices), Error> {
        let file = leaf.exchange(bit, None).ok_or(Error::BadFd)?;
        Ok((file, self.free_in(leaf, index, bit)))
    }

    /// Frees a number of a locked leaf that has no file.
    #[inline(always)]
    pub(super) fn free_in(&self, leaf: &mut LeafGuard<'_, T>, index: usize, bit: usize) -> Notices {
        leaf.open.clear(bit);
        self.note_freed(leaf, index)
    }
}
