//! The sequence for the model checker, step by step as in the assembly.

use core::ptr;

use fdtable_sync::bitmap::BITS;
use fdtable_sync::platform::atomic::Ordering::Acquire;
use fdtable_sync::sequence::Area;
use fdtable_sync::sequence::model::{Interrupted, Sequence, run};

use super::super::Tree;
use super::super::leaf::{Leaf, LeafState};
use super::super::node::{Root, interior, leaf};
use super::{Added, NonNull, REVOCATIONS};
use crate::object;

pub(super) use fdtable_sync::rcu::sequence_area as area;

/// (A) to (N)
pub(super) fn add<T: ?Sized, S: LeafState, D>(tree: &Tree<T, S, D>, slot: usize, _: Area) -> Added {
    const NOTHING: Added = Added {
        raw: ptr::null_mut(),
        before: 0,
        any_revoked: false,
    };
    run(|sequence| {
        let Some(leaf) = walk(tree, slot / BITS, sequence)? else {
            return Ok(NOTHING);
        };
        // (L) Acquire: as in `Slot::borrow`.
        let raw = sequence.step(|| leaf.slots.0[slot % BITS].raw.load(Acquire))?;
        let Some(block) = NonNull::new(raw) else {
            return Ok(NOTHING);
        };
        // (V)
        let any_revoked = sequence.step(|| REVOCATIONS.any())?;
        // (N)
        // SAFETY: that the block is there is what the models check.
        let before = sequence.step(|| unsafe { object::add(block) })?;
        Ok(Added {
            raw,
            before,
            any_revoked,
        })
    })
}

fn walk<'t, T: ?Sized, S: LeafState, D>(
    tree: &'t Tree<T, S, D>,
    index: usize,
    sequence: &Sequence,
) -> Result<Option<&'t Leaf<T, S>>, Interrupted> {
    if index == 0 {
        return Ok(Some(&tree.first));
    }
    // Acquire, both: as in the walk of a section.
    let root = sequence.step(|| Root::unpack(tree.shared.root.load(Acquire)))?;
    if !root.covers(index) || root.node.is_null() {
        return Ok(None);
    }
    let mut node = root.node;
    for level in (1..=root.height).rev() {
        // SAFETY: that the node is there is what the models check.
        let parent = unsafe { interior(node) };
        node = sequence.step(|| parent.child(index, level).load(Acquire))?;
        if node.is_null() {
            return Ok(None);
        }
    }
    // SAFETY: as above.
    Ok(Some(unsafe { leaf(node) }))
}
