//! Calls that read and set permissions, owners, times and sizes.

use std::ffi::{c_char, c_int};

use fdtable_vfs::{AccessMode, AtFlags, Errno, Time};
use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, gid_t, mode_t, off_t, timespec, timeval, uid_t};

use crate::abi::call::call;
use crate::abi::path::Target;
use crate::abi::pin::LastLink;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::fs::transfers::to_unsigned;
use crate::host;
use crate::host::file::HostFile;

/// Checks permissions on a path, for the real user: `access(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_faccessat(AT_FDCWD, path, mode, 0) }
}

/// Checks permissions on a path relative to a directory: `faccessat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_faccessat(
    directory: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    call(|system| {
        let wanted = AccessMode::from_bits(mode.cast_unsigned()).ok_or(Errno::EINVAL)?;
        let at_flags = at_flags(flags)?;
        // SAFETY: as the caller promises.
        let target = || unsafe { system.target(directory, path, LastLink::of(flags)) };
        let target = match flags & libc::AT_EACCESS {
            0 => system.as_real_user(target),
            _ => target(),
        };
        match target? {
            Target::Ours(at, path) => system.process.faccessat(at, path, wanted, at_flags),
            Target::Host(path) => {
                let (directory, path, flags) = path.at(flags);
                host::faccessat(directory.get(), path, mode, flags)
            }
        }
    })
}

/// Sets the permissions of a path: `chmod(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_chmod(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_fchmodat(AT_FDCWD, path, mode, 0) }
}

/// Sets the permissions of an open file: `fchmod(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_fchmod(fd: c_int, mode: mode_t) -> c_int {
    call(|system| {
        let file = system.file(fd)?;
        match HostFile::with_inode_below(&**file) {
            // SAFETY: the call takes no pointer.
            Some(host_file) => host::done(unsafe { libc::fchmod(host_file.fd().get(), mode) }),
            None => system.process.fchmod(fd, mode),
        }
    })
}

/// Sets the permissions of a path relative to a directory: `fchmodat(2)`, `fchmodat2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_fchmodat(
    directory: c_int,
    path: *const c_char,
    mode: mode_t,
    flags: c_int,
) -> c_int {
    call(|system| {
        let at_flags = at_flags(flags)?;
        // SAFETY: as the caller promises.
        match unsafe { system.target(directory, path, LastLink::of(flags)) }? {
            Target::Ours(at, path) => system.process.fchmodat(at, path, mode, at_flags),
            Target::Host(path) => {
                let (directory, path) = (path.directory(), path.as_ptr());
                let directory = directory.get();
                // SAFETY: the path is a C string.
                host::done(unsafe {
                    match flags & libc::AT_EMPTY_PATH {
                        0 => libc::fchmodat(directory, path, mode, flags),
                        // The C library does not know it.
                        _ => libc::syscall(libc::SYS_fchmodat2, directory, path, mode, flags)
                            as c_int,
                    }
                })
            }
        }
    })
}

/// Sets the owner and group of a path: `chown(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_chown(path: *const c_char, owner: uid_t, group: gid_t) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_fchownat(AT_FDCWD, path, owner, group, 0) }
}

/// Sets the owner and group of a path, without following a symbolic link: `lchown(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_lchown(path: *const c_char, owner: uid_t, group: gid_t) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_fchownat(AT_FDCWD, path, owner, group, AT_SYMLINK_NOFOLLOW) }
}

/// Sets the owner and group of an open file: `fchown(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_fchown(fd: c_int, owner: uid_t, group: gid_t) -> c_int {
    call(|system| {
        let file = system.file(fd)?;
        match HostFile::with_inode_below(&**file) {
            Some(host_file) => {
                // SAFETY: the call takes no pointer.
                host::done(unsafe { libc::fchown(host_file.fd().get(), owner, group) })
            }
            None => system.process.fchown(fd, owner_id(owner), owner_id(group)),
        }
    })
}

/// Sets the owner and group of a path relative to a directory: `fchownat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_fchownat(
    directory: c_int,
    path: *const c_char,
    owner: uid_t,
    group: gid_t,
    flags: c_int,
) -> c_int {
    call(|system| {
        let at_flags = at_flags(flags)?;
        // SAFETY: as the caller promises.
        match unsafe { system.target(directory, path, LastLink::of(flags)) }? {
            Target::Ours(at, path) => {
                let (owner, group) = (owner_id(owner), owner_id(group));
                system.process.fchownat(at, path, owner, group, at_flags)
            }
            Target::Host(path) => {
                let (directory, path, flags) = path.at(flags);
                let path = path.as_ptr();
                // SAFETY: the path is a C string.
                host::done(unsafe { libc::fchownat(directory.get(), path, owner, group, flags) })
            }
        }
    })
}

/// Sets the permissions that new files do not get, and returns the previous ones: `umask(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_umask(mask: mode_t) -> mode_t {
    // No error is possible; a panic would return a wrong mask. The process is created before the
    // host's mask changes, because it copies that mask.
    let before = call(|system| {
        // SAFETY: the call takes no pointer.
        unsafe { libc::umask(mask) };
        Ok(system.process.umask(mask.into()).bits().cast_signed())
    });
    before.cast_unsigned()
}

/// Sets the size of the file at a path: `truncate(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_truncate(path: *const c_char, length: off_t) -> c_int {
    call(|system| {
        let new = to_unsigned(length)?;
        // SAFETY: as the caller promises.
        match unsafe { system.target(AT_FDCWD, path, LastLink::Follow) }? {
            Target::Ours(_, path) => system.sigxfsz_on_efbig(system.process.truncate(path, new)),
            Target::Host(path) => {
                // SAFETY: the path is a C string.
                host::done(unsafe { libc::truncate(path.as_ptr(), length) })
            }
        }
    })
}

