//! System calls that copy between files, and `fallocate`.

use std::io::IoSlice;

use fdtable::{FdArg, FileRef};

use super::Process;
use super::pipes::buffer;
use super::splices::{File, STEP, SpliceFlags, moving, to_pipe};
use crate::event::Limit;
use crate::fs::{FallocateFlags, FileKind, SeekTo, Stat};
use crate::ipc::buffer::Form;
use crate::vectored::zeros;
use crate::{Errno, OpenFlags, RwFlags, Transfer};

/// Number of the device `/dev/null`.
const NULL: u64 = 0x103;

/// Number of the device `/dev/full`. On Linux, it has no `splice_write`.
const FULL: u64 = 0x107;

/// Most bytes of one call, as on Linux.
const MAX_RW_COUNT: usize = 0x7fff_f000;

impl Process {
    /// Copies up to `count` bytes between two regular files, or within one. Returns how many.
    ///
    /// An offset, if given, is where the copy begins, and is advanced; otherwise the file position
    /// is. Allocates.
    ///
    /// # Errors
    /// `EBADF` if not open descriptors, `from` not open for reading, or `to` not open for writing
    /// or open for appending; `EISDIR` if one is a directory; `EINVAL` if one is not a regular
    /// file, if the ranges overlap in one file, or if an offset is above `i64::MAX`; `EXDEV` if
    /// they are on two file systems; `EFBIG` at the size limit; `EIO` if revoked; `ENOMEM`.
    pub fn copy_file_range(
        &self,
        from: impl FdArg,
        from_offset: Option<&mut u64>,
        to: impl FdArg,
        to_offset: Option<&mut u64>,
        count: usize,
    ) -> Result<usize, Errno> {
        let to_fd = to.to_raw();
        let (from, to) = (self.files.get(from)?, self.files.get(to_fd)?);
        let (here, there) = (stat_if_any(&from)?, stat_if_any(&to)?);
        let is_directory = |stat: &Stat| stat.kind == FileKind::Directory;
        if [here, there].iter().flatten().any(is_directory) {
            return Err(Errno::EISDIR);
        }
        let (Some(here), Some(there)) = (here, there) else {
            return Err(Errno::EINVAL);
        };
        if [here.kind, there.kind] != [FileKind::Regular; 2] {
            return Err(Errno::EINVAL);
        }
        let status = to.status();
        if !from.status().can_read() || !status.can_write() || status.contains(OpenFlags::APPEND) {
            return Err(Errno::EBADF);
        }
        if here.device != there.device {
            return Err(Errno::EXDEV);
        }
        let mut source = Cursor::new(&from, from_offset)?;
        let mut target = Cursor::new(&to, to_offset)?;
        if target.at == i64::MAX as u64 {
            return Err(Errno::EFBIG);
        }
        // A range past the end of the file does not overlap anything.
        let left = here.size.saturating_sub(source.at);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let count = count.min(MAX_RW_COUNT).min(left);
        let count = self.writable_bytes(to_fd, Some(target.at), RwFlags::empty(), count)?;
        let near = source.at.abs_diff(target.at) < count as u64;
        if (here.device, here.inode) == (there.device, there.inode) && near {
            return Err(Errno::EINVAL);
        }
        let moved = transfer(&from, source.at, count, |bytes, done| {
            to.write_at(bytes, target.at + done)
        })?;
        source.advance(moved)?;
        target.advance(moved)?;
        Ok(moved)
    }

    /// Copies up to `count` bytes of a file to any writable file. Returns how many.
    ///
    /// The offset, if given, is where the copy begins, and is advanced; otherwise the position of
    /// `from` is. Allocates, and blocks while there is no room, unless `to` is non-blocking.
    ///
    /// # Errors
    /// `EBADF` if not open descriptors, or not open for reading or writing; `ESPIPE` if there is an
    /// offset, and `from` has none; `EINVAL` if `from` is not a regular file, nor a device that can
    /// be spliced, nor, if `to` is a pipe, a socket; `EINVAL` if `to` cannot be spliced, or is open
    /// for appending and not a pipe, or the range does not end below `i64::MAX`; `EAGAIN`, `EPIPE`,
    /// `EFBIG` as for [`write`](Self::write), if nothing was copied; `EIO` if revoked; `ENOMEM`.
    pub fn sendfile(
        &self,
        to: impl FdArg,
        from: impl FdArg,
        offset: Option<&mut u64>,
        count: usize,
    ) -> Result<usize, Errno> {
        let (to_fd, from) = (to.to_raw(), self.files.get(from)?);
        if !from.status().can_read() {
            return Err(Errno::EBADF);
        }
        let source = stat_if_any(&from)?;
        let has_offsets = |kind| !matches!(kind, FileKind::Fifo | FileKind::Socket);
        if offset.is_some() && !source.is_some_and(|stat| has_offsets(stat.kind)) {
            return Err(Errno::ESPIPE);
        }
        let at = match offset.as_deref() {
            Some(offset) => *offset,
            // A file without a position begins at 0.
            None => from.seek(SeekTo::Current(0)).unwrap_or(0),
        };
        let end = at.checked_add(count as u64);
        if end.is_none_or(|end| end > i64::MAX as u64) {
            return Err(Errno::EINVAL);
        }
        let to = self.files.get(to_fd)?;
        let status = to.status();
        if !status.can_write() {
            return Err(Errno::EBADF);
        }
        let pipe = buffer(&**to).ok();
        let limit = match to.is_nonblocking() {
            true => Limit::NOW,
            false => Limit::FOREVER,
        };
        let mut count = count.min(MAX_RW_COUNT);
        if let Some(pipe) = pipe {
            // A pipe takes what it has room for, even if the call may block.
            count = count.min(pipe.wait_for_room(limit)?);
        } else if status.contains(OpenFlags::APPEND) {
            return Err(Errno::EINVAL);
        }
        if count == 0 && source.is_some_and(|stat| has_offsets(stat.kind)) {
            return Ok(0);
        }
        if let Some(pipe) = pipe
            && source.is_some_and(|stat| stat.kind == FileKind::Socket)
        {
            let mut flags = SpliceFlags::empty();
            flags.set(SpliceFlags::NONBLOCK, to.is_nonblocking());
            return to_pipe(&from, None, pipe, count, to.is_nonblocking(), flags);
        }
        if pipe.is_none()
            && source.is_some_and(|stat| stat.kind == FileKind::Directory)
            && let Some(path) = from.path()
        {
            // Linux records the access although the read fails.
            path.inode.was_read();
        }
        let source = source.filter(can_be_spliced).ok_or(Errno::EINVAL)?;
        let accepts = pipe.is_some() || stat_if_any(&to)?.is_some_and(|stat| stat.rdev != FULL);
        let is_valid = || match FileRef::is_revoked(&to) {
            true => Err(Errno::EIO),
            false => Ok(()),
        };
        let mut cursor = Cursor::new(&from, offset)?;
        let count = self.writable_bytes(to_fd, None, RwFlags::empty(), count)?;
        let moved = transfer(&from, cursor.at, count, |bytes, _| {
            match pipe {
                _ if !accepts => Err(Errno::EINVAL),
                // Not by the end of a FIFO: Linux leaves its times.
                Some(pipe) => pipe.write_while(is_valid, bytes, Form::Stream, limit),
                None => to.write_from(&[IoSlice::new(bytes)], Transfer::of(&**to, None, self)),
            }
        })?;
        if source.kind == FileKind::Regular {
            // Devices have no position.
            cursor.advance(moved)?;
        }
        Ok(moved)
    }

