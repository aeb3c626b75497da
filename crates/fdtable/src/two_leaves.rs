//! Two leaves under their locks, the one with the lower index first.

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
        if from == to {
            return Some(Self {
                from: None,
                to: lock_leaf(to)?,
            });
        }
        let lower = lock_leaf(from.min(to))?;
        let upper = lock_leaf(from.max(to))?;
        let (from, to) = if from < to {
            (lower, upper)
        } else {
            (upper, lower)
        };
        Some(Self {
            from: Some(from),
            to,
        })
    }

    /// Returns the leaf of the old descriptor.
    pub(crate) fn old(&mut self) -> &mut LeafGuard<'l, T> {
        self.from.as_mut().unwrap_or(&mut self.to)
    }
}
