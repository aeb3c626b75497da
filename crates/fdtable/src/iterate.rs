//! Counting and iterating over what is open, without a lock.

use core::fmt;

use fdtable_sync::bitmap::{BITS, bits_of};
use fdtable_sync::rcu;

use crate::{Fd, FdArg, FdData, FileRef, Files};

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

    /// Iterates over the open descriptors in ascending order: each with its file, revoked or not,
    /// and its data, both of one moment. Descriptors that are opened or closed meanwhile may be
    /// found or not. Takes a reference to each file. Neither blocks nor allocates; may wait for the
    /// lock of the 64 descriptors at which it is.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// files.open(FileRef::new("in"), FdFlags::empty())?;
    /// files.replace(9, FileRef::new("log"), (FdFlags::CLOEXEC, 7))?;
    /// let mut open = vec![];
    /// for (fd, file, data) in files.iter() {
    ///     open.push((fd.raw(), *file, data.word));
    /// }
    /// assert_eq!(open, [(0, "in", 0), (9, "log", 7)]);
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Fd, FileRef<T>, FdData)> {
        self.iter_from(Fd::MIN)
    }

    /// Iterates like [`iter`](Self::iter), from `from` on. A negative `from` counts as 0; no
    /// descriptor is above [`Fd::MAX`].
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// for name in ["in", "out", "err"] {
    ///     files.open(FileRef::new(name), FdFlags::empty())?;
    /// }
    /// drop(files.close(1)?);
    /// let next = files.iter_from(1).next().map(|(fd, file, _)| (fd.raw(), *file));
    /// assert_eq!(next, Some((2, "err")));
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    pub fn iter_from(&self, from: impl FdArg) -> impl Iterator<Item = (Fd, FileRef<T>, FdData)> {
        let first = from.number().max(0) as usize;
        let leaves = self.leaves(first, Fd::MAX.index());
        leaves.flat_map(move |(index, meant)| {
            let section = rcu::read_lock();
            let leaf = self.tree.leaf(index, &section);
            let taken = leaf.map_or(0, |leaf| leaf.open.bits());
            bits_of(meant & taken).filter_map(move |bit| {
                let number = index * BITS + bit;
                // It may have been closed since.
                let (file, data) = self.peek(number)?;
                Some((Fd::from_index(number), file, data))
            })
        })
    }

    /// Iterates like [`iter`](Self::iter), for a table with one owner. Borrows the objects as
    /// [`get_mut`](Self::get_mut) does: no atomic write, no lock, no reference.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files};
    ///
    /// let mut files = Files::new();
    /// for name in ["in", "out", "err"] {
    ///     files.open(FileRef::new(name), FdFlags::empty())?;
    /// }
    /// let idle: Vec<_> = files.iter_mut().filter(|(_, name, _)| **name != "out").collect();
    /// assert_eq!(idle.len(), 2);
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Fd, &T, FdData)> {
        let open = self.tree.iter_mut();
        open.map(|(number, object, data)| (Fd::from_index(number), object, FdData::from_slot(data)))
    }
}

impl<T: ?Sized + Send + Sync + fmt::Debug> fmt::Debug for Files<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(fd, file, _)| (fd, file)))
            .finish()
    }
}
