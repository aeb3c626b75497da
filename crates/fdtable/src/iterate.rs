//! Counting and iterating over what is open, without a lock.

use core::fmt;

use fdtable_objects::radix::leaf::bits_of;
use fdtable_sync::bitmap::BITS;
use fdtable_sync::rcu;

use crate::table::mask;
use crate::{Fd, FdArg, Files};

/// # Counting and iterating
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Returns the number of descriptors that are open or reserved. Reads one word for each 64
    /// descriptors up to the highest. Takes no lock, neither blocks nor allocates, and may be
    /// called inside a read-side section. Descriptors that other threads open or close meanwhile
    /// may be counted or not.
    pub fn open_count(&self) -> usize {
        let section = rcu::read_lock();
        let (mut taken, mut next) = (0, 0);
        while let Some((index, leaf)) = self.tree.next(next, &section) {
            taken += leaf.open.bits().count_ones() as usize;
            next = index + 1;
        }
        taken
    }

    /// Finds the lowest open descriptor that is `from` or more. A negative `from` counts as 0; none
    /// is above [`Fd::MAX`]. Takes no lock, neither blocks nor allocates, and may be called inside
    /// a read-side section. A descriptor that is opened or closed meanwhile may be found or not.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// for name in ["in", "out", "err"] {
    ///     files.open(FileRef::new(name), FdFlags::empty())?;
    /// }
    /// drop(files.close(1)?);
    /// let mut from = 0_u32;
    /// let mut open = vec![];
    /// while let Some(fd) = files.next_open(from) {
    ///     open.push(fd.raw());
    ///     // Unsigned: one more than the highest descriptor is not negative.
    ///     from = fd.index() as u32 + 1;
    /// }
    /// assert_eq!(open, [0, 2]);
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    pub fn next_open(&self, from: impl FdArg) -> Option<Fd> {
        self.next_open_at(from.lower_bound())
    }

    /// Finds the lowest open descriptor whose index is `from` or more.
    pub(crate) fn next_open_at(&self, from: usize) -> Option<Fd> {
        let mut first = from;
        loop {
            let section = rcu::read_lock();
            let (index, leaf) = self.tree.next(first / BITS, &section)?;
            first = first.max(index * BITS);
            let found = bits_of(leaf.installed() & mask(first % BITS, BITS - 1)).next();
            if let Some(bit) = found {
                return Some(Fd::from_index(index * BITS + bit));
            }
            first = (index + 1) * BITS;
        }
    }
}

impl<T: ?Sized + Send + Sync + fmt::Debug> fmt::Debug for Files<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut from = 0;
        let descriptors = core::iter::from_fn(|| {
            let fd = self.next_open_at(from)?;
            from = fd.index() + 1;
            Some((fd, self.get_even_revoked(fd.raw())))
        });
        f.debug_map()
            .entries(descriptors.filter_map(|(fd, file)| Some((fd, file.ok()?))))
            .finish()
    }
}
