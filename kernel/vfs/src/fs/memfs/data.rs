//! Bytes of a regular file, with their seals: in memory of this library, or of the embedder.
//!
//! The bytes begin in [`Contents`]. When they are first shared, so that a program can map them,
//! they move into [`SharedBytes`] and stay there. The usual file, which is not shared and not
//! sealed, costs one branch in each transfer.

use std::sync::Arc;

use super::contents::Contents;
use super::limits::{PAGE, Space};
use super::shared::SharedBytes;
use crate::Errno;
use crate::fs::{MemoryUsage, Seals, SharedMemory};

/// Bytes of a file.
#[derive(Debug)]
pub(super) struct Data {
    /// The bytes; empty if they are shared.
    contents: Contents,
    shared: Option<SharedBytes>,
    seals: Seals,
    /// Not shared, and without seals of [`ON_WRITE`].
    is_usual: bool,
    space: Space,
}

/// Seals that a write has to look at.
const ON_WRITE: Seals = Seals::GROW.union(Seals::WRITE).union(Seals::FUTURE_WRITE);

/// Seals against changes of the bytes.
const ON_BYTES: Seals = Seals::WRITE.union(Seals::FUTURE_WRITE);

impl Data {
    /// Makes an empty file. Does not allocate.
    pub(super) fn new(space: Space, seals: Seals) -> Self {
        Data {
            contents: Contents::new(space.clone()),
            shared: None,
            seals,
            is_usual: !seals.intersects(ON_WRITE),
            space,
        }
    }

    pub(super) fn set_seals(&mut self, seals: Seals) {
        self.seals = seals;
        self.is_usual = self.shared.is_none() && !seals.intersects(ON_WRITE);
    }

