//! System calls that move bytes through pipes: `splice`, `tee`, `vmsplice`.
//!
//! They copy. Bytes are taken out of a pipe, written, and put back as far as the write fails. So
//! each byte is moved once, also if several threads read the pipe, and an error loses none. Another
//! thread that reads the pipe during such a write gets the bytes that follow, or finds the pipe
//! empty.

use std::io::{IoSlice, IoSliceMut};

use fdtable::{FdArg, FileRef, RawFd};

use super::Process;
use super::pipes::buffer;
use super::vectored::{check_written, first};
use crate::event::{Events, Limit};
use crate::fs::{FileKind, SeekTo};
use crate::ipc::Ancillary;
use crate::ipc::buffer::Buffer;
use crate::vectored::zeros;
use crate::{Errno, OpenFlags, RcuObject, RwFlags, Transfer, TransferMode};

/// Most bytes that are copied at a time: 65,536.
pub(super) const STEP: usize = 64 << 10;

bitflags::bitflags! {
    /// Flags of `splice`, `tee` and `vmsplice`, with the values of Linux.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SpliceFlags: u32 {
        /// Move pages instead of copying them. Ignored.
        const MOVE = 1;
        /// Do not block on the pipes.
        const NONBLOCK = 2;
        /// More bytes will follow. Ignored.
        const MORE = 4;
        /// The pages are given away. Ignored.
        const GIFT = 8;
    }
}

pub(super) type File = FileRef<RcuObject>;

impl Process {
    /// Moves up to `count` bytes from or to a pipe. Returns how many; 0 is the end.
    ///
    /// An offset, if given, is where the transfer begins in a file that is not a pipe, and is
    /// advanced; otherwise the file position is. Blocks until there is something to move, and room
    /// for it, unless a pipe is non-blocking or `flags` say so. Allocates.
    ///
    /// # Errors
    /// `EBADF` if not open descriptors, or not open for reading or writing; `ESPIPE` for an offset
    /// of a pipe; `EINVAL` if neither is a pipe, both are the same pipe, a file cannot be used this
    /// way or is open for appending, or an offset is above `i64::MAX` or of a file that is not
    /// seekable; `EAGAIN` if it would block; `EPIPE` and other errors of the write, if nothing was
    /// moved; `EIO` if revoked; `ENOMEM`.
    pub fn splice(
        &self,
        from: impl FdArg,
        from_offset: Option<&mut u64>,
        to: impl FdArg,
        to_offset: Option<&mut u64>,
        count: usize,
        flags: SpliceFlags,
    ) -> Result<usize, Errno> {
        if count == 0 {
            return Ok(0);
        }
        let to_fd = to.to_raw();
        let (from, to) = (self.files.get(from)?, self.files.get(to_fd)?);
        let is_misplaced = |file: &File, at: &Option<&mut u64>| at.is_some() && is_pipe(file);
        if is_misplaced(&from, &from_offset) || is_misplaced(&to, &to_offset) {
            return Err(Errno::ESPIPE);
        }
        check_modes(&from, &to)?;
        match (buffer(&**from), buffer(&**to)) {
            (Ok(source), Ok(target)) => {
                if std::ptr::eq(source, target) {
                    return Err(Errno::EINVAL);
                }
                let nonblocking = from.is_nonblocking() || to.is_nonblocking();
                between_pipes(source, target, count, policy(nonblocking, flags))
            }
            (Ok(source), Err(_)) => {
                let policy = policy(from.is_nonblocking(), flags);
                self.splice_from_pipe(source, to_fd, &to, to_offset, count, policy)
            }
            (Err(_), Ok(target)) => {
                let nonblocking = to.is_nonblocking();
                to_pipe(&from, from_offset, target, count, nonblocking, flags)
            }
            (Err(_), Err(_)) => Err(Errno::EINVAL),
        }
    }

