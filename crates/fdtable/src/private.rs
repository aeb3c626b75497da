//! Private descriptors: they are never reused.
//!
//! POSIX gives out the lowest free descriptor, and reuses it right after its close. So a thread
//! that closes a descriptor twice, or uses one after its close, may hit another file. And a library
//! that opens a descriptor changes the descriptors that its program gets, and loses it to a program
//! that closes all descriptors it does not know. Molnar proposed a second name space for such use
//! in 2007, "non-linear" descriptors for Linux: large numbers in no order, without a bitmap.
//!
//! This is such a name space. A private descriptor is an index with a *generation*: once closed it
//! stays invalid, also when its index is reused. It names nothing in [`Files`](crate::Files): the
//! two are different types with different tables, so no search for a lowest descriptor, no
//! `close_range`, no fork and no exec touches it. That holds by construction, not by a check.
//!
//! There is nothing to search, so no lock orders all changes: an open takes an index from a list of
//! its own CPU, and a close returns it there. [`fdtable_objects::slot_map`] explains how that
//! works, and why a lookup finds the right file or none.

use core::fmt;

use fdtable_objects::object::SlotRef;
use fdtable_objects::slot_map::{Handle, InsertError, SlotMap};

use crate::close::ClosedFile;
use crate::files::{Origin, TableEnd};
use crate::rcu::{self, Guard};
use crate::{BorrowedFile, Error, FileRef, Rcu};

/// A private descriptor: an index and a generation. It need not be open in any table.
///
/// C code holds it as an integer of 64 bits, which may have any value. Neither 0 nor 2^64 - 1 is
/// ever a descriptor, so they are free for "none" and "failed".
///
/// ```
/// use fdtable::{Error, FileRef, PrivateFd, PrivateFiles};
///
/// let files = PrivateFiles::new();
/// let fd = files.open(FileRef::new("log"))?;
/// let for_c: u64 = fd.to_bits();
/// assert_eq!(PrivateFd::from_bits(for_c), fd);
/// assert_eq!(files.get(PrivateFd::from_bits(0)).unwrap_err(), Error::BadFd);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrivateFd(Handle);

/// A table of private descriptors.
///
/// All operations take `&self`; threads share one table in an `Arc`. `T` is the type of the objects
/// that descriptors refer to, as in [`Files`](crate::Files), and a [`FileRef`] may be open in both.
///
/// Dropping it closes its descriptors, and drops released files of the process, like the drop of a
/// [`Files`](crate::Files) that was not made by a fork.
///
/// Private descriptors have no flags: none survives into another program or another table, so there
/// is nothing to close on exec.
///
/// ```
/// use fdtable::{Error, FileRef, PrivateFiles};
///
/// let files = PrivateFiles::new();
/// let old = files.open(FileRef::new("old"))?;
/// drop(files.close(old)?);
/// let new = files.open(FileRef::new("new"))?;
/// assert_ne!(old, new, "a table never reuses a descriptor");
/// assert_eq!(files.close(old).unwrap_err(), Error::BadFd);
/// assert_eq!(*files.get(new)?, "new");
/// # Ok::<(), Error>(())
/// ```
pub struct PrivateFiles<T: ?Sized> {
    pool: SlotMap<T>,
    /// Dropped after the pool.
    _end: TableEnd,
}

impl PrivateFd {
    /// Makes a descriptor of any 64 bits. Bits that [`to_bits`](Self::to_bits) did not return name
    /// nothing, unless they happen to be those of an open descriptor.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(Handle::from_bits(bits))
    }

    /// Returns the descriptor as C holds it: the generation in the high half, the index in the low
    /// one.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0.to_bits()
    }
}

/// Writes the index, a point, and the generation.
impl fmt::Display for PrivateFd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.index(), self.0.generation())
    }
}

impl fmt::Debug for PrivateFd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateFd({self})")
    }
}

impl<T: ?Sized + Send + Sync> PrivateFiles<T> {
    /// The limit of a new table: 1,024, like that of [`Files`](crate::Files).
    pub const DEFAULT_LIMIT: u32 = 1024;

