//! Transfers with several buffers: `readv`, `writev` and their variants.

use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::ops::Deref;

use fdtable_vfs::{Errno, FileKind, RwFlags};
use libc::{iovec, off_t, ssize_t};

use crate::abi::call::call;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::fs::partial::{self, Partial};
use crate::fs::transfers::{Direction, to_unsigned};
use crate::host::file::HostFile;

/// Reads into several buffers: `readv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_readv(fd: c_int, bufs: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as the caller promises.
    call(|system| unsafe { read(system, fd, (bufs, count), None, 0) })
}

/// Writes from several buffers: `writev(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_writev(fd: c_int, bufs: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as the caller promises.
    call(|system| unsafe { write(system, fd, (bufs, count), None, 0) })
}

/// Reads into several buffers at an offset: `preadv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_preadv(
    fd: c_int,
    bufs: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: as the caller promises.
    call(|system| unsafe { read(system, fd, (bufs, count), Some(to_unsigned(offset)?), 0) })
}

/// Writes from several buffers at an offset: `pwritev(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_pwritev(
    fd: c_int,
    bufs: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: as the caller promises.
    call(|system| unsafe { write(system, fd, (bufs, count), Some(to_unsigned(offset)?), 0) })
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
    call(|system| {
        let offset = (offset != -1).then(|| to_unsigned(offset)).transpose()?;
        // SAFETY: as the caller promises.
        unsafe { read(system, fd, (bufs, count), offset, flags) }
    })
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
    call(|system| {
        let offset = (offset != -1).then(|| to_unsigned(offset)).transpose()?;
        // SAFETY: as the caller promises.
        unsafe { write(system, fd, (bufs, count), offset, flags) }
    })
}

/// Reads into several buffers, at an offset or at the position.
///
/// # Safety
/// As for [`import_iovec_mut`].
#[inline]
unsafe fn read(
    system: &System,
    fd: c_int,
    (bufs, count): (*const iovec, c_int),
    offset: Option<u64>,
    flags: c_int,
) -> Result<usize, Errno> {
    let limit = |count| partial::read_limit(system, fd, count, offset);
    // SAFETY: as the caller promises.
    let bufs = unsafe { import_iovec_mut(bufs, count, limit) };
    let bufs = system.buffers_for(fd, Direction::Read, offset, bufs)?;
    if bufs.total() == 0 {
        return system.no_bytes(fd, Direction::Read, offset);
    }
    let flags = system.rw_flags(fd, Direction::Read, offset, flags)?;
    match bufs {
        Buffers::Whole(mut bufs) => system.process.preadv2(fd, &mut bufs, offset, flags),
        Buffers::Partial(bufs) => partial::read(system, fd, &bufs, offset, flags),
    }
}

/// Writes from several buffers, at an offset or at the position.
///
/// # Safety
/// As for [`import_iovec`].
#[inline]
unsafe fn write(
    system: &System,
    fd: c_int,
    (bufs, count): (*const iovec, c_int),
    offset: Option<u64>,
    flags: c_int,
) -> Result<usize, Errno> {
    // SAFETY: as the caller promises.
    let bufs = unsafe { import_iovec(bufs, count) };
    let bufs = system.buffers_for(fd, Direction::Write, offset, bufs)?;
    let count = bufs.total();
    if count == 0 {
        return system.no_bytes(fd, Direction::Write, offset);
    }
    let flags = system.rw_flags(fd, Direction::Write, offset, flags)?;
    let written = match bufs {
        Buffers::Whole(bufs) => system.process.pwritev2(fd, &bufs, offset, flags),
        Buffers::Partial(bufs) => partial::write(system, fd, &bufs, offset, flags),
    };
    system.signal_on_write(fd, written, count as usize)
}

/// Maximum number of buffers of one call. In Linux: `IOV_MAX`.
const UIO_MAXIOV: usize = 1024;

/// Buffers of the caller.
pub(crate) enum Buffers<C> {
    /// All of them can be accessed.
    Whole(C),
    /// Some bytes of them cannot.
    Partial(Partial),
}

