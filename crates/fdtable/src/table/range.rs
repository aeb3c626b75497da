//! Closing many numbers: `close_range(2)`, and `execve(2)`.
//!
//! The range is worked off leaf by leaf, each in one step. A leaf that loses all that it has is
//! taken out of the tree as it is, also one that is shared: no copy is made to be emptied.

use fdtable_base::bitmap::BITS;
use fdtable_base::counted::Ref;
use fdtable_base::leaf::bits_of;
use fdtable_base::rcu;
use fdtable_base::room::Notices;
use fdtable_base::tree;

use super::{FdTable, Leaf, Mark, Notes, Structure, mask};
use crate::{Error, Fd};

/// The files that were taken out of one leaf. They are released when this is dropped: after the
/// lock.
#[must_use = "dropping this runs release hooks; do it outside of the lock"]
struct Released<T: ?Sized> {
    /// The whole leaf, with its files.
    leaf: Option<tree::Retired<T, Notes>>,
    files: [Option<Ref<T>>; BITS],
}

impl<T: ?Sized> Released<T> {
    fn new() -> Self {
        Self {
            leaf: None,
            files: [const { None }; BITS],
        }
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Closes every open number from `first` to `last`.
    pub(crate) fn close_range(&self, first: usize, last: usize) -> Result<(), Error> {
        self.for_each_leaf(first, last, |index, meant| {
            self.close_some(index, |leaf| meant & leaf.installed())
        })
    }

    /// Closes every open number that is to be closed on exec.
    pub(crate) fn close_on_exec(&self) -> Result<(), Error> {
        self.for_each_leaf(0, Fd::MAX.index(), |index, _| {
            self.close_some(index, |leaf| leaf.cloexec.bits() & leaf.installed())
        })
    }

    /// Has every open number from `first` to `last` closed on exec.
    pub(crate) fn set_cloexec_range(&self, first: usize, last: usize) -> Result<(), Error> {
        self.for_each_leaf(first, last, |index, meant| {
            let mut structure = self.tree.lock();
            let missing = |leaf: &Leaf<T>| meant & leaf.installed() & !leaf.cloexec.bits();
            if structure.leaf(index).is_none_or(|leaf| missing(leaf) == 0) {
                return Ok(());
            }
            self.own(&mut structure, index)?;
            if let Some(leaf) = structure.lock_leaf(index) {
                leaf.cloexec.replace(leaf.cloexec.bits() | missing(&leaf));
            }
            Ok(())
        })
    }

    /// Visits the leaves that have numbers from `first` to `last`, and tells of each which of its
    /// numbers are meant.
    fn for_each_leaf(
        &self,
        first: usize,
        last: usize,
        mut visit: impl FnMut(usize, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut from = first / BITS;
        loop {
            let next = {
                let section = rcu::read_lock();
                self.tree.next(from, &section).map(|(index, _)| index)
            };
            let Some(index) = next.filter(|&index| index * BITS <= last) else {
                return Ok(());
            };
            let base = index * BITS;
            let meant = mask(first.saturating_sub(base), (last - base).min(BITS - 1));
            visit(index, meant)?;
            from = index + 1;
        }
    }

    /// Closes what `choose` picks among the open numbers of a leaf.
    fn close_some(&self, index: usize, choose: impl Fn(&Leaf<T>) -> u64) -> Result<(), Error> {
        let mut structure = self.tree.lock();
        let released = self.close_chosen(&mut structure, index, choose)?;
        drop(structure);
        drop(released);
        Ok(())
    }

    fn close_chosen(
        &self,
        structure: &mut Structure<'_, T>,
        index: usize,
        choose: impl Fn(&Leaf<T>) -> u64,
    ) -> Result<Released<T>, Error> {
        let mut released = Released::new();
        let Some(leaf) = structure.leaf(index).filter(|leaf| choose(leaf) != 0) else {
            return Ok(released);
        };
        let is_all = |leaf: &Leaf<T>| choose(leaf) == leaf.open.bits();
        if is_all(leaf) {
            // Asked again of a leaf that others may write, once it is locked.
            let removed = structure.remove_if(index, |leaf| {
                is_all(leaf) && leaf.state().mark != Mark::Noticed
            })?;
            if removed.is_some() {
                self.lower_hint(index);
                released.leaf = removed;
                return Ok(released);
            }
        }
        self.own(structure, index)?;
        let mut notices = Notices::Few;
        if let Some(mut leaf) = structure.lock_leaf(index) {
            for bit in bits_of(choose(&leaf)) {
                released.files[bit] = leaf.exchange(bit, None);
                notices = self.free_in(&mut leaf, index, bit);
            }
        }
        if notices == Notices::Many {
            let hint = self.take_notices(structure);
            self.room.set_hint(hint);
        }
        Ok(released)
    }

    /// Has searches begin at a leaf, if it is below the hint: all its numbers are free.
    fn lower_hint(&self, index: usize) {
        if index < self.room.hinted() {
            self.room.begin_search();
            self.room.set_hint(index);
        }
    }
}
