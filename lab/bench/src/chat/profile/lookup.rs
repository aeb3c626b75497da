//! The parts of a lookup as functions of their own.
//!
//! None is inlined, and nothing else is in this file: the profile recognizes lookups by the name of
//! the file.

use std::os::fd::RawFd;

use fdtable::rcu::{self, Guard};
use fdtable::{BorrowedFile, FileRef, Files};
use fdtable_vfs::{Errno, Object, RcuObject};

use crate::table::Table;

/// Begins a read-side section.
#[inline(never)]
pub(super) fn enter() -> Guard<'static> {
    rcu::read_lock()
}

/// Finds a file without a reference.
#[inline(never)]
pub(super) fn find<'g>(
    files: &Files<RcuObject>,
    fd: RawFd,
    section: &'g Guard<'_>,
) -> Result<BorrowedFile<'g, dyn Object>, Errno> {
    Ok(files.get_rcu(fd, section)?)
}

/// Takes a reference to a borrowed file, for a thread that has to wait.
#[inline(never)]
pub(super) fn keep(file: BorrowedFile<'_, dyn Object>) -> Option<FileRef<RcuObject>> {
    file.upgrade()
}

/// Returns true if a borrowed file is still open at the descriptor.
#[inline(never)]
pub(super) fn names(files: &Files<RcuObject>, fd: RawFd, file: &FileRef<RcuObject>) -> bool {
    files.refers_to(fd, file)
}

/// Ends a section.
#[inline(never)]
pub(super) fn leave(section: Guard<'static>) {
    drop(section);
}

/// Finds a file and takes a reference.
#[inline(never)]
pub(super) fn get<Tb: Table<dyn Object>>(table: &Tb, fd: RawFd) -> Result<Tb::Ref, Errno> {
    Ok(table.get(fd)?)
}

/// Drops a reference.
#[inline(never)]
pub(super) fn put<R>(file: R) {
    drop(file);
}
