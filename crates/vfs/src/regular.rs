//! Regular files in memory: an inode with the bytes, open files with a position each.
//!
//! Legend of the locks, in the order in which they are taken:
//! - `RegularFile::offset` guards the position of one open file. A transfer holds it to its end,
//!   so that calls on a shared open file each get a part of their own (Linux `f_pos_lock`).
//! - `Inode::data` guards the bytes.
//! - `Inode::holders` guards what keeps the bytes, and nothing is taken under it but `data`.
//!
//! The bytes go when the name is gone and the last open file is released, at once, and not with
//! the memory of that open file, for which a grace period has to end. A transfer that found the
//! file without a reference looks once more when it holds the bytes' lock, and answers `EBADF`.
//!
//! The `try_` forms take both without waiting, do only short copies and never get memory; all else
//! they leave to the waiting forms, with `EAGAIN`.

use std::io::SeekFrom;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use crate::stat::{FileKind, Stat};
use crate::{Errno, Object, OpenFlags, inode_number};

/// Size limit of a file in bytes, unless its file system says otherwise: 256 MiB.
pub const DEFAULT_LIMIT: usize = 256 << 20;

/// Most bytes that a `try_` form copies: 65,536. A grace period waits for the copy.
const SHORT_COPY: usize = 64 << 10;

/// Bytes of a file, apart from who has it open.
#[derive(Debug)]
pub struct Inode {
    number: u64,
    data: RwLock<Vec<u8>>,
    limit: usize,
    holders: Mutex<Holders>,
}

/// What keeps the bytes of an inode.
#[derive(Debug)]
struct Holders {
    /// It has a name. There are no links, so it never has two.
    named: bool,
    /// Open files that are not released.
    open: usize,
}

impl Inode {
    /// Makes an empty file that has a name and may grow to `limit` bytes. Does not allocate.
    pub fn new(limit: usize) -> Self {
        Inode {
            number: inode_number::fresh(),
            data: RwLock::new(Vec::new()),
            limit,
            holders: Mutex::new(Holders {
                named: true,
                open: 0,
            }),
        }
    }

    /// Takes the name away: the bytes go with the last open file, or now. May wait for transfers.
    pub fn unlink(&self) {
        let mut holders = self.holders.lock();
        holders.named = false;
        self.end_if_unheld(&holders);
    }

    /// Takes part in keeping the bytes.
    ///
    /// # Errors
    /// `ENOENT` if they are gone, as if the look for the name had come after it went.
    fn hold(&self) -> Result<(), Errno> {
        let mut holders = self.holders.lock();
        if !holders.named && holders.open == 0 {
            return Err(Errno::ENOENT);
        }
        holders.open += 1;
        Ok(())
    }

    /// Gives up what [`hold`](Self::hold) took.
    fn let_go(&self) {
        let mut holders = self.holders.lock();
        holders.open -= 1;
        self.end_if_unheld(&holders);
    }

    fn end_if_unheld(&self, holders: &Holders) {
        if !holders.named && holders.open == 0 {
            self.truncate();
        }
    }

    /// Empties the file and gives its memory back. Waits for transfers.
    #[doc(alias = "O_TRUNC")]
    pub fn truncate(&self) {
        *self.data.write() = Vec::new();
    }

    /// Makes the file `length` bytes long, with zeros in what is new. Waits for transfers.
    ///
    /// # Errors
    /// `EFBIG` above the size limit; `ENOMEM`.
    #[doc(alias = "ftruncate")]
    pub fn set_len(&self, length: u64) -> Result<(), Errno> {
        let length = usize::try_from(length)
            .ok()
            .filter(|&length| length <= self.limit)
            .ok_or(Errno::EFBIG)?;
        let mut data = self.data.write();
        let growth = length.saturating_sub(data.len());
        data.try_reserve(growth).map_err(|_| Errno::ENOMEM)?;
        data.resize(length, 0);
        Ok(())
    }

    /// Describes the file. Waits for writers.
    pub fn stat(&self) -> Stat {
        Stat {
            inode: self.number,
            kind: FileKind::Regular,
            size: self.len() as u64,
        }
    }

    /// Returns the number of the inode, as in [`Stat::inode`].
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the length in bytes, at most the limit. Waits for writers.
    pub fn len(&self) -> usize {
        self.data.read().len()
    }

