//! Bytes of a regular file, without memory for its holes.
//!
//! The bytes are in *extents*: runs of whole pages, each in one vector that begins at a page. The
//! first extent begins at 0 and exists always, so a file without holes is one vector, as long as it
//! is short. The vector of an extent may end inside of its last page, whose other bytes are zeros.
//! Extents share no page, and what lies between them is a hole. An extent grows until the next one
//! or [`EXTENT`]; what comes after it is another extent.

use std::collections::BTreeMap;
use std::iter;

use super::limits::{PAGE, Space};
use crate::Errno;
use crate::fs::SharedMemory;

/// Most bytes of an extent: 16 MiB. It bounds what a punched hole copies.
const EXTENT: u64 = 16 << 20;

/// Bytes of a hole.
static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// Bytes of a file.
#[derive(Debug)]
pub(super) struct Contents {
    len: u64,
    /// The extent at 0.
    head: Vec<u8>,
    /// The extents after it, by the position where they begin.
    rest: BTreeMap<u64, Vec<u8>>,
    /// Pages of all extents, which are counted in `space`.
    pages: u64,
    space: Space,
}

/// Destination of a write.
enum Place {
    /// Into the extent that begins here, or after its end.
    In { start: u64, room: u64 },
    /// To a new extent that begins here. `follows`: directly after a full one.
    New {
        start: u64,
        room: u64,
        follows: bool,
    },
}

impl Contents {
    /// Makes an empty file. Does not allocate.
    pub(super) fn new(space: Space) -> Self {
        Contents {
            len: 0,
            head: Vec::new(),
            rest: BTreeMap::new(),
            pages: 0,
            space,
        }
    }

    /// Returns the length in bytes, at most `i64::MAX`.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the number of pages with memory.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns true if a write of `count` bytes needs no memory and leaves no hole.
    #[inline]
    pub(super) fn has_memory_for(&self, at: u64, count: usize) -> bool {
        let end = at + count as u64;
        if end <= self.head.len() as u64 {
            return true;
        }
        match self.place(at) {
            Place::In { start, room } => {
                let (_, extent) = self.extent_before(at);
                at <= self.len
                    && at - start <= extent.len() as u64
                    && count as u64 <= room
                    && end - start <= extent.capacity() as u64
            }
            Place::New { .. } => false,
        }
    }

    /// Copies the bytes at `offset` into `buf`, and returns how many: 0 at the end and after it.
    #[inline]
    pub(super) fn copy_out(&self, offset: u64, buf: &mut [u8]) -> usize {
        let count = clipped(self.len.saturating_sub(offset), buf.len());
        let end = offset.saturating_add(count as u64);
        if end <= self.head.len() as u64 {
            let start = offset as usize;
            buf[..count].copy_from_slice(&self.head[start..start + count]);
        } else {
            self.copy_out_of_extents(offset, &mut buf[..count]);
        }
        count
    }

    /// Fills `buf` with the bytes at `offset`, which are below the end of the file.
    fn copy_out_of_extents(&self, mut offset: u64, mut buf: &mut [u8]) {
        while !buf.is_empty() {
            let (start, extent) = self.extent_before(offset);
            let count = match extent
                .get(clipped(offset - start, usize::MAX)..)
                .filter(|bytes| !bytes.is_empty())
            {
                Some(bytes) => {
                    let count = bytes.len().min(buf.len());
                    buf[..count].copy_from_slice(&bytes[..count]);
                    count
                }
                None => {
                    let hole = self.next_start(offset) - offset;
                    let count = clipped(hole, buf.len());
                    buf[..count].fill(0);
                    count
                }
            };
            offset += count as u64;
            buf = &mut buf[count..];
        }
    }

