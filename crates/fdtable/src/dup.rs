//! `dup(2)`, `dup2(2)`, `dup3(2)` and `F_DUPFD` of `fcntl(2)`.
//!
//! At a descriptor that the caller chooses, the file is found and opened atomically: both leaves
//! are locked, the one with the lower index first.

use fdtable_objects::radix::leaf::NewTable;
use fdtable_sync::bitmap::BITS;

use crate::close::{ClosedFile, Removed};
use crate::fd::{index_of, place_of};
use crate::open::Wanted;
use crate::replace::{check_target, store};
use crate::table::{LockMode, WriteGuard};
use crate::two_leaves::TwoLeaves;
use crate::{Error, Fd, FdArg, FdData, FdFlags, FileRef, Files, RawFd};

/// # Duplicating
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Duplicates `old` to the lowest free descriptor, with no flags and the word 0. May wait for
    /// the lock, and allocates when the table grows.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if `old` is not open.
    /// - [`Error::TooManyFiles`] (EMFILE) if every descriptor below the limit is taken.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow.
    pub fn dup(&self, old: impl FdArg) -> Result<Fd, Error> {
        self.dup_lowest(old.to_raw(), FdData::default())
    }

    #[inline(always)]
    fn dup_lowest(&self, old: RawFd, data: FdData) -> Result<Fd, Error> {
        // Two steps, as POSIX has it: first the file, then the descriptor. Under one lock, if both
        // are in the first leaf.
        let opened = if index_of(old) < BITS
            && let Some(first) = self.lock_first_with_room()
            && let Some(file) = first.leaf.get(index_of(old))
        {
            self.open_in(Some(first.leaf), 0, |_| true, file, data)
        } else {
            let file = match self.tree.try_read() {
                // Not as lookups do, which count by CPU a file that several take.
                Some(reader) => reader.get(index_of(old)).ok_or(Error::BadFd)?,
                None => self.get_even_revoked(old)?.0,
            };
            self.open_hinted(file, data, LockMode::Try, |_| true)
        };
        // No lock is held: the reference may be the last one.
        opened.or_else(|file| self.open_blocking(file, data))
    }

    /// Duplicates `old` to the lowest free descriptor that is `min` or more. May wait for the lock,
    /// and allocates when the table grows.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if `old` is not open.
    /// - [`Error::InvalidArgument`] (EINVAL) if `min` is negative, or at or above the limit, or a
    ///   flag is unknown.
    /// - [`Error::TooManyFiles`] (EMFILE) if every descriptor from `min` to the limit is taken.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow, or there is no memory for the word.
    #[doc(alias = "F_DUPFD")]
    #[doc(alias = "F_DUPFD_CLOEXEC")]
    pub fn dup_min(
        &self,
        old: impl FdArg,
        min: impl FdArg,
        data: impl Into<FdData>,
    ) -> Result<Fd, Error> {
        let data = data.into();
        self.admit(data.flags)?;
        // With a limit of 0, no minimum is valid.
        if min.to_raw() == 0 && self.free_hint.limit() > 0 {
            return self.dup_lowest(old.to_raw(), data);
        }
        let file = self.get_even_revoked(old.to_raw())?;
        self.open_from(min.to_raw(), file, data)
    }

    /// Duplicates `old` like [`dup_min`](Self::dup_min), with the data that `change` makes of that
    /// of `old`: the duplicate keeps what it returns of the flags and of the word. `change` is
    /// called once if `old` is open, outside of locks. Like `dup` of POSIX this is two steps: the
    /// file and its data are those of one moment, and are opened also if another thread closes
    /// `old` or changes its word meanwhile. May wait for the lock, and allocates when the table
    /// grows.
    ///
    /// ```
    /// use fdtable::{Error, FdData, FdFlags, FileRef, Files};
    ///
    /// const READ: u64 = 1;
    /// const WRITE: u64 = 2;
    /// const LOCKED: u64 = 4;
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new("log"), (FdFlags::CLOEXEC, READ | WRITE | LOCKED))?;
    /// // Rights are duplicated; a lock of the descriptor and close-on-exec are not.
    /// let kept = |data: FdData| (FdFlags::empty(), data.word & !LOCKED).into();
    /// let copy = files.dup_with(fd, 0, kept)?;
    /// assert_eq!(files.get_with_data(copy)?.1, (FdFlags::empty(), READ | WRITE).into());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// EBADF, EINVAL, EMFILE and ENOMEM as for [`dup_min`](Self::dup_min).
    pub fn dup_with(
        &self,
        old: impl FdArg,
        min: impl FdArg,
        change: impl FnOnce(FdData) -> FdData,
    ) -> Result<Fd, Error> {
        let (file, data) = self.peek(index_of(old.to_raw())).ok_or(Error::BadFd)?;
        let data = change(data);
        self.admit(data.flags)?;
        self.open_from(min.to_raw(), file, data)
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
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow, a part of it that is shared since a
    ///   fork cannot be copied, or there is no memory for the word.
    pub fn dup3(
        &self,
        old: impl FdArg,
        new: impl FdArg,
        data: impl Into<FdData>,
    ) -> Result<Option<ClosedFile<T>>, Error> {
        let data = data.into();
        self.admit(data.flags)?;
        let (old, new) = (old.to_raw(), new.to_raw());
        if old == new {
            return Err(Error::InvalidArgument);
        }
        self.open_exact(old, Fd::new(new)?, data)
    }

    /// Duplicates `old` to the descriptor `new`, with no flags. It closes the file that was open
    /// there, atomically, and returns it. If the descriptors are equal, it only checks that `old`
    /// is open. It locks and allocates like [`dup3`](Self::dup3).
    ///
    /// # Errors
    /// EBADF, EBUSY and ENOMEM as for [`dup3`](Self::dup3). Equal descriptors are no error
    /// if they are open.
    pub fn dup2(&self, old: impl FdArg, new: impl FdArg) -> Result<Option<ClosedFile<T>>, Error> {
        if old.to_raw() != new.to_raw() {
            return self.dup3(old, new, FdFlags::empty());
        }
        self.fd_flags(old)?;
        Ok(None)
    }
}

