//! Closing many descriptors: `close_range(2)`, and `execve(2)`.
//!
//! The range is closed leaf by leaf, 64 descriptors each, each leaf atomically. A descriptor that
//! another thread opens in the range meanwhile may be closed or not, as on Linux. A leaf that loses
//! all its descriptors is removed from the tree as it is, also a shared one: no copy is made only
//! to be emptied.
//!
//! A release hook that panics does not end the work: the rest of the range is closed, and then the
//! panic is resumed.

use core::fmt;

use arrayvec::ArrayVec;
use fdtable_objects::free_hint::Reports;
use fdtable_objects::object::{Ref, SlotRef};
use fdtable_objects::radix;
use fdtable_sync::bitmap::{BITS, bits_of};
use fdtable_sync::{fence, rcu, unwind};

use crate::fd::index_of;
use crate::rare::Woken;
use crate::table::{Leaf, LeafMeta, Mark, WriteGuard, mask, set_flags};
use crate::{Error, Fd, FdArg, FdData, FdFlags, FileRef, Files, on_close};

/// # Closing many
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Closes every open descriptor from `first` to `last`, both included, and passes the files to
    /// `each`, up to 64 at a time. Descriptors that are not open are skipped. As on Linux, both are
    /// unsigned: -1 and `u32::MAX` mean "to the end". May wait for the lock, and allocates where a
    /// part of the table is shared since a fork.
    ///
    /// `each` is called outside of all locks, when the descriptors are free. Dropping the files
    /// runs their release hooks. For no further effect, pass [`drop`]. If `each` or
    /// a hook panics, the rest of the range is closed, and then the panic is resumed.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// for name in ["in", "out", "err", "log"] {
    ///     drop(files.open(FileRef::new(name), FdFlags::empty())?);
    /// }
    /// files.close_range(3, u32::MAX, drop)?;
    /// let mut names = vec![];
    /// files.close_range(0, 1, |closed| names.extend(closed.files().map(|name| *name)))?;
    /// assert_eq!((names, files.open_count()), (vec!["in", "out"], 1));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// `each` has seen all files that were closed:
    /// - [`Error::InvalidArgument`] (EINVAL) if `first` is greater than `last`.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied, or there is no memory for the descriptors in [quarantine](Self::set_quarantine).
    ///   The descriptors before that part are closed.
    pub fn close_range(
        &self,
        first: impl FdArg,
        last: impl FdArg,
        each: impl FnMut(ClosedFiles<T>),
    ) -> Result<(), Error> {
        let (first, last) = range_of(first, last)?;
        self.close_leaves(first, last, |leaf, meant| leaf.installed_of(meant), each)
    }

    /// Closes every descriptor that has [`CLOEXEC`](FdFlags::CLOEXEC), and passes the files to
    /// `each` like [`close_range`](Self::close_range). Before that, clears
    /// [`CLOFORK`](FdFlags::CLOFORK) of the others. Reserved descriptors stay reserved. May wait
    /// for the lock, and allocates where a part of the table is shared since a fork.
    ///
    /// A process that shares its table must get one of its own before it executes a program, as
    /// `execve(2)` says: [fork](Self::fork) it and call this on the new one.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) as for [`close_range`](Self::close_range). `each` has seen the
    /// files of the descriptors that are closed; another call continues.
    #[doc(alias = "execve")]
    #[doc(alias = "do_close_on_exec")]
    pub fn close_on_exec(&self, each: impl FnMut(ClosedFiles<T>)) -> Result<(), Error> {
        if self.has_had(FdFlags::CLOFORK) {
            let chosen = |leaf: &Leaf<T>, _| flagged(leaf, FdFlags::CLOFORK) & !leaf.cloexec.bits();
            self.change_flags(0, Fd::MAX.index(), chosen, |flags| flags - FdFlags::CLOFORK)?;
        }
        self.close_flagged(FdFlags::CLOEXEC, each)
    }

    /// Sets close-on-exec on every open descriptor from `first` to `last`, both included. May wait
    /// for the lock, and allocates where a part of the table is shared since a fork.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if `first` is greater than `last`.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied. The descriptors before that part are changed.
    #[doc(alias = "CLOSE_RANGE_CLOEXEC")]
    pub fn set_cloexec_range(&self, first: impl FdArg, last: impl FdArg) -> Result<(), Error> {
        let (first, last) = range_of(first, last)?;
        self.admit(FdFlags::CLOEXEC)?;
        let missing = |leaf: &Leaf<T>, meant| leaf.installed_of(meant & !leaf.cloexec.bits());
        self.change_flags(first, last, missing, |flags| flags | FdFlags::CLOEXEC)
    }
}

