//! Transfers of host files and sockets. A call that may block leaves the freezer while it runs.

use std::ffi::{c_int, c_long, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::slice;

use fdtable::host_fork;
use fdtable_vfs::Errno;
use libc::{POLLIN, POLLOUT, iovec};

use super::check::check;
use super::direct::{Wait, direct, transfer};

/// Reads. May block.
#[inline]
pub(crate) fn read(fd: RawFd, wait: Wait, buf: &mut [u8]) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    let (at, count) = (buf.as_mut_ptr(), buf.len());
    // SAFETY: the pointer and the length are those of a slice.
    transferred(unsafe { transfer!(wait, POLLIN, libc::SYS_read, fd, at, count) })
}

/// Writes. May block.
#[inline]
pub(crate) fn write(fd: RawFd, wait: Wait, bytes: &[u8]) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    let (at, count) = (bytes.as_ptr(), bytes.len());
    // SAFETY: as in `read`.
    transferred(unsafe { transfer!(wait, POLLOUT, libc::SYS_write, fd, at, count) })
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
    transferred(unsafe { direct!(libc::SYS_pread64, fd, at, count, offset) })
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
    transferred(unsafe { direct!(libc::SYS_pwrite64, fd, at, count, offset) })
}

/// Sends to an address, or to the peer. May block.
///
/// # Safety
/// As for `sendto(2)`.
#[inline]
pub(crate) unsafe fn sendto(
    fd: RawFd,
    bytes: *const c_void,
    count: usize,
    flags: c_int,
    to: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    transferred(unsafe {
        transfer!(
            Wait::of(flags),
            POLLOUT,
            libc::SYS_sendto,
            fd,
            bytes,
            count,
            flags,
            to,
            length
        )
    })
}

/// Receives, with the address of the sender. May block.
///
/// # Safety
/// As for `recvfrom(2)`.
#[inline]
pub(crate) unsafe fn recvfrom(
    fd: RawFd,
    buf: *mut c_void,
    count: usize,
    flags: c_int,
    from: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    transferred(unsafe {
        transfer!(
            Wait::of(flags),
            POLLIN,
            libc::SYS_recvfrom,
            fd,
            buf,
            count,
            flags,
            from,
            length
        )
    })
}

/// Sends a message. May block.
///
/// # Safety
/// As for `sendmsg(2)`.
pub(crate) unsafe fn sendmsg(
    fd: RawFd,
    message: *const libc::msghdr,
    flags: c_int,
) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    transferred(unsafe {
        transfer!(
            Wait::of(flags),
            POLLOUT,
            libc::SYS_sendmsg,
            fd,
            message,
            flags
        )
    })
}

/// Receives a message. May block.
///
/// # Safety
/// As for `recvmsg(2)`.
pub(crate) unsafe fn recvmsg(
    fd: RawFd,
    message: *mut libc::msghdr,
    flags: c_int,
) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    transferred(unsafe {
        transfer!(
            Wait::of(flags),
            POLLIN,
            libc::SYS_recvmsg,
            fd,
            message,
            flags
        )
    })
}

/// Accepts a connection. May block.
///
/// # Safety
/// As for `accept4(2)`.
pub(crate) unsafe fn accept4(
    fd: RawFd,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
    flags: c_int,
) -> Result<RawFd, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    let accepted = unsafe {
        transfer!(
            Wait::Possible,
            POLLIN,
            libc::SYS_accept4,
            fd,
            address,
            length,
            flags
        )
    };
    accepted.map(|accepted| accepted as RawFd)
}

/// Connects a socket. May block.
///
/// # Safety
/// As for `connect(2)`.
pub(crate) unsafe fn connect(
    fd: RawFd,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Result<c_int, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    unsafe { direct!(libc::SYS_connect, fd, address, length) }.map(|_| 0)
}

/// Sets an option of a socket.
pub(crate) fn set_option<T>(fd: RawFd, name: c_int, value: &T) -> Result<(), Errno> {
    let (at, length) = (std::ptr::from_ref(value).cast(), size_of::<T>());
    // SAFETY: the pointer and the length are those of a value, which the host checks.
    check(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, name, at, length as libc::socklen_t) })
        .map(drop)
}

fn transferred(result: Result<c_long, Errno>) -> Result<usize, Errno> {
    result.map(|count| count as usize)
}

/// Reads into several buffers, at an offset or at the position. The host checks the buffers. May
/// block.
pub(crate) fn readv(
    fd: RawFd,
    wait: Wait,
    bufs: &[iovec],
    offset: Option<i64>,
) -> Result<usize, Errno> {
    let calls = [libc::SYS_readv, libc::SYS_preadv];
    vectored(fd, wait, POLLIN, calls, bufs, offset)
}

/// Writes from several buffers, at an offset or at the position. The host checks the buffers. May
/// block.
pub(crate) fn writev(
    fd: RawFd,
    wait: Wait,
    bufs: &[iovec],
    offset: Option<i64>,
) -> Result<usize, Errno> {
    let calls = [libc::SYS_writev, libc::SYS_pwritev];
    vectored(fd, wait, POLLOUT, calls, bufs, offset)
}

/// Transfers several buffers, by the call at the position or by that at an offset.
fn vectored(
    fd: RawFd,
    wait: Wait,
    events: i16,
    [at_position, at_offset]: [c_long; 2],
    bufs: &[iovec],
    offset: Option<i64>,
) -> Result<usize, Errno> {
    let (first, length) = (bufs.as_ptr(), bufs.len());
    let _out = host_fork::blocking_section();
    transferred(match offset {
        // SAFETY: the array is valid, and the host checks the buffers.
        None => unsafe { transfer!(wait, events, at_position, fd, first, length) },
        // The upper half of the offset is ignored where a register holds all of it.
        // SAFETY: as above.
        Some(offset) => unsafe { direct!(at_offset, fd, first, length, offset, 0_i32) },
    })
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
