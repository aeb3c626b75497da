//! Reserve and install: take the number first, make the file, then publish it.
//!
//! A call that can fail after it has a number (`accept`, `pipe`) takes the number first, so that
//! EMFILE leaves nothing behind, and gives it back without a trace if the rest fails. While it
//! is reserved, the number is nobody's: lookups and `close` answer EBADF, `dup_to` onto it
//! EBUSY, `close_range`, fork and exec pass over it.

use alloc::vec::Vec;
use core::fmt;
use core::mem;

use crate::{Error, Fd, FdFlags, FileRef, Files, RawFd};

/// A number that is taken and has no file yet. Dropping it gives the number back.
///
/// ```
/// use fdtable::{Error, FdFlags, FileRef, Files};
///
/// let files: Files<&str> = Files::with_limit(2);
/// // A pipe takes both numbers or none.
/// let (read, write) = (files.reserve(FdFlags::empty())?, files.reserve(FdFlags::empty())?);
/// assert_eq!(files.get(read.fd()).unwrap_err(), Error::BadFd);
/// let read = read.install(FileRef::new("read end"));
/// drop(write);
/// assert_eq!(*files.get(read)?, "read end");
/// assert_eq!(files.open_count(), 1);
/// # Ok::<(), Error>(())
/// ```
#[must_use = "dropping a reservation gives the number back"]
pub struct Reservation<'f, T: ?Sized + Send + Sync> {
    files: &'f Files<T>,
    fd: Fd,
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// How many descriptors [`reserve_many`](Self::reserve_many) reserves at one moment: 256, more
    /// than one message of `SCM_RIGHTS` carries.
    pub const RESERVED_AT_ONCE: usize = crate::table::AT_ONCE;

    /// Takes the lowest free number. May wait for the lock, and allocates when the table grows.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if a flag is unknown.
    /// - [`Error::TooManyFiles`] (EMFILE) if every number below the limit is taken.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow.
    #[doc(alias = "get_unused_fd_flags")]
    #[inline]
    pub fn reserve(&self, flags: FdFlags) -> Result<Reservation<'_, T>, Error> {
        flags.check()?;
        let fd = self.table.reserve(Fd::MIN, flags)?;
        Ok(Reservation { files: self, fd })
    }

    /// Takes the lowest free number that is `min` or more. As [`reserve`](Self::reserve)
    /// otherwise.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if `min` is negative, or at or past the limit, or a
    ///   flag is unknown.
    /// - [`Error::TooManyFiles`] and [`Error::NoMemory`] as `reserve`.
    pub fn reserve_from(
        &self,
        min: impl Into<RawFd>,
        flags: FdFlags,
    ) -> Result<Reservation<'_, T>, Error> {
        flags.check()?;
        let min = Fd::new(min.into()).map_err(|_| Error::InvalidArgument)?;
        if min.index() >= self.table.limit() {
            return Err(Error::InvalidArgument);
        }
        let fd = self.table.reserve(min, flags)?;
        Ok(Reservation { files: self, fd })
    }

    /// Reserves the `count` lowest free descriptors, or none. May wait for the lock, and allocates.
    ///
    /// Up to [`RESERVED_AT_ONCE`](Self::RESERVED_AT_ONCE) descriptors are reserved at one moment,
    /// and a call that fails then leaves no trace: no other call sees one of them taken. More are
    /// reserved in steps of so many, each at a moment of its own, so that the lock is never held
    /// for long; while a call takes several steps and fails in a later one, others find the
    /// descriptors of the earlier ones taken, and a [quarantine](Self::set_quarantine) counts them
    /// as opens.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if a flag is unknown.
    /// - [`Error::TooManyFiles`] (EMFILE) if so many are not free below the limit.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow, or there is no memory for the list
    ///   of numbers.
    pub fn reserve_many(&self, count: usize, flags: FdFlags) -> Result<Reservations<'_, T>, Error> {
        flags.check()?;
        let mut fds = Vec::new();
        if count > self.table.limit() {
            return Err(Error::TooManyFiles);
        }
        fds.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
        self.table.reserve_many(count, &mut fds, flags)?;
        Ok(Reservations {
            files: self,
            fds: fds.into_iter(),
        })
    }

    /// Opens `file` under the lowest free number: [reserves](Self::reserve) it and installs the
    /// file. May wait for the lock, and allocates when the table grows.
    ///
    /// To keep the file when no number is free, [reserve](Self::reserve) first.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve); the reference is then dropped, as a failing `open(2)`
    /// drops what it opened.
    #[doc(alias = "fd_install")]
    #[inline]
    pub fn open(&self, file: FileRef<T>, flags: FdFlags) -> Result<Fd, Error> {
        flags.check()?;
        self.table.open_lowest(file.0, flags)
    }

    /// Opens two files under the two lowest free descriptors, as `pipe(2)` and `socketpair(2)` do,
    /// or neither. Both are taken at one moment, and a call that fails leaves no trace: no other
    /// call sees one of them taken. A lookup may find the first before the second. May wait for the
    /// lock, and allocates when the table grows.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::with_limit(3);
    /// let pipe = || (FileRef::new("read end"), FileRef::new("write end"));
    /// let (from, to) = files.open_pair(pipe(), FdFlags::empty())?;
    /// assert_eq!((*files.get(from)?, *files.get(to)?), ("read end", "write end"));
    /// assert_eq!(files.open_pair(pipe(), FdFlags::empty()), Err(Error::TooManyFiles));
    /// assert_eq!(files.open_count(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reserve_many`](Self::reserve_many); both references are then dropped.
    #[inline]
    pub fn open_pair(
        &self,
        pair: (FileRef<T>, FileRef<T>),
        flags: FdFlags,
    ) -> Result<(Fd, Fd), Error> {
        flags.check()?;
        self.table.open_pair((pair.0.0, pair.1.0), flags)
    }

    /// Opens `file` under any free number: where the caller does not need the lowest, which POSIX
    /// asks for, and wants to open on many processors at once. Each processor takes numbers of its
    /// own 64, so that no cache line is shared. When it begins with another 64, with *n* numbers
    /// taken, they are below *n* + 64 × (processors + 2). May wait for the lock and allocate,
    /// once in 64 times or so.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[doc(alias = "O_ANY")]
    #[inline]
    pub fn open_any(&self, file: FileRef<T>, flags: FdFlags) -> Result<Fd, Error> {
        flags.check()?;
        self.table.open_any(file.0, flags)
    }
}

