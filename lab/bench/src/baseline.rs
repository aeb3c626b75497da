//! The tables that this project is measured against.
//!
//! Each is written as well as its design allows: one lock acquisition for each operation, nothing
//! done under the lock that can be done outside it, inlined into the same loops as `fdtable`. They
//! hold references of any kind: `Arc`, as programs usually do, or the same as `fdtable`.

use std::ops::Deref;
use std::os::fd::RawFd;
use std::sync::Arc;

use fdtable::{Error, FdFlags};
use parking_lot::{RwLock, RwLockReadGuard};

use crate::table::Table;

mod files_struct;
mod vector;

/// Bits of a word of a bitmap.
const WORD: usize = u64::BITS as usize;

/// The table that RCU replaced in Linux, for references of any kind.
pub type FilesStruct<R> = RwLocked<files_struct::State<R>>;

/// The same for `Arc`s.
pub type RwLockBitmap<T> = FilesStruct<Arc<T>>;

/// The common table of today's programs, for references of any kind.
pub type LockedVec<R> = RwLocked<vector::State<R>>;

/// The same for `Arc`s.
pub type RwLockVec<T> = LockedVec<Arc<T>>;

/// Content of a [`LockedVec`], for other locks.
#[cfg(feature = "experiments")]
pub(crate) type Vector<R> = vector::State<R>;

/// Table under `parking_lot`'s reader-writer lock.
#[derive(Debug)]
pub struct RwLocked<S> {
    state: RwLock<S>,
    limit: u32,
}

/// Read lock of a table, for several lookups.
#[derive(Debug)]
pub struct Held<'t, S>(RwLockReadGuard<'t, S>);

/// Counted reference to an open file.
pub trait Reference: Deref + Clone + Send + Sync + 'static {
    /// Name of a vector of these in reports.
    const VECTOR: &'static str;
}

impl<T: ?Sized + Send + Sync + 'static> Reference for Arc<T> {
    const VECTOR: &'static str = "RwLock<Vec<Option<Arc>>>";
}

/// Content of a table, under its lock.
///
/// The methods return `EBADF` if a descriptor is not open.
#[allow(clippy::missing_errors_doc)]
pub trait State: Clone + Send + Sync + 'static {
    /// Counted reference to an open file.
    type Ref: Reference;

    /// Name of the table in reports.
    const NAME: &'static str;

    /// Creates an empty table.
    fn new() -> Self;

    /// Installs `file` at the lowest free descriptor; `EMFILE` if that is not below `limit`.
    fn open(&mut self, file: Self::Ref, limit: u32) -> Result<RawFd, Error>;

    /// Finds the file of a descriptor.
    fn file(&self, fd: RawFd) -> Result<&Self::Ref, Error>;

    /// Empties the slot of a descriptor, and clears its flag.
    fn take(&mut self, fd: RawFd) -> Result<Self::Ref, Error>;

    /// Returns the bits of the descriptors that close on exec. Absent words are 0.
    fn close_on_exec(&self) -> &[u64];

    /// Returns a word of these bits to be changed.
    fn close_on_exec_mut(&mut self, word: usize) -> &mut u64;
}

impl<S: State> RwLocked<S> {
    /// Installs two files at the two lowest free descriptors, or none of them.
    ///
    /// # Errors
    /// `EMFILE` if there are not two below the limit.
    #[inline]
    pub fn open_pair(&self, one: S::Ref, other: S::Ref) -> Result<(RawFd, RawFd), Error> {
        let mut state = self.state.write();
        let first = state.open(one, self.limit)?;
        match state.open(other, self.limit) {
            Ok(second) => Ok((first, second)),
            Err(error) => {
                let one = state.take(first);
                drop(state);
                drop(one);
                Err(error)
            }
        }
    }

    /// Duplicates `fd` to the lowest free descriptor, under one lock.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open; `EMFILE` if every descriptor below the limit is open.
    #[inline]
    pub fn dup(&self, fd: RawFd) -> Result<RawFd, Error> {
        let mut state = self.state.write();
        let file = state.file(fd)?.clone();
        state.open(file, self.limit)
    }

    /// Takes the read lock for several lookups.
    #[inline]
    pub fn hold(&self) -> Held<'_, S> {
        Held(self.state.read())
    }

    /// Returns the flags of a descriptor.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn flags(&self, fd: RawFd) -> Result<FdFlags, Error> {
        let state = self.state.read();
        state.file(fd)?;
        let (word, bit) = place(fd as usize);
        let is_set = (state.close_on_exec().get(word)).is_some_and(|word| word & bit != 0);
        Ok(if is_set {
            FdFlags::CLOEXEC
        } else {
            FdFlags::empty()
        })
    }

    /// Sets the flags of a descriptor.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn set_flags(&self, fd: RawFd, flags: FdFlags) -> Result<(), Error> {
        let mut state = self.state.write();
        state.file(fd)?;
        let (word, bit) = place(fd as usize);
        let word = state.close_on_exec_mut(word);
        if flags.contains(FdFlags::CLOEXEC) {
            *word |= bit;
        } else {
            *word &= !bit;
        }
        Ok(())
    }

    /// Closes the descriptors that close on exec. Drops the references after it has released the
    /// lock.
    pub fn exec(&self) {
        let mut closed = Vec::new();
        let mut state = self.state.write();
        for word in 0..state.close_on_exec().len() {
            while state.close_on_exec()[word] != 0 {
                let bit = state.close_on_exec()[word].trailing_zeros() as usize;
                closed.extend(state.take((word * WORD + bit) as RawFd));
            }
        }
        drop(state);
        drop(closed);
    }
}

