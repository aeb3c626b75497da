//! Two descriptors at once: `pipe(2)` and `socketpair(2)`.
//!
//! The fast path takes both in the leaf of the [`Room`](fdtable_base::room)'s hint. The proof that
//! the lowest descriptor there is the lowest of all (see [`lowest`](super::lowest)) holds at one
//! point in time, with the leaf locked: every leaf below is full. So the next free descriptor of
//! the leaf at that time is the second lowest. The slow path takes both at one time too (see
//! [`several`](super::several)).

use core::hint::cold_path;

use fdtable_base::bitmap::BITS;
use fdtable_base::counted::Ref;

use super::lowest::FIRST;
use super::{FdTable, LeafGuard, Structure, Way, place_of, take};
use crate::{Error, Fd, FdFlags};

type Pair<T> = (Ref<T>, Ref<T>);

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Opens two files at the two lowest free descriptors, the first at the lower one.
    ///
    /// If there is an error, both are dropped, outside of all locks.
    #[inline]
    pub(crate) fn open_pair(&self, pair: Pair<T>, flags: FdFlags) -> Result<(Fd, Fd), Error> {
        // Nearly always the lock of the leaf is free. Then this makes no calls.
        let opened = self.open_pair_hinted(pair, flags, Way::Prompt);
        opened.or_else(|pair| self.open_pair_patiently(pair, flags))
    }

    #[inline(never)]
    fn open_pair_patiently(&self, pair: Pair<T>, flags: FdFlags) -> Result<(Fd, Fd), Error> {
        let opened = self.open_pair_hinted(pair, flags, Way::Patient);
        opened.or_else(|pair| self.open_pair_searching(pair, flags))
    }

    /// Opens both in the leaf of the hint, or returns them.
    #[inline(always)]
    fn open_pair_hinted(
        &self,
        pair: Pair<T>,
        flags: FdFlags,
        way: Way,
    ) -> Result<(Fd, Fd), Pair<T>> {
        let Some(entry) = way.enter(&self.tree) else {
            return Err(pair);
        };
        let Some(hint) = self.room.hint() else {
            cold_path();
            return Err(pair);
        };
        let found = entry.recent(FIRST, hint.leaf());
        // Before the lock, so that a full leaf is not written.
        let found = found.filter(|found| !found.looks_full());
        let Some(mut leaf) = found.and_then(|found| way.lock_found(found)) else {
            cold_path();
            return Err(pair);
        };
        let Some((first, second)) = lowest_two_in(&leaf) else {
            cold_path();
            return Err(pair);
        };
        let base = hint.leaf() * BITS;
        if base + second >= self.room.limit() || !self.room.is_confirmed(hint) {
            cold_path();
            return Err(pair);
        }
        take(&mut leaf, first, flags, Some(pair.0));
        take(&mut leaf, second, flags, Some(pair.1));
        Ok((Fd::from_index(base + first), Fd::from_index(base + second)))
    }

    /// Searches for both.
    fn open_pair_searching(&self, pair: Pair<T>, flags: FdFlags) -> Result<(Fd, Fd), Error> {
        let mut fds = [Fd::MIN; 2];
        let mut structure = self.tree.lock();
        // Until the files are there, a call that asks for one of them by name finds it reserved.
        self.search_several(&mut structure, &mut fds, flags, |_| Ok(()))?;
        let [first, second] = fds;
        Self::put_in(&structure, first, pair.0);
        Self::put_in(&structure, second, pair.1);
        Ok((first, second))
    }

    /// Installs a file at a descriptor that was taken under the lock of the structure.
    fn put_in(structure: &Structure<'_, T>, fd: Fd, file: Ref<T>) {
        let (index, bit) = place_of(fd.index());
        let leaf = structure.lock_leaf(index);
        debug_assert!(leaf.is_some(), "a leaf with a taken descriptor stays");
        if let Some(mut leaf) = leaf {
            leaf.put(bit, file);
        }
    }
}

/// Finds the two lowest free descriptors of a leaf.
#[inline(always)]
fn lowest_two_in<T: ?Sized>(leaf: &LeafGuard<'_, T>) -> Option<(usize, usize)> {
    let first = leaf.open.lowest_clear(0)?;
    let second = leaf.open.lowest_clear(first + 1)?;
    Some((first, second))
}
