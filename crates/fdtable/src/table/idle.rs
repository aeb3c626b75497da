//! Idle leaves: empty leaves that stay for a while, since opens and closes come in bursts.
//!
//! If a leaf were freed as soon as it is empty, consecutive bursts would each make it and free it,
//! and clear its bytes. So the last few leaves of a table that became empty stay where they are. An
//! idle leaf is removed when as many others have become empty after it, if it is still empty. A
//! search finds an idle leaf like any other, and an open takes its descriptors without a special
//! case.

use super::{FdTable, Structure};

/// How many leaves of a table may be idle: 512 descriptors, in five kilobytes.
const MOST: usize = if cfg!(loom) { 1 } else { 8 };

/// The leaves that were found empty last. Some may have descriptors again, or be removed.
#[derive(Default)]
pub(super) struct Idle {
    /// Their indexes. The first leaf of a table, 0, always stays: here 0 means none.
    leaves: [u32; MOST],
    /// The position of the oldest.
    oldest: usize,
}

impl Idle {
    /// Notes a leaf, and returns the one that it replaces.
    fn note(&mut self, index: usize) -> Option<usize> {
        // Indexes are below 2^25.
        let index = index as u32;
        if self.leaves.contains(&index) {
            return None;
        }
        let before = core::mem::replace(&mut self.leaves[self.oldest], index);
        self.oldest = (self.oldest + 1) % MOST;
        (before != 0).then_some(before as usize)
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Leaves an empty leaf idle, and removes the one that was idle longest. That one stays if it
    /// is in `kept`, since opens are to look there, or if it is not empty.
    pub(super) fn leave_idle(structure: &mut Structure<'_, T>, index: usize, kept: [usize; 2]) {
        if index != 0
            && Self::is_empty(structure, index)
            && let Some(before) = structure.idle.note(index)
            && !kept.contains(&before)
        {
            Self::remove_if_empty(structure, before);
        }
    }

    /// Removes the leaves that are idle, also those that opens look at: the next open searches.
    pub(super) fn remove_idle(structure: &mut Structure<'_, T>) {
        let idle = core::mem::take(&mut structure.idle);
        for index in idle.leaves {
            Self::remove_if_empty(structure, index as usize);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_many_goes() {
        let mut idle = Idle::default();
        for index in 1..=MOST {
            assert_eq!(idle.note(index), None);
            assert_eq!(idle.note(index), None, "it is there already");
        }
        assert_eq!(idle.note(100), Some(1));
        assert_eq!(idle.note(1), Some(2));
    }
}
