//! The sequence for the model checker, step by step as in the assembly.

use core::ptr;

use fdtable_sync::bitmap::BITS;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed};
use fdtable_sync::refcount::spread;
use fdtable_sync::sequence::Area;
use fdtable_sync::sequence::model::{Interrupted, Sequence, run};

use super::super::Tree;
use super::super::leaf::{Leaf, LeafState};
use super::super::node::{Root, interior, leaf};
use super::{Added, COLD, NonNull, REVOCATIONS, hot_bit};
use crate::object::IN_PART;
use crate::object::header::Header;

pub(super) use fdtable_sync::rcu::sequence_area as area;
pub(super) use fdtable_sync::sequence::model::cpu;

pub(super) use self::add as add_in_first;

/// (A) to (N)
pub(super) fn add<T: ?Sized, S: LeafState, D>(tree: &Tree<T, S, D>, slot: usize, _: Area) -> Added {
    const NOTHING: Added = Added {
        raw: ptr::null_mut(),
        before: 0,
        noted: 0,
    };
    // weaken: walk-outside-of-the-sequence
    run(|sequence| {
        let Some(leaf) = walk(tree, slot / BITS, sequence)? else {
            return Ok(NOTHING);
        };
        // (L) Acquire: as in `Slot::borrow`.
        // weaken: revocations-that-a-sequence-reads-first
        let raw = sequence.step(|| leaf.slots.0[slot % BITS].raw.load(Acquire))?;
        let Some(block) = NonNull::new(raw) else {
            return Ok(NOTHING);
        };
        // (V)
        // weaken: revocations-that-a-sequence-reads-first
        let mut noted = sequence.step(|| usize::from(REVOCATIONS.any()))?;
        // (S)
        let mut part = None;
        // Relaxed: a hint.
        if sequence.step(|| tree.shared.hot.load(Relaxed))? & hot_bit(slot) != 0 {
            // SAFETY: that the block is there is what the models check.
            let home = sequence.step(|| unsafe { Header::of(block) }.spread.home())?;
            part = spread::part(home, sequence.cpu());
            if home & spread::MARK == 0 {
                noted |= COLD;
            }
        }
        // (N)
        let before = sequence.step(|| match part {
            Some(part) => part.fetch_add(1, Relaxed),
            // SAFETY: as above.
            None => unsafe { Header::of(block) }.count.add(),
        })?;
        Ok(Added {
            raw: part.map_or(raw, |_| raw.map_addr(|address| address | IN_PART)),
            before,
            noted,
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
