//! Closing many descriptors: `close_range(2)`, and `execve(2)`.
//!
//! The range is closed leaf by leaf, 64 descriptors each, each leaf atomically. A descriptor that
//! another thread opens in the range meanwhile may be closed or not, as on Linux. A leaf that loses
//! all its descriptors is removed from the tree as it is, also a shared one: no copy is made only
//! to be emptied.
//!
//! A release hook that panics does not end the work: the rest of the range is closed, and then the
//! panic is resumed.

use alloc::sync::Arc;
use core::fmt;

use arrayvec::ArrayVec;
use fdtable_sync::bitmap::BITS;
use fdtable_objects::object::Ref;
use fdtable_objects::radix::leaf::bits_of;
use fdtable_objects::radix;
use fdtable_sync::{rcu, unwind};

use crate::table::{Leaf, LeafMeta, Mark, WriteGuard, flags_in, mask};
use crate::wait::Woken;
use crate::{Error, Fd, FdFlags, FileRef, Files};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Closes every open descriptor from `first` to `last`, both included. Descriptors that are not
    /// open are skipped, and `u32::MAX` means "to the end". May wait for the lock, allocates where
    /// a part of the table is shared since a fork, and runs release hooks.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if `first` is greater than `last`.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied, or there is no memory for the descriptors in [quarantine](Self::set_quarantine).
    ///   The descriptors before that part are closed.
    pub fn close_range(&self, first: u32, last: u32) -> Result<(), Error> {
        let (first, last) = check(first, last)?;
        self.close_leaves(first, last, |_| ())
    }

    /// Closes every open descriptor from `first` to `last`, and flushes the files. It closes like
    /// [`close_range`](Self::close_range), and passes the closed files to `flush`, step by step.
    ///
    /// # Errors
    /// EINVAL and ENOMEM as for [`close_range`](Self::close_range); `flush` has seen all files that
    /// were closed.
    pub fn close_range_flushing(
        &self,
        first: u32,
        last: u32,
        flush: impl FnMut(Closed<'_, T>),
    ) -> Result<(), Error> {
        let (first, last) = check(first, last)?;
        self.close_leaves(first, last, flush)
    }

    /// Closes every descriptor that has [`CLOEXEC`](FdFlags::CLOEXEC), and flushes the files. It
    /// closes like [`close_on_exec`](Self::close_on_exec), and passes the closed files to `flush`, step by step.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) as for [`close_on_exec`](Self::close_on_exec); `flush` has seen all files that
    /// were closed.
    pub fn exec_flushing(&self, flush: impl FnMut(Closed<'_, T>)) -> Result<(), Error> {
        self.close_cloexec(flush)
    }

    /// Closes every open descriptor from `first` to `last`, or changes them as the flags say. To
    /// unshare a table and close most of it is cheap: descriptors that are closed are not copied.
    /// May wait for the lock, allocates, and runs release hooks, like
    /// [`close_range`](Self::close_range).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use fdtable::{CloseRangeFlags, Error, FdFlags, FileRef, Files};
    ///
    /// let shared = Arc::new(Files::new());
    /// let fd = shared.open(FileRef::new("terminal"), FdFlags::empty())?;
    /// let mut own = Arc::clone(&shared);
    /// Files::close_range_with(&mut own, 0, u32::MAX, CloseRangeFlags::UNSHARE)?;
    /// assert!(shared.get(fd).is_ok() && own.get(fd).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if `first` is greater than `last`, or a flag is
    ///   unknown.
    /// - [`Error::NoMemory`] (ENOMEM) as for [`unshare`](Self::unshare) and
    ///   [`close_range`](Self::close_range).
    pub fn close_range_with(
        this: &mut Arc<Self>,
        first: u32,
        last: u32,
        flags: CloseRangeFlags,
    ) -> Result<(), Error> {
        if first > last || !CloseRangeFlags::all().contains(flags) {
            return Err(Error::InvalidArgument);
        }
        if flags.contains(CloseRangeFlags::UNSHARE) {
            Self::unshare(this)?;
        }
        if flags.contains(CloseRangeFlags::CLOEXEC) {
            this.set_cloexec_range(first, last)
        } else {
            this.close_range(first, last)
        }
    }

    /// Sets close-on-exec on every open descriptor from `first` to `last`, both included. May wait
    /// for the lock, and allocates where a part of the table is shared since a fork.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if `first` is greater than `last`.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied. The descriptors before that part are changed.
    #[doc(alias = "CLOSE_RANGE_CLOEXEC")]
    pub fn set_cloexec_range(&self, first: u32, last: u32) -> Result<(), Error> {
        let (first, last) = check(first, last)?;
        self.set_cloexec_leaves(first, last)
    }

    /// Closes every descriptor that has [`CLOEXEC`](FdFlags::CLOEXEC). Reserved descriptors
    /// stay reserved. May wait for the lock, allocates where a part of the table is shared since a
    /// fork, and runs release hooks. A hook that panics does not end the work: the other
    /// descriptors are closed, and then the panic is resumed.
    ///
    /// A process that shares its table must get one of its own before it executes a program, as
    /// `execve(2)` says: [fork](Self::fork) it and call this on the new one.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    /// copied. The descriptors before that part are closed; another call continues.
    #[doc(alias = "do_close_on_exec")]
    pub fn close_on_exec(&self) -> Result<(), Error> {
        self.close_cloexec(|_| ())
    }
}

pub(crate) fn check(first: u32, last: u32) -> Result<(usize, usize), Error> {
    if first > last {
        Err(Error::InvalidArgument)
    } else {
        Ok((first as usize, last as usize))
    }
}

bitflags::bitflags! {
    /// The flags of [`close_range_with`](Files::close_range_with).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct CloseRangeFlags: u32 {
        /// Unshares the table first. `CLOSE_RANGE_UNSHARE`.
        const UNSHARE = 1 << 1;
        /// Sets close-on-exec instead of closing. `CLOSE_RANGE_CLOEXEC`.
        const CLOEXEC = 1 << 2;
    }
}

