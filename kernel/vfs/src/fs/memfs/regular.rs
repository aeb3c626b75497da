//! Regular files in memory: an inode with the bytes, and open files with a position each.
//!
//! The locks, in the order in which they are taken:
//! - `RegularFile::offset` guards the position of one open file. A transfer holds it to its end, so
//!   that calls on a shared open file transfer disjoint ranges (Linux `f_pos_lock`).
//! - `RegularInode::data` guards the bytes.
//! - `RegularInode::holders` guards the counts that keep the bytes. Inside it, only `data` is
//!   taken.
//! - The lock of `RegularInode::meta` is taken inside each of them.
//!
//! The bytes are freed when the last name and the last open file are gone. They do not wait for the
//! grace period that the memory of the open file needs. A transfer that found the file without a
//! reference checks once more under the lock of the bytes, and returns `EBADF`.
//!
//! A transfer inside a read-side section only tries the locks, does a short copy, and never
//! allocates. It leaves everything else to one outside, with `EAGAIN`: files whose bytes the
//! embedder has too.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::FileRef;
use fdtable_shm::{Mutex, MutexGuard, RwLock};

use super::contents::Contents;
use super::data::Data;
use super::limits::{FileLimits, PAGE};
use super::lower_contents::LowerContents;
use super::meta::{Device, Meta, Node};
use super::shared::SharedBytes;
use crate::fs::{
    Attributes, Credentials, Dentry, FallocateFlags, FileKind, Inode, LaterName, LockSet,
    LowerBytes, LowerFile, Mode, MountRef, Opening, Permissions, Seals, SeekTo, SharedMemory, Stat,
    VfsPath,
};
use crate::{Errno, Object, OpenFlags, RcuObject, RwFlags, Status, Transfer, TransferMode};

/// Most bytes that are copied inside a read-side section: 65,536. A grace period waits for that.
const SHORT_COPY: usize = 64 << 10;

/// Bits of the mode that allow to execute.
const EXECUTE: u32 = 0o111;

/// Inode of a regular file, with its bytes.
#[derive(Debug)]
pub(crate) struct RegularInode {
    meta: Meta,
    data: RwLock<Data>,
    /// Set when the embedder gets the bytes.
    is_shared: AtomicCell<bool>,
    /// Set as long as the bytes may be in a lower file.
    is_lower: AtomicCell<bool>,
    /// Size limit in bytes.
    limit: u64,
    holders: Mutex<Holders>,
    locks: LockSet,
}

/// Counts that keep the bytes of an inode.
#[derive(Debug)]
struct Holders {
    /// Number of names.
    links: u32,
    /// Open files that are not released.
    open: usize,
    /// Made without a name, and not linked since.
    is_new: bool,
    /// Permission to give the file a first name.
    later: LaterName,
    /// Directory in which it was made without a name, as long as it has none: `/proc` shows it.
    unnamed_in: Option<Arc<dyn Node>>,
}

impl Holders {
    fn hold(&self) -> bool {
        self.links > 0 || self.open > 0 || self.is_new
    }
}

impl RegularInode {
    /// Makes an empty file with one name, which cannot be sealed. Does not allocate.
    pub(super) fn new(device: Device, permissions: Permissions, limits: FileLimits) -> Self {
        let data = Data::new(limits.space, Seals::SEAL);
        Self::with(Meta::new(device, permissions), data, limits.size, 1)
    }

    /// Makes a file over a lower one with these attributes, which cannot be sealed.
    pub(super) fn over(
        file: Arc<dyn LowerFile>,
        meta: Meta,
        stat: &Stat,
        limits: FileLimits,
    ) -> Self {
        let data = Data::new(limits.space, Seals::SEAL).over(LowerContents::new(file, stat));
        let inode = Self::with(meta, data, limits.size, stat.links);
        inode.is_lower.store(true);
        inode
    }

    fn with(meta: Meta, data: Data, limit: u64, links: u32) -> Self {
        RegularInode {
            meta,
            data: RwLock::new(data),
            is_shared: AtomicCell::new(false),
            is_lower: AtomicCell::new(false),
            limit,
            holders: Mutex::new(Holders {
                links,
                open: 0,
                is_new: false,
                later: LaterName::Possible,
                unnamed_in: None,
            }),
            locks: LockSet::new(),
        }
    }

    /// Makes it an unnamed file, which can be linked if `later` allows it.
    pub(super) fn without_name(mut self, later: LaterName, made_in: Option<Arc<dyn Node>>) -> Self {
        let holders = self.holders.get_mut();
        holders.unnamed_in = made_in;
        holders.links = 0;
        holders.is_new = true;
        holders.later = later;
        self
    }