impl System {
    /// Passes on the buffers of a transfer. Errors of the descriptor come before those of the
    /// buffers, as on the host.
    ///
    /// # Errors
    /// Errors of [`transfer_error`](Self::transfer_error); `EINVAL` if the transfer could end above
    /// `i64::MAX`.
    #[inline]
    fn buffers_for<B: Deref<Target = [u8]>>(
        &self,
        fd: c_int,
        direction: Direction,
        offset: Option<u64>,
        bufs: Result<Buffers<Vec<B>>, Errno>,
    ) -> Result<Buffers<Vec<B>>, Errno> {
        let errno = match &bufs {
            Err(errno) => *errno,
            Ok(bufs) if offset.is_some_and(|at| at + bufs.total() > i64::MAX as u64) => {
                Errno::EINVAL
            }
            Ok(_) => return bufs,
        };
        Err(self.transfer_error(fd, direction, offset.is_some(), errno))
    }

    /// Converts the flags of a transfer. Their errors come after those of the descriptor.
    ///
    /// # Errors
    /// Errors of [`transfer_error`](Self::transfer_error); `EOPNOTSUPP` if the file does not
    /// support a flag; `EINVAL` if the flags contradict each other.
    #[inline]
    fn rw_flags(
        &self,
        fd: c_int,
        direction: Direction,
        offset: Option<u64>,
        flags: c_int,
    ) -> Result<RwFlags, Errno> {
        let flags = RwFlags::from_bits_retain(flags.cast_unsigned());
        if flags.is_empty() {
            return Ok(flags);
        }
        self.check_rw_flags(fd, direction, flags)
            .map_err(|errno| self.transfer_error(fd, direction, offset.is_some(), errno))?;
        Ok(flags)
    }

    /// Checks flags as Linux does for the file of the same kind (`kiocb_set_rw_flags`). The host
    /// checks those of its files.
    #[cold]
    fn check_rw_flags(&self, fd: c_int, at: Direction, flags: RwFlags) -> Result<(), Errno> {
        let file = self.file(fd)?;
        if HostFile::below(&**file).is_some() {
            return Ok(());
        }
        let has_name = file.path().is_some();
        let supported = match file.stat().map(|stat| stat.kind) {
            // Linux transfers them by functions without flags.
            Ok(FileKind::Directory) => RwFlags::HIPRI,
            Err(_) if at == Direction::Write => RwFlags::HIPRI,
            Ok(FileKind::Regular | FileKind::Fifo) if has_name => !RwFlags::NOWAIT,
            _ => RwFlags::all(),
        };
        if !supported.contains(flags) {
            return Err(Errno::EOPNOTSUPP);
        }
        match flags.contains(RwFlags::APPEND | RwFlags::NOAPPEND) {
            true => Err(Errno::EINVAL),
            false => Ok(()),
        }
    }

    /// Returns the result of a transfer with buffers that have no bytes. It does not reach the
    /// file: no empty message is sent.
    #[cold]
    fn no_bytes(
        &self,
        fd: c_int,
        direction: Direction,
        offset: Option<u64>,
    ) -> Result<usize, Errno> {
        self.check_transfer(fd, direction, offset.is_some())?;
        Ok(0)
    }
}

impl<B: Deref<Target = [u8]>> Buffers<Vec<B>> {
    fn total(&self) -> u64 {
        match self {
            Buffers::Whole(bufs) => bufs.iter().map(|buf| buf.len() as u64).sum(),
            Buffers::Partial(bufs) => bufs.total() as u64,
        }
    }
}

impl<C> Buffers<C> {
    /// Returns buffers as a whole, or as the part of them that can be accessed.
    ///
    /// # Safety
    /// As for [`Partial::of`].
    pub(crate) unsafe fn new(whole: Result<C, Errno>, bufs: &[iovec], writes: bool) -> Self {
        match whole {
            Ok(bufs) => Buffers::Whole(bufs),
            // SAFETY: as the caller promises.
            Err(_) => Buffers::Partial(unsafe { Partial::of(bufs, writes) }),
        }
    }