    /// Copies `bytes` to position `at`, and returns how many were below `limit` and found memory.
    /// The range from the end of the file to `at` becomes a hole.
    ///
    /// # Errors
    /// `EFBIG` if not even the first is below the limit; `ENOSPC`, `ENOMEM` if it finds no memory.
    #[inline]
    pub(super) fn copy_in(&mut self, limit: u64, at: u64, bytes: &[u8]) -> Result<usize, Errno> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if at >= limit {
            return Err(Errno::EFBIG);
        }
        let bytes = &bytes[..clipped(limit - at, bytes.len())];
        if at + bytes.len() as u64 <= self.head.len() as u64 {
            let start = at as usize;
            self.head[start..start + bytes.len()].copy_from_slice(bytes);
            self.len = self.len.max(at + bytes.len() as u64);
            return Ok(bytes.len());
        }
        let mut done = 0;
        while done < bytes.len() {
            match self.copy_in_part(at + done as u64, &bytes[done..]) {
                Ok(count) => done += count,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        self.len = self.len.max(at + done as u64);
        Ok(done)
    }

    /// Copies to one extent, and returns how many bytes. Leaves the length as it is.
    fn copy_in_part(&mut self, at: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let put = match self.place(at) {
            Place::In { start, room } => {
                let bytes = &bytes[..clipped(room, bytes.len())];
                let (_, extent) = before_mut(&mut self.head, &mut self.rest, at);
                put(extent, (at - start) as usize, bytes, 0, &self.space)?
            }
            Place::New {
                start,
                room,
                follows,
            } => {
                let bytes = &bytes[..clipped(room, bytes.len())];
                // A file that is written from front to back takes its memory in large pieces.
                let reserved = if follows { room + (at - start) } else { 0 };
                let mut extent = Vec::new();
                let from = (at - start) as usize;
                let put = put(&mut extent, from, bytes, reserved as usize, &self.space)?;
                self.rest.insert(start, extent);
                put
            }
        };
        self.pages += put.pages;
        Ok(put.count)
    }

    /// Sets the length, and frees the memory above it.
    pub(super) fn set_len(&mut self, len: u64) {
        if len == 0 {
            self.clear();
            return;
        }
        let gone = self.rest.split_off(&len);
        let mut freed: u64 = gone.values().map(|extent| pages(extent.len())).sum();
        let (start, extent) = before_mut(&mut self.head, &mut self.rest, len);
        freed += cut(extent, clipped(len - start, usize::MAX));
        self.len = len;
        self.free(freed);
    }

    /// Makes the file at least `len` bytes long. New bytes without memory are a hole.
    pub(super) fn extend(&mut self, len: u64) {
        self.len = self.len.max(len);
    }

    /// Empties the file and frees its memory.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.head = Vec::new();
        self.rest = BTreeMap::new();
        self.free(self.pages);
    }

    /// Copies everything to memory of the embedder, which is empty, with the same holes.
    ///
    /// # Errors
    /// Errors of the embedder's `write_at`; `ENOSPC` if the memory takes no bytes.
    pub(super) fn copy_to(&self, memory: &dyn SharedMemory) -> Result<(), Errno> {
        let mut end = 0;
        for (start, extent) in iter::once((0, &self.head)).chain(self.extents_after_head()) {
            let mut done = 0;
            while done < extent.len() {
                match memory.write_at(&extent[done..], start + done as u64)? {
                    0 => return Err(Errno::ENOSPC),
                    count => done += count,
                }
            }
            end = start + extent.len() as u64;
        }
        memory.set_len(self.len)?;
        // Memory that was allocated after the end of the file went with the length.
        let kept = round_up(self.len);
        if kept < end {
            memory.allocate(kept, end)?;
        }
        Ok(())
    }

    fn extents_after_head(&self) -> impl Iterator<Item = (u64, &Vec<u8>)> {
        self.rest.iter().map(|(&start, extent)| (start, extent))
    }

    /// Takes memory for the bytes from `from` to `to` that have none, and fills it with zeros.
    /// Leaves the length as it is.
    ///
    /// # Errors
    /// `ENOSPC` if there is not enough.
    pub(super) fn allocate(&mut self, from: u64, to: u64) -> Result<(), Errno> {
        let missing = self.missing(from, to);
        // Refuse what is far too much before any of it is taken.
        self.space.charge(missing)?;
        self.space.uncharge(missing);
        let bytes = usize::try_from(missing.saturating_mul(PAGE)).map_err(|_| Errno::ENOSPC)?;
        let trial = Vec::<u8>::new().try_reserve_exact(bytes);
        trial.map_err(|_| Errno::ENOSPC)?;
        let mut at = from;
        while at < to {
            let (start, extent) = self.extent_before(at);
            let end = start + extent.len() as u64;
            if at < end {
                at = end;
                continue;
            }
            let count = (self.next_start(at).min(to) - at).min(PAGE) as usize;
            let done = self.copy_in_part(at, &ZEROS[..count]);
            at += done.map_err(|_| Errno::ENOSPC)? as u64;
        }
        Ok(())
    }

