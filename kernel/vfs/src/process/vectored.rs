//! System calls with several buffers.

use std::borrow::Cow;
use std::io::{IoSlice, IoSliceMut};

use fdtable::FdArg;

use super::Process;
use crate::Errno;
use crate::vectored::IOV_MAX;

impl Process {
    /// Reads into several buffers, one after another, like [`read`](Self::read) into one: a file is
    /// read atomically, and a message is read by one call. Allocates, except for a regular file.
    ///
    /// # Errors
    /// Errors of `read`; `EINVAL` for more than 1,024 buffers, or if their total length is above
    /// `isize::MAX`; `ENOMEM`.
    pub fn readv(&self, fd: impl FdArg, bufs: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        check_read(bufs)?;
        self.files.get(fd)?.read_vectored(bufs)
    }

    /// Writes several buffers, one after another, like [`write`](Self::write) one: atomically.
    /// Allocates, except for a regular file.
    ///
    /// # Errors
    /// Errors of `write`; `EINVAL` as for [`readv`](Self::readv); `ENOMEM`.
    pub fn writev(&self, fd: impl FdArg, bufs: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let (fd, total) = (fd.to_raw(), check_written(bufs)?);
        let bufs = first(bufs, total, self.writable_bytes(fd, None, total)?)?;
        let file = self.files.get(fd)?;
        let written = file.write_vectored_as(self, &bufs)?;
        self.remove_privileges(&**file);
        Ok(written)
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
        check_read(bufs)?;
        self.files.get(fd)?.read_vectored_at(bufs, offset)
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
        let (fd, total) = (fd.to_raw(), check_written(bufs)?);
        let bufs = first(bufs, total, self.writable_bytes(fd, Some(offset), total)?)?;
        let file = self.files.get(fd)?;
        let written = file.write_vectored_at(&bufs, offset)?;
        self.remove_privileges(&**file);
        Ok(written)
    }
}

fn check_read(bufs: &[IoSliceMut<'_>]) -> Result<usize, Errno> {
    check(bufs.len(), bufs.iter().map(|buf| buf.len()))
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
