//! What is to be done at each close of a descriptor, also if it is not the last one of its file:
//! the `flush` of a kernel, which takes the record locks of the process off the file.
//!
//! The operations that close have a form here that shows what was closed to the caller: after the
//! number is free, before the reference of the table is dropped, and outside of all locks. Those
//! who do not need it pay nothing for it.
//!
//! Who leaves something that a later close must find, leaves it first and then asks whether the
//! descriptor [still names](Files::names) the file: either it does not, or whoever closes it sees
//! what was left.
//!
//! The file is closed also if `flush` panics, and is then released. A call that closes many goes
//! on: it closes the others too, and calls `flush` for them. The panic comes out when that is done.

use core::fmt;

use fdtable_base::counted::Ref;

use crate::close_range::check;
use crate::{Error, Fd, FdFlags, FileRef, Files, RawFd, table};

/// Files whose descriptors were closed in one step: up to 64. The table drops its references when
/// the caller has seen them.
#[must_use = "nobody else is shown what was closed"]
pub struct Closed<'r, T: ?Sized>(table::Closed<'r, T>);

impl<'r, T: ?Sized> Closed<'r, T> {
    /// Returns each of the files once for each of its descriptors that was closed, also those that
    /// were revoked. Each has a reference of its own: one atomic add, and another to drop it.
    pub fn files(self) -> impl Iterator<Item = FileRef<T>> + 'r {
        self.0.files().map(FileRef)
    }
}

impl<T: ?Sized> fmt::Debug for Closed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed")
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Closes a descriptor as [`close`](Self::close), and shows its file to `flush`.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new("log"), FdFlags::empty())?;
    /// let copy = files.dup(fd)?;
    /// files.close_flushing(fd, |name| println!("flush {name}"))?;
    /// assert_eq!(*files.get(copy)?, "log");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As `close`; `flush` has not run.
    #[inline]
    pub fn close_flushing(
        &self,
        fd: impl Into<RawFd>,
        flush: impl FnOnce(&T),
    ) -> Result<(), Error> {
        let file = self.table.close(fd.into(), 0)?;
        flush(&file);
        Ref::put_as_last(file);
        Ok(())
    }

    /// Opens the file of `old` under `new` as [`dup_to`](Self::dup_to), and shows to `flush` what
    /// was open under `new`, if anything was.
    ///
    /// # Errors
    /// As `dup_to`; `flush` has not run.
    pub fn dup_to_flushing(
        &self,
        old: impl Into<RawFd>,
        new: impl Into<RawFd>,
        flags: FdFlags,
        flush: impl FnOnce(&T),
    ) -> Result<Fd, Error> {
        let (old, new) = (old.into(), new.into());
        flags.check()?;
        if old == new {
            return Err(Error::InvalidArgument);
        }
        let new = Fd::new(new)?;
        // What was open there is released here, outside of all locks.
        if let Some(before) = self.table.open_exact(old, new, flags)? {
            flush(&before);
        }
        Ok(new)
    }

    /// Closes every open descriptor from `first` to `last` as [`close_range`](Self::close_range),
    /// and shows what is closed to `flush`, step by step.
    ///
    /// # Errors
    /// As `close_range`; `flush` has seen what is closed.
    pub fn close_range_flushing(
        &self,
        first: u32,
        last: u32,
        mut flush: impl FnMut(Closed<'_, T>),
    ) -> Result<(), Error> {
        let (first, last) = check(first, last)?;
        let flush = |closed: table::Closed<'_, T>| flush(Closed(closed));
        self.table.close_range(first, last, flush)
    }

    /// Closes every descriptor that has [`CLOEXEC`](FdFlags::CLOEXEC) as [`exec`](Self::exec), and
    /// shows what is closed to `flush`, step by step.
    ///
    /// # Errors
    /// As `exec`; `flush` has seen what is closed.
    pub fn exec_flushing(&self, mut flush: impl FnMut(Closed<'_, T>)) -> Result<(), Error> {
        let flush = |closed: table::Closed<'_, T>| flush(Closed(closed));
        self.table.close_on_exec(flush)
    }

    /// Tells whether a descriptor is open and its file is `file`, revoked or not. May wait for the
    /// lock, as whoever closes the descriptor does: if it is closed after this, who closes it sees
    /// what the caller did before.
    pub fn names(&self, fd: impl Into<RawFd>, file: &FileRef<T>) -> bool {
        self.table.names(fd.into(), &file.0)
    }
}
