//! Bytes of a regular file that are in a lower file.
//!
//! The lower file is open while the file is, and for a copy.

use std::sync::Arc;

use super::limits::PAGE;
use crate::Errno;
use crate::fs::{LowerBytes, LowerFile, MemoryUsage, Stat};
use crate::vectored::zeros;

/// Bytes that a copy reads at a time.
const STEP: usize = 64 << 10;

/// Bytes in a lower file.
#[derive(Debug)]
pub(super) struct LowerContents {
    file: Arc<dyn LowerFile>,
    opened: Option<Arc<dyn LowerBytes>>,
    usage: MemoryUsage,
}

impl LowerContents {
    /// Takes the length and the blocks of `stat`.
    pub(super) fn new(file: Arc<dyn LowerFile>, stat: &Stat) -> Self {
        LowerContents {
            file,
            opened: None,
            usage: MemoryUsage {
                len: stat.size.min(i64::MAX as u64),
                pages: stat.blocks.div_ceil(PAGE / 512),
                ..MemoryUsage::default()
            },
        }
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        self.usage
    }

    pub(super) fn len(&self) -> u64 {
        self.usage.len
    }

    pub(super) fn opened(&self) -> Option<Arc<dyn LowerBytes>> {
        self.opened.clone()
    }

    /// Opens the lower file, unless it is open.
    ///
    /// # Errors
    /// Errors of the embedder's `open`.
    pub(super) fn open(&mut self) -> Result<(), Errno> {
        if self.opened.is_none() {
            self.opened = Some(self.file.open()?);
        }
        Ok(())
    }

    /// Closes the lower file. Mappings and transfers in progress keep it.
    pub(super) fn close(&mut self) {
        self.opened = None;
    }

    /// Copies the bytes at `offset` into `buf`, and returns how many: 0 at the end and after it.
    ///
    /// # Errors
    /// Errors of the embedder's `read_at`; `EIO` if the lower file is not open.
    pub(super) fn copy_out(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let count = self.clipped(offset, buf.len());
        if count == 0 {
            return Ok(0);
        }
        let opened = self.opened.as_ref().ok_or(Errno::EIO)?;
        opened.read_at(&mut buf[..count], offset)
    }

    /// Passes all bytes before a position to `put`, except those of holes. `put` returns how many
    /// it has taken.
    ///
    /// # Errors
    /// Errors of the embedder and of `put`; `EIO` if the lower file ends too early; `ENOSPC` if
    /// `put` takes nothing; `ENOMEM`.
    pub(super) fn copy_to(
        &self,
        end: u64,
        mut put: impl FnMut(&[u8], u64) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        let end = end.min(self.len());
        if end == 0 {
            return Ok(());
        }
        let opened = match &self.opened {
            Some(opened) => Arc::clone(opened),
            None => self.file.open()?,
        };
        // After the end there is neither data nor a hole.
        opened.next_hole(end - 1)?.ok_or(Errno::EIO)?;
        let mut buf = zeros(STEP)?;
        let mut at = 0;
        while let Some(data) = opened.next_data(at)?.filter(|&data| data < end) {
            let hole = opened.next_hole(data)?.unwrap_or(end).min(end);
            at = data;
            while at < hole {
                let step = usize::try_from(hole - at).unwrap_or(STEP).min(STEP);
                let read = opened.read_at(&mut buf[..step], at)?;
                if read == 0 {
                    return Err(Errno::EIO);
                }
                put_all(&buf[..read], at, &mut put)?;
                at += read as u64;
            }
        }
        Ok(())
    }

    /// Returns the first position at or after `from` that is no hole; nothing if there is none.
    ///
    /// # Errors
    /// Errors of the embedder's `next_data`; `EIO` if the lower file is not open.
    pub(super) fn next_data(&self, from: u64) -> Result<Option<u64>, Errno> {
        let opened = self.opened.as_ref().ok_or(Errno::EIO)?;
        let data = opened.next_data(from)?;
        Ok(data.filter(|&data| data < self.len()))
    }

    /// Returns the first position at or after `from` that is a hole, or the end; nothing if that is
    /// before.
    ///
    /// # Errors
    /// Errors of the embedder's `next_hole`; `EIO` if the lower file is not open.
    pub(super) fn next_hole(&self, from: u64) -> Result<Option<u64>, Errno> {
        if from >= self.len() {
            return Ok(None);
        }
        let opened = self.opened.as_ref().ok_or(Errno::EIO)?;
        let hole = opened.next_hole(from)?.unwrap_or(self.len());
        Ok(Some(hole.min(self.len())))
    }

    /// Returns how many of `count` bytes at `offset` are before the end.
    fn clipped(&self, offset: u64, count: usize) -> usize {
        let below = self.len().saturating_sub(offset);
        usize::try_from(below).unwrap_or(usize::MAX).min(count)
    }
}

fn put_all(
    bytes: &[u8],
    at: u64,
    put: &mut impl FnMut(&[u8], u64) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        match put(&bytes[done..], at + done as u64)? {
            0 => return Err(Errno::ENOSPC),
            count => done += count,
        }
    }
    Ok(())
}
