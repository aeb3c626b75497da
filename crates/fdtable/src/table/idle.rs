//! Idle leaves: those that are empty and stay for a while, since numbers come and go in bursts.
//!
//! A leaf that a burst needs and the next one needs again would be made and freed each time, and
//! its bytes cleared. So the last few leaves of a table that became empty stay where they are. Each
//! goes when as many have become empty after it, if it is empty still. A search finds an idle leaf
//! as any other, and an open takes its numbers without knowing.

use super::{FdTable, Structure};

/// How many leaves of a table may be idle: 512 numbers, in five kilobytes.
const MOST: usize = if cfg!(loom) { 1 } else { 8 };

/// The leaves that were found empty last. Some may have numbers again, or be gone.
#[derive(Default)]
pub(super) struct Idle {
    /// Their indexes. The first leaf of a table, 0, always stays: it stands for none.
    leaves: [u32; MOST],
    /// Which of them is the oldest.
    oldest: usize,
}

impl Idle {
    /// Notes a leaf, and returns the one that it takes the place of.
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
    /// Has a leaf stay idle if it is empty, and removes the one that has been idle for longest
    /// instead, unless that is to be `kept`, since opens are to look there.
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
