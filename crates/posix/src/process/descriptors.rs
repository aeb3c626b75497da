//! Calls on descriptors, whatever they name: `close`, `dup`, `fcntl`.

use std::ffi::{c_int, c_uint, c_ulong};

use fdtable::{CloseRangeFlags, FdFlags};
use fdtable_vfs::{Errno, OpenFlags};

use crate::abi::call::{call, set_errno};
use crate::abi::system::System;
use crate::fs::locks;
use crate::host;
use crate::host::file::HostFile;

/// Closes a descriptor: `close(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_close(fd: c_int) -> c_int {
    call(|system| {
        system.process.close(fd)?;
        Ok(0)
    })
}

/// Closes a range of descriptors, both ends included, or marks it: `close_range(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    call(|system| {
        let flags = CloseRangeFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::EINVAL)?;
        // There is one process, which shares its table with nobody: it needs no copy of its own.
        let flags = flags - CloseRangeFlags::UNSHARE;
        system.process.close_range(first, last, flags)?;
        Ok(0)
    })
}

/// Closes all descriptors from `first` on: `closefrom(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_closefrom(first: c_int) {
    fdt_close_range(first.max(0).cast_unsigned(), c_uint::MAX, 0);
}

/// Gives an open file the lowest free number too: `dup(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_dup(old: c_int) -> c_int {
    call(|system| Ok(system.process.dup(old)?.raw()))
}

/// Gives an open file the number `new` too: `dup2(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_dup2(old: c_int, new: c_int) -> c_int {
    call(|system| Ok(system.process.dup2(old, new)?.raw()))
}

/// Gives an open file the number `new` too, with `O_CLOEXEC` or without: `dup3(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    call(|system| {
        if flags & !libc::O_CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        let flags = OpenFlags::from_bits_retain(flags.cast_unsigned()).descriptor();
        Ok(system.process.dup3(old, new, flags)?.raw())
    })
}

/// Runs a command on a descriptor: `fcntl(2)`. `argument` is the third one of C, if the command has
/// one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    call(|system| match command {
        libc::F_GETFD => Ok(system.process.get_flags(fd)?.bits().cast_signed()),
        libc::F_SETFD => {
            // As Linux: only `FD_CLOEXEC` is looked at, and other bits are no error.
            let flags = FdFlags::from_bits_truncate(argument as c_uint);
            system.process.set_flags(fd, flags)?;
            Ok(0)
        }
        libc::F_DUPFD => duplicate(system, fd, argument as c_int, FdFlags::empty()),
        libc::F_DUPFD_CLOEXEC => duplicate(system, fd, argument as c_int, FdFlags::CLOEXEC),
        F_DUPFD_QUERY => {
            let (one, other) = (system.file(fd)?, system.file(argument as c_int)?);
            Ok(std::ptr::addr_eq(&raw const *one, &raw const *other).into())
        }
        // SAFETY: as the caller promises.
        _ => unsafe { of_the_file(system, fd, command, argument) },
    })
}

fn duplicate(system: &System, fd: c_int, from: c_int, flags: FdFlags) -> Result<c_int, Errno> {
    Ok(system.process.dup_from(fd, from, flags)?.raw())
}

/// Commands that the C crate does not name.
const F_GETSIG: c_int = 11;
const F_DUPFD_QUERY: c_int = 1027;

/// Commands that are about the open file.
///
/// # Safety
/// The argument is what the command asks for.
unsafe fn of_the_file(
    system: &System,
    fd: c_int,
    command: c_int,
    argument: c_ulong,
) -> Result<c_int, Errno> {
    let file = system.file(fd)?;
    if let Some(host_file) = HostFile::below(&*file) {
        // SAFETY: as the caller promises.
        return unsafe { host::fcntl_pointer(host_file.number(), command, argument) };
    }
    match command {
        libc::F_GETFL => Ok(file.status().bits().cast_signed()),
        libc::F_SETFL => {
            let flags = OpenFlags::from_bits_truncate(argument as c_uint);
            system.process.set_status(fd, flags)?;
            Ok(0)
        }
        // Signals and leases: nobody has asked for any.
        libc::F_GETOWN | F_GETSIG => Ok(0),
        libc::F_GETLEASE => Ok(libc::F_UNLCK),
        libc::F_GETPIPE_SZ => Ok(system.process.pipe_size(fd)? as c_int),
        libc::F_SETPIPE_SZ => {
            let bytes = usize::try_from(argument as c_int).map_err(|_| Errno::EINVAL)?;
            Ok(system.process.set_pipe_size(fd, bytes)? as c_int)
        }
        // SAFETY: as the caller promises.
        _ => unsafe { locks::record(system, fd, command, argument) },
    }
}

/// Returns the host's number of a descriptor, which stays ours: for calls that this library does not
/// have. `EINVAL` if it is not the host's.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_hostfd(fd: c_int) -> c_int {
    call(|system| {
        let file = system.file(fd)?;
        let host_file = HostFile::below(&*file).ok_or(Errno::EINVAL)?;
        Ok(host_file.number())
    })
}

/// Takes a descriptor of the host into the table, and returns its number here. From now on it is
/// the table's: closing the last descriptor closes it. On an error it is left as it is.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_adopt(host_fd: c_int) -> c_int {
    call(|system| system.adopt(host_fd, FdFlags::empty()))
}

/// Returns how many descriptors the process can have: `getdtablesize(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_getdtablesize() -> c_int {
    call(|system| Ok(c_int::try_from(system.process.files().limit()).unwrap_or(c_int::MAX)))
}

/// Tells with 1 whether a descriptor is a terminal, otherwise 0 with the reason in errno: `isatty(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_isatty(fd: c_int) -> c_int {
    let answer = call(|system| {
        let file = system.file(fd)?;
        let host_file = HostFile::below(&*file).ok_or(Errno::ENOTTY)?;
        Ok(host::isatty(host_file.number()))
    });
    match answer {
        1 => 1,
        0 => {
            set_errno(Errno::ENOTTY);
            0
        }
        _ => 0,
    }
}
