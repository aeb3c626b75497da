//! Closing many numbers: `close_range(2)`, and `execve(2)`.
//!
//! The range is worked off leaf by leaf, each in one step. A leaf that loses all that it has is
//! taken out of the tree as it is, also one that is shared: no copy is made to be emptied.

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

/// The files that were taken out of one leaf. They are released when this is dropped: after the
/// lock.
#[must_use = "dropping this runs release hooks; do it outside of the lock"]
struct Released<T: ?Sized> {
    /// The whole leaf, with its files.
    leaf: Option<Retired<T>>,
    /// Or some of its files.
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
    /// Releases each of the files in ascending order, also if hooks panic. A leaf does so itself.
    fn drop(&mut self) {
        self.files.reverse();
        unwind::finish(|| {
            while let Some(file) = self.files.pop() {
                drop(file);
            }
        });
    }
}

/// Files whose descriptors were closed in one step, and which are released soon.
pub(crate) struct Closed<'r, T: ?Sized>(&'r Released<T>);

impl<'r, T: ?Sized> Closed<'r, T> {
    /// Returns each of the files once for each of its descriptors.
    pub(crate) fn files(self) -> impl Iterator<Item = Ref<T>> + 'r {
        let leaf = self.0.leaf.iter();
        let of_leaf = leaf.flat_map(|leaf| (0..BITS).filter_map(|bit| leaf.get(bit)));
        of_leaf.chain(self.0.files.iter().cloned())
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Closes every open number from `first` to `last`. What is closed in one step is shown to
    /// `flush`, outside of the lock. Goes on after a panic of `flush` or of a hook.
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

    /// Closes every open number that is to be closed on exec, as `close_range`.
    pub(crate) fn close_on_exec(&self, mut flush: impl FnMut(Closed<'_, T>)) -> Result<(), Error> {
        let chosen = |leaf: &Leaf<T>| leaf.installed_of(leaf.cloexec.bits());
        let mut leaves = self.leaves(0, Fd::MAX.index());
        let mut closed = Ok(());
        unwind::finish(|| {
            closed = leaves.try_for_each(|(index, _)| self.close_some(index, chosen, &mut flush));
        });
        closed
    }

    /// Closes every open number that is not kept, in a table that nobody else has. A panic ends it:
    /// the caller drops the table.
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

    /// Picks what is not kept among the open numbers of a leaf.
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

    /// Has every open number from `first` to `last` closed on exec.
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

    /// Looks at a leaf when nobody is changing it: a number that is being closed is not open any
    /// more by its bit, and others still find its file.
    fn look<R>(
        structure: &Structure<'_, T>,
        index: usize,
        look: impl FnOnce(&Leaf<T>) -> R,
    ) -> Option<R> {
        match structure.lock_leaf(index) {
            Some(leaf) => Some(look(&leaf)),
            // Shared, so that nobody writes it; or not there.
            None => structure.leaf(index).map(look),
        }
    }

    /// Iterates over the leaves that have numbers from `first` to `last`. Returns the index of
    /// each, and which of its numbers these are.
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

    /// Closes what `choose` picks among the open numbers of a leaf.
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
        // Before the files are shown, which may take long: the numbers are free.
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

    /// Closes numbers of a leaf that can be written.
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

    /// Takes a leaf out if all that it has is to go. If it is below the second of the hint, opens
    /// look there next. Before it is gone the hint is stale: who finds the leaf gone, and so a
    /// number not open, does not open a higher one.
    fn remove_leaf(
        &self,
        structure: &mut Structure<'_, T>,
        index: usize,
        is_all: impl Fn(&Leaf<T>) -> bool,
    ) -> Result<Option<Retired<T>>, Error> {
        let hint = self.room.hinted();
        let is_hinted = index < self.room.second().unwrap_or(hint);
        let hint = is_hinted.then(|| self.take_notices(structure));
        // Asked again of a leaf that others may write, once it is locked.
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
