//! Closing many descriptors: `close_range(2)`, and `execve(2)`.
//!
//! The range is closed leaf by leaf, each atomically. A leaf that loses all its descriptors is
//! removed from the tree as it is, also a shared one: no copy is made only to be emptied.

use arrayvec::ArrayVec;
use fdtable_base::bitmap::BITS;
use fdtable_base::counted::Ref;
use fdtable_base::leaf::bits_of;
use fdtable_base::rcu;
use fdtable_base::tree;
use fdtable_base::unwind;

use super::waiters::Woken;
use super::{FdTable, Leaf, Mark, Notes, Structure, flags_in, mask};
use crate::{Error, Fd, FdFlags};

type Retired<T> = tree::Retired<T, Notes>;

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

/// Files whose descriptors were closed in one step. They are released soon.
pub(crate) struct Closed<'r, T: ?Sized>(&'r Released<T>);

impl<'r, T: ?Sized> Closed<'r, T> {
    /// Returns each file once for each of its descriptors.
    pub(crate) fn files(self) -> impl Iterator<Item = Ref<T>> + 'r {
        let leaf = self.0.leaf.iter();
        let of_leaf = leaf.flat_map(|leaf| (0..BITS).filter_map(|bit| leaf.get(bit)));
        of_leaf.chain(self.0.files.iter().cloned())
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Closes every open descriptor from `first` to `last`. The files of each step are passed to
    /// `flush`, outside of the lock. Continues after a panic of `flush` or of a hook.
    pub(crate) fn close_range(
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

    /// Closes every open descriptor with close-on-exec, like [`close_range`](Self::close_range).
    pub(crate) fn close_on_exec(&self, mut flush: impl FnMut(Closed<'_, T>)) -> Result<(), Error> {
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
    pub(crate) fn set_cloexec_range(&self, first: usize, last: usize) -> Result<(), Error> {
        let mut leaves = self.leaves(first, last);
        leaves.try_for_each(|(index, meant)| {
            let mut structure = self.tree.lock();
            let missing = |leaf: &Leaf<T>| meant & leaf.installed() & !leaf.cloexec.bits();
            if Self::look(&structure, index, missing).is_none_or(|missing| missing == 0) {
                return Ok(());
            }
            self.own(&mut structure, index)?;
            if let Some(leaf) = structure.lock_leaf(index) {
                leaf.cloexec.replace(leaf.cloexec.bits() | missing(&leaf));
            }
            Ok(())
        })
    }

    /// Looks at a leaf while no thread changes it. During a close a descriptor is not open by its
    /// bit, but lookups still find its file.
    fn look<R>(
        structure: &Structure<'_, T>,
        index: usize,
        look: impl FnOnce(&Leaf<T>) -> R,
    ) -> Option<R> {
        match structure.lock_leaf(index) {
            Some(leaf) => Some(look(&leaf)),
            // Shared, so no thread writes it; or it does not exist.
            None => structure.leaf(index).map(look),
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
        let mut structure = self.tree.lock();
        self.close_chosen(&mut structure, index, choose, &mut released)?;
        drop(structure);
        // First, since `flush` may take long: the descriptors are free.
        drop(released.woken.take());
        // A panic of `flush` releases them too.
        flush(Closed(&released));
        Ok(())
    }

    fn close_chosen(
        &self,
        structure: &mut Structure<'_, T>,
        index: usize,
        choose: impl Fn(&Leaf<T>) -> u64,
        released: &mut Released<T>,
    ) -> Result<(), Error> {
        let is_all = |leaf: &Leaf<T>| choose(leaf) == leaf.open.bits();
        let seen = Self::look(structure, index, |leaf| (choose(leaf), is_all(leaf)));
        let Some((_, seen_all)) = seen.filter(|&(chosen, _)| chosen != 0) else {
            return Ok(());
        };
        if seen_all && !structure.quarantine.is_on() {
            released.leaf = self.remove_leaf(structure, index, is_all)?;
        }
        // It may have become empty and gone meanwhile.
        if released.leaf.is_none() && structure.leaf(index).is_some() {
            self.own(structure, index)?;
            self.close_each(structure, index, choose, &mut released.files)?;
        }
        released.woken = Some(Self::take_waiters(structure));
        Ok(())
    }

    /// Closes descriptors of a writable leaf.
    fn close_each(
        &self,
        structure: &mut Structure<'_, T>,
        index: usize,
        choose: impl Fn(&Leaf<T>) -> u64,
        files: &mut ArrayVec<Ref<T>, BITS>,
    ) -> Result<(), Error> {
        Self::prepare_quarantine(structure)?;
        let quarantine = structure.quarantine.is_on();
        let mut chosen = 0;
        if let Some(mut leaf) = structure.lock_leaf(index) {
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
                let _ = self.enter_quarantine(structure, index * BITS + bit);
            }
        }
        if self.room.has_notices() {
            self.settle(structure);
        }
        Ok(())
    }

    /// Removes a leaf if all its descriptors are to be closed. If it is below the second leaf of
    /// the hint, opens look there next. The hint becomes stale before the leaf is removed. So a
    /// thread that finds the leaf gone, and thus a descriptor not open, does not open a higher one.
    fn remove_leaf(
        &self,
        structure: &mut Structure<'_, T>,
        index: usize,
        is_all: impl Fn(&Leaf<T>) -> bool,
    ) -> Result<Option<Retired<T>>, Error> {
        let hint = self.room.hinted();
        let is_hinted = index < self.room.second().unwrap_or(hint);
        let hint = is_hinted.then(|| self.take_notices(structure));
        // Checked again under the lock of the leaf, if other threads may write it.
        let removed = structure.remove_if(index, |leaf| {
            is_all(leaf) && leaf.state().mark != Mark::Noticed
        });
        if let Some(hint) = hint {
            let is_gone = removed.as_ref().is_ok_and(Option::is_some);
            let lower = if is_gone { index.min(hint) } else { hint };
            self.hint_at(structure, lower);
            if lower < hint {
                Self::remove_if_empty(structure, hint);
            }
        }
        Ok(removed?)
    }
}
