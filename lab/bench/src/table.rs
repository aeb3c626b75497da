//! The `Table` trait, through which the same workload runs on every table.
//!
//! Workloads are generic over it, so that each table gets its own copy of the measured loop with
//! the table's operations inlined.

use core::ops::Deref;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::sync::Arc;

use fdtable::{Error, FdFlags, FileRef, Files, Rcu, rcu};
use fdtable_vfs::{Errno, Object, OpenFlags, RcuObject, Transfer};

use crate::baseline::{Reference, RwLocked, State};

/// Descriptor table of one process, whose open files are seen as `T`.
pub trait Table<T: ?Sized>: Send + Sync + 'static {
    /// Counted reference to an open file.
    type Ref: Deref<Target = T> + Clone + Send + Sync;

    /// Name of the table in reports.
    const NAME: &'static str;

    /// Creates an empty table for descriptors below `limit`.
    fn with_limit(limit: u32) -> Self;

    /// Installs `file` at the lowest free descriptor.
    ///
    /// # Errors
    /// `EMFILE` if every descriptor below the limit is open.
    fn open(&self, file: Self::Ref) -> Result<RawFd, Error>;

    /// Returns a reference of the caller's own (owned lookup).
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    fn get(&self, fd: RawFd) -> Result<Self::Ref, Error>;

    /// Calls `f` with the file, without a reference of the caller's own: inside a read-side section
    /// if the table has these, else under the read lock. `f` must not sleep.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    fn with<R>(&self, fd: RawFd, f: impl FnOnce(&T) -> R) -> Result<R, Error>;

    /// Closes the descriptor and drops the table's reference.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    fn close(&self, fd: RawFd) -> Result<(), Error>;

    /// Closes the descriptor and returns the table's reference to the caller.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    fn take(&self, fd: RawFd) -> Result<Self::Ref, Error>;

    /// Creates a child's table: the same files at the same descriptors, and independent of this
    /// one.
    ///
    /// # Errors
    /// `ENOMEM` if there is no memory for it.
    fn fork(&self) -> Result<Self, Error>
    where
        Self: Sized;
}

/// Constructor of the references that a table holds.
pub trait NewFile<T: ?Sized, S>: Table<T> {
    /// Creates an open file of `value`. Allocates.
    fn new_file(value: S) -> Self::Ref;
}

/// Reference to a file that can be borrowed, seen as the file's type like those of other tables.
pub struct RcuFile<T: ?Sized>(pub FileRef<Rcu<T>>);

impl<T: ?Sized> Clone for RcuFile<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> Deref for RcuFile<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + Send + Sync + 'static> Reference for RcuFile<T> {
    const VECTOR: &'static str = "RwLock<Vec<Option<FileRef>>>";
}

/// The kind of files that can be borrowed. Owned lookups, opens and closes are the same for the
/// other kind, if the files have no `Drop`, as most files of this laboratory.
impl<T: ?Sized + Send + Sync + 'static> Table<T> for Files<Rcu<T>> {
    type Ref = RcuFile<T>;
    const NAME: &'static str = "fdtable";

    fn with_limit(limit: u32) -> Self {
        Files::with_limit(limit)
    }

    #[inline]
    fn open(&self, file: RcuFile<T>) -> Result<RawFd, Error> {
        Files::open(self, file.0, FdFlags::empty()).map(RawFd::from)
    }

    #[inline]
    fn get(&self, fd: RawFd) -> Result<RcuFile<T>, Error> {
        Files::get(self, fd).map(RcuFile)
    }

    #[inline]
    fn with<R>(&self, fd: RawFd, f: impl FnOnce(&T) -> R) -> Result<R, Error> {
        let section = rcu::read_lock();
        self.get_rcu(fd, &section).map(|file| f(&file))
    }

    #[inline]
    fn close(&self, fd: RawFd) -> Result<(), Error> {
        Files::close(self, fd).map(drop)
    }

    #[inline]
    fn take(&self, fd: RawFd) -> Result<RcuFile<T>, Error> {
        Files::close(self, fd).map(|file| RcuFile(file.into_file()))
    }

    #[inline]
    fn fork(&self) -> Result<Self, Error> {
        Files::fork(self)
    }
}

impl<T: Send + Sync + 'static> NewFile<T, T> for Files<Rcu<T>> {
    fn new_file(value: T) -> RcuFile<T> {
        RcuFile(FileRef::new_rcu(value))
    }
}

impl<O: Object> NewFile<dyn Object, O> for Files<RcuObject> {
    fn new_file(value: O) -> RcuFile<dyn Object> {
        RcuFile(
            FileRef::builder(value)
                .on_release(|object, _| O::release(object))
                .rcu()
                .build_dyn(|value| value),
        )
    }
}

impl<T: Send + Sync + 'static, S: State<Ref = Arc<T>>> NewFile<T, T> for RwLocked<S> {
    fn new_file(value: T) -> Arc<T> {
        Arc::new(value)
    }
}

impl<O: Object, S: State<Ref = Arc<dyn Object>>> NewFile<dyn Object, O> for RwLocked<S> {
    fn new_file(value: O) -> Arc<dyn Object> {
        Arc::new(ReleasedOnDrop(value))
    }
}

/// Object whose release hook runs when the last `Arc` is dropped, like that of a [`FileRef`].
struct ReleasedOnDrop<O: Object>(O);

