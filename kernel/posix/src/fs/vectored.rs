//! Transfers with several buffers: `readv`, `writev` and their variants.

use std::ffi::c_int;
use std::io::{IoSlice, IoSliceMut};

use fdtable_vfs::Errno;
use libc::{iovec, off_t, ssize_t};

use crate::abi::call::call;
use crate::abi::uaccess;
use crate::fs::transfers::{sigpipe_on_epipe, to_ssize, to_unsigned};

/// Reads into several buffers: `readv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_readv(fd: c_int, bufs: *const iovec, count: c_int) -> ssize_t {
    call(|system| {
        // SAFETY: as the caller promises.
        let mut bufs = system.after(fd, unsafe { import_iovec_mut(bufs, count) })?;
        to_ssize(system.process.readv(fd, &mut bufs))
    })
}

/// Writes from several buffers: `writev(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_writev(fd: c_int, bufs: *const iovec, count: c_int) -> ssize_t {
    call(|system| {
        // SAFETY: as the caller promises.
        let bufs = system.after(fd, unsafe { import_iovec(bufs, count) })?;
        to_ssize(sigpipe_on_epipe(system.process.writev(fd, &bufs)))
    })
}

/// Reads into several buffers at an offset: `preadv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_preadv(
    fd: c_int,
    bufs: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    call(|system| {
        let offset = to_unsigned(offset)?;
        // SAFETY: as the caller promises.
        let mut bufs = system.after(fd, unsafe { import_iovec_mut(bufs, count) })?;
        to_ssize(system.process.preadv(fd, &mut bufs, offset))
    })
}

/// Writes from several buffers at an offset: `pwritev(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_pwritev(
    fd: c_int,
    bufs: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    call(|system| {
        let offset = to_unsigned(offset)?;
        // SAFETY: as the caller promises.
        let bufs = system.after(fd, unsafe { import_iovec(bufs, count) })?;
        to_ssize(sigpipe_on_epipe(system.process.pwritev(fd, &bufs, offset)))
    })
}

/// Reads like `preadv`, or like `readv` if the offset is -1: `preadv2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_preadv2(
    fd: c_int,
    bufs: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    match check_rwf_flags(flags) {
        Err(errno) => call(|system| system.after(fd, Err(errno))),
        // SAFETY: as the caller promises.
        Ok(()) if offset == -1 => unsafe { fdt_readv(fd, bufs, count) },
        // SAFETY: as the caller promises.
        Ok(()) => unsafe { fdt_preadv(fd, bufs, count, offset) },
    }
}

/// Writes like `pwritev`, or like `writev` if the offset is -1: `pwritev2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_pwritev2(
    fd: c_int,
    bufs: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    match check_rwf_flags(flags) {
        Err(errno) => call(|system| system.after(fd, Err(errno))),
        // SAFETY: as the caller promises.
        Ok(()) if offset == -1 => unsafe { fdt_writev(fd, bufs, count) },
        // SAFETY: as the caller promises.
        Ok(()) => unsafe { fdt_pwritev(fd, bufs, count, offset) },
    }
}

/// Accepts flags that do not change the result: a write to memory is durable at once.
fn check_rwf_flags(flags: c_int) -> Result<(), Errno> {
    let known = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC;
    if flags & !known == 0 {
        Ok(())
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

/// Maximum number of buffers of one call.
#[doc(alias = "IOV_MAX")]
const UIO_MAXIOV: usize = 1024;

/// Returns the caller's buffers for a call that writes to them.
///
/// # Errors
/// `EINVAL` if there are more than 1,024, or one is longer than `isize::MAX`; `EFAULT`.
///
/// # Safety
/// Those of [`uaccess::values`], and of [`uaccess::bytes_mut`] for each buffer.
pub(crate) unsafe fn import_iovec_mut<'a>(
    bufs: *const iovec,
    count: c_int,
) -> Result<Vec<IoSliceMut<'a>>, Errno> {
    // SAFETY: as the caller promises.
    let bufs = unsafe { copy_iovecs(bufs, count) }?;
    let mut left = uaccess::MAX_RW_COUNT;
    let buf = |buf: &iovec| {
        // SAFETY: as the caller promises.
        let bytes = unsafe { uaccess::bytes_mut(buf.iov_base, buf.iov_len) }?;
        let count = shorten(bytes.len(), &mut left);
        Ok(IoSliceMut::new(&mut bytes[..count]))
    };
    until_first_invalid(bufs.iter().map(buf))
}

/// Returns the caller's buffers for a call that reads from them.
///
/// # Errors
/// `EINVAL` if there are more than 1,024, or one is longer than `isize::MAX`; `EFAULT`.
///
/// # Safety
/// Those of [`uaccess::values`], and of [`uaccess::bytes`] for each buffer.
pub(crate) unsafe fn import_iovec<'a>(
    bufs: *const iovec,
    count: c_int,
) -> Result<Vec<IoSlice<'a>>, Errno> {
    // SAFETY: as the caller promises.
    let bufs = unsafe { copy_iovecs(bufs, count) }?;
    let mut left = uaccess::MAX_RW_COUNT;
    let buf = |buf: &iovec| {
        // SAFETY: as the caller promises.
        let bytes = unsafe { uaccess::bytes(buf.iov_base, buf.iov_len) }?;
        let count = shorten(bytes.len(), &mut left);
        Ok(IoSlice::new(&bytes[..count]))
    };
    until_first_invalid(bufs.iter().map(buf))
}

/// Returns how much of a buffer one transfer moves, and subtracts it from `left`. Nothing after a
/// shortened buffer is moved, because it would land at a wrong offset.
fn shorten(length: usize, left: &mut usize) -> usize {
    let count = length.min(*left);
    *left -= count;
    count
}

/// Returns the buffers before the first invalid one: a transfer ends there, as on the host.
///
/// # Errors
/// `EFAULT` if the first buffer is invalid.
fn until_first_invalid<B>(bufs: impl Iterator<Item = Result<B, Errno>>) -> Result<Vec<B>, Errno> {
    let mut good = Vec::new();
    for buf in bufs {
        match buf {
            Ok(buf) => good.push(buf),
            Err(errno) if good.is_empty() => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(good)
}

/// # Safety
/// Those of [`uaccess::values`].
unsafe fn copy_iovecs(bufs: *const iovec, count: c_int) -> Result<Vec<iovec>, Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    if count > UIO_MAXIOV {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as the caller promises.
    let bufs = unsafe { uaccess::values(bufs, count) }?;
    match bufs.iter().any(|buf| buf.iov_len > isize::MAX as usize) {
        true => Err(Errno::EINVAL),
        false => Ok(bufs),
    }
}