/// Numbers that are taken and have no file yet, in ascending order. Dropping it gives them back.
///
/// ```
/// use fdtable::{Error, FdFlags, FileRef, Files};
///
/// let files: Files<&str> = Files::with_limit(3);
/// assert_eq!(files.reserve_many(4, FdFlags::empty()).unwrap_err(), Error::TooManyFiles);
/// let both = files.reserve_many(2, FdFlags::empty())?;
/// let fds: Vec<_> = both
///     .zip(["read end", "write end"])
///     .map(|(number, end)| number.install(FileRef::new(end)).raw())
///     .collect();
/// assert_eq!(fds, [0, 1]);
/// # Ok::<(), Error>(())
/// ```
#[must_use = "dropping reservations gives the numbers back"]
pub struct Reservations<'f, T: ?Sized + Send + Sync> {
    files: &'f Files<T>,
    fds: alloc::vec::IntoIter<Fd>,
}

impl<T: ?Sized + Send + Sync> Reservations<'_, T> {
    /// Returns the numbers that are left.
    #[must_use]
    pub fn fds(&self) -> &[Fd] {
        self.fds.as_slice()
    }
}

impl<'f, T: ?Sized + Send + Sync> Iterator for Reservations<'f, T> {
    type Item = Reservation<'f, T>;

    fn next(&mut self) -> Option<Reservation<'f, T>> {
        let fd = self.fds.next()?;
        Some(Reservation {
            files: self.files,
            fd,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fds.size_hint()
    }
}

impl<T: ?Sized + Send + Sync> ExactSizeIterator for Reservations<'_, T> {}

impl<T: ?Sized + Send + Sync> Drop for Reservations<'_, T> {
    fn drop(&mut self) {
        self.files.table.unreserve_many(self.fds.as_slice());
    }
}

impl<T: ?Sized + Send + Sync> fmt::Debug for Reservations<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reservations").field(&self.fds()).finish()
    }
}

impl<T: ?Sized + Send + Sync> Reservation<'_, T> {
    /// Returns the number.
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// Puts `file` behind the number. From here on everybody can look it up. May wait for the
    /// lock; does not allocate, and cannot fail.
    #[inline]
    pub fn install(self, file: FileRef<T>) -> Fd {
        let (files, fd) = (self.files, self.fd);
        // The number is the descriptor's from here on, also if a waker panics.
        mem::forget(self);
        files.table.install(fd, file.0);
        fd
    }
}

impl<T: ?Sized + Send + Sync> Drop for Reservation<'_, T> {
    fn drop(&mut self) {
        self.files.table.unreserve(self.fd);
    }
}

impl<T: ?Sized + Send + Sync> fmt::Debug for Reservation<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reservation").field(&self.fd()).finish()
    }
}
