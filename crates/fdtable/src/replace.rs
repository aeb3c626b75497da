//! A file at a descriptor that the caller chooses: replace, open there, rename, close if.
//!
//! Each is one change for all threads that change the table: the leaf is locked, or both leaves of
//! a rename, the one with the lower index first. A lookup sees a file and its data change at one
//! moment. A rename writes two slots, first the new one: a lookup may find the file at both for a
//! moment, and never at neither.

use fdtable_objects::free_hint::Reports;
use fdtable_objects::object::Ref;
use fdtable_objects::radix::leaf::NewTable;

use crate::close::{ClosedFile, Removed, take_file};
use crate::fd::{index_of, place_of};
use crate::table::{LeafGuard, WriteGuard, set_cloexec};
use crate::two_leaves::TwoLeaves;
use crate::{Error, Fd, FdArg, FdData, FileRef, Files, RawFd};

/// # At a given descriptor
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Puts `file` at the descriptor `fd`, open or free, and returns what was open there,
    /// atomically. `data` is flags, or [flags and a word](FdData). May wait for the lock, and
    /// allocates when the table grows, or at the first word among 64 descriptors.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// assert!(files.replace(7, FileRef::new("old"), FdFlags::empty())?.is_none());
    /// let displaced = files.replace(7, FileRef::new("new"), (FdFlags::CLOEXEC, 1))?;
    /// assert_eq!(displaced.map(|(file, _)| *file), Some("old"));
    /// assert_eq!(*files.get(7)?, "new");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The file is then dropped, and nothing is changed:
    /// - [`Error::InvalidArgument`] (EINVAL) if a flag is unknown.
    /// - [`Error::BadFd`] (EBADF) if the descriptor is negative, or at or above the limit.
    /// - [`Error::Busy`] (EBUSY) if the descriptor is reserved.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow, a part of it that is shared since a
    ///   fork cannot be copied, or there is no memory for the word.
    pub fn replace(
        &self,
        fd: impl FdArg,
        file: FileRef<T>,
        data: impl Into<FdData>,
    ) -> Result<Option<(ClosedFile<T>, FdData)>, Error> {
        self.put_at(fd.to_raw(), &mut Some(file.0), data.into(), &Expected::Any)
    }

    /// Opens `file` at the free descriptor `fd`. Waits and allocates as [`replace`](Self::replace)
    /// does.
    ///
    /// # Errors
    /// - [`Error::Exists`] (EEXIST) if the descriptor is open.
    /// - EINVAL, EBADF, EBUSY and ENOMEM as for [`replace`](Self::replace).
    pub fn open_at(
        &self,
        fd: impl FdArg,
        file: FileRef<T>,
        data: impl Into<FdData>,
    ) -> Result<(), Error> {
        let (file, data) = (&mut Some(file.0), data.into());
        // Nothing is displaced.
        let _none = self.put_at(fd.to_raw(), file, data, &Expected::Free)?;
        Ok(())
    }

    /// Puts `file` at the descriptor `fd` like [`replace`](Self::replace), if `expected` is open
    /// there. Waits and allocates as `replace` does.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open.
    /// - [`Error::Stale`] (ESTALE) if another file is open there.
    /// - EINVAL, EBADF and ENOMEM as for [`replace`](Self::replace).
    pub fn replace_if(
        &self,
        fd: impl FdArg,
        expected: &FileRef<T>,
        file: FileRef<T>,
        data: impl Into<FdData>,
    ) -> Result<(ClosedFile<T>, FdData), Error> {
        let (file, data) = (&mut Some(file.0), data.into());
        let displaced = self.put_at(fd.to_raw(), file, data, &Expected::File(&expected.0))?;
        displaced.ok_or(Error::BadFd)
    }

    /// Moves what is open at `from` to the descriptor `to`, with its data, and frees `from`,
    /// atomically. Returns what was open at `to`. The same descriptor twice is no change. A lookup
    /// may find the file at both descriptors for a moment, and never at neither. May wait for the
    /// lock, and allocates when the table grows.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new("log"), (FdFlags::CLOEXEC, 7))?;
    /// assert!(files.rename(fd, 9)?.is_none());
    /// assert_eq!(files.get(fd).unwrap_err(), Error::BadFd);
    /// assert_eq!(files.get_with_data(9)?.1, (FdFlags::CLOEXEC, 7).into());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Nothing is changed:
    /// - [`Error::BadFd`] (EBADF) if `from` is not open, or `to` is negative, or at or above the
    ///   limit.
    /// - [`Error::Busy`] (EBUSY) if `to` is reserved.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow, a part of it that is shared since a
    ///   fork cannot be copied, or there is no memory for the word or the quarantine.
    #[doc(alias = "fd_renumber")]
    pub fn rename(
        &self,
        from: impl FdArg,
        to: impl FdArg,
    ) -> Result<Option<(ClosedFile<T>, FdData)>, Error> {
        let (from, to) = (from.to_raw(), to.to_raw());
        if from == to {
            self.fd_flags(from)?;
            return Ok(None);
        }
        self.move_to(from, Fd::new(to)?)
    }
}

