//! Stand-in for machines without sequences.

use super::super::Tree;
use super::super::leaf::LeafState;
use super::Added;

/// There is none: it can never be constructed.
#[derive(Clone, Copy)]
pub(super) enum Area {}

/// Returns nothing.
pub(super) fn area() -> Option<Area> {
    None
}

pub(super) fn add<T: ?Sized, S: LeafState, D>(_: &Tree<T, S, D>, _: usize, area: Area) -> Added {
    match area {}
}
