//! Reserve and install: take the descriptor first, make the file, then publish it.
//!
//! `accept` and `pipe` can fail after they have a descriptor. They reserve it first, so EMFILE
//! leaves nothing behind, and free it without a trace if a later step fails. While a descriptor is
//! reserved, lookups and `close` return EBADF, `dup_to` onto it returns EBUSY, and `close_range`,
//! fork and exec skip it.

use alloc::vec::Vec;
use core::fmt;
use core::mem;

use crate::{Error, Fd, FdFlags, FileRef, Files, RawFd};

/// A descriptor that is taken and has no file yet. Dropping it frees the descriptor.
///
/// ```
/// use fdtable::{Error, FdFlags, FileRef, Files};
///
/// let files: Files<&str> = Files::with_limit(2);
/// // A pipe takes both descriptors or none.
/// let (read, write) = (files.reserve(FdFlags::empty())?, files.reserve(FdFlags::empty())?);
/// assert_eq!(files.get(read.fd()).unwrap_err(), Error::BadFd);
/// let read = read.install(FileRef::new("read end"));
/// drop(write);
/// assert_eq!(*files.get(read)?, "read end");
/// assert_eq!(files.open_count(), 1);
/// # Ok::<(), Error>(())
/// ```
#[must_use = "dropping a reservation frees the descriptor"]
pub struct Reservation<'f, T: ?Sized + Send + Sync> {
    files: &'f Files<T>,
    fd: Fd,
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// The number of descriptors that [`reserve_many`](Self::reserve_many) reserves atomically:
    /// 256, more than one message of `SCM_RIGHTS` carries.
    pub const RESERVED_AT_ONCE: usize = crate::table::AT_ONCE;

    /// Reserves the lowest free descriptor. May wait for the lock, and allocates when the table
    /// grows.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if a flag is unknown.
    /// - [`Error::TooManyFiles`] (EMFILE) if every descriptor below the limit is taken.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow.
    #[doc(alias = "get_unused_fd_flags")]
    #[inline]
    pub fn reserve(&self, flags: FdFlags) -> Result<Reservation<'_, T>, Error> {
        flags.check()?;
        let fd = self.table.reserve(Fd::MIN, flags)?;
        Ok(Reservation { files: self, fd })
    }

    /// Reserves the lowest free descriptor that is `min` or more. May wait for the lock, and
    /// allocates when the table grows.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if `min` is negative, or at or above the limit, or a
    ///   flag is unknown.
    /// - [`Error::TooManyFiles`] (EMFILE) and [`Error::NoMemory`] (ENOMEM) as for
    ///   [`reserve`](Self::reserve).
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
    /// Up to [`RESERVED_AT_ONCE`](Self::RESERVED_AT_ONCE) descriptors are reserved atomically, and
    /// a call that fails then leaves no trace: no other call sees one of them taken. A larger count
    /// is reserved in steps of that size, each atomic, so that the lock is never held for long. If
    /// such a call fails in a later step, other threads may have found the descriptors of the
    /// earlier steps taken, and a [quarantine](Self::set_quarantine) counts them as opens.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if a flag is unknown.
    /// - [`Error::TooManyFiles`] (EMFILE) if fewer than `count` descriptors are free below the
    ///   limit.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow, or there is no memory for the list
    ///   of descriptors.
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

    /// Opens `file` at the lowest free descriptor: [reserves](Self::reserve) it and installs the
    /// file. May wait for the lock, and allocates when the table grows.
    ///
    /// To keep the file when no descriptor is free, [reserve](Self::reserve) first.
    ///
    /// # Errors
    /// EINVAL, EMFILE and ENOMEM as for [`reserve`](Self::reserve). The reference is then dropped,
    /// as a failing `open(2)` drops the file it opened.
    #[doc(alias = "fd_install")]
    #[inline]
    pub fn open(&self, file: FileRef<T>, flags: FdFlags) -> Result<Fd, Error> {
        flags.check()?;
        self.table.open_lowest(file.0, flags)
    }

    /// Opens two files at the two lowest free descriptors, or neither, like `pipe(2)` and
    /// `socketpair(2)`. Both descriptors are taken atomically, and a call that fails leaves no
    /// trace: no other call sees one of them taken. A lookup may find the first before the second.
    /// May wait for the lock, and allocates when the table grows.
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
    /// EINVAL, EMFILE and ENOMEM as for [`reserve_many`](Self::reserve_many). Both references are
    /// then dropped.
    #[inline]
    pub fn open_pair(
        &self,
        pair: (FileRef<T>, FileRef<T>),
        flags: FdFlags,
    ) -> Result<(Fd, Fd), Error> {
        flags.check()?;
        self.table.open_pair((pair.0.0, pair.1.0), flags)
    }

    /// Opens `file` at any free descriptor, not necessarily the lowest one that POSIX requires.
    /// Calls on different CPUs share no cache line: each CPU takes descriptors of its own leaf of
    /// 64. When a CPU begins with another leaf while *n* descriptors are taken, those of the leaf
    /// are below *n* + 64 × (CPUs + 2). May wait for the lock and allocate, about once in 64 calls.
    ///
    /// # Errors
    /// EINVAL, EMFILE and ENOMEM as for [`open`](Self::open); the reference is then dropped.
    #[doc(alias = "O_ANY")]
    #[inline]
    pub fn open_any(&self, file: FileRef<T>, flags: FdFlags) -> Result<Fd, Error> {
        flags.check()?;
        self.table.open_any(file.0, flags)
    }
}

/// Reserved descriptors without files, in ascending order. Dropping it frees them.
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
#[must_use = "dropping reservations frees the descriptors"]
pub struct Reservations<'f, T: ?Sized + Send + Sync> {
    files: &'f Files<T>,
    fds: alloc::vec::IntoIter<Fd>,
}

impl<T: ?Sized + Send + Sync> Reservations<'_, T> {
    /// Returns the remaining descriptors.
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
    /// Returns the descriptor.
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// Installs `file` at the descriptor: from now on every lookup finds it. May wait for the lock;
    /// does not allocate, and cannot fail.
    #[inline]
    pub fn install(self, file: FileRef<T>) -> Fd {
        let (files, fd) = (self.files, self.fd);
        // The descriptor is open from here on, also if a waker panics.
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
