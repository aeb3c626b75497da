//! The descriptor flags of `fcntl(2)`: `F_GETFD` and `F_SETFD`.
//!
//! Close-on-exec is a bit of the leaf. Close-on-fork is in the table of data of the leaf, so a leaf
//! without such a descriptor has nothing for it. The table of descriptors notes each flag before a
//! descriptor first gets it, and never forgets it. So fork and exec look at no leaf for a flag that
//! no descriptor has had.

use fdtable_sync::bitmap::Word;
use fdtable_sync::rcu;

use crate::fd::{index_of, place_of};
use crate::table::set_flags;
use crate::{Error, FdArg, FdData, FdFlags, Files};

/// # Descriptor flags
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Returns the flags of a descriptor. Takes no lock, neither blocks nor allocates, and may be
    /// called inside a read-side section. While another thread closes the descriptor, and opens or
    /// reserves it again, the flags may already be those of the next use, as on Linux. In a table
    /// where a descriptor has had [`CLOFORK`](FdFlags::CLOFORK), it may wait for the lock of the 64
    /// descriptors.
    ///
    /// # Errors
    /// [`Error::BadFd`] (EBADF) if the descriptor is not open.
    #[doc(alias = "F_GETFD")]
    pub fn fd_flags(&self, fd: impl FdArg) -> Result<FdFlags, Error> {
        let section = rcu::read_lock();
        let (index, bit) = place_of(index_of(fd.to_raw()));
        let leaf = self.tree.leaf(index, &section).ok_or(Error::BadFd)?;
        // A thread that finds the file also finds the flags of its open: they were written before.
        leaf.borrow(bit).ok_or(Error::BadFd)?;
        // A call that sets both flags has noted them before: then the note is visible.
        let is_cloexec = leaf.cloexec.test_acquire(bit);
        if self.has_had(FdFlags::CLOFORK) {
            let found = self.find_in(&leaf, index, bit);
            let (_, data) = found.ok_or(Error::BadFd)?;
            return Ok(FdData::from_slot(data).flags);
        }
        Ok(match is_cloexec {
            true => FdFlags::CLOEXEC,
            false => FdFlags::empty(),
        })
    }

    /// Sets the flags of a descriptor, all at once. May wait for the lock, and allocates where a
    /// part of the table is shared since a fork, and for [`CLOFORK`](FdFlags::CLOFORK).
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if a flag is unknown; Linux ignores it.
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied, or there is no memory for `CLOFORK`.
    #[doc(alias = "F_SETFD")]
    pub fn set_fd_flags(&self, fd: impl FdArg, flags: FdFlags) -> Result<(), Error> {
        self.admit(flags)?;
        let fd = fd.to_raw();
        let (_, bit) = place_of(index_of(fd));
        let mut table = FdData::from(flags).new_table()?;
        self.with_leaf(fd, |leaf| {
            if !leaf.has(bit) {
                return Err(Error::BadFd);
            }
            leaf.add_table(&mut table);
            set_flags(leaf, bit, flags);
            Ok(())
        })?
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Checks flags that a descriptor is about to get, and notes them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] (EINVAL) if a flag is unknown: `from_bits_retain` can make a set
    /// with others.
    #[inline(always)]
    pub(crate) fn admit(&self, flags: FdFlags) -> Result<(), Error> {
        if flags.is_empty() {
            return Ok(());
        }
        if !FdFlags::all().contains(flags) {
            return Err(Error::InvalidArgument);
        }
        for flag in [FdFlags::CLOEXEC, FdFlags::CLOFORK] {
            // Nearly always it is noted: then this writes nothing.
            if flags.contains(flag) && !self.has_had(flag) {
                self.noted(flag).set(0);
            }
        }
        Ok(())
    }

    /// Returns true if a descriptor may have a flag, or have had it.
    #[inline(always)]
    pub(crate) fn has_had(&self, flag: FdFlags) -> bool {
        self.noted(flag).test(0)
    }

    /// Returns the note of a flag. Each has a word of its own, since threads note flags without a
    /// lock.
    #[inline(always)]
    pub(crate) fn noted(&self, flag: FdFlags) -> &Word {
        &self.flags_noted[usize::from(flag == FdFlags::CLOFORK)]
    }
}
