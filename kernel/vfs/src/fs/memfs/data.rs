//! Bytes of a regular file, with their seals: in memory of this library, of the embedder, or in a
//! lower file.
//!
//! The bytes begin in [`Contents`], or in a lower file ([`LowerContents`]). When they are first
//! shared, so that a program can map them, they move into [`SharedBytes`] and stay there. The usual
//! file, which is in memory, not shared and not sealed, costs one branch in each transfer.
//!
//! # Copy-up
//!
//! The first change of a file whose bytes are in a lower file copies them to memory, without the
//! holes, under the lock of the file that every change holds. A truncation copies what remains. If
//! the copy fails, nothing has changed. Transfers look at the place of the bytes each time, so open
//! files see the change, whenever they were opened.

use std::sync::Arc;

use super::contents::Contents;
use super::limits::{PAGE, Space};
use super::lower_contents::LowerContents;
use super::shared::SharedBytes;
use crate::Errno;
use crate::fs::{LowerBytes, MemoryUsage, Seals, SharedMemory};

/// Bytes of a file.
#[derive(Debug)]
pub(super) struct Data {
    /// The bytes; empty if they are elsewhere.
    contents: Contents,
    place: Place,
    seals: Seals,
    /// In `contents`, and without seals of [`ON_WRITE`].
    is_usual: bool,
    space: Space,
}

