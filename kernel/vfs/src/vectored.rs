//! Scatter and gather for objects that transfer one buffer at a time.
//!
//! For objects whose single transfer is a unit: a message, or an atomic write. Regular files have
//! vectored operations of their own.

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
    match bufs {
        [only] => read(only),
        several => scatter_several(several, read),
    }
}

#[cold]
fn scatter_several(
    bufs: &mut [IoSliceMut<'_>],
    read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut used = bufs.iter_mut().filter(|buf| !buf.is_empty());
    match (used.next(), used.next()) {
        (None, _) => return read(&mut []),
        (Some(only), None) => return read(only),
        _ => {}
    }
    let total: usize = bufs.iter().map(|buf| buf.len()).sum();
    let mut bytes = with_capacity(total.min(MAX_READ))?;
    bytes.resize(total.min(MAX_READ), 0);
    let count = read(&mut bytes)?;
    let mut left = &bytes[..count];
    for buf in bufs {
        let (now, later) = left.split_at(left.len().min(buf.len()));
        buf[..now.len()].copy_from_slice(now);
        left = later;
    }
    Ok(count)
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
    match bufs {
        [only] => write(only),
        several => gather_several(several, write),
    }
}

#[cold]
fn gather_several(
    bufs: &[IoSlice<'_>],
    write: impl FnOnce(&[u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut used = bufs.iter().filter(|buf| !buf.is_empty());
    match (used.next(), used.next()) {
        (None, _) => return write(&[]),
        (Some(only), None) => return write(only),
        _ => {}
    }
    let mut bytes = with_capacity(bufs.iter().map(|buf| buf.len()).sum())?;
    for buf in bufs {
        bytes.extend_from_slice(buf);
    }
    write(&bytes)
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
