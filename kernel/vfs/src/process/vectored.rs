//! System calls with several buffers.

use std::borrow::Cow;
use std::io::{IoSlice, IoSliceMut};

use fdtable::FdArg;

use super::Process;
use crate::vectored::IOV_MAX;
use crate::{Errno, Object, RwFlags, Transfer, TransferMode};

impl Process {
    /// Reads into several buffers, one after another, like [`read`](Self::read) into one: a file is
    /// read atomically, and a message is read by one call. Allocates, except for a regular file.
    ///
    /// # Errors
    /// Errors of `read`; `EINVAL` for more than 1,024 buffers, or if their total length is above
    /// `isize::MAX`; `ENOMEM`.
    pub fn readv(&self, fd: impl FdArg, bufs: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        self.preadv2(fd, bufs, None, RwFlags::empty())
    }

    /// Writes several buffers, one after another, like [`write`](Self::write) one: atomically.
    /// Allocates, except for a regular file.
    ///
    /// # Errors
    /// Errors of `write`; `EINVAL` as for [`readv`](Self::readv); `ENOMEM`.
    pub fn writev(&self, fd: impl FdArg, bufs: &[IoSlice<'_>]) -> Result<usize, Errno> {
        self.pwritev2(fd, bufs, None, RwFlags::empty())
    }

    /// Reads at an offset, and leaves the file position alone; without an offset like
    /// [`readv`](Self::readv). In Linux: `preadv2`.
    ///
    /// # Errors
    /// Errors of [`pread`](Self::pread); `EINVAL` as for `readv`; `ENOMEM`.
    pub fn preadv2(
        &self,
        fd: impl FdArg,
        bufs: &mut [IoSliceMut<'_>],
        at: Option<u64>,
        flags: RwFlags,
    ) -> Result<usize, Errno> {
        check(bufs.len(), bufs.iter().map(|buf| buf.len()))?;
        let file = self.files.get(fd)?;
        file.read_to(bufs, self.vectored(&**file, at, flags))
    }

    /// Writes at an offset, and leaves the file position alone; without an offset like
    /// [`writev`](Self::writev). In Linux: `pwritev2`.
    ///
    /// # Errors
    /// Errors of [`pwrite`](Self::pwrite); `EINVAL` as for `readv`; `ENOMEM`.
    pub fn pwritev2(
        &self,
        fd: impl FdArg,
        bufs: &[IoSlice<'_>],
        at: Option<u64>,
        flags: RwFlags,
    ) -> Result<usize, Errno> {
        let (fd, total) = (fd.to_raw(), check_written(bufs)?);
        let bufs = first(bufs, total, self.writable_bytes(fd, at, flags, total)?)?;
        let file = self.files.get(fd)?;
        let written = file.write_from(&bufs, self.vectored(&**file, at, flags))?;
        self.remove_privileges(&**file);
        Ok(written)
    }

    fn vectored(&self, file: &dyn Object, at: Option<u64>, flags: RwFlags) -> Transfer<'_> {
        let mode = match flags.contains(RwFlags::NOWAIT) {
            true => TransferMode::Now,
            false => Transfer::of(file, at, self).mode,
        };
        Transfer {
            at,
            mode,
            by: Some(self),
            is_vectored: true,
            flags,
        }
    }
}

/// Returns the total length.
pub(super) fn check_written(bufs: &[IoSlice<'_>]) -> Result<usize, Errno> {
    check(bufs.len(), bufs.iter().map(|buf| buf.len()))
}

fn check(count: usize, mut lengths: impl Iterator<Item = usize>) -> Result<usize, Errno> {
    let total = lengths.try_fold(0, usize::checked_add);
    total
        .filter(|&total| count <= IOV_MAX && total <= isize::MAX as usize)
        .ok_or(Errno::EINVAL)
}

/// Returns the first `count` of the `total` bytes. Allocates if they are not all.
///
/// # Errors
/// `ENOMEM`.
pub(super) fn first<'b>(
    bufs: &'b [IoSlice<'b>],
    total: usize,
    count: usize,
) -> Result<Cow<'b, [IoSlice<'b>]>, Errno> {
    if count == total {
        return Ok(Cow::Borrowed(bufs));
    }
    let mut cut = Vec::new();
    cut.try_reserve_exact(bufs.len())
        .map_err(|_| Errno::ENOMEM)?;
    let mut left = count;
    for buf in bufs {
        let now = left.min(buf.len());
        cut.push(IoSlice::new(&buf[..now]));
        left -= now;
    }
    Ok(Cow::Owned(cut))
}
