//! Work at each close of a descriptor, not only at the last one. A kernel calls this `flush`, and
//! removes the record locks of the process from the file there.
//!
//! Each operation that closes has a form here that passes the closed file to the caller: after the
//! descriptor is free, before the table's reference is dropped, and outside of all locks. The other
//! forms pay nothing for it.
//!
//! A caller that leaves a record for a later close to find leaves it first, and then asks whether
//! the descriptor [still names](Files::names) the file. Either it does not, or the thread that
//! closes it sees the record.
//!
//! If `flush` panics, the file is still closed, and is then released. A call that closes many
//! descriptors continues: it closes the others too, and calls `flush` for them. Then it resumes the
//! panic.

use core::fmt;

use fdtable_base::counted::Ref;

use crate::close_range::check;
use crate::{Error, Fd, FdFlags, FileRef, Files, RawFd, table};

/// Files whose descriptors were closed in one step: up to 64. The table drops its references after
/// the caller has seen them.
#[must_use = "no other call reports these files"]
pub struct Closed<'r, T: ?Sized>(table::Closed<'r, T>);

impl<'r, T: ?Sized> Closed<'r, T> {
    /// Returns each file once for each of its descriptors that was closed, also revoked files. Each
    /// has a reference of its own: one atomic add, and another to drop it.
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
    /// Closes a descriptor like [`close`](Self::close), and passes its file to `flush`.
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
    /// EBADF, EPERM and ENOMEM as for [`close`](Self::close); `flush` has not run.
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

    /// Duplicates `old` to `new` like [`dup_to`](Self::dup_to), and flushes the replaced file. If a
    /// file was open at `new`, it is passed to `flush`.
    ///
    /// # Errors
    /// EINVAL, EBADF, EBUSY, EPERM and ENOMEM as for [`dup_to`](Self::dup_to); `flush` has not run.
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
        // The file that was open there is released here, outside of all locks.
        if let Some(before) = self.table.open_exact(old, new, flags)? {
            flush(&before);
        }
        Ok(new)
    }

    /// Closes every open descriptor from `first` to `last`, and flushes the files. It closes like
    /// [`close_range`](Self::close_range), and passes the closed files to `flush`, step by step.
    ///
    /// # Errors
    /// EINVAL and ENOMEM as for [`close_range`](Self::close_range); `flush` has seen all files that
    /// were closed.
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

    /// Closes every descriptor that has [`CLOEXEC`](FdFlags::CLOEXEC), and flushes the files. It
    /// closes like [`exec`](Self::exec), and passes the closed files to `flush`, step by step.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) as for [`exec`](Self::exec); `flush` has seen all files that
    /// were closed.
    pub fn exec_flushing(&self, mut flush: impl FnMut(Closed<'_, T>)) -> Result<(), Error> {
        let flush = |closed: table::Closed<'_, T>| flush(Closed(closed));
        self.table.close_on_exec(flush)
    }

    /// Returns true if a descriptor is open and its file is `file`, revoked or not. May wait for
    /// the lock that a close of the descriptor takes. So if the descriptor is closed after this
    /// call, the closing thread sees the caller's earlier writes.
    pub fn names(&self, fd: impl Into<RawFd>, file: &FileRef<T>) -> bool {
        self.table.names(fd.into(), &file.0)
    }
}
