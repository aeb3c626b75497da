//! Calls of the host on paths, and host descriptors that are closed at their end.

use std::ffi::{CStr, CString, OsStr, c_int};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use fdtable::host_fork;
use fdtable_vfs::Errno;

use super::check::{done, stored, without_cancellation};
use super::direct::{direct, words};

/// Host descriptor, which is closed at the end.
#[derive(Debug)]
pub(crate) struct OwnedHostFd(pub(crate) RawFd);

impl OwnedHostFd {
    /// Returns the descriptor, which stays open.
    pub(crate) fn into_raw(self) -> RawFd {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for OwnedHostFd {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// Closes a host descriptor.
pub(crate) fn close(fd: RawFd) {
    // SAFETY: the call takes no pointer. An error has no receiver.
    without_cancellation(|| unsafe { libc::close(fd) });
}

/// Opens a path relative to `directory`.
pub(crate) fn openat(
    directory: RawFd,
    path: &CStr,
    flags: c_int,
    mode: libc::mode_t,
) -> Result<OwnedHostFd, Errno> {
    let _out = host_fork::blocking_section();
    openat_inside(directory, path, flags, mode)
}

/// Opens a path relative to `directory`. Does not leave the freezer.
pub(crate) fn openat_inside(
    directory: RawFd,
    path: &CStr,
    flags: c_int,
    mode: libc::mode_t,
) -> Result<OwnedHostFd, Errno> {
    // A host descriptor must never survive the host's `exec`, whatever the flags of our descriptor.
    let flags = flags | libc::O_CLOEXEC;
    let a = words!(directory, path.as_ptr(), flags, mode);
    // SAFETY: the path is a C string.
    let fd = unsafe { direct(libc::SYS_openat, a) };
    fd.map(|fd| OwnedHostFd(fd as RawFd))
}

/// Opens a directory, without reading it.
pub(crate) fn open_directory(from: RawFd, path: &CStr) -> Result<OwnedHostFd, Errno> {
    openat(from, path, libc::O_PATH | libc::O_DIRECTORY, 0)
}

/// Argument of `openat2` (`struct open_how`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct OpenHow {
    pub(crate) flags: u64,
    pub(crate) mode: u64,
    pub(crate) resolve: u64,
}

/// Opens a path relative to `directory` by a struct. Does not leave the freezer.
pub(crate) fn openat2_inside(
    directory: RawFd,
    path: &CStr,
    how: OpenHow,
) -> Result<OwnedHostFd, Errno> {
    let how = OpenHow {
        flags: how.flags | libc::O_CLOEXEC as u64,
        ..how
    };
    let size = size_of::<OpenHow>();
    let a = words!(directory, path.as_ptr(), &raw const how, size);
    // SAFETY: the path is a C string, and the struct has the layout of the call.
    let fd = unsafe { direct(libc::SYS_openat2, a) };
    fd.map(|fd| OwnedHostFd(fd as RawFd))
}

/// Opens a path relative to `directory` as `openat` does, but fails with `ELOOP` if there is a
/// symbolic link on it.
pub(crate) fn open_without_links(
    directory: RawFd,
    path: &CStr,
    flags: c_int,
    mode: libc::mode_t,
) -> Result<OwnedHostFd, Errno> {
    // `openat2` checks what `openat` ignores.
    let flags = match flags & libc::O_PATH {
        0 => flags & OPEN_FLAGS,
        _ => flags & (libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW),
    };
    let makes = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);
    let mode = match flags & makes {
        0 => 0,
        _ => mode & 0o7777,
    };
    let how = OpenHow {
        flags: flags.cast_unsigned().into(),
        mode: mode.into(),
        resolve: libc::RESOLVE_NO_SYMLINKS,
    };
    let _out = host_fork::blocking_section();
    openat2_inside(directory, path, how)
}

/// Flags of an open that the host knows, and no others.
pub(crate) const OPEN_FLAGS: c_int = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_SYNC
    | libc::O_ASYNC
    | libc::O_DIRECT
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_CLOEXEC
    | libc::O_PATH
    | libc::O_TMPFILE
    | O_LARGEFILE;

/// The kernel's flag, which is 0 in the C library on 64-bit machines.
const O_LARGEFILE: c_int = 0o100_000;

/// Returns the target of a symbolic link, with a path relative to `directory`. Does not leave the
/// freezer.
pub(crate) fn readlinkat(directory: RawFd, path: &CStr) -> Result<Vec<u8>, Errno> {
    let mut target = vec![0; libc::PATH_MAX as usize];
    let a = words!(directory, path.as_ptr(), target.as_mut_ptr(), target.len());
    // SAFETY: the path is a C string, and the buffer has this length.
    let length = unsafe { direct(libc::SYS_readlinkat, a) }?;
    target.truncate(length as usize);
    Ok(target)
}

/// Returns the absolute path without symbolic links.
pub(crate) fn real_path(path: &CStr) -> Result<CString, Errno> {
    let found = std::fs::canonicalize(OsStr::from_bytes(path.to_bytes()))
        .map_err(|error| error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw))?;
    CString::new(found.into_os_string().into_vec()).map_err(|_| Errno::EINVAL)
}

/// Returns the working directory, or the root if it has no path.
pub(crate) fn current_directory() -> Vec<u8> {
    std::env::current_dir().map_or_else(|_| b"/".to_vec(), |path| path.into_os_string().into_vec())
}

/// Returns the status of a path.
pub(crate) fn fstatat(directory: RawFd, path: &CStr, flags: c_int) -> Result<libc::stat, Errno> {
    // SAFETY: the path is a C string, and the call stores such a struct.
    unsafe { stored(|stat| libc::fstatat(directory, path.as_ptr(), stat, flags)) }
}

/// Checks permissions on a path.
pub(crate) fn faccessat(
    directory: RawFd,
    path: &CStr,
    mode: c_int,
    flags: c_int,
) -> Result<(), Errno> {
    let path = path.as_ptr();
    match flags & libc::AT_EMPTY_PATH {
        // SAFETY: the path is a C string.
        0 => done(unsafe { libc::faccessat(directory, path, mode, flags) }),
        // Not every C library passes this flag on.
        _ => {
            let a = words!(directory, path, mode, flags);
            // SAFETY: as above.
            unsafe { direct(libc::SYS_faccessat2, a) }.map(drop)
        }
    }
}
