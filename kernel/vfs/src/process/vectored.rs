//! System calls with several buffers.

use std::borrow::Cow;
use std::io::{IoSlice, IoSliceMut};

use fdtable::{FdArg, RawFd};

use super::Process;
use crate::vectored::IOV_MAX;
use crate::{Errno, Object, Transfer};

impl Process {
    /// Reads into several buffers, one after another, like [`read`](Self::read) into one: a file is
    /// read atomically, and a message is read by one call. Allocates, except for a regular file.
    ///
    /// # Errors
    /// Errors of `read`; `EINVAL` for more than 1,024 buffers, or if their total length is above
    /// `isize::MAX`; `ENOMEM`.
    pub fn readv(&self, fd: impl FdArg, bufs: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        self.read_vectored(fd, bufs, None)
    }

    /// Writes several buffers, one after another, like [`write`](Self::write) one: atomically.
    /// Allocates, except for a regular file.
    ///
    /// # Errors
    /// Errors of `write`; `EINVAL` as for [`readv`](Self::readv); `ENOMEM`.
    pub fn writev(&self, fd: impl FdArg, bufs: &[IoSlice<'_>]) -> Result<usize, Errno> {
        self.write_vectored(fd.to_raw(), bufs, None)
    }

    /// Reads at `offset` like [`readv`](Self::readv), and leaves the file position alone.
    ///
    /// # Errors
    /// Errors of [`pread`](Self::pread); `EINVAL` as for `readv`; `ENOMEM`.
    pub fn preadv(
        &self,
        fd: impl FdArg,
        bufs: &mut [IoSliceMut<'_>],
        offset: u64,
    ) -> Result<usize, Errno> {
        self.read_vectored(fd, bufs, Some(offset))
    }

    /// Writes at `offset` like [`writev`](Self::writev), and leaves the file position alone.
    ///
    /// # Errors
    /// Errors of [`pwrite`](Self::pwrite); `EINVAL` as for `readv`; `ENOMEM`.
    pub fn pwritev(
        &self,
        fd: impl FdArg,
        bufs: &[IoSlice<'_>],
        offset: u64,
    ) -> Result<usize, Errno> {
        self.write_vectored(fd.to_raw(), bufs, Some(offset))
    }

    fn read_vectored(
        &self,
        fd: impl FdArg,
        bufs: &mut [IoSliceMut<'_>],
        at: Option<u64>,
    ) -> Result<usize, Errno> {
        check(bufs.len(), bufs.iter().map(|buf| buf.len()))?;
        let file = self.files.get(fd)?;
        file.read_to(bufs, self.vectored(&**file, at))
    }

    fn write_vectored(
        &self,
        fd: RawFd,
        bufs: &[IoSlice<'_>],
        at: Option<u64>,
    ) -> Result<usize, Errno> {
        let total = check_written(bufs)?;
        let bufs = first(bufs, total, self.writable_bytes(fd, at, total)?)?;
        let file = self.files.get(fd)?;
        let written = file.write_from(&bufs, self.vectored(&**file, at))?;
        self.remove_privileges(&**file);
        Ok(written)
    }

    fn vectored(&self, file: &dyn Object, at: Option<u64>) -> Transfer<'_> {
        Transfer {
            is_vectored: true,
            ..Transfer::of(file, at, self)
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