/// Checks a range of descriptors, both unsigned.
fn range_of(first: impl FdArg, last: impl FdArg) -> Result<(usize, usize), Error> {
    let (first, last) = (index_of(first.to_raw()), index_of(last.to_raw()));
    if first > last {
        Err(Error::InvalidArgument)
    } else {
        Ok((first, last))
    }
}

/// Returns the descriptors of a leaf that are open with a flag.
fn flagged<T: ?Sized>(leaf: &Leaf<T>, flag: FdFlags) -> u64 {
    if flag == FdFlags::CLOEXEC {
        return leaf.installed_of(leaf.cloexec.bits());
    }
    if !leaf.has_table() {
        return 0;
    }
    let has_it = |&bit: &usize| FdData::from_slot(leaf.data(bit)).flags.contains(flag);
    let chosen = bits_of(leaf.installed()).filter(has_it);
    chosen.fold(0, |chosen, bit| chosen | 1 << bit)
}

/// Files whose descriptors were closed in one step: 1 to 64. Dropping them drops the references
/// that the table had, in ascending order of the descriptors.
#[must_use = "dropping them releases the files: drop them outside of your locks"]
pub struct ClosedFiles<T: ?Sized> {
    /// The whole leaf, with its files. It releases them in ascending order itself.
    leaf: Option<Retired<T>>,
    /// Some of its files, if the leaf stays.
    files: ArrayVec<SlotRef<T>, BITS>,
    /// Their descriptors in the leaf, and the data of each.
    bits: u64,
    data: ArrayVec<FdData, BITS>,
    /// The first descriptor of the leaf.
    base: usize,
}

type Retired<T> = radix::Retired<T, LeafMeta>;

impl<T: ?Sized> ClosedFiles<T> {
    fn of_leaf(index: usize) -> Self {
        Self {
            leaf: None,
            files: ArrayVec::new(),
            bits: 0,
            data: ArrayVec::new(),
            base: index * BITS,
        }
    }

    fn is_empty(&self) -> bool {
        self.leaf.is_none() && self.files.is_empty()
    }

    /// Returns each file once for each of its descriptors that was closed, also revoked files. Each
    /// has a reference of its own: one atomic add, and another to drop it.
    pub fn files(&self) -> impl Iterator<Item = FileRef<T>> {
        self.descriptors().map(|(_, file, _)| file)
    }

    /// Returns each descriptor that was closed, with its file and its data, in ascending order.
    /// Each file has a reference of its own, as those of [`files`](Self::files) have.
    pub fn descriptors(&self) -> impl Iterator<Item = (Fd, FileRef<T>, FdData)> {
        let of_leaf = self.leaf.iter().flat_map(|leaf| {
            (0..BITS).filter_map(|bit| {
                let data = FdData::from_slot(leaf.leaf().data(bit));
                Some((bit, leaf.get(bit)?, data))
            })
        });
        let files = self.files.iter().map(|file| Ref::clone(file));
        let files = files.zip(self.data.iter().copied());
        let of_some = bits_of(self.bits).zip(files);
        let of_some = of_some.map(|(bit, (file, data))| (bit, file, data));
        of_leaf
            .chain(of_some)
            .map(|(bit, file, data)| (Fd::from_index(self.base + bit), FileRef(file), data))
    }
}