    /// Returns the number of pages between two positions that have no memory.
    fn missing(&self, from: u64, to: u64) -> u64 {
        let (mut at, end) = (from / PAGE * PAGE, round_up(to));
        let mut missing = 0;
        while at < end {
            let (start, extent) = self.extent_before(at);
            let covered = round_up(start + extent.len() as u64);
            if at < covered {
                at = covered;
                continue;
            }
            let next = self.next_start(at).min(end);
            missing += (next - at) / PAGE;
            at = next;
        }
        missing
    }

    /// Makes the bytes from `from` to `to` zeros, and frees the pages that lie between them whole.
    /// Leaves the length as it is.
    ///
    /// # Errors
    /// `ENOMEM`; nothing has changed.
    pub(super) fn punch(&mut self, from: u64, to: u64) -> Result<(), Errno> {
        let (first, last) = (round_up(from), to / PAGE * PAGE);
        if first < last {
            self.remove_pages(first, last)?;
        }
        self.zero(from, first.min(to));
        self.zero(last.max(from), to);
        Ok(())
    }

    /// Removes the pages from `from` to `to`; both are at pages.
    fn remove_pages(&mut self, from: u64, to: u64) -> Result<(), Errno> {
        // The last extent may go on after the hole.
        let (start, extent) = self.extent_before(to - 1);
        let mut after = Vec::new();
        if let Some(kept) = extent.get(clipped(to - start, usize::MAX)..) {
            after.try_reserve_exact(kept.len()).or(Err(Errno::ENOMEM))?;
            after.extend_from_slice(kept);
        }
        let freed = (to - from) / PAGE - self.missing(from, to);
        while let Some((&start, _)) = self.rest.range(from..to).next() {
            self.rest.remove(&start);
        }
        let (start, extent) = before_mut(&mut self.head, &mut self.rest, from);
        cut(extent, clipped(from - start, usize::MAX));
        if !after.is_empty() {
            self.rest.insert(to, after);
        }
        self.free(freed);
        Ok(())
    }

    /// Fills the bytes from `from` to `to` that have memory with zeros.
    fn zero(&mut self, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let next = self.next_start(at).min(to);
            let (start, extent) = before_mut(&mut self.head, &mut self.rest, at);
            let len = extent.len();
            extent[clipped(at - start, len)..clipped(next - start, len)].fill(0);
            at = next;
        }
    }

    /// Returns the first position at or after `from` that is no hole; nothing if there is none.
    pub(super) fn next_data(&self, from: u64) -> Option<u64> {
        let (start, extent) = self.extent_before(from);
        let found = if from < round_up(start + extent.len() as u64) {
            from
        } else {
            self.next_start(from)
        };
        Some(found).filter(|&found| found < self.len)
    }

    /// Returns the first position at or after `from` that is a hole, or the end of the file;
    /// nothing if that is before.
    pub(super) fn next_hole(&self, from: u64) -> Option<u64> {
        let mut at = from;
        while at < self.len {
            let (start, extent) = self.extent_before(at);
            let end = round_up(start + extent.len() as u64);
            if at >= end {
                break;
            }
            at = end;
        }
        (from < self.len).then(|| at.min(self.len))
    }

    /// Returns where a write at `at` goes. Each position after the last byte of an extent, and in
    /// its last page or the next one, belongs to it, as far as it may grow.
    fn place(&self, at: u64) -> Place {
        let (start, extent) = self.extent_before(at);
        let next = self.next_start(at);
        let page = at / PAGE * PAGE;
        let end = round_up(extent.len() as u64);
        if page - start <= end && at - start < EXTENT {
            let room = next.min(start + EXTENT) - at;
            return Place::In { start, room };
        }
        Place::New {
            start: page,
            room: next.min(page + EXTENT) - at,
            follows: page - start == EXTENT && end == EXTENT,
        }
    }

    /// Returns the last extent that begins at or before `at`.
    fn extent_before(&self, at: u64) -> (u64, &Vec<u8>) {
        match self.rest.range(..=at).next_back() {
            Some((&start, extent)) => (start, extent),
            None => (0, &self.head),
        }
    }

    /// Returns where the first extent after `at` begins; `u64::MAX` if there is none.
    fn next_start(&self, at: u64) -> u64 {
        let mut later = self.rest.range(at.saturating_add(1)..);
        later.next().map_or(u64::MAX, |(&start, _)| start)
    }

    /// Counts `pages` less, which are freed.
    fn free(&mut self, pages: u64) {
        self.space.uncharge(pages);
        self.pages -= pages;
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        self.space.uncharge(self.pages);
    }
}

