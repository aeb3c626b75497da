//! `dup(2)`, `dup2(2)`, `dup3(2)` and `F_DUPFD` of `fcntl(2)`.
//!
//! At a descriptor that the caller chooses, the file is found and opened atomically: both leaves
//! are locked, the one with the lower index first.

use fdtable_objects::object::Ref;
use fdtable_sync::bitmap::BITS;

use crate::close::ClosedFile;
use crate::fd::{index_of, place_of};
use crate::table::{LeafGuard, LockMode, set_flags, take};
use crate::tag::check_tag;
use crate::{Error, Fd, FdArg, FdFlags, Files, RawFd};

/// # Duplicating
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Duplicates `old` to the lowest free descriptor, with no flags. May wait for the lock, and
    /// allocates when the table grows.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if `old` is not open.
    /// - [`Error::TooManyFiles`] (EMFILE) if every descriptor below the limit is taken.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow.
    pub fn dup(&self, old: impl FdArg) -> Result<Fd, Error> {
        let (old, flags) = (old.to_raw(), FdFlags::empty());
        // Two steps, as POSIX has it, in one section: first the file, then the descriptor.
        let opened = match self.tree.try_read() {
            Some(reader) => {
                let file = reader.get(index_of(old)).ok_or(Error::BadFd)?;
                self.open_hinted(&reader, file, flags, LockMode::Try)
            }
            None => Err(self.get_even_revoked(old)?.0),
        };
        opened.or_else(|file| self.open_blocking(file, flags))
    }

    /// Duplicates `old` to the lowest free descriptor that is `min` or more. May wait for the lock,
    /// and allocates when the table grows.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if `old` is not open.
    /// - [`Error::InvalidArgument`] (EINVAL) if `min` is negative, or at or above the limit, or a
    ///   flag is unknown.
    /// - [`Error::TooManyFiles`] (EMFILE) if every descriptor from `min` to the limit is taken.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow.
    #[doc(alias = "F_DUPFD")]
    #[doc(alias = "F_DUPFD_CLOEXEC")]
    pub fn dup_min(&self, old: impl FdArg, min: impl FdArg, flags: FdFlags) -> Result<Fd, Error> {
        flags.check()?;
        let file = self.get_even_revoked(old.to_raw())?;
        let min = Fd::new(min.to_raw()).map_err(|_| Error::InvalidArgument)?;
        if min.index() >= self.free_hint.limit() {
            return Err(Error::InvalidArgument);
        }
        self.open_from(min, file.0, flags)
    }

    /// Duplicates `old` to the descriptor `new`, and closes the file that was open there,
    /// atomically. Returns that file, if there was one: dropping it drops the table's reference.
    /// May wait for the lock, and allocates when the table grows.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if a flag is unknown, or the descriptors are equal.
    /// - [`Error::BadFd`] (EBADF) if `old` is not open, or `new` is negative, or at or above the
    ///   limit.
    /// - [`Error::Busy`] (EBUSY) if `new` is reserved, as on Linux.
    /// - [`Error::NotOwner`] (EPERM) if the open descriptor `new` has a [tag](Self::exchange_tag).
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow.
    pub fn dup3(
        &self,
        old: impl FdArg,
        new: impl FdArg,
        flags: FdFlags,
    ) -> Result<Option<ClosedFile<T>>, Error> {
        flags.check()?;
        let (old, new) = (old.to_raw(), new.to_raw());
        if old == new {
            return Err(Error::InvalidArgument);
        }
        let replaced = self.open_exact(old, Fd::new(new)?, flags)?;
        Ok(replaced.map(ClosedFile::new))
    }

    /// Duplicates `old` to `new` like [`dup3`](Self::dup3), but waits while `new` is reserved. The
    /// wait ends when its file is installed or it is free. Blocks; must not be called inside a
    /// read-side section, nor by the holder of the reservation.
    ///
    /// # Errors
    /// EINVAL, EBADF, EPERM and ENOMEM as for [`dup3`](Self::dup3), never EBUSY; and
    /// [`Error::NoMemory`] (ENOMEM) if there is no memory to wait.
    #[cfg(feature = "std")]
    pub fn dup3_waiting(
        &self,
        old: impl FdArg,
        new: impl FdArg,
        flags: FdFlags,
    ) -> Result<Option<ClosedFile<T>>, Error> {
        loop {
            match self.dup3(old, new, flags) {
                Err(Error::Busy) => {
                    let new = Fd::new(new.to_raw())?;
                    self.wait(|table, writer| Ok(table.is_not_busy(writer, new).then_some(())))?;
                }
                done => return done,
            }
        }
    }

    /// Duplicates `old` to the descriptor `new`, with no flags. It closes the file that was open
    /// there, atomically, and returns it. If the descriptors are equal, it only checks that `old`
    /// is open. It locks and allocates like [`dup3`](Self::dup3).
    ///
    /// # Errors
    /// EBADF, EBUSY, EPERM and ENOMEM as for [`dup3`](Self::dup3). Equal descriptors are no error
    /// if they are open.
    pub fn dup2(&self, old: impl FdArg, new: impl FdArg) -> Result<Option<ClosedFile<T>>, Error> {
        if old.to_raw() != new.to_raw() {
            return self.dup3(old, new, FdFlags::empty());
        }
        self.fd_flags(old)?;
        Ok(None)
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Opens `file` at the lowest free descriptor that is `min` or more.
    fn open_from(&self, min: Fd, file: Ref<T>, flags: FdFlags) -> Result<Fd, Error> {
        let mut file = Some(file);
        let mut writer = self.tree.write();
        let found = self.search_from(&mut writer, min, |leaf, bit| {
            take(leaf, bit, flags, file.take());
        });
        drop(writer);
        found
    }
}