impl<T: ?Sized> fmt::Debug for ClosedFiles<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClosedFiles")
    }
}

impl<T: ?Sized> Drop for ClosedFiles<T> {
    /// Releases the files in ascending order, also if hooks panic.
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
    /// Closes the descriptors from `first` to `last` that `choose` picks in each leaf: it gets the
    /// leaf, and the set of the descriptors in the range. The files of each step are passed to
    /// `each`, outside of the lock. Continues after a panic of `each` or of a hook.
    fn close_leaves(
        &self,
        first: usize,
        last: usize,
        choose: impl Fn(&Leaf<T>, u64) -> u64,
        mut each: impl FnMut(ClosedFiles<T>),
    ) -> Result<(), Error> {
        let mut leaves = self.leaves(first, last);
        let mut closed = Ok(());
        unwind::finish(|| {
            closed = leaves.try_for_each(|(index, meant)| {
                self.close_some(index, |leaf| choose(leaf, meant), &mut each)
            });
        });
        closed
    }

    /// Closes every descriptor that is open with a flag, and passes the files to `each`.
    pub(crate) fn close_flagged(
        &self,
        flag: FdFlags,
        each: impl FnMut(ClosedFiles<T>),
    ) -> Result<(), Error> {
        // Pairs with the fence of a look for a free descriptor: a thread that has found another one
        // free, after it set a flag, is not later than this call.
        fence::full();
        if !self.has_had(flag) {
            return Ok(());
        }
        self.close_leaves(0, Fd::MAX.index(), |leaf, _| flagged(leaf, flag), each)
    }

    /// Changes the flags of the descriptors from `first` to `last` that `choose` picks in each
    /// leaf, as [`close_leaves`](Self::close_leaves) closes them.
    fn change_flags(
        &self,
        first: usize,
        last: usize,
        choose: impl Fn(&Leaf<T>, u64) -> u64,
        change: impl Fn(FdFlags) -> FdFlags,
    ) -> Result<(), Error> {
        let mut leaves = self.leaves(first, last);
        leaves.try_for_each(|(index, meant)| {
            let choose = |leaf: &Leaf<T>| choose(leaf, meant);
            let mut writer = self.tree.write();
            if Self::look(&writer, index, choose).is_none_or(|chosen| chosen == 0) {
                return Ok(());
            }
            self.make_writable(&mut writer, index)?;
            if let Some(mut leaf) = writer.lock_leaf(index) {
                for bit in bits_of(choose(&leaf)) {
                    let flags = FdData::from_slot(leaf.data(bit)).flags;
                    set_flags(&mut leaf, bit, change(flags));
                }
            }
            Ok(())
        })
    }

    /// Closes every open descriptor that is not kept. No other thread uses the table. A panic ends
    /// it: the caller drops the table.
    pub(crate) fn close_unkept(
        &self,
        mut keep: impl FnMut(Fd, &FileRef<T>, FdData) -> bool,
    ) -> Result<(), Error> {
        let mut leaves = self.leaves(0, Fd::MAX.index());
        leaves.try_for_each(|(index, _)| {
            let unkept = self.unkept(index, &mut keep);
            self.close_some(index, |_| unkept, drop)
        })
    }

    /// Returns the set of the open descriptors of a leaf that are not kept.
    fn unkept(&self, index: usize, keep: &mut impl FnMut(Fd, &FileRef<T>, FdData) -> bool) -> u64 {
        let is_unkept = |&bit: &usize| {
            let number = index * BITS + bit;
            self.peek(number)
                .is_some_and(|(file, data)| !keep(Fd::from_index(number), &file, data))
        };
        (0..BITS)
            .filter(is_unkept)
            .fold(0, |unkept, bit| unkept | 1 << bit)
    }

