//! Calls on open files of the host that transfer no bytes.

use std::ffi::{c_int, c_short, c_ulong};
use std::os::fd::RawFd;

use fdtable::host_fork;
use fdtable_vfs::Errno;

use super::check::{blocking, check, done, stored};
use super::direct::{Wait, call, words};

/// Moves the position.
pub(crate) fn lseek(fd: RawFd, offset: i64, whence: c_int) -> Result<u64, Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { libc::lseek(fd, offset, whence) }).map(|position| position as u64)
}

/// Runs a command of `fcntl` whose argument is an integer.
pub(crate) fn fcntl(fd: RawFd, command: c_int, argument: c_int) -> Result<c_int, Errno> {
    // SAFETY: callers pass only commands with an integer or no argument.
    check(unsafe { libc::fcntl(fd, command, argument) })
}

/// Runs a command of `fcntl` whose argument may be a pointer. May block.
///
/// # Safety
/// The argument is what `fcntl(2)` expects.
pub(crate) unsafe fn fcntl_pointer(
    fd: RawFd,
    command: c_int,
    argument: c_ulong,
) -> Result<c_int, Errno> {
    let wait = match command {
        libc::F_SETLKW | libc::F_OFD_SETLKW => Wait::Possible,
        _ => Wait::Never,
    };
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    let result = unsafe {
        call(
            wait,
            libc::SYS_fcntl,
            words!(fd, command, argument as usize),
        )
    };
    result.map(|result| result as c_int)
}

/// Releases all record locks that this process has on a file. Does nothing if the descriptor was
/// opened with `O_PATH`.
pub(crate) fn release_record_locks(fd: RawFd) {
    // SAFETY: all zeroes is a valid value of this struct of integers, and is the whole file.
    let mut whole: libc::flock = unsafe { std::mem::zeroed() };
    whole.l_type = libc::F_UNLCK as c_short;
    // SAFETY: the argument is what the command expects. An error has no receiver.
    unsafe { libc::fcntl(fd, libc::F_SETLK, &raw const whole) };
}

/// Returns the status of an open file.
pub(crate) fn fstat(fd: RawFd) -> Result<libc::stat, Errno> {
    // SAFETY: the call stores such a struct.
    unsafe { stored(|stat| libc::fstat(fd, stat)) }
}

/// Sets the size of a file.
pub(crate) fn ftruncate(fd: RawFd, length: i64) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    done(unsafe { libc::ftruncate(fd, length) })
}

/// Returns the number of readable bytes.
pub(crate) fn readable_bytes(fd: RawFd) -> Result<usize, Errno> {
    let mut bytes: c_int = 0;
    // SAFETY: the request writes one `int`.
    check(unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut bytes) })?;
    Ok(bytes.max(0) as usize)
}

/// Takes or releases a lock on a whole file. May block.
pub(crate) fn flock(fd: RawFd, operation: c_int) -> Result<(), Errno> {
    let wait = match operation & libc::LOCK_NB {
        0 => Wait::Possible,
        _ => Wait::Never,
    };
    let _out = host_fork::blocking_section();
    // SAFETY: the call takes no pointer.
    unsafe { call(wait, libc::SYS_flock, words!(fd, operation)) }.map(drop)
}

/// Allocates or frees space for a range of a file.
pub(crate) fn fallocate(fd: RawFd, how: c_int, offset: i64, length: i64) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    blocking(|| done(unsafe { libc::fallocate(fd, how, offset, length) }))
}

/// Runs a request on an open file. May block.
///
/// # Safety
/// The argument is what the request expects.
pub(crate) unsafe fn ioctl(fd: RawFd, request: c_ulong, argument: c_ulong) -> Result<c_int, Errno> {
    // SAFETY: as the caller promises.
    blocking(|| check(unsafe { libc::ioctl(fd, request, argument) }))
}
