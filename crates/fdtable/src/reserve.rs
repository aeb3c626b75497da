//! Reserve and install: take the descriptor first, make the file, then publish it.
//!
//! `accept` and `pipe` can fail after they have a descriptor. They reserve it first, so EMFILE
//! leaves nothing behind, and free it without a trace if a later step fails. While a descriptor is
//! reserved, lookups and `close` return EBADF, `dup3` onto it returns EBUSY, and `close_range`,
//! fork and exec skip it.
//!
//! A reserved descriptor is taken and has no file. It belongs to this table alone, also when the
//! table is shared by a fork. So the table keeps a list of the leaves with reservations. Such a
//! leaf stays the table's own, and the child gets a copy at once (see [`fork`](crate::fork)). So a
//! reservation can always be installed or dropped without memory.
//!
//! The list is changed with the lock of the table. A leaf knows that it is listed: then, and in the
//! first leaf, of which a fork copies only what is open, a reservation where opens look takes the
//! lock of the leaf alone, and so does its installation. A leaf stays listed when it has no
//! reservations any more, until there is no room on the list, or a fork. Then all that are listed
//! are looked at.

use core::fmt;
use core::mem::ManuallyDrop;

use fdtable_objects::free_hint::Reports;
use fdtable_objects::object::Ref;

use crate::fd::place_of;
use crate::open::Wanted;
use crate::table::{AT_ONCE, LockMode, WriteGuard, set_cloexec};
use crate::{Error, Fd, FdArg, FdData, FileRef, Files};

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

/// # Reserving
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Reserves the lowest free descriptor. `data` is what it has once a file is installed: flags,
    /// or [flags and a word](FdData). May wait for the lock, and allocates when the table grows, or
    /// at the first word among 64 descriptors.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if a flag is unknown.
    /// - [`Error::TooManyFiles`] (EMFILE) if every descriptor below the limit is taken.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow, or there is no memory for the word.
    #[doc(alias = "get_unused_fd_flags")]
    #[inline]
    pub fn reserve(&self, data: impl Into<FdData>) -> Result<Reservation<'_, T>, Error> {
        let data = data.into();
        self.admit(data.flags)?;
        match self.open_hinted(None, data, LockMode::Try, |leaf| leaf.state().listed) {
            Ok(fd) => Ok(Reservation { files: self, fd }),
            Err(_) => self.reserve_wanted(Wanted::Lowest(Fd::MIN), data),
        }
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
        min: impl FdArg,
        data: impl Into<FdData>,
    ) -> Result<Reservation<'_, T>, Error> {
        let data = data.into();
        self.admit(data.flags)?;
        let min = Fd::new(min.to_raw()).map_err(|_| Error::InvalidArgument)?;
        if min.index() >= self.free_hint.limit() {
            return Err(Error::InvalidArgument);
        }
        self.reserve_wanted(Wanted::Lowest(min), data)
    }
}

/// Reserved descriptors without files, in ascending order. Dropping it frees them.
///
/// It is an iterator of [`Reservation`]s, each of which [installs](Reservation::install) a file.
///
/// ```
/// use fdtable::{Error, FdFlags, FileRef, Files};
///
/// let files: Files<&str> = Files::with_limit(3);
/// assert_eq!(files.reserve_many(4, FdFlags::empty()).unwrap_err(), Error::TooManyFiles);
/// let both = files.reserve_many(2, FdFlags::empty())?;
/// let fds: Vec<_> = both
///     .zip(["read end", "write end"])
///     .map(|(fd, end)| fd.install(FileRef::new(end)).raw())
///     .collect();
/// assert_eq!(fds, [0, 1]);
/// # Ok::<(), Error>(())
/// ```
#[must_use = "dropping reservations frees the descriptors"]
pub struct Reservations<'f, T: ?Sized + Send + Sync> {
    pub(crate) files: &'f Files<T>,
    pub(crate) fds: alloc::vec::IntoIter<Fd>,
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
        let (files, fd) = (self.files, self.fds.next()?);
        Some(Reservation { files, fd })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fds.size_hint()
    }
}

impl<T: ?Sized + Send + Sync> ExactSizeIterator for Reservations<'_, T> {}

impl<T: ?Sized + Send + Sync> Drop for Reservations<'_, T> {
    fn drop(&mut self) {
        if !self.fds().is_empty() {
            let writer = self.files.tree.write();
            self.files.unreserve_locked(writer, self.fds());
        }
    }
}

impl<T: ?Sized + Send + Sync> fmt::Debug for Reservations<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reservations").field(&self.fds()).finish()
    }
}

