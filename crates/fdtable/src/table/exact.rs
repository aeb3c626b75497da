//! `dup2(2)`: opening at a descriptor that the caller chooses.
//!
//! The file is found and opened at the new descriptor atomically: both leaves are locked, the one
//! with the lower index first.

use fdtable_base::bitmap::BITS;
use fdtable_base::counted::Ref;

use super::{FdTable, LeafGuard, index_of, place_of, set_flags, tags};
use crate::{Error, Fd, FdFlags, RawFd};

/// The file that was open at a descriptor before.
type Before<T> = Option<Ref<T>>;

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Duplicates `old` to `new`. The caller drops the file that was open there.
    pub(crate) fn open_exact(
        &self,
        old: RawFd,
        new: Fd,
        flags: FdFlags,
    ) -> Result<Before<T>, Error> {
        if new.index() >= self.room.limit() {
            return Err(Error::BadFd);
        }
        let (from, to) = (place_of(index_of(old)), place_of(new.index()));
        if let Some(entry) = self.tree.enter()
            && let Some(leaves) = TwoLeaves::lock(|index| entry.lock_leaf(index), from.0, to.0)
        {
            return leaves.open(from.1, to.1, flags);
        }
        self.open_exact_shared(from, to, flags)
    }

    /// Duplicates on the slow path.
    #[cold]
    fn open_exact_shared(
        &self,
        from: (usize, usize),
        to: (usize, usize),
        flags: FdFlags,
    ) -> Result<Before<T>, Error> {
        let mut structure = self.tree.lock();
        // A descriptor that is not open is not worth a leaf. It may still be closed meanwhile.
        if structure
            .leaf(from.0)
            .is_none_or(|leaf| leaf.is_vacant(from.1))
        {
            return Err(Error::BadFd);
        }
        self.own(&mut structure, to.0)?;
        if structure.quarantine.is_on() {
            self.free_from_quarantine(&mut structure, to);
        }
        if let Some(leaves) = TwoLeaves::lock(|index| structure.lock_leaf(index), from.0, to.0) {
            return leaves.open(from.1, to.1, flags);
        }
        // The leaf of the old descriptor is shared, so no thread writes it.
        let file = structure.get(from.0 * BITS + from.1).ok_or(Error::BadFd)?;
        let mut leaf = structure.lock_leaf(to.0).ok_or(Error::NoMemory)?;
        open_in(&mut leaf, to.1, file, flags)
    }
}

/// The condition for a waiting `dup_to`.
#[cfg(feature = "std")]
impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Returns true if a descriptor is not reserved.
    pub(crate) fn is_not_busy(&self, structure: &super::Structure<'_, T>, fd: Fd) -> bool {
        let (index, bit) = place_of(fd.index());
        structure
            .leaf(index)
            .is_none_or(|leaf| !leaf.open.test(bit) || leaf.has(bit))
    }
}

/// The locked leaves of two descriptors.
struct TwoLeaves<'l, T: ?Sized> {
    /// The leaf of the old descriptor, if it is not that of the new one.
    from: Option<LeafGuard<'l, T>>,
    to: LeafGuard<'l, T>,
}

impl<'l, T: ?Sized + Send + Sync> TwoLeaves<'l, T> {
    fn lock(
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

    fn open(mut self, from: usize, to: usize, flags: FdFlags) -> Result<Before<T>, Error> {
        let file = self.from.as_ref().unwrap_or(&self.to).get(from);
        let file = file.ok_or(Error::BadFd)?;
        open_in(&mut self.to, to, file, flags)
    }
}

/// Opens `file` at a descriptor of a locked leaf. If there is an error, dropping the file under the
/// lock releases nothing: the old descriptor still holds a reference.
fn open_in<T: ?Sized>(
    leaf: &mut LeafGuard<'_, T>,
    bit: usize,
    file: Ref<T>,
    flags: FdFlags,
) -> Result<Before<T>, Error> {
    if leaf.has(bit) {
        tags::check(leaf, bit, 0)?;
    } else if leaf.open.test(bit) {
        return Err(Error::Busy);
    }
    // (o)
    leaf.open.set_release(bit);
    set_flags(leaf, bit, flags);
    // One store: lookups find either the one file or the other.
    Ok(leaf.exchange(bit, Some(file)))
}