/// File that must be open at a descriptor for a replacement.
enum Expected<'f, T: ?Sized> {
    /// Any file, or none.
    Any,
    /// None.
    Free,
    /// This file.
    File(&'f Ref<T>),
}

/// Outcome of a change in a leaf.
enum Change<T: ?Sized> {
    /// It is done; with the file that was there.
    Done(Option<Removed<T>>),
    /// The leaf has to have a table of data first.
    NeedsTable,
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Puts a file at a descriptor. If there is an error, the file stays with the caller.
    fn put_at(
        &self,
        fd: RawFd,
        file: &mut Option<Ref<T>>,
        data: FdData,
        expected: &Expected<'_, T>,
    ) -> Result<Option<Removed<T>>, Error> {
        self.admit(data.flags)?;
        let number = Fd::new(fd)?.index();
        if number >= self.free_hint.limit() {
            return Err(Error::BadFd);
        }
        let (index, bit) = place_of(number);
        let mut table = None;
        loop {
            let change = if let Some(reader) = self.read_to_remove()
                && let Some(mut leaf) = reader.lock_leaf(index)
            {
                leaf.add_table(&mut table);
                put_in(&mut leaf, bit, file, data, expected)?
            } else {
                self.put_shared(number, file, data, expected, &mut table)?
            };
            match change {
                Change::Done(before) => return Ok(before),
                Change::NeedsTable => table = Some(NewTable::try_new()?),
            }
        }
    }

    /// Puts a file at a descriptor on the slow path.
    #[cold]
    fn put_shared(
        &self,
        number: usize,
        file: &mut Option<Ref<T>>,
        data: FdData,
        expected: &Expected<'_, T>,
        table: &mut Option<NewTable>,
    ) -> Result<Change<T>, Error> {
        let (index, bit) = place_of(number);
        let mut writer = self.tree.write();
        if let Expected::File(_) = expected {
            self.make_open_writable(&mut writer, number)?;
        } else {
            // First, so that the call has changed nothing if there is no memory for the table.
            if data.needs_table() && table.is_none() && !has_table(&writer, index) {
                return Ok(Change::NeedsTable);
            }
            self.make_writable(&mut writer, index)?;
            if writer.is_quarantine_on() {
                self.free_from_quarantine(&mut writer, (index, bit));
            }
        }
        let change = {
            let mut leaf = writer.lock_leaf(index).ok_or(Error::NoMemory)?;
            leaf.add_table(table);
            put_in(&mut leaf, bit, file, data, expected)?
        };
        if let Change::Done(removed) = &change {
            Self::release_and_call(writer, drop, [(number, removed.as_ref())]);
        }
        Ok(change)
    }

    /// Moves an open descriptor to another one.
    fn move_to(&self, from: RawFd, to: Fd) -> Result<Option<Removed<T>>, Error> {
        if to.index() >= self.free_hint.limit() {
            return Err(Error::BadFd);
        }
        let (number, target) = (index_of(from), to.index());
        let (from, to) = (place_of(number), place_of(target));
        let mut table = None;
        loop {
            let moved = if let Some(reader) = self.read_to_remove()
                && let Some(leaves) = TwoLeaves::lock(|it| reader.lock_leaf(it), from.0, to.0)
            {
                let free = |leaf: &mut LeafGuard<'_, T>| self.free_in(leaf, from.0, from.1);
                leaves.rename(from.1, to.1, &mut table, free)?
            } else {
                self.move_shared(number, target, &mut table)?
            };
            match moved {
                Some(moved) => {
                    self.drain_if_many(moved.reports);
                    return Ok(moved.before);
                }
                None => table = Some(NewTable::try_new()?),
            }
        }
    }