/// The file that was open at a descriptor before.
type Before<T> = Option<Ref<T>>;

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Duplicates `old` to `new`. The caller drops the file that was open there.
    fn open_exact(&self, old: RawFd, new: Fd, flags: FdFlags) -> Result<Before<T>, Error> {
        if new.index() >= self.free_hint.limit() {
            return Err(Error::BadFd);
        }
        let (from, to) = (place_of(index_of(old)), place_of(new.index()));
        if let Some(reader) = self.tree.read()
            && let Some(leaves) = TwoLeaves::lock(|index| reader.lock_leaf(index), from.0, to.0)
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
        let mut writer = self.tree.write();
        // A descriptor that is not open is not worth a leaf. It may still be closed meanwhile.
        if writer
            .leaf(from.0)
            .is_none_or(|leaf| leaf.is_vacant(from.1))
        {
            return Err(Error::BadFd);
        }
        self.make_writable(&mut writer, to.0)?;
        if writer.quarantine.is_on() {
            self.free_from_quarantine(&mut writer, to);
        }
        if let Some(leaves) = TwoLeaves::lock(|index| writer.lock_leaf(index), from.0, to.0) {
            return leaves.open(from.1, to.1, flags);
        }
        // The leaf of the old descriptor is shared, so no thread writes it.
        let file = writer.get(from.0 * BITS + from.1).ok_or(Error::BadFd)?;
        let mut leaf = writer.lock_leaf(to.0).ok_or(Error::NoMemory)?;
        open_in(&mut leaf, to.1, file, flags)
    }
}

/// The condition for a waiting `dup3`.
#[cfg(feature = "std")]
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Returns true if a descriptor is not reserved.
    fn is_not_busy(&self, writer: &crate::table::WriteGuard<'_, T>, fd: Fd) -> bool {
        let (index, bit) = place_of(fd.index());
        writer
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
        check_tag(leaf, bit, 0)?;
    } else if leaf.open.test(bit) {
        return Err(Error::Busy);
    }
    // (o)
    leaf.open.set_release(bit);
    set_flags(leaf, bit, flags);
    // One store: lookups find either the one file or the other.
    Ok(leaf.exchange(bit, Some(file)))
}