    /// Gives a new file these seals.
    pub(super) fn with_seals(mut self, seals: Seals) -> Self {
        self.data.get_mut().set_seals(seals);
        self
    }

    fn end_if_unheld(&self, holders: &Holders) {
        if !holders.hold() {
            self.data.write().free();
        } else if holders.open == 0 && self.is_lower.load() {
            let is_lower = self.data.write().close_lower();
            self.is_lower.store(is_lower);
        }
    }

    /// Opens the lower file if the bytes are there. The caller has a [`hold`](Inode::hold), which
    /// keeps it open.
    ///
    /// # Errors
    /// Errors of the embedder's `open`.
    fn open_lower(&self) -> Result<(), Errno> {
        if self.is_lower.load() {
            self.data.write().open_lower()?;
        }
        Ok(())
    }

    /// Returns the length in bytes. Waits for writers.
    pub(super) fn len(&self) -> u64 {
        self.data.read().len()
    }

    /// Takes memory for a range of the file, or makes it a hole.
    fn fallocate(&self, how: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
        let end = offset.saturating_add(length);
        let mut data = self.data.write();
        if how.contains(FallocateFlags::PUNCH_HOLE) {
            data.punch(offset, end)?;
            self.meta.was_modified();
            return Ok(());
        }
        if end > self.limit {
            return Err(Errno::EFBIG);
        }
        let extends = !how.contains(FallocateFlags::KEEP_SIZE);
        data.allocate(offset, end, extends)?;
        self.meta.was_modified();
        Ok(())
    }
}

impl Node for RegularInode {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    /// # Errors
    /// `ENOENT` also if it never gets a name.
    fn add_link(&self) -> Result<(), Errno> {
        let mut holders = self.holders.lock();
        let may_get_one = holders.is_new && holders.later == LaterName::Possible;
        if holders.links == 0 && !may_get_one {
            return Err(Errno::ENOENT);
        }
        holders.links = holders.links.checked_add(1).ok_or(Errno::EMLINK)?;
        holders.is_new = false;
        let made_in = holders.unnamed_in.take();
        self.meta.was_changed();
        drop(holders);
        // Outside the lock: it may be the last reference.
        drop(made_in);
        Ok(())
    }

    /// Frees the bytes if this was the last name and the file is not open.
    fn drop_link(&self) {
        let mut holders = self.holders.lock();
        holders.links -= 1;
        self.meta.was_changed();
        self.end_if_unheld(&holders);
    }
}

impl Inode for RegularInode {
    /// Counts an open file, which keeps the bytes.
    ///
    /// # Errors
    /// `ENOENT` if they are freed, as if the lookup had come after the removal of the name.
    fn hold(&self) -> Result<(), Errno> {
        let mut holders = self.holders.lock();
        if !holders.hold() {
            return Err(Errno::ENOENT);
        }
        holders.open += 1;
        Ok(())
    }

    /// Releases what [`hold`](Self::hold) took.
    fn unhold(&self) {
        let mut holders = self.holders.lock();
        holders.open -= 1;
        self.end_if_unheld(&holders);
    }

    fn kind(&self) -> FileKind {
        FileKind::Regular
    }

    fn stat(&self) -> Stat {
        let (usage, modified) = {
            let data = self.data.read();
            let modified = data.shared().and_then(SharedBytes::modified);
            (data.usage(), modified)
        };
        let stat = self.meta.stat(FileKind::Regular);
        Stat {
            links: self.holders.lock().links,
            size: usage.len,
            blocks: usage.pages * (PAGE / 512),
            mtime: modified.map_or(stat.mtime, |at| stat.mtime.max(at)),
            ctime: modified.map_or(stat.ctime, |at| stat.ctime.max(at)),
            ..stat
        }
    }

    fn number(&self) -> u64 {
        self.meta.number
    }

    fn permissions(&self) -> Permissions {
        self.meta.permissions()
    }

    fn set_attributes(&self, changes: &Attributes) -> Result<(), Errno> {
        let executable = |mode: Mode| mode.bits() & EXECUTE;
        if let Some(mode) = changes.mode
            && executable(mode) != executable(self.meta.permissions().mode)
        {
            // Keeps the seals meanwhile.
            let data = self.data.read();
            if data.seals().contains(Seals::EXEC) {
                return Err(Errno::EPERM);
            }
            self.meta.set(changes);
        } else {
            self.meta.set(changes);
        }
        if changes.mtime.is_some() && self.is_shared.load() {
            self.data.read().shared().inspect(|shared| shared.settle());
        }
        Ok(())
    }