    /// Allocates memory for `length` bytes of a file from `offset` on. Extends the file to their
    /// end, unless `how` has `KEEP_SIZE`. With `PUNCH_HOLE` as well, makes them a hole instead, and
    /// frees their memory. May wait for transfers.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or not open for writing; `EINVAL` if `length` is 0;
    /// `EFBIG` above the size limit; `EOPNOTSUPP` for other flags; `ESPIPE` for a pipe; `ENODEV` if
    /// it is not a regular file; `ENOSPC` at the memory limit, or if memory runs out; `EIO` if
    /// revoked.
    pub fn fallocate(
        &self,
        fd: impl FdArg,
        how: FallocateFlags,
        offset: u64,
        length: u64,
    ) -> Result<(), Errno> {
        let file = self.files.get(fd)?;
        let end = offset.checked_add(length);
        if length == 0 || offset > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        if !how.is_valid() {
            return Err(Errno::EOPNOTSUPP);
        }
        if !file.status().can_write() {
            return Err(Errno::EBADF);
        }
        match stat_if_any(&file)?.map(|stat| stat.kind) {
            Some(FileKind::Regular) => {}
            Some(FileKind::Fifo) => return Err(Errno::ESPIPE),
            _ => return Err(Errno::ENODEV),
        }
        if end.is_none_or(|end| end > i64::MAX as u64) {
            return Err(Errno::EFBIG);
        }
        let both = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
        if ![FallocateFlags::empty(), FallocateFlags::KEEP_SIZE, both].contains(&how) {
            return Err(Errno::EOPNOTSUPP);
        }
        if !how.contains(FallocateFlags::PUNCH_HOLE)
            && let (Ok(stat), Some(end)) = (file.stat(), end)
        {
            // Even if the length stays, as on Linux.
            self.check_length(&stat, end)?;
        }
        file.fallocate(how, offset, length)?;
        self.remove_privileges(&**file);
        Ok(())
    }
}

/// Returns the metadata of a file, if it has an inode.
fn stat_if_any(file: &File) -> Result<Option<Stat>, Errno> {
    match file.stat() {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::EOPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns true if `sendfile` can read a file. On Linux, `/dev/null` has no `splice_read`.
fn can_be_spliced(stat: &Stat) -> bool {
    match stat.kind {
        FileKind::Regular => true,
        FileKind::CharDevice => stat.rdev != NULL,
        _ => false,
    }
}

/// Offset of a copy, in a variable of the caller or in the file position.
struct Cursor<'a> {
    file: &'a File,
    offset: Option<&'a mut u64>,
    at: u64,
}

impl<'a> Cursor<'a> {
    fn new(file: &'a File, offset: Option<&'a mut u64>) -> Result<Self, Errno> {
        let at = match &offset {
            Some(offset) => **offset,
            None => file.seek(SeekTo::Current(0))?,
        };
        if at > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        Ok(Cursor { file, offset, at })
    }

    fn advance(&mut self, count: usize) -> Result<(), Errno> {
        let end = self.at + count as u64;
        match &mut self.offset {
            Some(offset) => **offset = end,
            None => {
                self.file.seek(SeekTo::Start(end))?;
            }
        }
        Ok(())
    }
}

/// Copies `count` bytes of a file from `at` on, and returns how many. Stops at the end of the file,
/// and after a short write. `write` gets the bytes, and how many were written before.
fn transfer(
    from: &File,
    at: u64,
    count: usize,
    write: impl Fn(&[u8], u64) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut buf = zeros(count.min(STEP))?;
    moving(count, |done| {
        let wanted = buf.len().min(count - done);
        let read = from.read_at(&mut buf[..wanted], at + done as u64)?;
        // At the end of the file nothing is written: a socket would send a message.
        let written = match read {
            0 => 0,
            _ => write(&buf[..read], done as u64)?,
        };
        // After a short read, the file may have grown by what was written.
        Ok((written, written < read))
    })
}
