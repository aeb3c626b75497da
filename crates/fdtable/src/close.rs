//! `close(2)`.
//!
//! With the leaf locked, a close frees the descriptor and then empties its slot;
//! [`open`](crate::open) explains how searches learn of it. The reference is dropped after the lock
//! is released. If it was the last one, the release hook runs where the caller drops the returned
//! value. Threads that are using the file continue with their references, as on Linux.

use core::fmt;
use core::ops::Deref;

use fdtable_objects::free_hint::Reports;
use fdtable_objects::object::{Ref, SlotRef};
use fdtable_sync::hint::cold_path;

use crate::fd::{index_of, place_of};
use crate::table::{LeafGuard, Mark};
use crate::{Error, FdArg, FdData, FileRef, Files, RawFd};

/// # Closing
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Closes a descriptor, and returns its file. The descriptor is free at once, and another open
    /// can take it. Dropping the returned value drops the table's reference; if it is the last one,
    /// the release hook runs there. May wait for the lock, and allocates where a part of the table
    /// is shared since a fork.
    ///
    /// A kernel that does work at each close of a descriptor, as `flush` on Linux, does it before
    /// it drops the value.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new("log"), FdFlags::empty())?;
    /// let copy = files.dup(fd)?;
    /// drop(files.close(fd)?);
    /// let closed = files.close(copy)?;
    /// println!("flush {}", *closed);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open, or only reserved.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied, or there is no memory for the [quarantine](Self::set_quarantine). The descriptor
    ///   stays open.
    #[inline]
    pub fn close(&self, fd: impl FdArg) -> Result<ClosedFile<T>, Error> {
        let fd = fd.to_raw();
        match self.try_close(fd) {
            Attempt::Closed(file) => Ok(ClosedFile(file)),
            Attempt::NotOpen => Err(Error::BadFd),
            Attempt::Undecided => self.close_expected(fd, None).map(|(file, _)| file),
        }
    }

    /// Closes a descriptor like [`close`](Self::close) if `expected` is open there, or is `None`.
    /// Returns the [data](FdData) of the descriptor with its file. Waits and allocates as `close`
    /// does.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let log = FileRef::new("log");
    /// let fd = files.open(log.clone(), (FdFlags::empty(), 7))?;
    /// assert_eq!(files.close_if(fd, Some(&FileRef::new("other"))).unwrap_err(), Error::Stale);
    /// let (closed, data) = files.close_if(fd, Some(&log))?;
    /// assert_eq!((*closed, data.word), ("log", 7));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::Stale`] (ESTALE) if another file is open there.
    /// - EBADF and ENOMEM as for [`close`](Self::close).
    pub fn close_if(
        &self,
        fd: impl FdArg,
        expected: Option<&FileRef<T>>,
    ) -> Result<(ClosedFile<T>, FdData), Error> {
        self.close_expected(fd.to_raw(), expected.map(|file| &file.0))
    }

    /// Returns true if a descriptor is open and refers to `file`, revoked or not. May wait for the
    /// lock that a close of the descriptor takes. So if the descriptor is closed after this call,
    /// the closing thread sees the caller's earlier writes.
    ///
    /// A caller that leaves a record for a later close to find leaves it first, and then calls
    /// this. Either the descriptor does not refer to the file any more, or the thread that closes
    /// it sees the record.
    pub fn refers_to(&self, fd: impl FdArg, file: &FileRef<T>) -> bool {
        let number = index_of(fd.to_raw());
        let (index, bit) = place_of(number);
        let is_it = |found: Option<Ref<T>>| found.is_some_and(|it| Ref::ptr_eq(&it, &file.0));
        if let Some(reader) = self.tree.read()
            && let Some(leaf) = reader.lock_leaf(index)
        {
            return is_it(leaf.get(bit));
        }
        let writer = self.tree.write();
        match writer.lock_leaf(index) {
            Some(leaf) => is_it(leaf.get(bit)),
            // Shared: a thread that changes the descriptor copies the leaf, with the lock of the
            // table.
            None => is_it(writer.get(number)),
        }
    }
}

/// The result of a close that does not wait.
enum Attempt<T: ?Sized> {
    Closed(SlotRef<T>),
    /// The slot is empty: the descriptor is free, or has no file.
    NotOpen,
    Undecided,
}

/// A file whose descriptor was closed, with the reference that the table had.
///
/// Dropping it drops the reference, like that of a [`FileRef`] that is probably the last one: one
/// atomic exchange if it is, and one more if it is not.
#[must_use = "dropping it releases the file: drop it outside of your locks"]
pub struct ClosedFile<T: ?Sized>(pub(crate) SlotRef<T>);

impl<T: ?Sized> ClosedFile<T> {
    /// Takes another reference to the file.
    pub(crate) fn share(&self) -> FileRef<T> {
        FileRef(Ref::clone(&self.0))
    }

    /// Returns the reference, to keep the file.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files, PrivateFiles};
    ///
    /// // A connection that was accepted in private, and is now published.
    /// let (private, files) = (PrivateFiles::new(), Files::new());
    /// let accepted = private.open(FileRef::new("connection"))?;
    /// let fd = files.open(private.close(accepted)?.into_file(), FdFlags::CLOEXEC)?;
    /// assert_eq!(*files.get(fd)?, "connection");
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn into_file(self) -> FileRef<T> {
        FileRef(self.0.into_ref())
    }
}

