//! Two leaves under their locks, the one with the lower index first.

use core::cmp::Ordering;

use crate::table::LeafGuard;

/// The locked leaves of two descriptors.
pub(crate) struct TwoLeaves<'l, T: ?Sized> {
    /// The leaf of the old descriptor, if it is not that of the new one.
    from: Option<LeafGuard<'l, T>>,
    pub(crate) to: LeafGuard<'l, T>,
}

impl<'l, T: ?Sized + Send + Sync> TwoLeaves<'l, T> {
    pub(crate) fn lock(
        lock_leaf: impl Fn(usize) -> Option<LeafGuard<'l, T>>,
        from: usize,
        to: usize,
    ) -> Option<Self> {
        let lower = lock_leaf(from.min(to))?;
        let (from, to) = match from.cmp(&to) {
            Ordering::Less => (Some(lower), lock_leaf(to)?),
            Ordering::Equal => (None, lower),
            Ordering::Greater => (Some(lock_leaf(from)?), lower),
        };
        Some(Self { from, to })
    }

    /// Returns the leaf of the old descriptor.
    pub(crate) fn old(&mut self) -> &mut LeafGuard<'l, T> {
        self.from.as_mut().unwrap_or(&mut self.to)
    }
}
