//! Notices: how closes report free descriptors to searches.
//!
//! A close in a leaf that a search has passed over leaves a notice, and so does one that empties a
//! leaf; each leaf has one notice at most. Searches take the notices. Now and then a thread that
//! leaves one takes them too: then a table's memory is freed also when no thread opens anything.

use fdtable_base::room::{List, Notices};

use super::{FdTable, LeafGuard, Mark, Structure};

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Notes that a descriptor of the leaf of `index` was freed.
    #[inline(always)]
    pub(super) fn note_freed(&self, leaf: &mut LeafGuard<'_, T>, index: usize) -> Notices {
        match leaf.state().mark {
            Mark::Noticed => Notices::Few,
            Mark::Open if leaf.open.bits() != 0 => Notices::Few,
            Mark::Open | Mark::Passed => self.leave_notice(leaf, index),
        }
    }

    /// Leaves a notice of a leaf, unless it is open and may be empty. So the leaf was passed over,
    /// or is empty and neither claimed nor hinted at.
    #[cold]
    fn leave_notice(&self, leaf: &mut LeafGuard<'_, T>, index: usize) -> Notices {
        if leaf.state().mark == Mark::Open && self.may_be_empty(leaf, index) {
            return Notices::Few;
        }
        leaf.state_mut().mark = Mark::Noticed;
        self.room
            .leave_notice(index, |next| leaf.state_mut().next_notice = next)
    }

    /// Returns true if a leaf stays when it is empty: an open there is likely soon.
    #[inline(always)]
    pub(super) fn may_be_empty(&self, leaf: &LeafGuard<'_, T>, index: usize) -> bool {
        index == 0 || leaf.state().claim != 0 || self.room.is_hinted(index)
    }

    /// Takes the notices if they are many. If another thread holds the lock of the structure, that
    /// thread will take them.
    #[inline(always)]
    pub(super) fn look_at(&self, notices: Notices) {
        if notices == Notices::Many {
            self.look_now();
        }
    }

    #[cold]
    fn look_now(&self) {
        if let Some(mut structure) = self.tree.try_lock() {
            self.settle(&mut structure);
        }
    }

    /// Takes all notices without a search, and returns the first leaf of the new hint.
    pub(super) fn settle(&self, structure: &mut Structure<'_, T>) -> usize {
        let hint = self.take_notices(structure);
        self.hint_at(structure, hint);
        hint
    }

    /// Sets the hint to a leaf. All leaves below are passed, and every notice left since
    /// [`begin_search`](fdtable_base::room::Room::begin_search) was taken.
    pub(super) fn hint_at(&self, structure: &mut Structure<'_, T>, index: usize) {
        let second = self.choose_second(structure, index);
        // It may not exist. A thread that removes or copies a leaf holds the lock of the structure,
        // which this thread holds now.
        drop(structure.lock_leaf(index));
        self.room.set_hint(index, second);
    }

    /// Chooses the second leaf for a hint that begins with `first`: the next one that is not
    /// passed, if it exists and no CPU has claimed it. Otherwise opens of the lowest descriptor
    /// would write the cache lines of another CPU. Where descriptors are opened one after another
    /// it does not exist. Records both in the tree, at [`FIRST`](super::lowest) and `SECOND`. The
    /// caller locks the first, and sets the hint.
    pub(super) fn choose_second(
        &self,
        structure: &mut Structure<'_, T>,
        first: usize,
    ) -> Option<usize> {
        let next = structure.next_not_full(first + 1);
        let is_claimed = |leaf: LeafGuard<'_, T>| leaf.state().claim != 0;
        let second = structure
            .leaf(next)
            .filter(|_| !structure.lock_leaf(next).is_some_and(is_claimed))
            .map(|_| next);
        structure.set_recent([first, second.unwrap_or(0)]);
        let before = self.room.second();
        if before != second
            && let Some(before) = before
        {
            Self::leave_idle(structure, before, [first, second.unwrap_or(first)]);
        }
        second
    }

    /// Takes all notices, unmarks their leaves and leaves the empty ones idle. Returns the first
    /// leaf of the new hint, which the caller sets by [`hint_at`](Self::hint_at).
    pub(super) fn take_notices(&self, structure: &mut Structure<'_, T>) -> usize {
        self.room.begin_search();
        let mut hint = self.room.hinted();
        while let Some(list) = self.room.take_notices() {
            let mut next = Some(list);
            while let Some(list) = next {
                let index = list.first();
                next = Self::take_notice(structure, index);
                // The search looks at the lower one next, so it stays; the other may be removed if
                // it is empty.
                let lower = index.min(hint);
                Self::leave_idle(structure, index.max(hint), [lower; 2]);
                hint = lower;
            }
        }
        hint
    }

    /// Takes the notice of a leaf, and returns the rest of its list.
    fn take_notice(structure: &Structure<'_, T>, index: usize) -> Option<List> {
        let leaf = structure.lock_leaf(index);
        debug_assert!(leaf.is_some(), "a leaf with a notice stays");
        let mut leaf = leaf?;
        leaf.state_mut().mark = Mark::Open;
        structure.mark_free(index);
        List::of(leaf.state().next_notice)
    }

    /// Removes a leaf if it is empty, unclaimed and without a notice.
    pub(super) fn remove_if_empty(structure: &mut Structure<'_, T>, index: usize) {
        // Checked before, since a shared leaf is removed even if it is not empty.
        if Self::is_empty(structure, index) {
            // It stays if there is no memory, which does no harm. It has no files to release.
            drop(structure.remove_if(index, may_go));
        }
    }

    /// Returns true if a leaf exists that [`remove_if_empty`](Self::remove_if_empty) would remove.
    pub(super) fn is_empty(structure: &Structure<'_, T>, index: usize) -> bool {
        structure.lock_leaf(index).is_some_and(|leaf| may_go(&leaf))
    }
}

/// Returns true if a leaf is empty, unclaimed and without a notice.
fn may_go<T: ?Sized>(leaf: &LeafGuard<'_, T>) -> bool {
    leaf.open.bits() == 0 && leaf.state().claim == 0 && leaf.state().mark == Mark::Open
}