/// Location of the bytes of a file.
#[derive(Debug)]
enum Place {
    /// In memory of this library.
    Contents,
    /// In memory of the embedder.
    Shared(SharedBytes),
    /// In a lower file, which does not change.
    Lower(LowerContents),
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
            place: Place::Contents,
            seals,
            is_usual: !seals.intersects(ON_WRITE),
            space,
        }
    }

    /// Has the bytes of a new file be those of a lower one.
    pub(super) fn over(mut self, lower: LowerContents) -> Self {
        self.put(Place::Lower(lower));
        self
    }

    fn put(&mut self, place: Place) {
        self.place = place;
        self.set_seals(self.seals);
    }

    pub(super) fn set_seals(&mut self, seals: Seals) {
        self.seals = seals;
        self.is_usual = matches!(self.place, Place::Contents) && !seals.intersects(ON_WRITE);
    }

    /// Returns the length in bytes, at most `i64::MAX`.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        match &self.place {
            Place::Contents => self.contents.len(),
            Place::Shared(shared) => shared.usage().len,
            Place::Lower(lower) => lower.len(),
        }
    }

    /// Returns the length, and the number of pages with memory.
    pub(super) fn usage(&self) -> MemoryUsage {
        match &self.place {
            Place::Contents => MemoryUsage {
                len: self.contents.len(),
                pages: self.contents.pages(),
                ..MemoryUsage::default()
            },
            Place::Shared(shared) => shared.usage(),
            Place::Lower(lower) => lower.usage(),
        }
    }

    /// Returns the bytes in memory of the embedder, if they are there.
    pub(super) fn shared(&self) -> Option<&SharedBytes> {
        match &self.place {
            Place::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// Returns the lower file that has the bytes, if it does and is open.
    pub(super) fn lower(&self) -> Option<Arc<dyn LowerBytes>> {
        match &self.place {
            Place::Lower(lower) => lower.opened(),
            _ => None,
        }
    }

    /// Opens the lower file that has the bytes, if it does. Returns true then.
    ///
    /// # Errors
    /// Errors of the lower file.
    pub(super) fn open_lower(&mut self) -> Result<bool, Errno> {
        match &mut self.place {
            Place::Lower(lower) => lower.open().map(|()| true),
            _ => Ok(false),
        }
    }

    /// Closes the lower file that has the bytes. Returns true if they are still there.
    pub(super) fn close_lower(&mut self) -> bool {
        match &mut self.place {
            Place::Lower(lower) => {
                lower.close();
                true
            }
            _ => false,
        }
    }

    /// Copies the bytes of a lower file to memory, up to a position, before they change.
    ///
    /// # Errors
    /// Errors of the lower file; `EIO` if it has fewer bytes than it had; `ENOSPC`, `ENOMEM` if
    /// there is no memory. Nothing has changed then.
    fn copy_up(&mut self, end: u64) -> Result<(), Errno> {
        let Place::Lower(lower) = &self.place else {
            return Ok(());
        };
        let contents = &mut self.contents;
        let put = |bytes: &[u8], at| contents.copy_in(i64::MAX as u64, at, bytes);
        if let Err(errno) = lower.copy_to(end, put) {
            self.contents.clear();
            return Err(errno);
        }
        self.contents.extend(lower.len().min(end));
        self.put(Place::Contents);
        Ok(())
    }

    /// Returns the bytes, if they are in memory of this library.
    #[inline]
    pub(super) fn readable(&self) -> Option<&Contents> {
        match self.place {
            Place::Contents => Some(&self.contents),
            _ => None,
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
    /// Errors of the embedder.
    #[inline]
    pub(super) fn copy_out(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        match &self.place {
            Place::Contents => Ok(self.contents.copy_out(offset, buf)),
            Place::Shared(shared) => shared.memory().read_at(buf, offset),
            Place::Lower(lower) => lower.copy_out(offset, buf),
        }
    }

    /// Copies `bytes` to position `at`, and returns how many were below `limit` and found memory.
    /// The range from the end of the file to `at` becomes a hole.
    ///
    /// # Errors
    /// `EFBIG` if not even the first is below the limit; `EPERM` if the file is sealed; `ENOSPC`,
    /// `ENOMEM` if it finds no memory; those of a lower file.
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
        if !bytes.is_empty() && at < limit {
            self.copy_up(u64::MAX)?;
        }
        match &mut self.place {
            Place::Shared(shared) => shared.write_at(limit, at, bytes),
            _ => self.contents.copy_in(limit, at, bytes),
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
    /// `EPERM` if the file is sealed; those of the embedder, or of a lower file.
    pub(super) fn set_len(&mut self, len: u64) -> Result<(), Errno> {
        if self.seals.intersects(Seals::SHRINK | Seals::GROW) {
            let now = self.len();
            let shrinks = len < now && self.seals.contains(Seals::SHRINK);
            if shrinks || len > now && self.seals.contains(Seals::GROW) {
                return Err(Errno::EPERM);
            }
        }
        match &mut self.place {
            Place::Contents => self.contents.set_len(len),
            Place::Shared(shared) => shared.set_len(len)?,
            Place::Lower(lower) if lower.len() == len => {}
            Place::Lower(_) => {
                self.copy_up(len)?;
                self.contents.set_len(len);
            }
        }
        Ok(())
    }

    /// Empties the file and frees its memory. Existing mappings keep theirs.
    pub(super) fn free(&mut self) {
        self.contents.clear();
        self.put(Place::Contents);
    }

    /// Takes memory for the bytes from `from` to `to` that have none, and fills it with zeros.
    /// `extends`: makes the file at least as long. Returns true if it became longer.
    ///
    /// # Errors
    /// `EPERM` if the file is sealed; `ENOSPC` if there is not enough memory; those of a lower
    /// file.
    pub(super) fn allocate(&mut self, from: u64, to: u64, extends: bool) -> Result<bool, Errno> {
        let len = self.len();
        if to > len && self.seals.contains(Seals::GROW) {
            return Err(Errno::EPERM);
        }
        let grows = extends && to > len;
        self.copy_up(u64::MAX)?;
        if let Place::Shared(shared) = &mut self.place {
            shared.allocate(from, to)?;
            if grows {
                shared.set_len(to)?;
            }
        } else {
            self.contents.allocate(from, to)?;
            if grows {
                self.contents.extend(to);
            }
        }
        Ok(grows)
    }

    /// Makes the bytes from `from` to `to` zeros, and frees the pages that lie between them whole.
    /// Leaves the length as it is.
    ///
    /// # Errors
    /// `EPERM` if the file is sealed; `ENOMEM`, and nothing has changed; those of the embedder, or
    /// of a lower file.
    pub(super) fn punch(&mut self, from: u64, to: u64) -> Result<(), Errno> {
        if self.seals.intersects(ON_BYTES) {
            return Err(Errno::EPERM);
        }
        self.copy_up(u64::MAX)?;
        match &mut self.place {
            Place::Shared(shared) => shared.punch(from, to),
            _ => self.contents.punch(from, to),
        }
    }

    /// Returns the first position at or after `from` that is no hole; nothing if there is none.
    ///
    /// # Errors
    /// Errors of a lower file.
    pub(super) fn next_data(&self, from: u64) -> Result<Option<u64>, Errno> {
        match &self.place {
            Place::Contents => Ok(self.contents.next_data(from)),
            Place::Shared(shared) => Ok(shared.memory().next_data(from)),
            Place::Lower(lower) => lower.next_data(from),
        }
    }

    /// Returns the first position at or after `from` that is a hole, or the end of the file;
    /// nothing if that is before.
    ///
    /// # Errors
    /// Errors of a lower file.
    pub(super) fn next_hole(&self, from: u64) -> Result<Option<u64>, Errno> {
        match &self.place {
            Place::Contents => Ok(self.contents.next_hole(from)),
            Place::Shared(shared) => Ok(shared.memory().next_hole(from)),
            Place::Lower(lower) => lower.next_hole(from),
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
        if let Place::Shared(shared) = &self.place {
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
        self.shared().map(|shared| Arc::clone(shared.memory()))
    }

    /// Moves the bytes into memory that `make` returns, unless they are shared already.
    ///
    /// # Errors
    /// Errors of `make`, of the memory and of a lower file; `ENOSPC` if its pages are not free. The
    /// bytes stay where they are.
    pub(super) fn share(
        &mut self,
        make: &dyn Fn() -> Result<Arc<dyn SharedMemory>, Errno>,
    ) -> Result<Arc<dyn SharedMemory>, Errno> {
        if let Some(memory) = self.memory() {
            return Ok(memory);
        }
        let memory = make()?;
        match &self.place {
            Place::Lower(lower) => {
                copy_to_shared(lower, &*memory, &self.space)?;
                memory.set_len(lower.len())?;
            }
            _ => self.contents.copy_to(&*memory)?,
        }
        memory.add_seals(self.seals & Seals::CONTENTS)?;
        // Counts the pages once, not twice.
        self.contents.clear();
        let shared = SharedBytes::new(Arc::clone(&memory), self.space.clone());
        self.put(Place::Shared(shared));
        Ok(memory)
    }
}

/// Copies all bytes of a lower file to memory of the embedder. Its pages are counted until the end
/// of the copy, so that a large file does not take all memory.
///
/// # Errors
/// Errors of [`LowerContents::copy_to`] and of the memory; `ENOSPC` if the pages are not free.
fn copy_to_shared(
    lower: &LowerContents,
    memory: &dyn SharedMemory,
    space: &Space,
) -> Result<(), Errno> {
    let mut counted = 0;
    let mut first_uncounted = 0;
    let copied = lower.copy_to(u64::MAX, |bytes, at| {
        let end = (at + bytes.len() as u64).div_ceil(PAGE);
        let pages = end.saturating_sub(first_uncounted.max(at / PAGE));
        space.charge(pages)?;
        counted += pages;
        first_uncounted = end;
        memory.write_at(bytes, at)
    });
    space.uncharge(counted);
    copied
}