    /// Returns the buffers, for a call that moves all of them or nothing.
    ///
    /// # Errors
    /// `EFAULT` if some bytes cannot be accessed.
    pub(crate) fn whole(self) -> Result<C, Errno> {
        match self {
            Buffers::Whole(bufs) => Ok(bufs),
            Buffers::Partial(_) => Err(Errno::EFAULT),
        }
    }
}

/// Returns the caller's buffers for a call that writes to them: as many bytes as `limit` returns,
/// which gets the number of all.
///
/// # Errors
/// `EINVAL` if there are more than 1,024, or one is longer than `isize::MAX`; `EFAULT` if the array
/// cannot be read, or a buffer is above the address space.
///
/// # Safety
/// The conditions of [`uaccess::values`] hold, and for each buffer those of
/// [`uaccess::bytes_mut`].
pub(crate) unsafe fn import_iovec_mut<'a>(
    bufs: *const iovec,
    count: c_int,
    limit: impl FnOnce(usize) -> usize,
) -> Result<Buffers<Vec<IoSliceMut<'a>>>, Errno> {
    // SAFETY: as the caller promises.
    let bufs = unsafe { copy_iovecs(bufs, count) }?;
    let all = bufs
        .iter()
        .fold(0, |sum: usize, buf| sum.saturating_add(buf.iov_len));
    // SAFETY: as the caller promises.
    let buf = |at, count| unsafe { uaccess::bytes_mut(at, count) }.map(IoSliceMut::new);
    let whole = each_within(limit(all), &bufs, buf);
    // SAFETY: as the caller promises.
    Ok(unsafe { Buffers::new(whole, &bufs, true) })
}

/// Returns the caller's buffers for a call that reads from them.
///
/// # Errors
/// Errors of [`import_iovec_mut`].
///
/// # Safety
/// The conditions of [`uaccess::values`] hold, and for each buffer those of [`uaccess::bytes`].
pub(crate) unsafe fn import_iovec<'a>(
    bufs: *const iovec,
    count: c_int,
) -> Result<Buffers<Vec<IoSlice<'a>>>, Errno> {
    // SAFETY: as the caller promises.
    let bufs = unsafe { copy_iovecs(bufs, count) }?;
    // SAFETY: as the caller promises.
    let buf = |at: *mut _, count| unsafe { uaccess::bytes(at, count) }.map(IoSlice::new);
    let whole = each_within(uaccess::MAX_RW_COUNT, &bufs, buf);
    // SAFETY: as the caller promises.
    Ok(unsafe { Buffers::new(whole, &bufs, false) })
}

/// Imports as much of each buffer as one transfer moves, which has a limit. Nothing after a
/// shortened buffer is moved, because it would land at a wrong offset.
fn each_within<B>(
    limit: usize,
    bufs: &[iovec],
    import: impl Fn(*mut c_void, usize) -> Result<B, Errno>,
) -> Result<Vec<B>, Errno> {
    let mut left = limit.min(uaccess::MAX_RW_COUNT);
    let shortened = bufs.iter().map(|buf| {
        let count = buf.iov_len.min(left);
        left -= count;
        import(buf.iov_base, count)
    });
    shortened.collect()
}

/// # Safety
/// The conditions of [`uaccess::values`] hold.
unsafe fn copy_iovecs(bufs: *const iovec, count: c_int) -> Result<Vec<iovec>, Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    if count > UIO_MAXIOV {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as the caller promises.
    let bufs = unsafe { uaccess::values(bufs, count) }?;
    for buf in &bufs {
        if buf.iov_len > isize::MAX as usize {
            return Err(Errno::EINVAL);
        }
        uaccess::check_range_end(buf.iov_base.cast::<u8>(), buf.iov_len)?;
    }
    Ok(bufs)
}