/// Files whose descriptors were closed in one step: up to 64. The table drops its references after
/// the caller has seen them.
#[must_use = "no other call reports these files"]
pub struct Closed<'r, T: ?Sized>(&'r Released<T>);

impl<'r, T: ?Sized> Closed<'r, T> {
    /// Returns each file once for each of its descriptors that was closed, also revoked files. Each
    /// has a reference of its own: one atomic add, and another to drop it.
    pub fn files(self) -> impl Iterator<Item = FileRef<T>> + 'r {
        let leaf = self.0.leaf.iter();
        let of_leaf = leaf.flat_map(|leaf| (0..BITS).filter_map(|bit| leaf.get(bit)));
        of_leaf.chain(self.0.files.iter().cloned()).map(FileRef)
    }
}

impl<T: ?Sized> fmt::Debug for Closed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed")
    }
}

type Retired<T> = radix::Retired<T, LeafMeta>;

/// The files removed from one leaf. They are released when this is dropped: after the lock is
/// released.
#[must_use = "dropping this runs release hooks; do it outside of the lock"]
struct Released<T: ?Sized> {
    /// The whole leaf, with its files.
    leaf: Option<Retired<T>>,
    /// Some of its files, if the leaf stays.
    files: ArrayVec<Ref<T>, BITS>,
    woken: Option<Woken>,
}

impl<T: ?Sized> Released<T> {
    fn new() -> Self {
        Self {
            leaf: None,
            files: ArrayVec::new(),
            woken: None,
        }
    }
}

