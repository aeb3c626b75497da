//! `fdtable` in the mode in which an open takes any free descriptor, not the lowest.
//!
//! Each CPU then allocates descriptors in leaves of its own, and does not wait for another CPU. All
//! calls of that mode are in this file.

use std::os::fd::RawFd;

use fdtable::{Error, FdFlags, FileRef, Files};

use crate::table::{NewFile, Table};

/// [`Files`] whose opens take any free descriptor.
pub struct AnyFree<T: ?Sized>(Files<T>);

impl<T: ?Sized> AsRef<Files<T>> for AnyFree<T> {
    fn as_ref(&self) -> &Files<T> {
        &self.0
    }
}

impl<T: ?Sized + Send + Sync + 'static> Table<T> for AnyFree<T> {
    type Ref = FileRef<T>;
    const NAME: &'static str = "fdtable, any free number";

    fn with_limit(limit: u32) -> Self {
        AnyFree(Files::with_limit(limit))
    }

    #[inline]
    fn open(&self, file: FileRef<T>) -> Result<RawFd, Error> {
        self.0.open_any(file, FdFlags::empty()).map(RawFd::from)
    }

    #[inline]
    fn get(&self, fd: RawFd) -> Result<FileRef<T>, Error> {
        self.0.get(fd)
    }

    #[inline]
    fn with<R>(&self, fd: RawFd, f: impl FnOnce(&T) -> R) -> Result<R, Error> {
        Table::with(&self.0, fd, f)
    }

    #[inline]
    fn close(&self, fd: RawFd) -> Result<(), Error> {
        self.0.close(fd).map(drop)
    }

    #[inline]
    fn take(&self, fd: RawFd) -> Result<FileRef<T>, Error> {
        self.0.take(fd)
    }

    #[inline]
    fn fork(&self) -> Result<Self, Error> {
        self.0.fork().map(AnyFree)
    }
}

impl<T: Send + Sync + 'static> NewFile<T, T> for AnyFree<T> {
    fn new_file(value: T) -> FileRef<T> {
        FileRef::new(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn any_free_descriptor_is_below_the_limit_and_allocated_once() {
        let table = AnyFree::with_limit(200);
        let open = |value: u64| table.open(AnyFree::new_file(value)).unwrap();
        let given: BTreeSet<_> = (0..100).map(open).collect();
        assert_eq!(given.len(), 100);
        assert!(given.iter().all(|fd| (0..200).contains(fd)), "{given:?}");
    }

    #[test]
    fn a_file_that_was_taken_can_be_opened_again() {
        let table = AnyFree::with_limit(200);
        let fd = table.open(AnyFree::new_file(7)).unwrap();
        let file = table.take(fd).unwrap();
        assert_eq!(table.get(fd).err(), Some(Error::BadFd));
        let again = table.open(file).unwrap();
        assert_eq!(table.with(again, |value: &u64| *value), Ok(7));
    }
}