    /// Tells whether the file has no bytes. Waits for writers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Open regular file.
#[derive(Debug)]
pub struct RegularFile {
    inode: Arc<Inode>,
    /// At most `i64::MAX`.
    offset: Mutex<u64>,
    status: OpenFlags,
    /// What all operations answer once the file is released or revoked.
    ended: OnceLock<Errno>,
}

impl RegularFile {
    /// Opens `inode` at position 0. Of `flags`, the access mode and `O_APPEND` matter: a regular
    /// file never waits for anybody, so `O_NONBLOCK` has no effect (`open(2)`).
    ///
    /// # Errors
    /// `ENOENT` if the inode has lost its name, and nobody has it open.
    pub fn open(inode: Arc<Inode>, flags: OpenFlags) -> Result<Self, Errno> {
        inode.hold()?;
        let status = flags.status() - OpenFlags::NONBLOCK;
        Ok(RegularFile {
            inode,
            offset: Mutex::new(0),
            status,
            ended: OnceLock::new(),
        })
    }

    /// Returns where a write goes.
    fn write_position(&self, offset: u64, data: &[u8]) -> u64 {
        if self.status.contains(OpenFlags::APPEND) {
            data.len() as u64
        } else {
            offset
        }
    }

    fn check_readable(&self) -> Result<(), Errno> {
        self.check_not_ended()?;
        if self.status.can_read() {
            Ok(())
        } else {
            Err(Errno::EBADF)
        }
    }

    fn check_writable(&self) -> Result<(), Errno> {
        self.check_not_ended()?;
        if self.status.can_write() {
            Ok(())
        } else {
            Err(Errno::EBADF)
        }
    }

    /// Checks that the file is in use. What comes after it under the lock of the bytes sees bytes
    /// that are still held.
    fn check_not_ended(&self) -> Result<(), Errno> {
        self.ended.get().copied().map_or(Ok(()), Err)
    }

    /// Ends the use of the file, with the first answer that is given.
    fn end(&self, answer: Errno) {
        // First, so that who finds no bytes finds out why.
        if self.ended.set(answer).is_ok() {
            self.inode.let_go();
        }
    }
}

/// Ends a file that nobody has used: its file system did not take it.
impl Drop for RegularFile {
    fn drop(&mut self) {
        self.end(Errno::EBADF);
    }
}

impl Object for RegularFile {
    fn status(&self) -> OpenFlags {
        self.status
    }

    fn try_read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.check_readable()?;
        if buf.len() > SHORT_COPY {
            return Err(Errno::EAGAIN);
        }
        let mut offset = self.offset.try_lock().ok_or(Errno::EAGAIN)?;
        let data = self.inode.data.try_read().ok_or(Errno::EAGAIN)?;
        self.check_not_ended()?;
        let count = copy_out(&data, *offset, buf);
        *offset += count as u64;
        Ok(count)
    }

    fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.check_readable()?;
        let mut offset = self.offset.lock();
        let count = copy_out(&self.inode.data.read(), *offset, buf);
        *offset += count as u64;
        Ok(count)
    }

    /// # Errors
    /// `EBADF` if not open for writing; `EAGAIN` if it must wait, leave a hole or get memory.
    fn try_write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.check_writable()?;
        let mut offset = self.offset.try_lock().ok_or(Errno::EAGAIN)?;
        let mut data = self.inode.data.try_write().ok_or(Errno::EAGAIN)?;
        self.check_not_ended()?;
        let at = self.write_position(*offset, &data);
        if !is_short(&data, at, bytes.len()) {
            return Err(Errno::EAGAIN);
        }
        let count = copy_in(&mut data, self.inode.limit, at, bytes)?;
        *offset = at + count as u64;
        Ok(count)
    }

    /// # Errors
    /// `EBADF` if not open for writing; `EFBIG` if the position is at the size limit or above;
    /// `ENOMEM`.
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.check_writable()?;
        let mut offset = self.offset.lock();
        let mut data = self.inode.data.write();
        let at = self.write_position(*offset, &data);
        let count = copy_in(&mut data, self.inode.limit, at, bytes)?;
        *offset = at + count as u64;
        Ok(count)
    }

    fn try_read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.check_readable()?;
        let offset = position(offset)?;
        if buf.len() > SHORT_COPY {
            return Err(Errno::EAGAIN);
        }
        let data = self.inode.data.try_read().ok_or(Errno::EAGAIN)?;
        self.check_not_ended()?;
        Ok(copy_out(&data, offset, buf))
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.check_readable()?;
        let offset = position(offset)?;
        Ok(copy_out(&self.inode.data.read(), offset, buf))
    }

    /// Goes to the end of a file that is open for appending, as on Linux.
    ///
    /// # Errors
    /// Those of [`try_write`](Object::try_write); `EINVAL` if `offset` is above `i64::MAX`.
    fn try_write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.check_writable()?;
        let offset = position(offset)?;
        let mut data = self.inode.data.try_write().ok_or(Errno::EAGAIN)?;
        self.check_not_ended()?;
        let at = self.write_position(offset, &data);
        if !is_short(&data, at, bytes.len()) {
            return Err(Errno::EAGAIN);
        }
        copy_in(&mut data, self.inode.limit, at, bytes)
    }

    /// Goes to the end of a file that is open for appending, as on Linux.
    ///
    /// # Errors
    /// Those of [`write`](Object::write); `EINVAL` if `offset` is above `i64::MAX`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.check_writable()?;
        let offset = position(offset)?;
        let mut data = self.inode.data.write();
        let at = self.write_position(offset, &data);
        copy_in(&mut data, self.inode.limit, at, bytes)
    }

    fn set_len(&self, length: u64) -> Result<(), Errno> {
        self.check_not_ended()?;
        if !self.status.can_write() {
            return Err(Errno::EINVAL);
        }
        self.inode.set_len(length)
    }

    fn stat(&self) -> Result<Stat, Errno> {
        self.check_not_ended()?;
        Ok(self.inode.stat())
    }

    fn sync(&self) -> Result<(), Errno> {
        self.check_not_ended()
    }

    /// # Errors
    /// `EINVAL` if the position would be negative or above `i64::MAX` (Linux `vfs_setpos`). A
    /// position above the size limit is allowed; a write there answers `EFBIG`.
    fn seek(&self, to: SeekFrom) -> Result<u64, Errno> {
        self.check_not_ended()?;
        let mut offset = self.offset.lock();
        let moved = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(delta) => offset.checked_add_signed(delta),
            SeekFrom::End(delta) => (self.inode.len() as u64).checked_add_signed(delta),
        };
        *offset = position(moved.ok_or(Errno::EINVAL)?)?;
        Ok(*offset)
    }

    fn release(&self) {
        self.end(Errno::EBADF);
    }

    fn revoke(&self) {
        self.end(Errno::EIO);
    }
}

/// Checks that a position is at most `i64::MAX`.
fn position(offset: u64) -> Result<u64, Errno> {
    if offset > i64::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    Ok(offset)
}

/// Tells whether a write needs neither new memory nor more than a short copy.
fn is_short(data: &Vec<u8>, at: u64, count: usize) -> bool {
    count <= SHORT_COPY && at <= data.len() as u64 && at as usize + count <= data.capacity()
}

/// Copies what is at `offset` into `buf`, and returns how many bytes; 0 from the end on.
fn copy_out(data: &[u8], offset: u64, buf: &mut [u8]) -> usize {
    let start = usize::try_from(offset)
        .unwrap_or(usize::MAX)
        .min(data.len());
    let count = buf.len().min(data.len() - start);
    buf[..count].copy_from_slice(&data[start..start + count]);
    count
}

/// Copies `bytes` to position `at`, with zeros in a hole before it, and returns how many were
/// below `limit`.
fn copy_in(data: &mut Vec<u8>, limit: usize, at: u64, bytes: &[u8]) -> Result<usize, Errno> {
    if bytes.is_empty() {
        return Ok(0);
    }
    let start = usize::try_from(at)
        .ok()
        .filter(|&s| s < limit)
        .ok_or(Errno::EFBIG)?;
    let count = bytes.len().min(limit - start);
    let growth = (start + count).saturating_sub(data.len());
    data.try_reserve(growth).map_err(|_| Errno::ENOMEM)?;
    if data.len() < start {
        data.resize(start, 0);
    }
    let (over, after) = bytes[..count].split_at(count.min(data.len() - start));
    data[start..start + over.len()].copy_from_slice(over);
    data.extend_from_slice(after);
    Ok(count)
}

#[cfg(test)]
mod tests;
