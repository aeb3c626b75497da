//! Host files after a descriptor of ours for them was closed.
//!
//! If that was the last one of this process, other processes that share the kernel may still use
//! the file, so it is not released, and its host descriptor is [given
//! up](crate::host::fd::HostFd::give_up) in this process alone.
//!
//! If others are left, the host descriptor stays open. But any close of a file ends the record
//! locks that the process has on it, so they are released here.

use crossbeam_utils::atomic::AtomicCell;
use fdtable::{ClosedFile, Fd, FileRef, host_fork};
use fdtable_vfs::RcuObject;
use fdtable_vfs::event::FileId;

use crate::abi::system::System;
use crate::host;
use crate::host::fd::{has_descriptor, without_moves};
use crate::host::file::HostFile;

/// Set once this process or one above it has asked for a record lock on a host file.
static HAS_LOCKED: AtomicCell<bool> = AtomicCell::new(false);

/// Has closes release record locks on host files from now on.
pub(crate) fn note_record_lock() {
    HAS_LOCKED.store(true);
}

/// Returns true if a close of a host file has more to do than the host.
#[inline]
fn concerns_host_files() -> bool {
    host_fork::shares_memory() || HAS_LOCKED.load()
}

/// Runs an operation that may close our descriptors from `first` to `last`. Afterwards, releases
/// the record locks on the host files of those that it has closed, and gives up the host
/// descriptors of files that this process has no descriptor of any more.
pub(crate) fn closing<R>(system: &System, first: u32, last: u32, close: impl FnOnce() -> R) -> R {
    if !concerns_host_files() {
        return close();
    }
    let before = host_files(system, first, last);
    let result = close();
    for (fd, file) in &before {
        let now = system.file(fd.raw());
        if !now.is_ok_and(|now| FileRef::ptr_eq(&now, file)) {
            after_close(system, file);
        }
    }
    result
}

/// Drops a file whose descriptor was closed. If it is a host file, releases the record locks on it,
/// and gives up its host descriptor if this process has no other one of ours.
#[inline]
pub(crate) fn drop_closed(system: &System, closed: ClosedFile<RcuObject>) {
    if concerns_host_files() && HostFile::below(&**closed).is_some() {
        after_close(system, &closed.into_file());
    }
}

#[cold]
fn after_close(system: &System, file: &FileRef<RcuObject>) {
    if HAS_LOCKED.load()
        && let Some(host_file) = HostFile::below(&***file)
    {
        host::release_record_locks(host_file.fd().get());
    }
    // If no one else uses it, it is about to be released.
    if host_fork::shares_memory() && FileRef::exact_strong_count(file) != Some(1) {
        let _alone = without_moves(system.process);
        give_up_unless_open(system, file);
    }
}

/// Gives up the host descriptor of a file if this process has no descriptor of it. The caller has
/// the result of [`without_moves`].
pub(crate) fn give_up_unless_open(system: &System, file: &FileRef<RcuObject>) {
    if let Some(host_file) = HostFile::below(&***file)
        && !system.is_executable(file)
        && !has_descriptor(system.process, FileId::of(host_file))
    {
        host_file.host_fd().give_up();
    }
}

/// Returns the open files of the host among our descriptors from `first` to `last`.
fn host_files(system: &System, first: u32, last: u32) -> Vec<(Fd, FileRef<RcuObject>)> {
    let open = system.process.files().iter_from(first);
    open.take_while(|&(fd, ..)| u32::from(fd) <= last)
        .map(|(fd, file, _)| (fd, file))
        .filter(|(_, file)| HostFile::below(&***file).is_some())
        .collect()
}