    /// New bytes are a hole. Length 0 frees the memory. Waits for transfers.
    ///
    /// # Errors
    /// `EFBIG` above the size limit; `EPERM` if it is sealed; those of the embedder.
    fn set_len(&self, length: u64) -> Result<(), Errno> {
        if length > self.limit {
            return Err(Errno::EFBIG);
        }
        let mut data = self.data.write();
        data.set_len(length)?;
        self.meta.was_modified();
        Ok(())
    }

    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        let opened = RegularFile::open(self, opening.mount(), opening.flags())?;
        if opening.flags().contains(OpenFlags::TRUNC) {
            let _change = opening.want_write()?;
            opened.inode.set_len(0)?;
        }
        opening.file(opened)
    }

    fn locks(&self) -> Option<&LockSet> {
        Some(&self.locks)
    }

    fn dentry(&self) -> Option<Dentry> {
        self.meta.dentry()
    }
}

/// Open regular file.
#[derive(Debug)]
pub(super) struct RegularFile {
    inode: Arc<RegularInode>,
    mount: Option<MountRef>,
    /// At most `i64::MAX`.
    offset: Mutex<u64>,
    /// Ended when the file is released or revoked. Under the lock of the bytes, a file that has not
    /// ended keeps them until that lock is released.
    status: Status,
    /// True if `O_DIRECT` can be set.
    pub(super) takes_direct: bool,
}

impl RegularFile {
    /// Opens `inode` at position 0. A regular file never blocks, so `O_NONBLOCK` is kept and has no
    /// effect (`open(2)`).
    ///
    /// # Errors
    /// `ENOENT` if the inode has lost its name, and is not open; those of a lower file.
    pub(super) fn open(
        inode: Arc<RegularInode>,
        mount: Option<MountRef>,
        flags: OpenFlags,
    ) -> Result<Self, Errno> {
        inode.hold()?;
        let opened = RegularFile {
            inode,
            mount,
            offset: Mutex::new(0),
            status: Status::new(flags),
            takes_direct: true,
        };
        // An open with `TRUNC` empties the file next, and reads none of its bytes.
        if !flags.contains(OpenFlags::TRUNC) {
            opened.inode.open_lower()?;
        }
        Ok(opened)
    }

    /// Returns the position at which a write goes.
    #[inline]
    fn write_position(&self, offset: u64, flags: RwFlags, len: impl FnOnce() -> u64) -> u64 {
        if flags.appends(self.status.get()) {
            len()
        } else {
            offset
        }
    }

    /// Moves the position, whose lock the caller holds. May wait for writers.
    fn move_position(&self, offset: &mut u64, to: SeekTo) -> Result<u64, Errno> {
        let data = || self.inode.data.read();
        let to = match to {
            SeekTo::Data(from) => SeekTo::Start(data().next_data(from)?.ok_or(Errno::ENXIO)?),
            SeekTo::Hole(from) => SeekTo::Start(data().next_hole(from)?.ok_or(Errno::ENXIO)?),
            to => to,
        };
        *offset = to.resolve(*offset, || Some(self.inode.len()))?;
        Ok(*offset)
    }

    /// Copies like [`Data::copy_out`], and records the access.
    fn copy_out(&self, data: &Data, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        self.was_read();
        data.copy_out(offset, buf)
    }

    #[inline]
    fn was_read(&self) {
        if !self.status.get().contains(OpenFlags::NOATIME) {
            self.inode.meta.was_read();
        }
    }

    /// Copies like [`Data::copy_in`], and records the change.
    fn copy_in(&self, data: &mut Data, at: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let count = data.copy_in(self.inode.limit, at, bytes)?;
        if count > 0 {
            self.inode.meta.was_modified();
        }
        Ok(count)
    }