    /// Looks at a leaf while no thread changes it. During a close a descriptor is not open by its
    /// bit, but lookups still find its file.
    pub(crate) fn look<R>(
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
    pub(crate) fn leaves(&self, first: usize, last: usize) -> impl Iterator<Item = (usize, u64)> {
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

    /// Closes the descriptors that `choose` picks among the open ones of a leaf, and passes their
    /// files to `each`, if there are any.
    fn close_some(
        &self,
        index: usize,
        choose: impl Fn(&Leaf<T>) -> u64,
        each: impl FnOnce(ClosedFiles<T>),
    ) -> Result<(), Error> {
        // Nearly always the table owns the leaf, and then its lock is enough to find nothing.
        if let Some(reader) = self.tree.read()
            && let Some(leaf) = reader.lock_leaf(index)
            && choose(&leaf) == 0
        {
            return Ok(());
        }
        let mut closed = ClosedFiles::of_leaf(index);
        let mut writer = self.tree.write();
        let woken = self.close_chosen(&mut writer, index, choose, &mut closed)?;
        let hook = Self::close_hook(&writer);
        drop(writer);
        // First, since `each` may take long: the descriptors are free.
        drop(woken);
        match hook {
            _ if closed.is_empty() => {}
            None => each(closed),
            Some(hook) => {
                // Before `each` takes the files. None of these references is the last one.
                let files: ArrayVec<_, BITS> = closed.descriptors().collect();
                unwind::both(
                    || on_close::call_for_each(&*hook, files.into_iter()),
                    || each(closed),
                );
            }
        }
        Ok(())
    }

    /// Closes them with the lock held. Returns the waiters to wake, if something was closed.
    fn close_chosen(
        &self,
        writer: &mut WriteGuard<'_, T>,
        index: usize,
        choose: impl Fn(&Leaf<T>) -> u64,
        closed: &mut ClosedFiles<T>,
    ) -> Result<Option<Woken>, Error> {
        let is_all = |leaf: &Leaf<T>| choose(leaf) == leaf.open.bits();
        let seen = Self::look(writer, index, |leaf| (choose(leaf), is_all(leaf)));
        let Some((_, seen_all)) = seen.filter(|&(chosen, _)| chosen != 0) else {
            return Ok(None);
        };
        if seen_all && !writer.is_quarantine_on() {
            closed.leaf = self.remove_leaf(writer, index, is_all)?;
        }
        // It may have become empty and gone meanwhile.
        if closed.leaf.is_none() && writer.leaf(index).is_some() {
            self.make_writable(writer, index)?;
            self.close_each(writer, index, choose, closed)?;
        }
        Ok(Some(Self::take_waiters(writer)))
    }

    /// Closes descriptors of a writable leaf.
    fn close_each(
        &self,
        writer: &mut WriteGuard<'_, T>,
        index: usize,
        choose: impl Fn(&Leaf<T>) -> u64,
        closed: &mut ClosedFiles<T>,
    ) -> Result<(), Error> {
        Self::prepare_quarantine(writer)?;
        let quarantine = writer.is_quarantine_on();
        let mut chosen = 0;
        let mut reports = Reports::Few;
        if let Some(mut leaf) = writer.lock_leaf(index) {
            chosen = choose(&leaf);
            closed.bits = chosen;
            for bit in bits_of(chosen) {
                if !quarantine {
                    reports = reports.max(self.free_in(&mut leaf, index, bit));
                }
                closed.data.push(FdData::from_slot(leaf.data(bit)));
                closed.files.extend(leaf.remove(bit));
            }
        }
        if quarantine {
            for bit in bits_of(chosen) {
                reports = reports.max(self.enter_quarantine(writer, index * BITS + bit));
            }
        }
        if reports == Reports::Many || self.free_hint.is_marked() {
            self.drain_and_hint(writer);
        }
        Ok(())
    }

    /// Removes a leaf if the range has all its descriptors. If it is below the second leaf of
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