/// Returns the last extent that begins at or before `at`.
fn before_mut<'e>(
    head: &'e mut Vec<u8>,
    rest: &'e mut BTreeMap<u64, Vec<u8>>,
    at: u64,
) -> (u64, &'e mut Vec<u8>) {
    match rest.range_mut(..=at).next_back() {
        Some((&start, extent)) => (start, extent),
        None => (0, head),
    }
}

/// Number of bytes that were put into an extent, and of its new pages.
struct Put {
    /// Bytes.
    count: usize,
    /// Number of pages that the extent takes more.
    pages: u64,
}

/// Copies `bytes` to position `from` of an extent, with zeros before it, as far as there is space.
/// Makes the extent large enough for `reserved` bytes.
///
/// # Errors
/// `ENOSPC` if there is no space for the first byte, `ENOMEM` if there is no memory; nothing has
/// changed.
fn put(
    extent: &mut Vec<u8>,
    from: usize,
    bytes: &[u8],
    reserved: usize,
    space: &Space,
) -> Result<Put, Errno> {
    let before = extent.len();
    let after = before.max(from + bytes.len());
    let wanted = pages(after) - pages(before);
    let more = space.charge_up_to(wanted);
    let end = match more == wanted {
        true => after,
        false => clipped((pages(before) + more) * PAGE, after),
    };
    let count = bytes.len().min(end.saturating_sub(from));
    if count == 0 || extent.try_reserve(reserved.max(end) - before).is_err() {
        space.uncharge(more);
        return Err(if count == 0 {
            Errno::ENOSPC
        } else {
            Errno::ENOMEM
        });
    }
    if before < from {
        extent.resize(from, 0);
    }
    let bytes = &bytes[..count];
    let (over, new) = bytes.split_at(count.min(extent.len() - from));
    extent[from..from + over.len()].copy_from_slice(over);
    extent.extend_from_slice(new);
    Ok(Put { count, pages: more })
}

/// Shortens an extent, and returns how many pages it takes less.
fn cut(extent: &mut Vec<u8>, len: usize) -> u64 {
    let before = pages(extent.len());
    extent.truncate(len);
    if extent.capacity() / 2 > extent.len() {
        extent.shrink_to_fit();
    }
    before - pages(extent.len())
}

/// Returns `count`, or `most` if that is less.
fn clipped(count: u64, most: usize) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX).min(most)
}

/// Returns the number of pages that `len` bytes take.
fn pages(len: usize) -> u64 {
    (len as u64).div_ceil(PAGE)
}

/// Returns the end of the page before `at`, or `at` if it is at a page.
fn round_up(at: u64) -> u64 {
    at.saturating_add(PAGE - 1) / PAGE * PAGE
}

#[cfg(test)]
impl Contents {
    /// Takes memory for `count` bytes more at the end of the first extent.
    pub(super) fn reserve(&mut self, count: usize) {
        self.head.reserve(count);
    }

    /// Returns how many bytes the extents have memory for.
    pub(super) fn capacity(&self) -> usize {
        let rest: usize = self.rest.values().map(Vec::capacity).sum();
        self.head.capacity() + rest
    }
}

#[cfg(test)]
mod tests;