    /// Copies like [`Contents::copy_in`] and records the change, if the copy is short and needs no
    /// memory. Returns the position too.
    ///
    /// # Errors
    /// `EAGAIN` if it is not; `EFBIG`.
    #[inline]
    fn try_copy_in(
        &self,
        data: &mut Data,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(u64, usize), Errno> {
        let contents = data.writable().ok_or(Errno::EAGAIN)?;
        let at = self.write_position(offset, RwFlags::empty(), || contents.len());
        if !is_short(contents, at, bytes.len()) {
            return Err(Errno::EAGAIN);
        }
        let count = contents.copy_in(self.inode.limit, at, bytes)?;
        if count > 0 {
            self.inode.meta.was_modified();
        }
        Ok((at, count))
    }

    /// Copies into several buffers, one after another.
    fn copy_out_all(
        &self,
        data: &Data,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<usize, Errno> {
        let mut count = 0;
        for buf in bufs {
            match self.copy_out(data, offset + count as u64, buf) {
                Ok(copied) => count += copied,
                Err(errno) if count == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(count)
    }

    /// Copies from several buffers, one after another, until one does not fit.
    fn copy_in_all(&self, data: &mut Data, at: u64, bufs: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let total = bufs.iter().map(|bytes| bytes.len()).sum();
        let mut left = data.unsealed(self.inode.limit, at, total)?;
        let mut count = 0;
        for bytes in bufs {
            let bytes = &bytes[..bytes.len().min(left)];
            left -= bytes.len();
            match self.copy_in(data, at + count as u64, bytes) {
                Ok(copied) => count += copied,
                Err(errno) if count == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(count)
    }

    /// Ends the use of the file. Only the first call has an effect.
    fn end(&self, answer: Errno) {
        // Set before the bytes go: a transfer that finds none sees why.
        if self.status.end(answer) {
            self.inode.unhold();
        }
    }
}

/// Ends a file that was never opened: its superblock refused it.
impl Drop for RegularFile {
    fn drop(&mut self) {
        self.end(Errno::EBADF);
    }
}

impl Object for RegularFile {
    fn clear_set_ids(&self, by: Credentials) {
        self.inode.meta.clear_set_ids(by);
    }

    fn status_cell(&self) -> Option<&Status> {
        Some(&self.status)
    }

    fn is_nonblocking(&self) -> bool {
        false
    }

    fn set_status(&self, flags: OpenFlags) -> Result<(), Errno> {
        if !self.takes_direct && flags.contains(OpenFlags::DIRECT) {
            return Err(Errno::EINVAL);
        }
        self.status.set(flags);
        Ok(())
    }

    fn path(&self) -> Option<VfsPath> {
        Some(VfsPath {
            mount: self.mount.clone(),
            inode: Arc::clone(&self.inode) as _,
        })
    }

    fn locks(&self) -> Option<&LockSet> {
        Some(&self.inode.locks)
    }

    fn read_to(&self, bufs: &mut [IoSliceMut<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        self.status.check_access(OpenFlags::can_read)?;
        let mut position = Position::of(self, &how)?;
        check_end(position.at, bufs.iter().map(|buf| buf.len()).sum())?;
        let count = match (how.mode, &mut *bufs) {
            (TransferMode::Section, [buf]) if buf.len() <= SHORT_COPY => {
                let data = self.inode.data.try_read().ok_or(Errno::EAGAIN)?;
                self.status.check()?;
                let contents = data.readable().ok_or(Errno::EAGAIN)?;
                self.was_read();
                contents.copy_out(position.at, buf)
            }
            (TransferMode::Section, _) => return Err(Errno::EAGAIN),
            _ => self.copy_out_all(&self.inode.data.read(), position.at, bufs)?,
        };
        position.move_to(position.at + count as u64);
        Ok(count)
    }

    /// Appends if the file is open for appending, at an offset too, as on Linux.
    ///
    /// # Errors
    /// `EBADF` if not open for writing; `EFBIG` if the position is at the size limit or above;
    /// `EPERM` if the file is sealed; `ENOSPC` at the memory limit of the file system; `ENOMEM`.
    /// Inside a read-side section `EAGAIN` if it would block, leave a hole or allocate.
    fn write_from(&self, bufs: &[IoSlice<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        self.status.check_access(OpenFlags::can_write)?;
        let mut position = Position::of(self, &how)?;
        check_end(position.at, bufs.iter().map(|buf| buf.len()).sum())?;
        let (at, count) = match (how.mode, bufs) {
            (TransferMode::Section, [bytes]) => {
                let mut data = self.inode.data.try_write().ok_or(Errno::EAGAIN)?;
                self.status.check()?;
                self.try_copy_in(&mut data, position.at, bytes)?
            }
            (TransferMode::Section, _) => return Err(Errno::EAGAIN),
            _ => {
                let mut data = self.inode.data.write();
                let at = self.write_position(position.at, how.flags, || data.len());
                (at, self.copy_in_all(&mut data, at, bufs)?)
            }
        };
        position.move_to(at + count as u64);
        Ok(count)
    }

    fn fallocate(&self, how: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
        self.status.check_access(OpenFlags::can_write)?;
        self.inode.fallocate(how, offset, length)
    }

    fn set_len(&self, length: u64) -> Result<(), Errno> {
        self.status.check()?;
        if !self.status.get().can_write() {
            return Err(Errno::EINVAL);
        }
        self.inode.set_len(length)
    }

    fn seals(&self) -> Result<Seals, Errno> {
        self.status.check()?;
        Ok(self.inode.data.read().seals())
    }

    /// # Errors
    /// `EPERM` if no seal can be added; `EBUSY` for [`Seals::WRITE`] if a mapping can write.
    fn add_seals(&self, seals: Seals) -> Result<(), Errno> {
        let mut data = self.inode.data.write();
        self.status.check()?;
        let mode = self.inode.meta.permissions().mode;
        data.add_seals(seals, mode.bits() & EXECUTE != 0)
    }

    fn shared_memory(&self) -> Option<Arc<dyn SharedMemory>> {
        let memory = self.inode.data.read().memory()?;
        self.was_read();
        Some(memory)
    }

    fn lower_bytes(&self) -> Option<Arc<dyn LowerBytes>> {
        let bytes = self.inode.data.read().lower()?;
        self.was_read();
        Some(bytes)
    }

    fn share_memory(
        &self,
        make: &dyn Fn() -> Result<Arc<dyn SharedMemory>, Errno>,
    ) -> Result<Arc<dyn SharedMemory>, Errno> {
        let mut data = self.inode.data.write();
        self.status.check()?;
        let memory = data.share(make)?;
        self.inode.is_shared.store(true);
        self.was_read();
        Ok(memory)
    }

    fn stat(&self) -> Result<Stat, Errno> {
        self.status.check()?;
        Ok(self.inode.stat())
    }

    fn sync(&self) -> Result<(), Errno> {
        self.status.check()
    }

    /// # Errors
    /// `ENXIO` if data or a hole is sought at the end or after it; `EINVAL` if the position would
    /// be negative or above `i64::MAX` (Linux `vfs_setpos`). A position above the size limit is
    /// allowed; a write there returns `EFBIG`.
    fn seek(&self, to: SeekTo) -> Result<u64, Errno> {
        self.status.check()?;
        self.move_position(&mut self.offset.lock(), to)
    }

    /// # Errors
    /// `EAGAIN` also if the target depends on the length, which may wait for a writer.
    fn try_seek(&self, to: SeekTo) -> Result<u64, Errno> {
        self.status.check()?;
        let (SeekTo::Start(_) | SeekTo::Current(_)) = to else {
            return Err(Errno::EAGAIN);
        };
        let mut offset = self.offset.try_lock().ok_or(Errno::EAGAIN)?;
        self.move_position(&mut offset, to)
    }

    fn release(&self) {
        self.end(Errno::EBADF);
    }

    fn revoke(&self) {
        self.end(Errno::EIO);
    }
}

/// Position of a transfer: an offset, or that of the open file, which is locked to the end of the
/// transfer.
struct Position<'f> {
    at: u64,
    of_file: Option<MutexGuard<'f, u64>>,
}

impl<'f> Position<'f> {
    /// # Errors
    /// `EAGAIN` inside a read-side section if another transfer has the position.
    #[inline]
    fn of(file: &'f RegularFile, how: &Transfer<'_>) -> Result<Self, Errno> {
        let of_file = match (how.at, how.mode) {
            (Some(_), _) => None,
            (None, TransferMode::Section) => Some(file.offset.try_lock().ok_or(Errno::EAGAIN)?),
            (None, _) => Some(file.offset.lock()),
        };
        let at = how.at.or(of_file.as_deref().copied());
        Ok(Position {
            at: at.unwrap_or_default(),
            of_file,
        })
    }

    fn move_to(&mut self, at: u64) {
        if let Some(offset) = &mut self.of_file {
            **offset = at;
        }
    }
}

/// Checks that a transfer ends at most at `i64::MAX`, even if it appends (Linux `rw_verify_area`).
#[inline]
fn check_end(offset: u64, count: usize) -> Result<(), Errno> {
    match offset.checked_add(count as u64) {
        Some(end) if end <= i64::MAX as u64 => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// Returns true if a write needs neither an allocation nor more than a short copy.
fn is_short(contents: &Contents, at: u64, count: usize) -> bool {
    count <= SHORT_COPY && contents.has_memory_for(at, count)
}

#[cfg(test)]
mod tests;
