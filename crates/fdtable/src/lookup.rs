//! Lookup: from a descriptor to its file, without a lock.
//!
//! [`Files::block`] is for calls that look up many descriptors, such as `poll` and `select`: one
//! walk finds the leaf of a descriptor and its neighbours (see [`fdtable_objects::radix::leaf`]).
//! The words of an `fd_set` cover the same ranges.

use fdtable_objects::radix::NotFound;
use fdtable_sync::bitmap::BITS;
use fdtable_sync::hint::cold_path;

use crate::fd::{index_of, place_of};
use crate::rcu::Guard;
use crate::table::LeafRef;
use crate::{BorrowedFile, Error, FdArg, FileRef, Files, RawFd, Rcu};

/// # Looking up
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Finds the file of a descriptor and takes a reference, which outlives the descriptor. Costs
    /// one atomic add. Takes no lock, neither blocks nor allocates (except in a thread's first
    /// lookup), and may be called inside a read-side section.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open: never opened, closed, negative,
    ///   past the table, or only reserved.
    /// - [`Error::Revoked`] (EIO) if the file was [revoked](FileRef::revoke).
    #[doc(alias = "fget")]
    #[inline(always)]
    pub fn get(&self, fd: impl FdArg) -> Result<FileRef<T>, Error> {
        Ok(FileRef(
            self.tree.get_unless_revoked(index_of(fd.to_raw()))?,
        ))
    }

    /// Borrows the object of a descriptor, for a table with one owner: an event loop, or a thread
    /// that has the table to itself. Costs the walk to the slot: no atomic write, no section, no
    /// reference. Neither blocks nor allocates.
    ///
    /// While the object is borrowed, so is the table. The object is lent as `&T` and not as
    /// `&mut T`: [duplicates](Self::dup), other tables and revoking threads may share it. It has to
    /// have a lock or atomics for what changes. Or move it out of the file, if nothing else refers
    /// to that: [`close`](Self::close) it, and [unwrap](FileRef::try_unwrap) the file.
    ///
    /// ```
    /// use std::sync::atomic::AtomicU64;
    /// use std::sync::atomic::Ordering::Relaxed;
    ///
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let mut files: Files<AtomicU64> = Files::new();
    /// let fd = files.open(FileRef::new(AtomicU64::new(0)), FdFlags::empty())?;
    /// let offset = files.get_mut(fd)?;
    /// // No other thread changes it: a load and a store are enough.
    /// offset.store(offset.load(Relaxed) + 512, Relaxed);
    /// assert_eq!(files.get_mut(7).unwrap_err(), Error::BadFd);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// The descriptor cannot be closed meanwhile. This does not compile:
    ///
    /// ```compile_fail,E0502
    /// # use fdtable::{FdFlags, FileRef, Files};
    /// let mut files = Files::new();
    /// let fd = files.open(FileRef::new("log"), FdFlags::empty()).unwrap();
    /// let log = files.get_mut(fd).unwrap();
    /// drop(files.close(fd));
    /// println!("{log}");
    /// ```
    ///
    /// # Errors
    /// EBADF and EIO as for [`get`](Self::get).
    #[inline]
    pub fn get_mut(&mut self, fd: impl FdArg) -> Result<&T, Error> {
        Ok(self.tree.get_mut(index_of(fd.to_raw()))?)
    }

    /// Finds the file like [`get`](Self::get), also if it was revoked: for operations on the
    /// descriptor that do not use the object.
    #[inline(always)]
    pub(crate) fn get_even_revoked(&self, fd: impl FdArg) -> Result<FileRef<T>, Error> {
        let file = self.tree.get(index_of(fd.to_raw()));
        file.map(FileRef).ok_or(Error::BadFd)
    }
}

impl From<NotFound> for Error {
    #[inline(always)]
    fn from(reason: NotFound) -> Self {
        match reason {
            NotFound::Vacant => Self::BadFd,
            NotFound::Revoked => Self::Revoked,
        }
    }
}

/// For experiments, whose simulated CPUs have no time of their own.
#[doc(hidden)]
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Counts the references to the file of a descriptor by CPU, as lookups by several CPUs do when
    /// they come often. Neither blocks nor allocates.
    ///
    /// # Errors
    /// [`Error::BadFd`] (EBADF) as for [`get`](Self::get).
    pub fn count_by_cpu(&self, fd: impl FdArg) -> Result<(), Error> {
        let is_there = self.tree.spread(index_of(fd.to_raw()));
        is_there.then_some(()).ok_or(Error::BadFd)
    }
}

/// # Looking up without a reference
impl<T: ?Sized + Send + Sync> Files<Rcu<T>> {
    /// Finds the file of a descriptor for use inside a read-side section. Takes no reference and no
    /// lock, writes nothing atomically, and neither blocks nor allocates.
    ///
    /// The file stays usable until the section ends, also if the descriptor is closed meanwhile.
    /// Sections must be short and must not block: to do that, [upgrade](BorrowedFile::upgrade) the
    /// file and leave the section.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};
    ///
    /// let files: Files<Rcu<Vec<u8>>> = Files::new();
    /// let fd = files.open(FileRef::new_rcu(vec![1, 2, 3]), FdFlags::empty())?;
    /// let section = rcu::read_lock();
    /// let file = files.get_rcu(fd, &section)?;
    /// drop(files.close(fd)?);
    /// assert_eq!(file.len(), 3, "closed, and still here");
    /// assert!(file.upgrade().is_none(), "released, so it cannot be kept");
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    ///
    /// A table of other files has no such lookup, since `Drop` of their objects does not wait for
    /// readers. This does not compile:
    ///
    /// ```compile_fail,E0599
    /// # use fdtable::{Files, rcu};
    /// let files: Files<Vec<u8>> = Files::new();
    /// let section = rcu::read_lock();
    /// let file = files.get_rcu(0, &section);
    /// ```
    ///
    /// # Errors
    /// [`Error::BadFd`] (EBADF) and [`Error::Revoked`] (EIO) as for [`get`](Self::get).
    #[doc(alias = "fdget")]
    #[doc(alias = "fcheck")]
    #[inline]
    pub fn get_rcu<'g>(
        &self,
        fd: impl FdArg,
        guard: &'g Guard<'_>,
    ) -> Result<BorrowedFile<'g, T>, Error> {
        let Some(file) = self.tree.borrow(index_of(fd.to_raw()), guard) else {
            cold_path();
            return Err(Error::BadFd);
        };
        BorrowedFile(file).unless_revoked()
    }
}

