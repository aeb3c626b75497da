//! Lookup in a tree that has one user: a loop or a thread that owns it.
//!
//! The user borrows the tree mutably, so no other thread closes a slot, and none unlinks a node. A
//! node that other trees share is kept by this tree's own count, and no thread writes it. So an
//! object that is found in a slot stays there for as long as the borrow, without a section and
//! without a reference.
//!
//! The object is still shared. It may be in other slots and trees, and a reader that found it in
//! another tree may take a reference after it was removed there: no count shows that it has one
//! user. So these lookups lend it as `&T`.

use fdtable_sync::bitmap::{BITS, bits_of};

use super::leaf::{LeafState, SlotData};
use super::{NotFound, Tree};

impl<T: ?Sized + Send + Sync, S: LeafState, D> Tree<T, S, D> {
    /// Borrows the object of a slot, for a tree with one user. Neither blocks nor allocates.
    ///
    /// # Errors
    /// [`NotFound`] says why there is none.
    #[inline]
    pub fn get_mut(&mut self, slot: usize) -> Result<&T, NotFound> {
        // SAFETY: the tree is borrowed mutably for as long as the result.
        let leaf = unsafe { self.find(slot / BITS) }.ok_or(NotFound::Vacant)?;
        // SAFETY: as above, so the slot keeps its object.
        let (object, is_revoked) = unsafe { leaf.object(slot % BITS) }.ok_or(NotFound::Vacant)?;
        (!is_revoked).then_some(object).ok_or(NotFound::Revoked)
    }

    /// Iterates over the slots that have an object, revoked or not, in ascending order, for a tree
    /// with one user. Neither blocks nor allocates.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &T, SlotData)> {
        let tree = &*self;
        let mut from = 0;
        let leaves = core::iter::from_fn(move || {
            // SAFETY: the tree is borrowed mutably for as long as the iterator.
            unsafe { tree.find_next(from) }.inspect(|&(index, _)| from = index + 1)
        });
        leaves.flat_map(|(index, leaf)| {
            bits_of(leaf.open.bits()).filter_map(move |bit| {
                // SAFETY: as above, so the slot keeps its object.
                let (object, _) = unsafe { leaf.object(bit) }?;
                Some((index * BITS + bit, object, leaf.data(bit)))
            })
        })
    }
}
