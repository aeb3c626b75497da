//! Calls on descriptors of any file: `close`, `dup`, `fcntl`.

use std::ffi::{c_int, c_uint, c_ulong};

use fdtable::FdFlags;
use fdtable_vfs::{CloseRangeFlags, Errno, OpenFlags, Seals};

use crate::abi::boot::system;
use crate::abi::call::call;
use crate::abi::system::System;
use crate::fs::locks;
use crate::host;
use crate::host::fd::without_moves;
use crate::host::file::HostFile;
use crate::process::closing::{closing, drop_closed, note_record_lock};
use crate::process::fork::unshare_files;
use crate::process::io_signals;

/// Closes a descriptor: `close(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_close(fd: c_int) -> c_int {
    call(|system| {
        drop_closed(system, system.process.close_file(fd)?);
        Ok(())
    })
}

/// Closes all descriptors from `first` to `last`, or sets their flags: `close_range(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    call(|_| {
        let flags = CloseRangeFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::EINVAL)?;
        if flags.contains(CloseRangeFlags::UNSHARE) {
            unshare_files()?;
        }
        let flags = flags - CloseRangeFlags::UNSHARE;
        let system = system();
        closing(system, first, last, || {
            system.process.close_range(first, last, flags)
        })
    })
}

/// Duplicates a descriptor to the lowest free one: `dup(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_dup(old: c_int) -> c_int {
    call(|system| {
        let _alone = without_moves(system.process);
        system.process.dup(old)
    })
}

/// Duplicates a descriptor to `new`: `dup2(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_dup2(old: c_int, new: c_int) -> c_int {
    call(|system| {
        if old == new {
            return Ok(system.process.dup2(old, new)?.raw());
        }
        duplicate_at(system, old, new, FdFlags::empty())
    })
}

/// Duplicates a descriptor to `new`, with `O_CLOEXEC` or 0: `dup3(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    call(|system| {
        if flags & !libc::O_CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        let flags = OpenFlags::from_bits_retain(flags.cast_unsigned()).descriptor();
        duplicate_at(system, old, new, flags)
    })
}

fn duplicate_at(system: &System, old: c_int, new: c_int, flags: FdFlags) -> Result<c_int, Errno> {
    let replaced = {
        let _alone = without_moves(system.process);
        system.process.dup3_file(old, new, flags)?
    };
    if let Some(replaced) = replaced {
        drop_closed(system, replaced);
    }
    Ok(new)
}

/// Runs a command on a descriptor: `fcntl(2)`. `argument` is the third argument in C, if the
/// command has one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    call(|system| match command {
        libc::F_GETFD => Ok(system.process.get_flags(fd)?.bits().cast_signed()),
        libc::F_SETFD => {
            // As on Linux, bits other than `FD_CLOEXEC` are ignored.
            let flags = FdFlags::from_bits_truncate(argument as c_uint) & FdFlags::CLOEXEC;
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
        _ => unsafe { fcntl_file(system, fd, command, argument) },
    })
}

fn duplicate(system: &System, fd: c_int, from: c_int, flags: FdFlags) -> Result<c_int, Errno> {
    let _alone = without_moves(system.process);
    Ok(system.process.dup_min(fd, from, flags)?.raw())
}

/// Commands that the `libc` crate does not define.
const F_DUPFD_QUERY: c_int = 1027;
const F_CREATED_QUERY: c_int = 1028;

/// Runs a command on the open file of a descriptor.
///
/// # Safety
/// The argument is what the command expects.
unsafe fn fcntl_file(
    system: &System,
    fd: c_int,
    command: c_int,
    argument: c_ulong,
) -> Result<c_int, Errno> {
    let file = system.file(fd)?;
    if let Some(host_file) = HostFile::below(&**file) {
        if matches!(command, libc::F_SETLK | libc::F_SETLKW) {
            note_record_lock();
        }
        // SAFETY: as the caller promises.
        return unsafe { host::fcntl_pointer(host_file.fd().get(), command, argument) };
    }
    if command == F_CREATED_QUERY {
        return Ok(file.status().contains(OpenFlags::CREAT).into());
    }
    if command != libc::F_GETFL && file.status().contains(OpenFlags::PATH) {
        return Err(Errno::EBADF);
    }
    match command {
        libc::F_GETFL => Ok(system.process.status(fd)?.bits().cast_signed()),
        libc::F_SETFL => {
            let flags = OpenFlags::from_bits_truncate(argument as c_uint);
            system.process.set_status(fd, flags)?;
            Ok(0)
        }
        // Leases cannot be requested, so there are none.
        libc::F_GETLEASE => Ok(libc::F_UNLCK),
        libc::F_GETPIPE_SZ => Ok(system.process.pipe_size(fd)? as c_int),
        libc::F_SETPIPE_SZ => {
            let bytes = argument as c_uint as usize;
            Ok(system.process.set_pipe_size(fd, bytes)? as c_int)
        }
        libc::F_GET_SEALS => Ok(system.process.seals(fd)?.bits().cast_signed()),
        libc::F_ADD_SEALS => {
            let seals = Seals::from_bits_retain(argument as c_uint);
            system.process.add_seals(fd, seals)?;
            Ok(0)
        }
        _ => {
            // SAFETY: as the caller promises.
            if let Some(result) = unsafe { io_signals::command(system, fd, command, argument) }? {
                return Ok(result);
            }
            // SAFETY: as the caller promises.
            unsafe { locks::record_lock(system, fd, command, argument) }
        }
    }
}

/// Returns the host descriptor of a file, for calls that fdtable does not have. The file stays open
/// in the table. Fails with `EINVAL` if it is not a host file.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_hostfd(fd: c_int) -> c_int {
    call(|system| Ok(system.host_fd(fd)?.ok_or(Errno::EINVAL)?.get()))
}

/// Moves a host descriptor into the table, and returns its descriptor there. From now on the table
/// owns it: closing the last descriptor of the file closes it. After an error it is unchanged.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_adopt(host_fd: c_int) -> c_int {
    call(|system| system.adopt(host_fd, FdFlags::empty()))
}