impl<T: ?Sized> Deref for ClosedFile<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ClosedFile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClosedFile").field(&&**self).finish()
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// The common cases: the descriptor is not open; or no thread holds the lock of the leaf, and
    /// the leaf is not to be reported. There are no calls, so no registers have to be saved; and
    /// the result fits into two registers.
    #[inline(never)]
    fn try_close(&self, fd: RawFd) -> Attempt<T> {
        use Attempt::{NotOpen, Undecided};
        let (index, bit) = place_of(index_of(fd));
        if index == 0 {
            if let Some(mut first) = self.tree.try_lock_near(0, 0) {
                return self.close_in(&mut first.leaf, 0, bit);
            }
        } else if let Some(place) = self.tree.place_of(index)
            && let Some(mut near) = self.tree.try_lock_near(place, index)
        {
            return self.close_in(&mut near.leaf, index, bit);
        }
        let Some(reader) = self.tree.try_read() else {
            return Undecided;
        };
        // First without the fence of `is_vacant`: nearly always it is open.
        if let Some(mut leaf) = reader.try_lock_by_walk(index, |leaf| leaf.has(bit)) {
            return self.close_in(&mut leaf, index, bit);
        }
        cold_path();
        // weaken: close-that-looks-once
        match reader.is_vacant(index_of(fd)) {
            true => NotOpen,
            false => Undecided,
        }
    }

    /// Closes a descriptor of a locked leaf, unless that makes a report.
    #[inline(always)]
    fn close_in(&self, leaf: &mut LeafGuard<'_, T>, index: usize, bit: usize) -> Attempt<T> {
        // A search has marked it as full, and it is not on a freed-leaf list yet; or there is a
        // hook to be called.
        let is_to_report = leaf.state().mark == Mark::Full || self.is_watched;
        let is_last = || {
            let state = leaf.state();
            state.mark == Mark::Open && leaf.open.bits() & !(1 << bit) == 0
        };
        if is_to_report || index != 0 && is_last() && !self.stays_when_empty(leaf, index) {
            cold_path();
            return Attempt::Undecided;
        }
        if !leaf.has(bit) {
            cold_path();
            return Attempt::NotOpen;
        }
        leaf.free(bit);
        leaf.remove(bit).map_or(Attempt::NotOpen, Attempt::Closed)
    }

    /// Closes a descriptor if `expected` is open there, or any file if it is nothing. Returns the
    /// data of the descriptor too.
    pub(crate) fn close_expected(
        &self,
        fd: RawFd,
        expected: Option<&Ref<T>>,
    ) -> Result<Removed<T>, Error> {
        let (index, bit) = place_of(index_of(fd));
        let (closed, reports) = if let Some(reader) = self.read_to_remove()
            && let Some(mut leaf) = reader.lock_leaf(index)
        {
            let free = |leaf: &mut LeafGuard<'_, T>| self.free_in(leaf, index, bit);
            take_file(&mut leaf, bit, expected, free)?
        } else {
            self.close_shared(fd, expected)?
        };
        self.drain_if_many(reports);
        Ok(closed)
    }

    /// Closes on the slow path.
    #[cold]
    fn close_shared(
        &self,
        fd: RawFd,
        expected: Option<&Ref<T>>,
    ) -> Result<(Removed<T>, Reports), Error> {
        let number = index_of(fd);
        let (index, bit) = place_of(number);
        let mut writer = self.tree.write();
        self.make_open_writable(&mut writer, number)?;
        Self::prepare_quarantine(&mut writer)?;
        let quarantine = writer.is_quarantine_on();
        let (removed, mut reports) = {
            let mut leaf = writer.lock_leaf(index).ok_or(Error::BadFd)?;
            take_file(&mut leaf, bit, expected, |leaf| match quarantine {
                true => Reports::Few,
                false => self.free_in(leaf, index, bit),
            })?
        };
        if quarantine {
            reports = self.enter_quarantine(&mut writer, number);
        }
        Self::release_and_call(writer, Self::release_and_wake, [(number, Some(&removed))]);
        Ok((removed, reports))
    }

    /// Frees a descriptor of a locked leaf that was taken and has no file. Clears the data that it
    /// was taken with: the next open of the descriptor stores only data that is not the default.
    pub(crate) fn free_without_file(
        &self,
        leaf: &mut LeafGuard<'_, T>,
        index: usize,
        bit: usize,
    ) -> Reports {
        leaf.clear_data(bit);
        self.free_in(leaf, index, bit)
    }

    /// Frees a descriptor of a locked leaf. The caller removes its file, and so its data, next.
    #[inline(always)]
    pub(crate) fn free_in(&self, leaf: &mut LeafGuard<'_, T>, index: usize, bit: usize) -> Reports {
        leaf.free(bit);
        self.note_freed(leaf, index)
    }
}

/// The file of a descriptor that was closed, and the data that the descriptor had.
pub(crate) type Removed<T> = (ClosedFile<T>, FdData);

/// Removes the file of an open descriptor of a locked leaf. If there is an `expected` file, it must
/// be that one. Calls `free` just before.
#[inline(always)]
pub(crate) fn take_file<T: ?Sized>(
    leaf: &mut LeafGuard<'_, T>,
    bit: usize,
    expected: Option<&Ref<T>>,
    free: impl FnOnce(&mut LeafGuard<'_, T>) -> Reports,
) -> Result<(Removed<T>, Reports), Error> {
    if !leaf.has(bit) {
        return Err(Error::BadFd);
    }
    // A reference that is dropped under the lock is not the last one: the slot has another.
    let is_other = |expected| {
        leaf.get(bit)
            .is_some_and(|there| !Ref::ptr_eq(expected, &there))
    };
    if expected.is_some_and(is_other) {
        return Err(Error::Stale);
    }
    let data = FdData::from_slot(leaf.data(bit));
    let reports = free(leaf);
    let file = leaf.remove(bit).ok_or(Error::BadFd)?;
    Ok(((ClosedFile(file), data), reports))
}
