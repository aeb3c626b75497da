//! `fdtable` in the mode in which an open takes any free descriptor, not the lowest.
//!
//! Each CPU then allocates descriptors in leaves of its own, and does not wait for another CPU. All
//! calls of that mode are in this file.

use std::os::fd::RawFd;

use fdtable::{Error, FdFlags, FileRef, Files, Rcu};

use crate::table::{NewFile, RcuFile, Table};

/// [`Files`] whose opens take any free descriptor.
pub struct AnyFree<T: ?Sized>(Files<Rcu<T>>);

impl<T: ?Sized> AsRef<Files<Rcu<T>>> for AnyFree<T> {
    fn as_ref(&self) -> &Files<Rcu<T>> {
        &self.0
    }
}

impl<T: ?Sized + Send + Sync + 'static> Table<T> for AnyFree<T> {
    type Ref = RcuFile<T>;
    const NAME: &'static str = "fdtable, any free number";

    fn with_limit(limit: u32) -> Self {
        AnyFree(Files::with_limit(limit))
    }

    #[inline]
    fn open(&self, file: RcuFile<T>) -> Result<RawFd, Error> {
        self.0.open_any(file.0, FdFlags::empty()).map(RawFd::from)
    }

    #[inline]
    fn get(&self, fd: RawFd) -> Result<RcuFile<T>, Error> {
        Table::get(&self.0, fd)
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
    fn take(&self, fd: RawFd) -> Result<RcuFile<T>, Error> {
        Table::take(&self.0, fd)
    }

    #[inline]
    fn fork(&self) -> Result<Self, Error> {
        Table::fork(&self.0).map(AnyFree)
    }
}

impl<T: Send + Sync + 'static> NewFile<T, T> for AnyFree<T> {
    fn new_file(value: T) -> RcuFile<T> {
        RcuFile(FileRef::new_rcu(value))
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