    /// Makes an empty table with the limit [`DEFAULT_LIMIT`](Self::DEFAULT_LIMIT). Allocates a
    /// short list for each CPU.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(Self::DEFAULT_LIMIT)
    }

    /// Makes an empty table with at most `limit` open descriptors, 0 to 2^31; more counts as 2^31.
    /// Allocates a short list for each CPU; other memory use depends on the open descriptors, not
    /// on the limit.
    #[must_use]
    pub fn with_limit(limit: u32) -> Self {
        Self {
            pool: SlotMap::new(limit),
            _end: TableEnd(Origin::New),
        }
    }

    /// Returns the maximum number of open descriptors, 0 to 2^31. Neither blocks nor allocates.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.pool.limit()
    }

    /// Opens `file` at a descriptor that was never given out before. If no free index is at hand,
    /// one time in 32 while the table grows, it may wait for a lock, and allocate; in other calls
    /// it does neither. May be called inside a read-side section.
    ///
    /// To keep the file when the table is full, clone the reference first.
    ///
    /// # Errors
    /// The reference is then dropped, as a failing `open(2)` drops the file it opened.
    /// - [`Error::TooManyFiles`] (EMFILE) if the limit is reached. It was reached at one point in
    ///   time during the call; descriptors that other calls are just opening or closing count.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow.
    #[inline]
    pub fn open(&self, file: FileRef<T>) -> Result<PrivateFd, Error> {
        match self.pool.insert(file.0) {
            Ok(handle) => Ok(PrivateFd(handle)),
            Err((reason, _dropped)) => Err(reason.into()),
        }
    }

    /// Finds the file of a descriptor and takes a reference, which outlives the descriptor. Costs
    /// one atomic add. Takes no lock, neither blocks nor allocates (except in a thread's first
    /// lookup), and may be called inside a read-side section.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open: closed, also if its index was
    ///   reused since; or never given out.
    /// - [`Error::Revoked`] (EIO) if the file was [revoked](FileRef::revoke).
    #[doc(alias = "fget")]
    #[inline]
    pub fn get(&self, fd: PrivateFd) -> Result<FileRef<T>, Error> {
        let file = self.find(fd).ok_or(Error::BadFd)?;
        file.unless_revoked()
    }

    /// Finds the file of a descriptor, revoked or not.
    #[inline(always)]
    fn find(&self, fd: PrivateFd) -> Option<FileRef<T>> {
        let guard = rcu::read_lock();
        self.pool.get(fd.0, &guard).map(FileRef)
    }

    /// Closes a descriptor permanently, and returns its file. Dropping the returned value drops the
    /// table's reference; if it is the last one, the release hook runs there. Waits for other
    /// threads for a few steps at most, does not allocate, and may be called inside a read-side
    /// section.
    ///
    /// # Errors
    /// [`Error::BadFd`] (EBADF) if the descriptor is not open, as for [`get`](Self::get). If
    /// several threads close one descriptor at the same time, one succeeds.
    #[inline]
    pub fn close(&self, fd: PrivateFd) -> Result<ClosedFile<T>, Error> {
        let file = self.pool.remove(fd.0);
        file.map(|file| ClosedFile(SlotRef::new(file)))
            .ok_or(Error::BadFd)
    }

    /// Returns the number of open descriptors, 0 to 2^31, at one point in time. Descriptors that
    /// other calls are just opening or closing count. Visits every CPU's list, and opens and closes
    /// wait meanwhile: use it for statistics, not for each request.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.pool.count() as usize
    }

    /// Iterates over the open descriptors, in the order of their indexes: each with its file,
    /// revoked or not. A descriptor that is opened or closed meanwhile may be found or not. Takes a
    /// reference to each file. May wait for a lock at the start.
    ///
    /// ```
    /// use fdtable::{FileRef, PrivateFiles};
    ///
    /// let files = PrivateFiles::new();
    /// let [_in, out] = [files.open(FileRef::new("in"))?, files.open(FileRef::new("out"))?];
    /// drop(files.close(out)?);
    /// assert_eq!(files.iter().map(|(_, file)| *file).collect::<Vec<_>>(), ["in"]);
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (PrivateFd, FileRef<T>)> {
        let all = self.pool.handles().map(PrivateFd);
        all.filter_map(|fd| Some((fd, self.find(fd)?)))
    }
}

impl<T: ?Sized + Send + Sync> PrivateFiles<Rcu<T>> {
    /// Finds the file of a descriptor for use inside a read-side section. Takes no reference and no
    /// lock, writes nothing atomically, and neither blocks nor allocates.
    ///
    /// The file stays usable until the section ends, also if the descriptor is closed meanwhile.
    ///
    /// ```
    /// use fdtable::{FileRef, PrivateFiles, Rcu, rcu};
    ///
    /// let files: PrivateFiles<Rcu<Vec<u8>>> = PrivateFiles::new();
    /// let fd = files.open(FileRef::new_rcu(vec![1, 2, 3]))?;
    /// let section = rcu::read_lock();
    /// let file = files.get_rcu(fd, &section)?;
    /// drop(files.close(fd)?);
    /// assert_eq!(file.len(), 3, "closed, and still here");
    /// assert!(files.get_rcu(fd, &section).is_err(), "but not found any more");
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadFd`] (EBADF) and [`Error::Revoked`] (EIO) as for [`get`](Self::get).
    #[doc(alias = "fdget")]
    #[inline]
    pub fn get_rcu<'g>(
        &self,
        fd: PrivateFd,
        guard: &'g Guard<'_>,
    ) -> Result<BorrowedFile<'g, T>, Error> {
        let file = self.pool.borrow(fd.0, guard);
        BorrowedFile(file.ok_or(Error::BadFd)?).unless_revoked()
    }
}

impl<T: ?Sized + Send + Sync> Default for PrivateFiles<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized + Send + Sync + fmt::Debug> fmt::Debug for PrivateFiles<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl From<InsertError> for Error {
    fn from(reason: InsertError) -> Self {
        match reason {
            InsertError::Full => Self::TooManyFiles,
            InsertError::OutOfMemory => Self::NoMemory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_written_as_its_number_and_generation() {
        let fd = PrivateFd::from_bits(7 << 32 | 3);
        assert_eq!(std::format!("{fd} {fd:?}"), "3.7 PrivateFd(3.7)");
    }
}