    /// Copies up to `count` bytes from one pipe to another, and leaves them in the first. Returns
    /// how many; 0 is the end. Blocks until there is something to copy, and room for it, unless a
    /// pipe is non-blocking or `flags` say so. Allocates.
    ///
    /// # Errors
    /// `EBADF` if not open descriptors, or not open for reading or writing; `EINVAL` if they are
    /// not different pipes; `EAGAIN` if it would block; `EPIPE`; `EIO` if revoked; `ENOMEM`.
    pub fn tee(
        &self,
        from: impl FdArg,
        to: impl FdArg,
        count: usize,
        flags: SpliceFlags,
    ) -> Result<usize, Errno> {
        if count == 0 {
            return Ok(0);
        }
        let (from, to) = (self.files.get(from)?, self.files.get(to)?);
        check_modes(&from, &to)?;
        match (buffer(&**from), buffer(&**to)) {
            (Ok(source), Ok(target)) if !std::ptr::eq(source, target) => {
                let nonblocking = from.is_nonblocking() || to.is_nonblocking();
                copy_between_pipes(source, target, count, policy(nonblocking, flags))
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Writes as many bytes to a pipe as have room. Blocks until there is room, unless `flags` say
    /// otherwise. Allocates. In Linux: `vmsplice`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or not a pipe that is open for writing; `EINVAL` as for
    /// [`writev`](Self::writev); `EAGAIN` if it would block; `EPIPE`; `EIO` if revoked; `ENOMEM`.
    pub fn vmsplice_to_pipe(
        &self,
        fd: impl FdArg,
        bufs: &[IoSlice<'_>],
        flags: SpliceFlags,
    ) -> Result<usize, Errno> {
        let total = check_written(bufs)?;
        let file = self.files.get(fd)?;
        let pipe = buffer(&**file)?;
        if !file.status().can_write() {
            return Err(Errno::EBADF);
        }
        if total == 0 {
            return Ok(0);
        }
        let room = pipe.wait_for_room(policy(false, flags))?;
        let bufs = first(bufs, total, room.min(total))?;
        pipe.send(&bufs, Ancillary::default(), policy(false, flags))
    }

    /// Reads bytes from a pipe like [`readv`](Self::readv). Blocks while there are none, unless
    /// `flags` say otherwise. In Linux: `vmsplice`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or not a pipe that is open for reading; `EAGAIN` if it
    /// would block; `EIO` if revoked.
    pub fn vmsplice_from_pipe(
        &self,
        fd: impl FdArg,
        bufs: &mut [IoSliceMut<'_>],
        flags: SpliceFlags,
    ) -> Result<usize, Errno> {
        let file = self.files.get(fd)?;
        let pipe = buffer(&**file)?;
        if !file.status().can_read() {
            return Err(Errno::EBADF);
        }
        if bufs.iter().all(|buf| buf.is_empty()) {
            return Ok(0);
        }
        pipe.take_into(bufs, policy(false, flags))
    }

    fn splice_from_pipe(
        &self,
        source: &Buffer,
        to_fd: RawFd,
        to: &File,
        offset: Option<&mut u64>,
        count: usize,
        mut policy: Limit,
    ) -> Result<usize, Errno> {
        check_file(to, offset.as_deref())?;
        if to.status().contains(OpenFlags::APPEND) {
            return Err(Errno::EINVAL);
        }
        let at = offset.as_deref().copied();
        let count = self.writable_bytes(to_fd, at, RwFlags::empty(), count)?;
        let mut buf = zeros(count.min(STEP))?;
        let moved = moving(count, |done| {
            let wanted = buf.len().min(count - done);
            let takes = !is_full(to);
            let found = match takes {
                true => source.take_into(&mut [IoSliceMut::new(&mut buf[..wanted])], policy)?,
                false => source.peek(&mut buf[..wanted], policy)?,
            };
            policy = Limit::NOW;
            let bytes = &buf[..found];
            let result = match at {
                _ if found == 0 => Ok(0),
                at => {
                    let at = at.map(|at| at + done as u64);
                    to.write_from(&[IoSlice::new(bytes)], Transfer::of(&***to, at, self))
                }
            };
            if takes {
                source.put_back(&bytes[result.unwrap_or(0)..]);
            }
            let written = result?;
            if !takes {
                source.discard(&mut buf[..written])?;
            }
            Ok((written, written < found))
        })?;
        if let Some(offset) = offset {
            *offset += moved as u64;
        }
        Ok(moved)
    }
}

/// Moves bytes between two pipes: as many as there are and have room.
fn between_pipes(
    source: &Buffer,
    target: &Buffer,
    count: usize,
    mut policy: Limit,
) -> Result<usize, Errno> {
    let mut buf = zeros(count.min(STEP))?;
    moving(count, |done| {
        let wanted = buf.len().min(count - done);
        let step = between_pipes_once(source, target, &mut buf[..wanted], policy);
        policy = Limit::NOW;
        step
    })
}

/// Moves what fits into `buf`. Returns how many bytes, and whether some are left.
fn between_pipes_once(
    source: &Buffer,
    target: &Buffer,
    buf: &mut [u8],
    policy: Limit,
) -> Result<(usize, bool), Errno> {
    loop {
        // Nothing is taken out while this waits for room.
        let found = source.peek(buf, policy)?;
        if found == 0 {
            return at_end(target);
        }
        let room = target.wait_for_room(policy)?;
        let wanted = &mut buf[..found.min(room)];
        let moved = source
            .take_into(&mut [IoSliceMut::new(wanted)], Limit::NOW)
            .and_then(|taken| {
                let result = target.try_write(&buf[..taken]);
                source.put_back(&buf[result.unwrap_or(0)..taken]);
                result
            });
        match moved {
            // Another thread has taken the bytes, or the room.
            Err(Errno::EAGAIN) if policy != Limit::NOW => {}
            moved => return moved.map(|moved| (moved, moved < found)),
        }
    }
}

/// Copies bytes from one pipe to another: as many as there are and have room.
fn copy_between_pipes(
    source: &Buffer,
    target: &Buffer,
    count: usize,
    policy: Limit,
) -> Result<usize, Errno> {
    let mut buf = zeros(count.min(source.capacity()))?;
    let found = source.peek(&mut buf, policy)?;
    // Linux waits for room before it looks at the end of the source.
    let room = target.wait_for_room(policy)?;
    if found == 0 {
        return Ok(0);
    }
    target.try_write(&buf[..found.min(room)])
}

/// Returns the end of the source. A target without a reader is reported first, as on Linux.
fn at_end(target: &Buffer) -> Result<(usize, bool), Errno> {
    match target.wait_for_room(Limit::NOW) {
        Ok(_) | Err(Errno::EAGAIN) => Ok((0, true)),
        Err(errno) => Err(errno),
    }
}

/// Moves bytes of a file to a pipe: what one read returns.
pub(super) fn to_pipe(
    from: &File,
    offset: Option<&mut u64>,
    target: &Buffer,
    count: usize,
    nonblocking: bool,
    flags: SpliceFlags,
) -> Result<usize, Errno> {
    check_file(from, offset.as_deref())?;
    let room = target.wait_for_room(policy(nonblocking, flags))?;
    let mut buf = zeros(count.min(room))?;
    let now = from.is_nonblocking() || flags.contains(SpliceFlags::NONBLOCK);
    let mut how = Transfer {
        at: offset.as_deref().copied(),
        ..Transfer::WAIT
    };
    if how.at.is_none() && (from.is_nonblocking() || now && from.stat()?.kind == FileKind::Socket) {
        how.mode = TransferMode::Now;
    }
    let found = from.read_to(&mut [IoSliceMut::new(&mut buf)], how)?;
    let moved = put(target, &buf[..found])?;
    if let Some(offset) = offset {
        *offset += moved as u64;
    }
    Ok(moved)
}

/// Writes bytes that were taken from a file. There is room, unless another thread has written
/// meanwhile. Then it waits, and no signal handler ends that: the bytes would be lost.
fn put(target: &Buffer, bytes: &[u8]) -> Result<usize, Errno> {
    let mut written = 0;
    while written < bytes.len() {
        match target.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(Errno::EINTR) => {}
            Err(errno) if written == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(written)
}

/// Repeats a step until `count` bytes are moved, nothing is left, or the step says that it is the
/// last one. An error after the first bytes ends it too.
pub(super) fn moving(
    count: usize,
    mut step: impl FnMut(usize) -> Result<(usize, bool), Errno>,
) -> Result<usize, Errno> {
    let mut done = 0;
    while done < count {
        match step(done) {
            Ok((moved, is_last)) => {
                done += moved;
                if moved == 0 || is_last {
                    break;
                }
            }
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}

fn check_modes(from: &File, to: &File) -> Result<(), Errno> {
    match from.status().can_read() && to.status().can_write() {
        true => Ok(()),
        false => Err(Errno::EBADF),
    }
}

/// Checks that a file can be spliced with a pipe, at an offset.
fn check_file(file: &File, offset: Option<&u64>) -> Result<(), Errno> {
    let kind = match file.stat() {
        Ok(stat) => stat.kind,
        Err(Errno::EOPNOTSUPP) => return Err(Errno::EINVAL),
        Err(errno) => return Err(errno),
    };
    let is_valid = |&offset: &u64| {
        offset <= i64::MAX as u64 && file.seek(SeekTo::Current(0)) != Err(Errno::ESPIPE)
    };
    if kind == FileKind::Directory || !offset.is_none_or(is_valid) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Returns true if a write fails at once because there is no room. Then nothing is taken out of a
/// pipe for it, so that the watchers of the pipe see no change.
fn is_full(file: &File) -> bool {
    file.status().contains(OpenFlags::NONBLOCK) && !file.events().contains(Events::WRITABLE)
}

fn is_pipe(file: &File) -> bool {
    file.stat().is_ok_and(|stat| stat.kind == FileKind::Fifo)
}

fn policy(nonblocking: bool, flags: SpliceFlags) -> Limit {
    match nonblocking || flags.contains(SpliceFlags::NONBLOCK) {
        true => Limit::NOW,
        false => Limit::FOREVER,
    }
}