/// The file that was open at a descriptor before.
type Before<T> = Option<ClosedFile<T>>;

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Opens `file` at the lowest free descriptor that is `min` or more.
    fn open_from(&self, min: RawFd, file: FileRef<T>, data: FdData) -> Result<Fd, Error> {
        let min = Fd::new(min).map_err(|_| Error::InvalidArgument)?;
        if min.index() >= self.free_hint.limit() {
            return Err(Error::InvalidArgument);
        }
        match min {
            Fd::MIN => self.open(file, data),
            min => self.open_searching(Wanted::Lowest(min), file.0, data),
        }
    }

    /// Duplicates `old` to `new`. The caller drops the file that was open there.
    fn open_exact(&self, old: RawFd, new: Fd, data: FdData) -> Result<Before<T>, Error> {
        if new.index() >= self.free_hint.limit() {
            return Err(Error::BadFd);
        }
        let (from, to) = (place_of(index_of(old)), place_of(new.index()));
        let mut table = data.new_table()?;
        if let Some(reader) = self.read_to_remove()
            && let Some(leaves) = TwoLeaves::lock(|index| reader.lock_leaf(index), from.0, to.0)
        {
            return leaves.open(from.1, to.1, data, &mut table);
        }
        self.open_exact_shared(from, to, data, &mut table)
    }

    /// Duplicates on the slow path.
    #[cold]
    fn open_exact_shared(
        &self,
        from: (usize, usize),
        to: (usize, usize),
        data: FdData,
        table: &mut Option<NewTable>,
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
        if writer.is_quarantine_on() {
            self.free_from_quarantine(&mut writer, to);
        }
        let removed = Self::open_locked(&writer, from, to, data, table)?;
        let number = to.0 * BITS + to.1;
        Self::release_and_call(writer, drop, [(number, removed.as_ref())]);
        Ok(removed.map(|(file, _)| file))
    }

    /// Duplicates with the lock of the table held. The leaf of the new descriptor is writable.
    fn open_locked(
        writer: &WriteGuard<'_, T>,
        from: (usize, usize),
        to: (usize, usize),
        data: FdData,
        table: &mut Option<NewTable>,
    ) -> Result<Option<Removed<T>>, Error> {
        let mut leaves = TwoLeaves::lock(|index| writer.lock_leaf(index), from.0, to.0);
        let mut alone = None;
        let (file, leaf) = match &mut leaves {
            Some(leaves) => (leaves.old().get(from.1), &mut leaves.to),
            // The leaf of the old descriptor is shared, so no thread writes it.
            None => (
                writer.get(from.0 * BITS + from.1),
                alone.insert(writer.lock_leaf(to.0).ok_or(Error::NoMemory)?),
            ),
        };
        let file = file.ok_or(Error::BadFd)?;
        leaf.add_table(table);
        // As in `TwoLeaves::open`.
        check_target(leaf, to.1)?;
        let before = FdData::from_slot(leaf.data(to.1));
        Ok(store(leaf, to.1, file, data).map(|file| (file, before)))
    }
}

impl<T: ?Sized + Send + Sync> TwoLeaves<'_, T> {
    /// Duplicates a descriptor, in locked leaves.
    fn open(
        mut self,
        from: usize,
        to: usize,
        data: FdData,
        table: &mut Option<NewTable>,
    ) -> Result<Before<T>, Error> {
        let file = self.old().get(from).ok_or(Error::BadFd)?;
        self.to.add_table(table);
        // If this fails, the file is dropped under the lock: the old descriptor has a reference.
        check_target(&self.to, to)?;
        Ok(store(&mut self.to, to, file, data))
    }
}