impl<O: Object> Drop for ReleasedOnDrop<O> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl<O: Object> Object for ReleasedOnDrop<O> {
    fn status(&self) -> OpenFlags {
        self.0.status()
    }

    #[inline]
    fn read_to(&self, bufs: &mut [IoSliceMut<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        self.0.read_to(bufs, how)
    }

    #[inline]
    fn write_from(&self, bufs: &[IoSlice<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        self.0.write_from(bufs, how)
    }

    fn release(&self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::{RwLockBitmap, RwLockVec};

    /// Checks the properties that every workload relies on.
    fn serves_the_lowest_free_descriptor<Tb: Table<u64> + NewFile<u64, u64>>() {
        let table = Tb::with_limit(200);
        for value in 0..200 {
            assert_eq!(table.open(Tb::new_file(value)), Ok(value as RawFd));
        }
        assert_eq!(table.open(Tb::new_file(200)), Err(Error::TooManyFiles));
        for fd in [150, 7, 64] {
            assert_eq!(table.close(fd), Ok(()));
        }
        for fd in [7, 64, 150] {
            assert_eq!(table.open(Tb::new_file(fd as u64 + 1000)), Ok(fd));
            assert_eq!(table.with(fd, |value| *value), Ok(fd as u64 + 1000));
        }
    }

    fn refuses_descriptors_that_are_not_open<Tb: Table<u64> + NewFile<u64, u64>>() {
        let table = Tb::with_limit(100);
        table.open(Tb::new_file(1)).unwrap();
        for fd in [-1, RawFd::MIN, 1, 63, 64, 100, RawFd::MAX] {
            assert_eq!(table.get(fd).err(), Some(Error::BadFd), "get {fd}");
            assert_eq!(table.with(fd, |_| ()), Err(Error::BadFd), "with {fd}");
            assert_eq!(table.close(fd), Err(Error::BadFd), "close {fd}");
        }
        assert_eq!(table.close(0), Ok(()));
        assert_eq!(table.close(0), Err(Error::BadFd));
    }

    fn keeps_an_owned_file_after_close<Tb: Table<u64> + NewFile<u64, u64>>() {
        let table = Tb::with_limit(10);
        let fd = table.open(Tb::new_file(5)).unwrap();
        let file = table.get(fd).unwrap();
        table.close(fd).unwrap();
        assert_eq!(*file, 5);
    }

    fn take_returns_the_file<Tb: Table<u64> + NewFile<u64, u64>>() {
        let table = Tb::with_limit(10);
        let fd = table.open(Tb::new_file(5)).unwrap();
        assert_eq!(table.take(fd).map(|file| *file), Ok(5));
        assert_eq!(table.take(fd).err(), Some(Error::BadFd));
        assert_eq!(table.open(Tb::new_file(6)), Ok(fd));
    }

    fn a_child_is_independent_of_its_parent<Tb: Table<u64> + NewFile<u64, u64>>() {
        let parent = Tb::with_limit(300);
        for value in 0..200 {
            parent.open(Tb::new_file(value)).unwrap();
        }
        parent.close(70).unwrap();
        let child = parent.fork().unwrap();
        child.close(150).unwrap();
        parent.close(7).unwrap();
        assert_eq!(child.get(7).map(|file| *file), Ok(7));
        assert_eq!(parent.get(150).map(|file| *file), Ok(150));
        assert_eq!(child.open(Tb::new_file(0)), Ok(70));
        assert_eq!(parent.open(Tb::new_file(0)), Ok(7));
    }

    fn releases_a_socket_with_its_last_reference<Tb>()
    where
        Tb: Table<dyn Object> + NewFile<dyn Object, fdtable_vfs::socket::Socket>,
    {
        let table = Tb::with_limit(10);
        let (near, far) = fdtable_vfs::socket::pair(OpenFlags::empty());
        let near = table.open(Tb::new_file(near)).unwrap();
        let far = table.open(Tb::new_file(far)).unwrap();
        let held = table.get(near).unwrap();
        table.close(near).unwrap();
        assert_eq!(
            table.with(far, |end| end.try_read(&mut [0; 1])).unwrap(),
            Err(Errno::EAGAIN)
        );
        drop(held);
        assert_eq!(
            table.with(far, |end| end.try_read(&mut [0; 1])).unwrap(),
            Ok(0)
        );
    }

    macro_rules! on_every_table {
        ($($behaviour:ident)+) => {
            $(#[test]
            fn $behaviour() {
                super::$behaviour::<Files<Rcu<u64>>>();
                super::$behaviour::<RwLockBitmap<u64>>();
                super::$behaviour::<RwLockVec<u64>>();
            })+
        };
    }

    mod every_table {
        use super::*;

        on_every_table! {
            serves_the_lowest_free_descriptor
            refuses_descriptors_that_are_not_open
            keeps_an_owned_file_after_close
            take_returns_the_file
            a_child_is_independent_of_its_parent
        }

        #[test]
        fn releases_a_socket_with_its_last_reference() {
            super::releases_a_socket_with_its_last_reference::<Files<RcuObject>>();
            super::releases_a_socket_with_its_last_reference::<RwLockBitmap<dyn Object>>();
            super::releases_a_socket_with_its_last_reference::<RwLockVec<dyn Object>>();
        }
    }
}