/// Sets the times of a path relative to a directory, in nanoseconds: `utimensat(2)`. Without a
/// path, sets those of the open file `directory`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_utimensat(
    directory: c_int,
    path: *const c_char,
    times: *const timespec,
    flags: c_int,
) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let times = unsafe { uaccess::get_if_any(times.cast::<[timespec; 2]>()) }?;
        let is_of_file = path.is_null() && directory != AT_FDCWD;
        if is_nothing(times.as_ref()) && (!is_of_file || directory >= 0) {
            // Neither the path nor the descriptor is looked up.
            return Ok(());
        }
        if is_of_file {
            return system.set_times_of(directory, times);
        }
        // SAFETY: as the caller promises.
        let target = unsafe { system.target(directory, path, LastLink::of(flags)) }?;
        system.set_times(&target, times, flags)
    })
}

/// Sets the times of a path, in microseconds: `utimes(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_utimes(path: *const c_char, times: *const timeval) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_futimesat(AT_FDCWD, path, times) }
}

/// Sets the times of a path relative to a directory, in microseconds: `futimesat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_futimesat(
    directory: c_int,
    path: *const c_char,
    times: *const timeval,
) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let times = unsafe { read_timevals(times) }?;
        // SAFETY: as the caller promises.
        let target = unsafe { system.target(directory, path, LastLink::Follow) }?;
        system.set_times(&target, times, 0)
    })
}

/// Sets the times of a path, in seconds: `utime(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_utime(path: *const c_char, times: *const libc::utimbuf) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let times = unsafe { uaccess::get_if_any(times) }?;
        let times = times.map(|times| [times.actime, times.modtime].map(whole_seconds));
        // SAFETY: as the caller promises.
        let target = unsafe { system.target(AT_FDCWD, path, LastLink::Follow) }?;
        system.set_times(&target, times, 0)
    })
}

impl System {
    fn set_times(
        &self,
        target: &Target<'_>,
        times: Option<[timespec; 2]>,
        flags: c_int,
    ) -> Result<(), Errno> {
        match target {
            Target::Ours(at, path) => {
                let flags = at_flags(flags)?;
                self.process.utimensat(*at, path, to_times(times)?, flags)
            }
            Target::Host(path) => {
                let (directory, path) = (path.directory(), path.as_ptr());
                let times = pointer_to(times.as_ref());
                // SAFETY: the path is a C string, and the times are valid or null.
                host::done(unsafe { libc::utimensat(directory.get(), path, times, flags) })
            }
        }
    }

    fn set_times_of(&self, fd: c_int, times: Option<[timespec; 2]>) -> Result<(), Errno> {
        let file = self.file(fd)?;
        let Some(host_file) = HostFile::with_inode_below(&**file) else {
            let times =
                to_times(times).map_err(|errno| self.opened_file(fd).err().unwrap_or(errno))?;
            return self.process.futimens(fd, times);
        };
        let times = pointer_to(times.as_ref());
        // SAFETY: the times are valid or null.
        host::done(unsafe { libc::futimens(host_file.fd().get(), times) })
    }
}

fn pointer_to(times: Option<&[timespec; 2]>) -> *const timespec {
    times.map_or(std::ptr::null(), |times| times.as_ptr())
}

/// Converts the flags of an `...at` call.
///
/// # Errors
/// `EINVAL` if one is unknown.
pub(crate) fn at_flags(flags: c_int) -> Result<AtFlags, Errno> {
    AtFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::EINVAL)
}

/// Converts an owner: -1 means unchanged.
fn owner_id(number: u32) -> Option<u32> {
    (number != u32::MAX).then_some(number)
}

fn is_nothing(times: Option<&[timespec; 2]>) -> bool {
    times.is_some_and(|times| times.iter().all(|time| time.tv_nsec == libc::UTIME_OMIT))
}

/// Reads two times in microseconds.
///
/// # Safety
/// If `at` can be an address, two times are there.
unsafe fn read_timevals(at: *const timeval) -> Result<Option<[timespec; 2]>, Errno> {
    // SAFETY: as the caller promises.
    let Some(times) = (unsafe { uaccess::get_if_any(at.cast::<[timeval; 2]>()) })? else {
        return Ok(None);
    };
    if times
        .iter()
        .any(|time| !(0..1_000_000).contains(&time.tv_usec))
    {
        return Err(Errno::EINVAL);
    }
    Ok(Some(times.map(|time| timespec {
        tv_sec: time.tv_sec,
        tv_nsec: time.tv_usec * 1000,
    })))
}

fn whole_seconds(tv_sec: libc::time_t) -> timespec {
    timespec { tv_sec, tv_nsec: 0 }
}

/// Converts two times to those of our file systems. `None` is the current time.
fn to_times(times: Option<[timespec; 2]>) -> Result<[Time; 2], Errno> {
    let Some([access, change]) = times else {
        return Ok([Time::Now; 2]);
    };
    Ok([to_time(access)?, to_time(change)?])
}

fn to_time(time: timespec) -> Result<Time, Errno> {
    match time.tv_nsec {
        libc::UTIME_NOW => Ok(Time::Now),
        libc::UTIME_OMIT => Ok(Time::Omit),
        nanos @ 0..1_000_000_000 => Ok(Time::At(time.tv_sec, nanos as u32)),
        _ => Err(Errno::EINVAL),
    }
}