    /// Moves a descriptor on the slow path.
    #[cold]
    fn move_shared(
        &self,
        number: usize,
        target: usize,
        table: &mut Option<NewTable>,
    ) -> Result<Option<Moved<T>>, Error> {
        let (from, to) = (place_of(number), place_of(target));
        let mut writer = self.tree.write();
        self.make_open_writable(&mut writer, number)?;
        // First, so that a call that fails leaves neither a new leaf nor an earlier end of a
        // quarantine. The fast path may still change it meanwhile.
        {
            let old = writer.lock_leaf(from.0).ok_or(Error::BadFd)?;
            let data = FdData::from_slot(old.data(from.1));
            drop(old);
            if data.needs_table() && table.is_none() && !has_table(&writer, to.0) {
                return Ok(None);
            }
        }
        Self::prepare_quarantine(&mut writer)?;
        self.make_writable(&mut writer, to.0)?;
        let quarantine = writer.is_quarantine_on();
        if quarantine {
            self.free_from_quarantine(&mut writer, to);
        }
        let moved = {
            let leaves = TwoLeaves::lock(|index| writer.lock_leaf(index), from.0, to.0);
            let leaves = leaves.ok_or(Error::BadFd)?;
            leaves.rename(from.1, to.1, table, |leaf| match quarantine {
                true => Reports::Few,
                false => self.free_in(leaf, from.0, from.1),
            })?
        };
        let Some(mut moved) = moved else {
            return Ok(None);
        };
        if quarantine {
            moved.reports = self.enter_quarantine(&mut writer, number);
        }
        let removed = [
            (number, Some(&moved.moved)),
            (target, moved.before.as_ref()),
        ];
        Self::release_and_call(writer, Self::release_and_wake, removed);
        Ok(Some(moved))
    }
}

/// Returns true if there is a leaf and it has a table of data.
fn has_table<T: ?Sized + Send + Sync>(writer: &WriteGuard<'_, T>, index: usize) -> bool {
    writer.leaf(index).is_some_and(|leaf| leaf.has_table())
}

/// Puts a file at a descriptor of a locked leaf, if what is there is as expected.
fn put_in<T: ?Sized>(
    leaf: &mut LeafGuard<'_, T>,
    bit: usize,
    file: &mut Option<Ref<T>>,
    data: FdData,
    expected: &Expected<'_, T>,
) -> Result<Change<T>, Error> {
    match expected {
        Expected::Any => check_target(leaf, bit)?,
        Expected::Free if leaf.has(bit) => return Err(Error::Exists),
        Expected::Free => check_target(leaf, bit)?,
        Expected::File(expected) => {
            // Dropped under the lock: the slot holds another reference.
            let there = leaf.get(bit).ok_or(Error::BadFd)?;
            if !Ref::ptr_eq(&there, expected) {
                return Err(Error::Stale);
            }
        }
    }
    if data.needs_table() && !leaf.has_table() {
        return Ok(Change::NeedsTable);
    }
    let before = FdData::from_slot(leaf.data(bit));
    let displaced = file.take().and_then(|file| store(leaf, bit, file, data));
    Ok(Change::Done(displaced.map(|file| (file, before))))
}

/// Checks that a file may be put at a descriptor of a locked leaf.
pub(crate) fn check_target<T: ?Sized>(leaf: &LeafGuard<'_, T>, bit: usize) -> Result<(), Error> {
    if leaf.open.test(bit) && !leaf.has(bit) {
        Err(Error::Busy)
    } else {
        Ok(())
    }
}

/// Stores a file and its data at a descriptor of a locked leaf, and returns the file that was
/// there. The leaf has a table if the data needs one.
pub(crate) fn store<T: ?Sized>(
    leaf: &mut LeafGuard<'_, T>,
    bit: usize,
    file: Ref<T>,
    data: FdData,
) -> Option<ClosedFile<T>> {
    // (o)
    leaf.take(bit);
    set_cloexec(leaf, bit, data.flags);
    let displaced = if leaf.has_table() {
        leaf.replace(bit, file, data.into_slot())
    } else {
        // One store: lookups find either the one file or the other.
        leaf.exchange(bit, Some(file))
    };
    displaced.map(ClosedFile)
}

/// A descriptor that was moved.
struct Moved<T: ?Sized> {
    /// File that was open at the descriptor before.
    before: Option<Removed<T>>,
    reports: Reports,
    /// The reference of the old descriptor, which is dropped outside of the locks, and its data.
    moved: Removed<T>,
}

impl<T: ?Sized + Send + Sync> TwoLeaves<'_, T> {
    /// Moves a descriptor. Returns nothing if the leaf of the new one has to have a table of data
    /// first. Calls `free` just before the old one is emptied.
    fn rename(
        mut self,
        from: usize,
        to: usize,
        table: &mut Option<NewTable>,
        free: impl FnOnce(&mut LeafGuard<'_, T>) -> Reports,
    ) -> Result<Option<Moved<T>>, Error> {
        let old = self.old();
        let file = old.get(from).ok_or(Error::BadFd)?;
        let data = FdData::from_slot(old.data(from));
        let new = &mut self.to;
        check_target(new, to)?;
        new.add_table(table);
        if data.needs_table() && !new.has_table() {
            return Ok(None);
        }
        let before = FdData::from_slot(new.data(to));
        let displaced = store(new, to, file, data);
        let old = self.old();
        let (moved, reports) = take_file(old, from, None, free)?;
        Ok(Some(Moved {
            before: displaced.map(|file| (file, before)),
            reports,
            moved,
        }))
    }
}
