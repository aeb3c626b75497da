//! Scatter and gather for objects that transfer one buffer at a time.
//!
//! For objects whose single transfer is a unit: a message, or an atomic write. Regular files have
//! vectored operations of their own.

use std::borrow::Cow;
use std::io::{IoSlice, IoSliceMut};

use crate::Errno;

/// Most buffers of one call: 1,024. The sum of their lengths does not overflow.
pub(crate) const IOV_MAX: usize = 1024;

/// Most bytes that are read at a time: 1 MiB, longer than any message.
const MAX_READ: usize = 1 << 20;

/// Reads once, and scatters the bytes over several buffers. Allocates if more than one buffer is
/// not empty.
///
/// # Errors
/// Errors of `read`; `ENOMEM`.
#[inline]
pub(crate) fn scatter(
    bufs: &mut [IoSliceMut<'_>],
    read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut joined = Vec::new();
    // One call, which the compiler inlines.
    let count = read(match &mut *bufs {
        [only] => only,
        several => target(several, &mut joined)?,
    })?;
    if !joined.is_empty() {
        spread(&joined[..count], bufs);
    }
    Ok(count)
}

/// Returns the only buffer that is not empty, or else `joined`, as long as all together.
#[cold]
fn target<'b>(
    bufs: &'b mut [IoSliceMut<'_>],
    joined: &'b mut Vec<u8>,
) -> Result<&'b mut [u8], Errno> {
    let total: usize = bufs.iter().map(|buf| buf.len()).sum();
    let mut used = bufs.iter_mut().filter(|buf| !buf.is_empty());
    match (used.next(), used.next()) {
        (Some(only), None) => return Ok(only),
        (None, _) => {}
        _ => *joined = zeros(total.min(MAX_READ))?,
    }
    Ok(joined)
}

/// Copies bytes into several buffers, one after another.
#[cold]
fn spread(mut bytes: &[u8], bufs: &mut [IoSliceMut<'_>]) {
    for buf in bufs {
        let (now, later) = bytes.split_at(bytes.len().min(buf.len()));
        buf[..now.len()].copy_from_slice(now);
        bytes = later;
    }
}

/// Gathers several buffers into one, and writes that once. Allocates if more than one buffer is
/// not empty.
///
/// # Errors
/// Errors of `write`; `ENOMEM`.
#[inline]
pub(crate) fn gather(
    bufs: &[IoSlice<'_>],
    write: impl FnOnce(&[u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let bytes = match bufs {
        [only] => Cow::Borrowed(&**only),
        several => join(several)?,
    };
    // One call, which the compiler inlines.
    write(&bytes)
}

#[cold]
fn join<'b>(bufs: &'b [IoSlice<'_>]) -> Result<Cow<'b, [u8]>, Errno> {
    let mut used = bufs.iter().filter(|buf| !buf.is_empty());
    if let (only, None) = (used.next(), used.next()) {
        return Ok(Cow::Borrowed(only.map_or(&[], |only| only)));
    }
    concat(bufs).map(Cow::Owned)
}

/// Copies several buffers into one.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn concat(bufs: &[IoSlice<'_>]) -> Result<Vec<u8>, Errno> {
    let mut bytes = with_capacity(bufs.iter().map(|buf| buf.len()).sum())?;
    for buf in bufs {
        bytes.extend_from_slice(buf);
    }
    Ok(bytes)
}

/// Makes a buffer of zeros.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn zeros(count: usize) -> Result<Vec<u8>, Errno> {
    let mut buf = with_capacity(count)?;
    buf.resize(count, 0);
    Ok(buf)
}

fn with_capacity(count: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_fills_one_buffer_after_another() {
        let (mut one, mut none, mut other) = ([0; 3], [0; 0], [0; 4]);
        let mut bufs = [&mut one[..], &mut none, &mut other].map(IoSliceMut::new);
        let read = |buf: &mut [u8]| {
            assert_eq!(buf.len(), 7);
            buf[..5].copy_from_slice(b"hello");
            Ok(5)
        };
        assert_eq!(scatter(&mut bufs, read), Ok(5));
        assert_eq!((&one, &other), (b"hel", b"lo\0\0"));
    }

    #[test]
    fn several_buffers_are_written_by_one_write() {
        let bufs = [&b"he"[..], b"", b"llo"].map(IoSlice::new);
        let write = |bytes: &[u8]| {
            assert_eq!(bytes, b"hello");
            Ok(4)
        };
        assert_eq!(gather(&bufs, write), Ok(4));
        assert_eq!(gather(&[], |bytes| Ok(bytes.len())), Ok(0));
    }
}