impl<S: State> Table<<S::Ref as Deref>::Target> for RwLocked<S> {
    type Ref = S::Ref;
    const NAME: &'static str = S::NAME;

    fn with_limit(limit: u32) -> Self {
        RwLocked {
            state: RwLock::new(S::new()),
            limit,
        }
    }

    #[inline]
    fn open(&self, file: S::Ref) -> Result<RawFd, Error> {
        self.state.write().open(file, self.limit)
    }

    /// Takes the reference under the read lock.
    #[inline]
    fn get(&self, fd: RawFd) -> Result<S::Ref, Error> {
        self.state.read().file(fd).cloned()
    }

    #[inline]
    fn with<R>(
        &self,
        fd: RawFd,
        f: impl FnOnce(&<S::Ref as Deref>::Target) -> R,
    ) -> Result<R, Error> {
        self.hold().file(fd).map(f)
    }

    /// Drops the reference after it has released the lock.
    #[inline]
    fn close(&self, fd: RawFd) -> Result<(), Error> {
        self.take(fd).map(drop)
    }

    #[inline]
    fn take(&self, fd: RawFd) -> Result<S::Ref, Error> {
        self.state.write().take(fd)
    }

    /// Copies the table, with a reference to each open file, under the read lock.
    #[inline]
    fn fork(&self) -> Result<Self, Error> {
        let state = self.state.read().clone();
        Ok(RwLocked {
            state: RwLock::new(state),
            limit: self.limit,
        })
    }
}

impl<S: State> Held<'_, S> {
    /// Finds the file of a descriptor.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn file(&self, fd: RawFd) -> Result<&<S::Ref as Deref>::Target, Error> {
        self.0.file(fd).map(Deref::deref)
    }
}

/// Finds the file of a slot.
#[inline]
fn file_of<R>(slots: &[Option<R>], fd: RawFd) -> Result<&R, Error> {
    // A negative descriptor becomes one that is past the end.
    let slot = slots.get(fd as usize).and_then(Option::as_ref);
    slot.ok_or(Error::BadFd)
}

/// Empties a slot.
#[inline]
fn take_of<R>(slots: &mut [Option<R>], fd: RawFd) -> Result<R, Error> {
    let slot = slots.get_mut(fd as usize).ok_or(Error::BadFd)?;
    slot.take().ok_or(Error::BadFd)
}

/// Returns the word and the bit of a descriptor.
#[inline]
fn place(number: usize) -> (usize, u64) {
    (number / WORD, 1 << (number % WORD))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_pair_gets_two_descriptors_or_none<S: State<Ref = Arc<u64>>>() {
        let table = RwLocked::<S>::with_limit(3);
        let file = Arc::new(0);
        let again = || Arc::clone(&file);
        assert_eq!(table.open_pair(again(), again()), Ok((0, 1)));
        assert_eq!(table.open_pair(again(), again()), Err(Error::TooManyFiles));
        assert_eq!(Arc::strong_count(&file), 3);
        assert_eq!(table.dup(1), Ok(2));
        assert_eq!(table.dup(7), Err(Error::BadFd));
    }

    fn exec_closes_descriptors_with_the_flag_and_a_new_file_has_none<S>()
    where
        S: State<Ref = Arc<u64>>,
    {
        let table = RwLocked::<S>::with_limit(1000);
        for value in 0..200 {
            table.open(Arc::new(value)).unwrap();
        }
        for fd in [0, 63, 150] {
            table.set_flags(fd, FdFlags::CLOEXEC).unwrap();
        }
        table.set_flags(63, FdFlags::empty()).unwrap();
        assert_eq!(table.flags(150), Ok(FdFlags::CLOEXEC));
        table.exec();
        assert_eq!(table.flags(150), Err(Error::BadFd));
        assert_eq!(table.flags(63), Ok(FdFlags::empty()));
        assert_eq!(table.open(Arc::new(0)), Ok(0));
        assert_eq!(table.flags(0), Ok(FdFlags::empty()));
    }

    fn a_closed_file_is_dropped<S: State<Ref = Arc<u64>>>() {
        let table = RwLocked::<S>::with_limit(10);
        let file = Arc::new(0);
        let fd = table.open(Arc::clone(&file)).unwrap();
        table.close(fd).unwrap();
        assert_eq!(Arc::strong_count(&file), 1);
    }

    macro_rules! on_every_table {
        ($($behaviour:ident)+) => {
            mod every_table {
                use super::*;

                $(#[test]
                fn $behaviour() {
                    super::$behaviour::<files_struct::State<Arc<u64>>>();
                    super::$behaviour::<vector::State<Arc<u64>>>();
                })+
            }
        };
    }

    on_every_table! {
        a_pair_gets_two_descriptors_or_none
        exec_closes_descriptors_with_the_flag_and_a_new_file_has_none
        a_closed_file_is_dropped
    }
}
