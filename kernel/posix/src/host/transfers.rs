//! Transfers of host files and sockets. A call that may block leaves the freezer while it runs.

use std::ffi::{c_int, c_long};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::slice;

use fdtable::host_fork;
use fdtable_vfs::{Errno, RwFlags};
use libc::{POLLIN, POLLOUT, iovec};

use super::check::{check, done};
use super::direct::{Wait, direct, make_transfer, words};
use super::paths::OwnedHostFd;

/// Reads. May block.
#[inline]
pub(crate) fn read(fd: RawFd, wait: Wait, buf: &mut [u8]) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    let (at, count) = (buf.as_mut_ptr(), buf.len());
    // SAFETY: the pointer and the length are those of a slice.
    counted(unsafe { make_transfer(wait, POLLIN, libc::SYS_read, words!(fd, at, count)) })
}

/// Writes. May block.
#[inline]
pub(crate) fn write(fd: RawFd, wait: Wait, bytes: &[u8]) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    let (at, count) = (bytes.as_ptr(), bytes.len());
    // SAFETY: as in `read`.
    counted(unsafe { make_transfer(wait, POLLOUT, libc::SYS_write, words!(fd, at, count)) })
}

/// Reads at an offset. May block.
pub(crate) fn pread(fd: RawFd, buf: &mut [u8], offset: i64) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    pread_inside(fd, buf, offset)
}

/// Reads at an offset. Does not leave the freezer.
pub(crate) fn pread_inside(fd: RawFd, buf: &mut [u8], offset: i64) -> Result<usize, Errno> {
    let (at, count) = (buf.as_mut_ptr(), buf.len());
    // SAFETY: the pointer and the length are those of a slice.
    counted(unsafe { direct(libc::SYS_pread64, words!(fd, at, count, offset)) })
}

/// Writes at an offset. May block.
pub(crate) fn pwrite(fd: RawFd, bytes: &[u8], offset: i64) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    pwrite_inside(fd, bytes, offset)
}

/// Writes at an offset. Does not leave the freezer.
pub(crate) fn pwrite_inside(fd: RawFd, bytes: &[u8], offset: i64) -> Result<usize, Errno> {
    let (at, count) = (bytes.as_ptr(), bytes.len());
    // SAFETY: the pointer and the length are those of a slice.
    counted(unsafe { direct(libc::SYS_pwrite64, words!(fd, at, count, offset)) })
}

/// Sends or receives a message, with an address or without, or accepts a connection. May block.
///
/// # Safety
/// The arguments are those of the system call: `sendto`, `recvfrom`, `sendmsg`, `recvmsg` or
/// `accept4`.
#[inline]
pub(crate) unsafe fn message(
    number: c_long,
    flags: c_int,
    arguments: [c_long; 6],
) -> Result<usize, Errno> {
    let events = match number {
        libc::SYS_sendto | libc::SYS_sendmsg => POLLOUT,
        _ => POLLIN,
    };
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    counted(unsafe { make_transfer(Wait::of(flags), events, number, arguments) })
}

/// Makes a socket of any domain.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<OwnedHostFd, Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { libc::socket(domain, kind, protocol) }).map(OwnedHostFd)
}

/// Connects a socket. May block.
///
/// # Safety
/// As for `connect(2)`.
pub(crate) unsafe fn connect(
    fd: RawFd,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Result<(), Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    unsafe { direct(libc::SYS_connect, words!(fd, address, length)) }.map(drop)
}

/// Sets an option of a socket.
pub(crate) fn set_option<T>(fd: RawFd, name: c_int, value: &T) -> Result<(), Errno> {
    let (at, length) = (std::ptr::from_ref(value).cast(), size_of::<T>());
    // SAFETY: the pointer and the length are those of a value, which the host checks.
    done(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, name, at, length as libc::socklen_t) })
}

/// Converts the result of a call that counts bytes.
pub(crate) fn counted(result: Result<c_long, Errno>) -> Result<usize, Errno> {
    result.map(|count| count as usize)
}

/// Makes the call `preadv2` or `pwritev2`. The host checks the buffers. May block for one of
/// `events`.
pub(crate) fn vectored(
    fd: RawFd,
    wait: Wait,
    (events, number): (i16, c_long),
    bufs: &[iovec],
    (offset, flags): (Option<i64>, RwFlags),
) -> Result<usize, Errno> {
    let wait = match offset.is_some() || flags.contains(RwFlags::NOWAIT) {
        true => Wait::Never,
        false => wait,
    };
    let (first, length, at) = (bufs.as_ptr(), bufs.len(), offset.unwrap_or(-1));
    // The upper half of the offset is ignored where a register holds all of it.
    let arguments = words!(fd, first, length, at, 0_i32, flags.bits());
    let _out = host_fork::blocking_section();
    // SAFETY: the array is valid, and the host checks the buffers.
    counted(unsafe { make_transfer(wait, events, number, arguments) })
}

/// Returns slices of bytes as the host's array of them.
pub(crate) fn iovecs_mut<'b>(bufs: &'b mut [IoSliceMut<'_>]) -> &'b [iovec] {
    // SAFETY: the standard library promises that they have the same layout.
    unsafe { slice::from_raw_parts(bufs.as_ptr().cast(), bufs.len()) }
}

/// Returns slices of bytes as the host's array of them.
pub(crate) fn iovecs<'b>(bufs: &'b [IoSlice<'_>]) -> &'b [iovec] {
    // SAFETY: as above.
    unsafe { slice::from_raw_parts(bufs.as_ptr().cast(), bufs.len()) }
}