/// A block of 64 descriptors, found inside a read-side section. It begins at a multiple of 64. `T`
/// is the type that lookups borrow: the table is a `Files<Rcu<T>>`.
pub struct Block<'g, T: ?Sized> {
    /// The first descriptor; negative for a block of invalid ones.
    first: RawFd,
    /// Nothing if the table has no leaf for these descriptors: none is open.
    leaf: Option<LeafRef<'g, Rcu<T>>>,
}

/// # Looking up neighbours
impl<T: ?Sized + Send + Sync> Files<Rcu<T>> {
    /// Finds the block of a descriptor, open or not, for lookups inside one section. A lookup in
    /// the block finds the descriptor or its neighbours. Takes no lock, neither blocks nor
    /// allocates.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files, Rcu, rcu};
    ///
    /// let files: Files<Rcu<&str>> = Files::new();
    /// files.open(FileRef::new_rcu("in"), FdFlags::empty())?;
    /// files.open(FileRef::new_rcu("out"), FdFlags::empty())?;
    /// let section = rcu::read_lock();
    /// let block = files.block(0, &section);
    /// assert_eq!((*block.get_rcu(0)?, *block.get_rcu(1)?), ("in", "out"));
    /// assert_eq!(block.get_rcu(2).err(), Some(Error::BadFd));
    /// assert!(block.contains(63) && !block.contains(64));
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn block<'g>(&'g self, fd: impl FdArg, section: &'g Guard<'_>) -> Block<'g, T> {
        // `BITS` is less than the highest descriptor.
        let first = fd.to_raw() & !(BITS as RawFd - 1);
        let (index, _) = place_of(index_of(first));
        Block {
            first,
            leaf: self.tree.leaf(index, section),
        }
    }
}

impl<'g, T: ?Sized + Send + Sync> Block<'g, T> {
    /// Returns true if a descriptor belongs to the block.
    #[inline]
    #[must_use]
    pub fn contains(&self, fd: impl FdArg) -> bool {
        self.bit_of(fd.to_raw()).is_some()
    }

    /// Finds the file of a descriptor, as [`Files::get_rcu`] does. Changes since the block was
    /// found may be seen or not. Takes no lock, neither blocks nor allocates.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open, or not in the block.
    /// - [`Error::Revoked`] (EIO) if the file was [revoked](crate::FileRef::revoke).
    #[inline]
    pub fn get_rcu(&self, fd: impl FdArg) -> Result<BorrowedFile<'g, T>, Error> {
        let bit = self.bit_of(fd.to_raw());
        let found = bit.and_then(|bit| self.leaf.as_ref()?.borrow(bit));
        let Some(file) = found else {
            cold_path();
            return Err(Error::BadFd);
        };
        BorrowedFile(file).unless_revoked()
    }

    /// Returns the bit of a descriptor in the leaf.
    #[inline(always)]
    fn bit_of(&self, fd: RawFd) -> Option<usize> {
        // A descriptor below the first wraps to an index above all others.
        let bit = index_of(fd.wrapping_sub(self.first));
        (bit < BITS).then_some(bit)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{FdFlags, FileRef, rcu};

    fn table() -> Files<Rcu<RawFd>> {
        let files = Files::new();
        for number in 0..130 {
            let file = FileRef::new_rcu(number);
            files
                .open(file, FdFlags::empty())
                .expect("a descriptor is free");
        }
        files
    }

    #[test]
    fn every_number_is_found_in_its_own_block_and_in_no_other() {
        let files = table();
        let section = rcu::read_lock();
        for of in [0, 63, 64, 129, 192, 1 << 30, -1] {
            let block = files.block(of, &section);
            for fd in (-70..200).chain([of]) {
                assert_eq!(
                    block.contains(fd),
                    fd >> 6 == of >> 6,
                    "{fd} in that of {of}"
                );
                let expected = files.get_rcu(fd, &section).map(|file| *file);
                let expected = expected.ok().filter(|_| fd >> 6 == of >> 6);
                let found = block.get_rcu(fd).map(|file| *file);
                assert_eq!(found, expected.ok_or(Error::BadFd), "{fd} in that of {of}");
            }
        }
    }

    #[test]
    fn what_is_revoked_is_not_found() {
        let files = table();
        FileRef::revoke(&files.get(100).expect("open"));
        let section = rcu::read_lock();
        let block = files.block(64, &section);
        assert_eq!(block.get_rcu(100).err(), Some(Error::Revoked));
        assert!(block.get_rcu(101).is_ok());
    }

    #[test]
    fn files_that_were_found_stay_when_the_whole_block_is_closed() {
        let files = table();
        let section = rcu::read_lock();
        let block = files.block(64, &section);
        let file = block.get_rcu(70).expect("open");
        files.close_range(64, 127, drop).expect("there is memory");
        assert_eq!(*file, 70);
        assert_eq!(
            files.block(64, &section).get_rcu(70).err(),
            Some(Error::BadFd)
        );
    }
}