impl<T: ?Sized> Drop for Released<T> {
    /// Releases the files in ascending order, also if hooks panic. A removed leaf does the same
    /// itself.
    fn drop(&mut self) {
        self.files.reverse();
        unwind::finish(|| {
            while let Some(file) = self.files.pop() {
                drop(file);
            }
        });
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Closes every open descriptor from `first` to `last`. The files of each step are passed to
    /// `flush`, outside of the lock. Continues after a panic of `flush` or of a hook.
    pub(crate) fn close_leaves(
        &self,
        first: usize,
        last: usize,
        mut flush: impl FnMut(Closed<'_, T>),
    ) -> Result<(), Error> {
        let mut leaves = self.leaves(first, last);
        let mut closed = Ok(());
        unwind::finish(|| {
            closed = leaves.try_for_each(|(index, meant)| {
                self.close_some(index, |leaf| leaf.installed_of(meant), &mut flush)
            });
        });
        closed
    }

    /// Closes every open descriptor with close-on-exec, like [`close_leaves`](Self::close_leaves).
    pub(crate) fn close_cloexec(&self, mut flush: impl FnMut(Closed<'_, T>)) -> Result<(), Error> {
        let chosen = |leaf: &Leaf<T>| leaf.installed_of(leaf.cloexec.bits());
        let mut leaves = self.leaves(0, Fd::MAX.index());
        let mut closed = Ok(());
        unwind::finish(|| {
            closed = leaves.try_for_each(|(index, _)| self.close_some(index, chosen, &mut flush));
        });
        closed
    }

    /// Closes every open descriptor that is not kept. No other thread uses the table. A panic ends
    /// it: the caller drops the table.
    pub(crate) fn close_unkept(
        &self,
        mut keep: impl FnMut(Fd, &T, FdFlags) -> bool,
    ) -> Result<(), Error> {
        let mut leaves = self.leaves(0, Fd::MAX.index());
        leaves.try_for_each(|(index, _)| {
            let unkept = self.unkept(index, &mut keep);
            self.close_some(index, |_| unkept, |_| ())
        })
    }

    /// Returns the set of the open descriptors of a leaf that are not kept.
    fn unkept(&self, index: usize, keep: &mut impl FnMut(Fd, &T, FdFlags) -> bool) -> u64 {
        let section = rcu::read_lock();
        let Some(leaf) = self.tree.leaf(index, &section) else {
            return 0;
        };
        bits_of(leaf.installed())
            .filter(|&bit| {
                let fd = Fd::from_index(index * BITS + bit);
                leaf.borrow(bit)
                    .is_some_and(|file| !keep(fd, &file, flags_in(&leaf, bit)))
            })
            .fold(0, |unkept, bit| unkept | 1 << bit)
    }

    /// Sets close-on-exec on every open descriptor from `first` to `last`.
    pub(crate) fn set_cloexec_leaves(&self, first: usize, last: usize) -> Result<(), Error> {
        let mut leaves = self.leaves(first, last);
        leaves.try_for_each(|(index, meant)| {
            let mut writer = self.tree.lock();
            let missing = |leaf: &Leaf<T>| meant & leaf.installed() & !leaf.cloexec.bits();
            if Self::look(&writer, index, missing).is_none_or(|missing| missing == 0) {
                return Ok(());
            }
            self.make_writable(&mut writer, index)?;
            if let Some(leaf) = writer.lock_leaf(index) {
                leaf.cloexec.replace(leaf.cloexec.bits() | missing(&leaf));
            }
            Ok(())
        })
    }

    /// Looks at a leaf while no thread changes it. During a close a descriptor is not open by its
    /// bit, but lookups still find its file.
    fn look<R>(
        writer: &WriteGuard<'_, T>,
        index: usize,
        look: impl FnOnce(&Leaf<T>) -> R,
    ) -> Option<R> {
        match writer.lock_leaf(index) {
            Some(leaf) => Some(look(&leaf)),
            // Shared, so no thread writes it; or it does not exist.
            None => writer.leaf(index).map(look),
        }
    }

    /// Iterates over the leaves with descriptors from `first` to `last`. Returns the index of each,
    /// and the set of those descriptors.
    fn leaves(&self, first: usize, last: usize) -> impl Iterator<Item = (usize, u64)> {
        let mut from = first / BITS;
        core::iter::from_fn(move || {
            let next = {
                let section = rcu::read_lock();
                self.tree.next(from, &section).map(|(index, _)| index)
            };
            let index = next.filter(|&index| index * BITS <= last)?;
            from = index + 1;
            let base = index * BITS;
            let meant = mask(first.saturating_sub(base), (last - base).min(BITS - 1));
            Some((index, meant))
        })
    }

    /// Closes the descriptors that `choose` picks among the open ones of a leaf.
    fn close_some(
        &self,
        index: usize,
        choose: impl Fn(&Leaf<T>) -> u64,
        flush: impl FnOnce(Closed<'_, T>),
    ) -> Result<(), Error> {
        let mut released = Released::new();
        let mut writer = self.tree.lock();
        self.close_chosen(&mut writer, index, choose, &mut released)?;
        drop(writer);
        // First, since `flush` may take long: the descriptors are free.
        drop(released.woken.take());
        // A panic of `flush` releases them too.
        flush(Closed(&released));
        Ok(())
    }

    fn close_chosen(
        &self,
        writer: &mut WriteGuard<'_, T>,
        index: usize,
        choose: impl Fn(&Leaf<T>) -> u64,
        released: &mut Released<T>,
    ) -> Result<(), Error> {
        let is_all = |leaf: &Leaf<T>| choose(leaf) == leaf.open.bits();
        let seen = Self::look(writer, index, |leaf| (choose(leaf), is_all(leaf)));
        let Some((_, seen_all)) = seen.filter(|&(chosen, _)| chosen != 0) else {
            return Ok(());
        };
        if seen_all && !writer.quarantine.is_on() {
            released.leaf = self.remove_leaf(writer, index, is_all)?;
        }
        // It may have become empty and gone meanwhile.
        if released.leaf.is_none() && writer.leaf(index).is_some() {
            self.make_writable(writer, index)?;
            self.close_each(writer, index, choose, &mut released.files)?;
        }
        released.woken = Some(Self::take_waiters(writer));
        Ok(())
    }

    /// Closes descriptors of a writable leaf.
    fn close_each(
        &self,
        writer: &mut WriteGuard<'_, T>,
        index: usize,
        choose: impl Fn(&Leaf<T>) -> u64,
        files: &mut ArrayVec<Ref<T>, BITS>,
    ) -> Result<(), Error> {
        Self::prepare_quarantine(writer)?;
        let quarantine = writer.quarantine.is_on();
        let mut chosen = 0;
        if let Some(mut leaf) = writer.lock_leaf(index) {
            chosen = choose(&leaf);
            for bit in bits_of(chosen) {
                leaf.state_mut().clear_tag(bit);
                if !quarantine {
                    // Taken below.
                    let _ = self.free_in(&mut leaf, index, bit);
                }
                files.extend(leaf.exchange(bit, None));
            }
        }
        if quarantine {
            for bit in bits_of(chosen) {
                // Taken below.
                let _ = self.enter_quarantine(writer, index * BITS + bit);
            }
        }
        if self.free_hint.has_notices() {
            self.drain_and_hint(writer);
        }
        Ok(())
    }

    /// Removes a leaf if all its descriptors are to be closed. If it is below the second leaf of
    /// the hint, opens look there next. The hint becomes stale before the leaf is removed. So a
    /// thread that finds the leaf gone, and thus a descriptor not open, does not open a higher one.
    fn remove_leaf(
        &self,
        writer: &mut WriteGuard<'_, T>,
        index: usize,
        is_all: impl Fn(&Leaf<T>) -> bool,
    ) -> Result<Option<Retired<T>>, Error> {
        let hint = self.free_hint.hinted();
        let is_hinted = index < self.free_hint.second().unwrap_or(hint);
        let hint = is_hinted.then(|| self.drain_freed(writer));
        // Checked again under the lock of the leaf, if other threads may write it.
        let removed = writer.remove_if(index, |leaf| {
            is_all(leaf) && leaf.state().mark != Mark::FreedSince
        });
        if let Some(hint) = hint {
            let is_gone = removed.as_ref().is_ok_and(Option::is_some);
            let lower = if is_gone { index.min(hint) } else { hint };
            self.set_hint(writer, lower);
            if lower < hint {
                Self::remove_if_empty(writer, hint);
            }
        }
        Ok(removed?)
    }
}
