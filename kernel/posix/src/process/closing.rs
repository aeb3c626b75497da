//! Host descriptors of files after this process has closed its last descriptor of ours for them.
//!
//! Other processes that share the kernel may still use such a file, so it is not released, and its
//! host descriptor is [given up](crate::host::fd::HostFd::give_up) in this process alone.

use fdtable::{ClosedFile, FileRef, host_fork};
use fdtable_vfs::RcuObject;
use fdtable_vfs::event::FileId;

use crate::abi::system::System;
use crate::host::fd::{has_descriptor, without_moves};
use crate::host::file::HostFile;

/// Runs an operation that may close our descriptors from `first` to `last`. Afterwards, gives up
/// the host descriptors of files that this process has no descriptor of any more.
pub(crate) fn closing<R>(system: &System, first: u32, last: u32, close: impl FnOnce() -> R) -> R {
    if !host_fork::shares_memory() {
        return close();
    }
    let before = host_files(system, first, last);
    let result = close();
    for file in &before {
        give_up_closed(system, file);
    }
    result
}

/// Drops a file whose descriptor was closed, and gives up its host descriptor if this process has
/// no other one of ours.
#[inline]
pub(crate) fn drop_closed(system: &System, closed: ClosedFile<RcuObject>) {
    if host_fork::shares_memory() && HostFile::below(&**closed).is_some() {
        give_up_closed(system, &closed.into_file());
    }
}

#[cold]
fn give_up_closed(system: &System, file: &FileRef<RcuObject>) {
    // If no one else uses it, it is about to be released.
    if FileRef::exact_strong_count(file) != Some(1) {
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
fn host_files(system: &System, first: u32, last: u32) -> Vec<FileRef<RcuObject>> {
    let open = system.process.files().iter_from(first);
    open.take_while(|&(fd, ..)| u32::from(fd) <= last)
        .map(|(_, file, _)| file)
        .filter(|file| HostFile::below(&***file).is_some())
        .collect()
}
