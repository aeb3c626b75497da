//! Transfers of host files and sockets. A call that may block leaves the freezer meanwhile.

use std::ffi::{c_int, c_long, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;

use fdtable::host_fork;
use fdtable_vfs::Errno;

use super::check::check;
use super::direct::{Wait, direct, transfer};

/// Reads. May block.
#[inline]
pub(crate) fn read(fd: RawFd, wait: Wait, buf: &mut [u8]) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: the pointer and the length are those of a slice.
    transferred(unsafe {
        transfer!(
            wait,
            (fd, libc::POLLIN),
            libc::SYS_read,
            fd,
            buf.as_mut_ptr(),
            buf.len()
        )
    })
}

/// Writes. May block.
#[inline]
pub(crate) fn write(fd: RawFd, wait: Wait, bytes: &[u8]) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as in `read`.
    transferred(unsafe {
        transfer!(
            wait,
            (fd, libc::POLLOUT),
            libc::SYS_write,
            fd,
            bytes.as_ptr(),
            bytes.len()
        )
    })
}

/// Reads at an offset. May block.
pub(crate) fn pread(fd: RawFd, buf: &mut [u8], offset: i64) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    pread_inside(fd, buf, offset)
}

/// Reads from a position. Does not leave the freezer.
pub(crate) fn pread_inside(fd: RawFd, buf: &mut [u8], offset: i64) -> Result<usize, Errno> {
    // SAFETY: the pointer and the length are those of a slice.
    let count = unsafe {
        direct!(
            Wait::Never,
            libc::SYS_pread64,
            fd,
            buf.as_mut_ptr(),
            buf.len(),
            offset
        )
    };
    count.map(|count| count as usize)
}

/// Writes at an offset. May block.
pub(crate) fn pwrite(fd: RawFd, bytes: &[u8], offset: i64) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: the pointer and the length are those of a slice.
    transferred(unsafe {
        direct!(
            Wait::Never,
            libc::SYS_pwrite64,
            fd,
            bytes.as_ptr(),
            bytes.len(),
            offset
        )
    })
}

/// Sends to an address, or to the peer. May block.
///
/// # Safety
/// That of `sendto(2)`.
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
            (fd, libc::POLLOUT),
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
/// That of `recvfrom(2)`.
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
            (fd, libc::POLLIN),
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
/// That of `sendmsg(2)`.
pub(crate) unsafe fn sendmsg(
    fd: RawFd,
    message: *const libc::msghdr,
    flags: c_int,
) -> Result<isize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    let sent = unsafe {
        transfer!(
            Wait::of(flags),
            (fd, libc::POLLOUT),
            libc::SYS_sendmsg,
            fd,
            message,
            flags
        )
    };
    sent.map(|sent| sent as isize)
}

/// Receives a message. May block.
///
/// # Safety
/// That of `recvmsg(2)`.
pub(crate) unsafe fn recvmsg(
    fd: RawFd,
    message: *mut libc::msghdr,
    flags: c_int,
) -> Result<isize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    let received = unsafe {
        transfer!(
            Wait::of(flags),
            (fd, libc::POLLIN),
            libc::SYS_recvmsg,
            fd,
            message,
            flags
        )
    };
    received.map(|received| received as isize)
}

/// Accepts a connection. May block.
///
/// # Safety
/// That of `accept4(2)`.
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
            (fd, libc::POLLIN),
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
/// That of `connect(2)`.
pub(crate) unsafe fn connect(
    fd: RawFd,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Result<c_int, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    unsafe { direct!(Wait::Never, libc::SYS_connect, fd, address, length) }.map(|_| 0)
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

/// Reads into several buffers, at an offset or at the position. May block.
pub(crate) fn readv(
    fd: RawFd,
    wait: Wait,
    bufs: &mut [IoSliceMut<'_>],
    offset: Option<i64>,
) -> Result<usize, Errno> {
    let at = bufs.as_mut_ptr().cast();
    // SAFETY: a slice of them has the layout of an array of `iovec`.
    unsafe {
        vectored(
            fd,
            wait,
            [libc::SYS_readv, libc::SYS_preadv],
            (at, bufs.len()),
            offset,
        )
    }
}

/// Reads into buffers of the caller, which may not be there: the host checks them. May block.
pub(crate) fn readv_raw(
    fd: RawFd,
    wait: Wait,
    bufs: &[libc::iovec],
    offset: Option<u64>,
) -> Result<usize, Errno> {
    let array = (bufs.as_ptr(), bufs.len());
    let offset = offset.map(u64::cast_signed);
    // SAFETY: the array is valid, and the host checks the buffers.
    unsafe { vectored(fd, wait, [libc::SYS_readv, libc::SYS_preadv], array, offset) }
}

/// Writes from several buffers, at an offset or at the position. May block.
pub(crate) fn writev(
    fd: RawFd,
    wait: Wait,
    bufs: &[IoSlice<'_>],
    offset: Option<i64>,
) -> Result<usize, Errno> {
    let at = bufs.as_ptr().cast();
    // SAFETY: a slice of them has the layout of an array of `iovec`.
    unsafe {
        vectored(
            fd,
            wait,
            [libc::SYS_writev, libc::SYS_pwritev],
            (at, bufs.len()),
            offset,
        )
    }
}

/// Writes from buffers of the caller, which may not be there: the host checks them. May block.
pub(crate) fn writev_raw(
    fd: RawFd,
    wait: Wait,
    bufs: &[libc::iovec],
    offset: Option<u64>,
) -> Result<usize, Errno> {
    let array = (bufs.as_ptr(), bufs.len());
    let offset = offset.map(u64::cast_signed);
    // SAFETY: the array is valid, and the host checks the buffers.
    unsafe {
        vectored(
            fd,
            wait,
            [libc::SYS_writev, libc::SYS_pwritev],
            array,
            offset,
        )
    }
}

/// Transfers several buffers: the numbers of the call at the position, and of that at an offset.
///
/// # Safety
/// The array is valid, and its buffers are those that the call expects.
unsafe fn vectored(
    fd: RawFd,
    wait: Wait,
    [at_position, at_offset]: [c_long; 2],
    (first, length): (*const libc::iovec, usize),
    offset: Option<i64>,
) -> Result<usize, Errno> {
    let events = match at_position {
        libc::SYS_readv => libc::POLLIN,
        _ => libc::POLLOUT,
    };
    let _out = host_fork::blocking_section();
    let result = match offset {
        // SAFETY: as the caller promises.
        None => unsafe { transfer!(wait, (fd, events), at_position, fd, first, length) },
        // The upper half of the offset is ignored where a register holds all of it.
        // SAFETY: as the caller promises.
        Some(offset) => unsafe {
            direct!(Wait::Never, at_offset, fd, first, length, offset, 0_i32)
        },
    };
    transferred(result)
}
