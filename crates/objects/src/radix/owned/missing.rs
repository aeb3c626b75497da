//! Stand-in for machines without sequences.

use fdtable_sync::sequence::Area;

use super::super::Tree;
use super::super::leaf::LeafState;
use super::Added;

/// Returns nothing.
pub(super) fn area() -> Option<Area> {
    None
}

pub(super) fn cpu() -> usize {
    0
}

pub(super) use self::add as add_in_first;

pub(super) fn add<T: ?Sized, S: LeafState, D>(_: &Tree<T, S, D>, _: usize, area: Area) -> Added {
    match area {}
}
