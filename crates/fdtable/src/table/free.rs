//! Closing a descriptor, and changing its flags.

use core::hint::cold_path;

use fdtable_base::bitmap::BITS;
use fdtable_base::counted::Ref;
use fdtable_base::rcu;
use fdtable_base::room::Notices;

use super::{FdTable, LeafGuard, Mark, Structure, index_of, place_of, set_flags, tags};
use crate::{Error, FdFlags, RawFd};

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Removes the file of an open descriptor, if the tag matches, and frees the descriptor. The
    /// caller drops the file.
    #[inline]
    pub(crate) fn close(&self, fd: RawFd, tag: u64) -> Result<Ref<T>, Error> {
        match self.close_plain(fd, tag) {
            Some(file) => Ok(file),
            None => self.close_any(fd, tag),
        }
    }

    /// The common case: no thread holds the lock of the leaf, no descriptor there is tagged, and no
    /// notice is to be left. There are no calls, so no registers have to be saved; and the result
    /// fits into a register.
    #[inline(never)]
    fn close_plain(&self, fd: RawFd, tag: u64) -> Option<Ref<T>> {
        let (index, bit) = place_of(index_of(fd));
        let entry = self.tree.try_enter()?;
        let found = entry.find(index)?;
        // Before the lock, so that a close of a closed descriptor writes nothing.
        if !found.looks_open(bit) {
            cold_path();
            return None;
        }
        let mut leaf = found.try_lock()?;
        let is_plain = tag == 0 && leaf.state().is_plain();
        let is_last = || {
            let state = leaf.state();
            state.mark == Mark::Open && leaf.open.bits() & !(1 << bit) == 0
        };
        if !is_plain || index != 0 && is_last() && !self.may_be_empty(&leaf, index) {
            cold_path();
            return None;
        }
        if !leaf.has(bit) {
            cold_path();
            return None;
        }
        leaf.open.clear(bit);
        leaf.exchange(bit, None)
    }

    #[inline(never)]
    fn close_any(&self, fd: RawFd, tag: u64) -> Result<Ref<T>, Error> {
        // The slot is empty: return EBADF without locking. The descriptor is already free.
        if self.tree.is_vacant(index_of(fd), &rcu::read_lock()) {
            return Err(Error::BadFd);
        }
        match self.close_own(fd, tag) {
            Some(closed) => {
                let (file, notices) = closed?;
                self.look_at(notices);
                Ok(file)
            }
            None => self.close_shared(fd, tag),
        }
    }

    /// Closes on the fast path, if that is open.
    #[inline(always)]
    fn close_own(&self, fd: RawFd, tag: u64) -> Option<Result<(Ref<T>, Notices), Error>> {
        let (index, bit) = place_of(index_of(fd));
        let entry = self.tree.enter()?;
        let mut leaf = entry.lock_leaf(index)?;
        let free = |leaf: &mut LeafGuard<'_, T>| self.free_in(leaf, index, bit);
        Some(take_file(&mut leaf, bit, tag, free))
    }

    /// Closes on the slow path.
    #[cold]
    fn close_shared(&self, fd: RawFd, tag: u64) -> Result<Ref<T>, Error> {
        let number = index_of(fd);
        let (index, bit) = place_of(number);
        let mut structure = self.tree.lock();
        self.own_open(&mut structure, number)?;
        Self::prepare_quarantine(&mut structure)?;
        let quarantine = structure.quarantine.is_on();
        let (file, mut notices) = {
            let mut leaf = structure.lock_leaf(index).ok_or(Error::BadFd)?;
            take_file(&mut leaf, bit, tag, |leaf| match quarantine {
                true => Notices::Few,
                false => self.free_in(leaf, index, bit),
            })?
        };
        if quarantine {
            notices = self.enter_quarantine(&mut structure, number);
        }
        let woken = Self::take_waiters(&mut structure);
        drop(structure);
        drop(woken);
        self.look_at(notices);
        Ok(file)
    }

    /// Sets the flags of an open descriptor.
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

    /// Returns true if a descriptor is open and its file is `file`. Takes the lock that every
    /// change of the descriptor takes.
    pub(crate) fn names(&self, fd: RawFd, file: &Ref<T>) -> bool {
        let number = index_of(fd);
        let (index, bit) = place_of(number);
        let is_it = |found: Option<Ref<T>>| found.is_some_and(|found| Ref::ptr_eq(&found, file));
        if let Some(entry) = self.tree.enter()
            && let Some(leaf) = entry.lock_leaf(index)
        {
            return is_it(leaf.get(bit));
        }
        let structure = self.tree.lock();
        match structure.lock_leaf(index) {
            Some(leaf) => is_it(leaf.get(bit)),
            // Shared: a thread that changes the descriptor copies the leaf, with the lock of the
            // structure.
            None => is_it(structure.get(number)),
        }
    }

    /// Locks the leaf of a descriptor that may be open, and calls `change`. Takes the fast path if
    /// that is open.
    pub(super) fn with_leaf<R>(
        &self,
        fd: RawFd,
        change: impl FnOnce(&mut LeafGuard<'_, T>) -> R,
    ) -> Result<R, Error> {
        let number = index_of(fd);
        if let Some(entry) = self.tree.enter()
            && let Some(mut leaf) = entry.lock_leaf(number / BITS)
        {
            return Ok(change(&mut leaf));
        }
        let mut structure = self.tree.lock();
        self.own_open(&mut structure, number)?;
        let mut leaf = structure.lock_leaf(number / BITS).ok_or(Error::BadFd)?;
        Ok(change(&mut leaf))
    }

    /// Makes the leaf of an open descriptor writable. Another descriptor is not worth a copy.
    fn own_open(&self, structure: &mut Structure<'_, T>, number: usize) -> Result<(), Error> {
        let (index, bit) = place_of(number);
        // A thread that gets EBADF finds the descriptor free.
        if structure.leaf(index).is_none_or(|leaf| leaf.is_vacant(bit)) {
            return Err(Error::BadFd);
        }
        Ok(self.own(structure, index)?)
    }

    /// Frees a descriptor of a locked leaf that has no file.
    #[inline(always)]
    pub(super) fn free_in(&self, leaf: &mut LeafGuard<'_, T>, index: usize, bit: usize) -> Notices {
        leaf.open.clear(bit);
        self.note_freed(leaf, index)
    }
}

/// Removes the file of an open descriptor of a locked leaf, if the tag matches. Calls `free` just
/// before.
#[inline(always)]
pub(super) fn take_file<T: ?Sized>(
    leaf: &mut LeafGuard<'_, T>,
    bit: usize,
    tag: u64,
    free: impl FnOnce(&mut LeafGuard<'_, T>) -> Notices,
) -> Result<(Ref<T>, Notices), Error> {
    if !leaf.has(bit) {
        return Err(Error::BadFd);
    }
    tags::check(leaf, bit, tag)?;
    leaf.state_mut().clear_tag(bit);
    let notices = free(leaf);
    let file = leaf.exchange(bit, None).ok_or(Error::BadFd)?;
    Ok((file, notices))
}