impl<'f, T: ?Sized + Send + Sync> Reservation<'f, T> {
    /// Takes over a descriptor of `files` that was taken without a file in this hold of the lock.
    /// [`prepare_reserved`](Files::prepare_reserved) was called in it.
    pub(crate) fn new(files: &'f Files<T>, writer: &mut WriteGuard<'_, T>, fd: Fd) -> Self {
        Files::list_reserved(writer, place_of(fd.index()).0);
        Self { files, fd }
    }

    /// Returns the descriptor.
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// Installs `file` at the descriptor: from now on every lookup finds it. May wait for the lock;
    /// does not allocate, and cannot fail.
    #[inline]
    pub fn install(self, file: FileRef<T>) -> Fd {
        // The descriptor is open from here on.
        let reserved = ManuallyDrop::new(self);
        reserved.files.install(reserved.fd, file.0);
        reserved.fd
    }

    /// Installs `file` like [`install`](Self::install), with other data than the descriptor was
    /// reserved with. May wait for the lock, and allocates at the first word among
    /// 64 descriptors.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if a flag is unknown.
    /// - [`Error::NoMemory`] (ENOMEM) if there is no memory for the word.
    ///
    /// The file is then dropped, and the descriptor is free.
    pub fn install_with(self, file: FileRef<T>, data: impl Into<FdData>) -> Result<Fd, Error> {
        let data = data.into();
        self.files.admit(data.flags)?;
        self.files.set_reserved_data(self.fd, data)?;
        Ok(self.install(file))
    }
}

impl<T: ?Sized + Send + Sync> Drop for Reservation<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.files.unreserve(self.fd);
    }
}

impl<T: ?Sized + Send + Sync> fmt::Debug for Reservation<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reservation").field(&self.fd()).finish()
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Reserves the descriptor that a search finds.
    pub(crate) fn reserve_wanted(
        &self,
        wanted: Wanted,
        data: FdData,
    ) -> Result<Reservation<'_, T>, Error> {
        let (_table, fd, mut writer) = self.take_wanted(wanted, None, data)?;
        Ok(Reservation::new(self, &mut writer, fd))
    }

    /// Frees descriptors that the caller has reserved, [`AT_ONCE`] in one hold of the lock.
    pub(crate) fn unreserve_locked(&self, mut writer: WriteGuard<'_, T>, fds: &[Fd]) {
        for some in fds.chunks(AT_ONCE) {
            let freed = some
                .iter()
                .map(|&fd| self.free_reserved(&mut writer, fd.index()));
            let reports = freed.max().unwrap_or(Reports::Few);
            if reports == Reports::Many || self.free_hint.is_marked() {
                self.drain_and_hint(&mut writer);
            }
            writer.let_others();
        }
        Self::release_and_wake(writer);
    }

    /// Installs a file at a descriptor that the caller has reserved.
    pub(crate) fn install(&self, fd: Fd, file: Ref<T>) {
        let (index, bit) = place_of(fd.index());
        // Only its holder installs a reservation: the slot is empty.
        if let Some(place) = self.tree.place_of(index)
            && let Some(mut near) = self.tree.try_lock_near(place, index)
        {
            return near.leaf.put(bit, file);
        }
        Self::install_locked(&self.tree.write(), fd, file);
    }

    /// Installs a file at a descriptor that is taken and has none, with the lock of the table.
    pub(crate) fn install_locked(writer: &WriteGuard<'_, T>, fd: Fd, file: Ref<T>) {
        let (index, bit) = place_of(fd.index());
        let leaf = writer.lock_leaf(index);
        leaf.expect("a leaf with a taken descriptor stays")
            .put(bit, file);
    }

    /// Sets the data of a descriptor that the caller has reserved.
    pub(crate) fn set_reserved_data(&self, fd: Fd, data: FdData) -> Result<(), Error> {
        let (index, bit) = place_of(fd.index());
        let mut table = data.new_table()?;
        let writer = self.tree.write();
        let mut leaf = writer
            .lock_leaf(index)
            .expect("a leaf with a reservation stays");
        leaf.add_table(&mut table);
        set_cloexec(&leaf, bit, data.flags);
        leaf.set_data(bit, data.into_slot());
        Ok(())
    }

    /// Frees a descriptor that the caller has reserved.
    fn unreserve(&self, fd: Fd) {
        let mut writer = self.tree.write();
        let reports = self.free_reserved(&mut writer, fd.index());
        Self::release_and_wake(writer);
        self.drain_if_many(reports);
    }

    /// Frees a descriptor that is taken and has no file.
    pub(crate) fn free_reserved(&self, writer: &mut WriteGuard<'_, T>, number: usize) -> Reports {
        let (index, bit) = place_of(number);
        let leaf = writer.lock_leaf(index);
        debug_assert!(leaf.is_some(), "a leaf with a reservation stays");
        leaf.map_or(Reports::Few, |mut leaf| {
            self.free_without_file(&mut leaf, index, bit)
        })
    }
}