    /// Returns the length in bytes, at most `i64::MAX`.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        match &self.shared {
            None => self.contents.len(),
            Some(shared) => shared.usage().len,
        }
    }

    /// Returns the length, and the number of pages with memory.
    pub(super) fn usage(&self) -> MemoryUsage {
        match &self.shared {
            None => MemoryUsage {
                len: self.contents.len(),
                pages: self.contents.pages(),
                ..MemoryUsage::default()
            },
            Some(shared) => shared.usage(),
        }
    }

    /// Returns the bytes in memory of the embedder, if they are there.
    pub(super) fn shared(&self) -> Option<&SharedBytes> {
        self.shared.as_ref()
    }

    /// Returns the bytes, if they are in memory of this library.
    #[inline]
    pub(super) fn readable(&self) -> Option<&Contents> {
        match self.shared {
            None => Some(&self.contents),
            Some(_) => None,
        }
    }

    /// Returns the bytes, if they are in memory of this library and a write need not look at seals.
    #[inline]
    pub(super) fn writable(&mut self) -> Option<&mut Contents> {
        self.is_usual.then_some(&mut self.contents)
    }

    /// Copies the bytes at `offset` into `buf`, and returns how many: 0 at the end and after it.
    ///
    /// # Errors
    /// Those of the embedder.
    #[inline]
    pub(super) fn copy_out(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        match &self.shared {
            None => Ok(self.contents.copy_out(offset, buf)),
            Some(shared) => shared.memory().read_at(buf, offset),
        }
    }

    /// Copies `bytes` to position `at`, and returns how many were below `limit` and found memory.
    /// What lies between the end of the file and `at` becomes a hole.
    ///
    /// # Errors
    /// `EFBIG` if not even the first is below the limit; `EPERM` if the file is sealed; `ENOSPC`,
    /// `ENOMEM` if it finds no memory.
    #[inline]
    pub(super) fn copy_in(&mut self, limit: u64, at: u64, bytes: &[u8]) -> Result<usize, Errno> {
        match self.writable() {
            Some(contents) => contents.copy_in(limit, at, bytes),
            None => self.copy_in_checked(limit, at, bytes),
        }
    }

    #[cold]
    fn copy_in_checked(&mut self, limit: u64, at: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let bytes = &bytes[..self.unsealed(limit, at, bytes.len())?];
        match &mut self.shared {
            None => self.contents.copy_in(limit, at, bytes),
            Some(shared) => shared.write_at(limit, at, bytes),
        }
    }

    /// Returns how many of `count` bytes at `at` the seals allow to write. If the file cannot grow,
    /// a write stops at the end of a page, as on Linux, and not at the end of the file.
    ///
    /// # Errors
    /// `EPERM` if there are none.
    #[inline]
    pub(super) fn unsealed(&self, limit: u64, at: u64, count: usize) -> Result<usize, Errno> {
        if count == 0 || at >= limit || !self.seals.intersects(ON_WRITE) {
            return Ok(count);
        }
        if self.seals.intersects(ON_BYTES) {
            return Err(Errno::EPERM);
        }
        let len = self.len();
        if at.saturating_add(count as u64) <= len {
            return Ok(count);
        }
        match (len / PAGE * PAGE).saturating_sub(at) {
            0 => Err(Errno::EPERM),
            below => Ok(below as usize),
        }
    }

    /// Sets the length. New bytes are a hole.
    ///
    /// # Errors
    /// `EPERM` if the file is sealed; those of the embedder.
    pub(super) fn set_len(&mut self, len: u64) -> Result<(), Errno> {
        if self.seals.intersects(Seals::SHRINK | Seals::GROW) {
            let now = self.len();
            let shrinks = len < now && self.seals.contains(Seals::SHRINK);
            if shrinks || len > now && self.seals.contains(Seals::GROW) {
                return Err(Errno::EPERM);
            }
        }
        match &mut self.shared {
            None => {
                self.contents.set_len(len);
                Ok(())
            }
            Some(shared) => shared.set_len(len),
        }
    }

    /// Empties the file and frees its memory. Existing mappings keep theirs.
    pub(super) fn free(&mut self) {
        self.contents.clear();
        self.shared = None;
    }

    /// Takes memory for the bytes from `from` to `to` that have none, and fills it with zeros.
    /// `extends`: makes the file at least as long. Returns true if it became longer.
    ///
    /// # Errors
    /// `EPERM` if the file is sealed; `ENOSPC` if there is not enough memory.
    pub(super) fn allocate(&mut self, from: u64, to: u64, extends: bool) -> Result<bool, Errno> {
        let len = self.len();
        if to > len && self.seals.contains(Seals::GROW) {
            return Err(Errno::EPERM);
        }
        let grows = extends && to > len;
        match &mut self.shared {
            None => {
                self.contents.allocate(from, to)?;
                if grows {
                    self.contents.extend(to);
                }
            }
            Some(shared) => {
                shared.allocate(from, to)?;
                if grows {
                    shared.set_len(to)?;
                }
            }
        }
        Ok(grows)
    }

    /// Makes the bytes from `from` to `to` zeros, and frees the pages that lie between them whole.
    /// Leaves the length as it is.
    ///
    /// # Errors
    /// `EPERM` if the file is sealed; `ENOMEM`, and nothing has changed; those of the embedder.
    pub(super) fn punch(&mut self, from: u64, to: u64) -> Result<(), Errno> {
        if self.seals.intersects(ON_BYTES) {
            return Err(Errno::EPERM);
        }
        match &mut self.shared {
            None => self.contents.punch(from, to),
            Some(shared) => shared.punch(from, to),
        }
    }

    /// Returns the first position at or after `from` that is no hole; nothing if there is none.
    pub(super) fn next_data(&self, from: u64) -> Option<u64> {
        match &self.shared {
            None => self.contents.next_data(from),
            Some(shared) => shared.memory().next_data(from),
        }
    }

    /// Returns the first position at or after `from` that is a hole, or the end of the file;
    /// nothing if that is before.
    pub(super) fn next_hole(&self, from: u64) -> Option<u64> {
        match &self.shared {
            None => self.contents.next_hole(from),
            Some(shared) => shared.memory().next_hole(from),
        }
    }

    pub(super) fn seals(&self) -> Seals {
        self.seals
    }

    /// Adds seals. `executable`: the file has permissions to execute.
    ///
    /// # Errors
    /// `EPERM` if no seal can be added; `EBUSY` for [`Seals::WRITE`] if a mapping can write.
    pub(super) fn add_seals(&mut self, seals: Seals, executable: bool) -> Result<(), Errno> {
        if self.seals.contains(Seals::SEAL) {
            return Err(Errno::EPERM);
        }
        let seals = match seals.contains(Seals::EXEC) && executable {
            true => seals | Seals::CONTENTS,
            false => seals,
        };
        if let Some(shared) = &self.shared {
            shared.memory().add_seals(seals & Seals::CONTENTS)?;
        }
        self.set_seals(self.seals | seals);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn contents(&mut self) -> &mut Contents {
        &mut self.contents
    }

    /// Returns the memory of the embedder with the bytes, if they are shared.
    pub(super) fn memory(&self) -> Option<Arc<dyn SharedMemory>> {
        self.shared
            .as_ref()
            .map(|shared| Arc::clone(shared.memory()))
    }

    /// Moves the bytes into memory that `make` returns, unless they are shared already.
    ///
    /// # Errors
    /// Those of `make` and of the memory; the bytes stay where they are.
    pub(super) fn share(
        &mut self,
        make: &dyn Fn() -> Result<Arc<dyn SharedMemory>, Errno>,
    ) -> Result<Arc<dyn SharedMemory>, Errno> {
        if let Some(memory) = self.memory() {
            return Ok(memory);
        }
        let memory = make()?;
        self.contents.copy_to(&*memory)?;
        memory.add_seals(self.seals & Seals::CONTENTS)?;
        // Counts the pages once, not twice.
        self.contents.clear();
        self.shared = Some(SharedBytes::new(Arc::clone(&memory), self.space.clone()));
        self.is_usual = false;
        Ok(memory)
    }
}
