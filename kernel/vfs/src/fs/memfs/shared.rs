//! Bytes of a regular file in memory of the embedder.
//!
//! The embedder's memory knows the bytes, their length, and its pages. This file adds the limits:
//! the size of a file, and the pages of the file system. Mappings take pages without a call; they
//! are counted with the next change of the file, and may then be above the limit.

use std::sync::Arc;

use fdtable_shm::Mutex;

use super::limits::{PAGE, Space};
use crate::Errno;
use crate::fs::{MemoryUsage, SharedMemory, Timestamp};

/// Bytes of a file that can be mapped.
#[derive(Debug)]
pub(super) struct SharedBytes {
    memory: Arc<dyn SharedMemory>,
    space: Space,
    /// Pages that are counted in `space`.
    pages: u64,
    /// Changes until then do not count as changes by mappings.
    settled: Mutex<Timestamp>,
}

impl SharedBytes {
    /// Takes memory that holds the bytes of a file, and counts its pages.
    pub(super) fn new(memory: Arc<dyn SharedMemory>, space: Space) -> Self {
        let mut shared = SharedBytes {
            memory,
            space,
            pages: 0,
            settled: Mutex::default(),
        };
        shared.count_pages();
        shared.settle();
        shared
    }

    pub(super) fn memory(&self) -> &Arc<dyn SharedMemory> {
        &self.memory
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        self.memory.usage()
    }

    /// Returns when a call or a mapping last changed the bytes after [`settle`](Self::settle).
    pub(super) fn modified(&self) -> Option<Timestamp> {
        let modified = self.usage().modified;
        (modified > *self.settled.lock()).then_some(modified)
    }

    /// Forgets the changes until now.
    pub(super) fn settle(&self) {
        *self.settled.lock() = self.usage().modified;
    }

    /// Copies `bytes` to position `at`, and returns how many were below `limit` and found memory.
    ///
    /// # Errors
    /// `EFBIG` if not even the first is below the limit; `ENOSPC` if it finds no memory; those of
    /// the embedder.
    pub(super) fn write_at(&mut self, limit: u64, at: u64, bytes: &[u8]) -> Result<usize, Errno> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if at >= limit {
            return Err(Errno::EFBIG);
        }
        let below = usize::try_from(limit - at).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(below)];
        let end = self.end_of_room(at, at + bytes.len() as u64);
        if end == at {
            return Err(Errno::ENOSPC);
        }
        let done = self.memory.write_at(&bytes[..(end - at) as usize], at)?;
        self.count_pages();
        Ok(done)
    }

    /// Returns where a write from `from` to `to` ends because the file system has no more pages.
    fn end_of_room(&self, from: u64, to: u64) -> u64 {
        let Some((_, mut free)) = self.space.pages() else {
            return to;
        };
        if self.missing(from, to) <= free {
            return to;
        }
        let mut at = from;
        while at < to {
            let page = at / PAGE * PAGE;
            if self.memory.next_data(page) != Some(page) {
                if free == 0 {
                    return at;
                }
                free -= 1;
            }
            at = page.saturating_add(PAGE);
        }
        to
    }

    /// Returns the number of pages between two positions that do not exist, as far as the end of
    /// the file is concerned: all after it.
    fn missing(&self, from: u64, to: u64) -> u64 {
        let mut at = from / PAGE * PAGE;
        let mut missing = 0;
        while at < to {
            let data = self.memory.next_data(at).unwrap_or(to).min(to);
            missing += (data - at).div_ceil(PAGE);
            if data == to {
                break;
            }
            let hole = self.memory.next_hole(data).unwrap_or(to);
            // The end of the file may be inside of a page.
            at = hole.max(data + 1).div_ceil(PAGE).saturating_mul(PAGE);
        }
        missing
    }

    /// Sets the length.
    ///
    /// # Errors
    /// Errors of the embedder's `set_len`.
    pub(super) fn set_len(&mut self, len: u64) -> Result<(), Errno> {
        self.memory.set_len(len)?;
        self.count_pages();
        Ok(())
    }

    /// Takes memory for a range, and leaves the length as it is.
    ///
    /// # Errors
    /// `ENOSPC` if there is not enough.
    pub(super) fn allocate(&mut self, from: u64, to: u64) -> Result<(), Errno> {
        if let Some((_, free)) = self.space.pages()
            && self.missing(from, to) > free
        {
            return Err(Errno::ENOSPC);
        }
        let allocated = self.memory.allocate(from, to);
        self.count_pages();
        allocated.map_err(|_| Errno::ENOSPC)
    }

    /// Makes a range a hole, and leaves the length as it is.
    ///
    /// # Errors
    /// Errors of the embedder's `punch`.
    pub(super) fn punch(&mut self, from: u64, to: u64) -> Result<(), Errno> {
        self.memory.punch(from, to)?;
        self.count_pages();
        Ok(())
    }

    /// Counts the pages that exist now.
    fn count_pages(&mut self) {
        if self.space.pages().is_none() {
            return;
        }
        let pages = self.memory.usage().pages;
        self.space.charge_existing(pages.saturating_sub(self.pages));
        self.space.uncharge(self.pages.saturating_sub(pages));
        self.pages = pages;
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        self.space.uncharge(self.pages);
    }
}
