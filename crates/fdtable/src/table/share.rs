//! The table of a child: `fork(2)`.
//!
//! Both tables have the same nodes, and copy those that they write (see [`fdtable_base::tree`]).
//! The copy is atomic: the gate is shut, so no thread is inside a leaf.
//!
//! Before that, notices are taken: a notice says that a leaf is not full although it is marked as
//! full, and the marks are in the nodes that will be shared. A leaf with a reservation is not
//! shared. It stays the parent's own, and in the child's copy these descriptors are free.

use alloc::vec::Vec;

use fdtable_base::fallible::OutOfMemory;

use super::{FdTable, Mark, Origin, Structure};
use crate::Error;

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Makes `child` a copy of this table, except the quarantine. `child` is empty and not shared
    /// yet. Returns the number of opens that a descriptor waits for in this table's quarantine.
    pub(crate) fn fork_into(&self, child: &mut Self) -> Result<u32, Error> {
        let mut structure = self.tree.lock();
        let quarantine = structure.quarantine.opens();
        child.end.set_origin(Origin::Fork);
        child.set_limits_of(self.room.limit(), structure.hard_limit);
        if !structure.has_nodes() {
            structure.share_with(&mut child.tree, core::iter::empty())?;
            return Ok(quarantine);
        }
        structure.shut_gate();
        let forked = self.fork_shut(&mut structure, child);
        structure.open_gate();
        forked.map(|()| quarantine)
    }

    fn fork_shut(&self, structure: &mut Structure<'_, T>, child: &mut Self) -> Result<(), Error> {
        // The child's leaves may be marked as passed; then it must be able to leave notices.
        child.room.prepare()?;
        self.settle(structure);
        // A child does not need them, and has no list of them.
        Self::remove_idle(structure);
        let kept = reserved_leaves(structure)?;
        structure.share_with(&mut child.tree, kept.iter().copied())?;
        kept.iter().for_each(|&index| child.drop_reserved(index));
        Ok(())
    }

    /// Frees the descriptors of a leaf that have no file, in the table of a child.
    fn drop_reserved(&mut self, index: usize) {
        let mut structure = self.tree.lock();
        if let Some(mut leaf) = structure.lock_leaf(index) {
            leaf.open.replace(leaf.installed());
            // The child's searches begin at the first leaf.
            leaf.state_mut().mark = Mark::Open;
            structure.mark_free(index);
        }
        Self::remove_if_empty(&mut structure, index);
    }
}

fn reserved_leaves<T: ?Sized + Send + Sync>(
    structure: &Structure<'_, T>,
) -> Result<Vec<usize>, OutOfMemory> {
    let mut kept = Vec::new();
    kept.try_reserve_exact(structure.reserved.leaves().count())
        .map_err(|_| OutOfMemory)?;
    kept.extend(structure.reserved.leaves());
    Ok(kept)
}
