//! Transfers whose buffers cannot be accessed as a whole.
//!
//! Nothing here is on the path of a transfer that works. A transfer first probes its buffers (see
//! [`uaccess`]); if that fails, it comes here, and is made as Linux would make it. How far Linux
//! gets depends on how the file copies:
//!
//! | file | transfers |
//! |---|---|
//! | regular files, `/dev/zero`, `/dev/full`, `/dev/urandom` | the bytes before the fault, or `EFAULT` if there are none |
//! | pipes | whole pages before the fault |
//! | stream sockets | whole socket buffers ([`SKB_BYTES`]) before the fault |
//! | messages | all or nothing; a message that does not fit is lost, as one that is received |
//! | eventfd | all or nothing; a count that was read is lost |
//! | `/dev/null`, and writes to `/dev/zero` | everything, because nothing is copied |
//! | host files | what the host says |
//!
//! In all of them, other errors come first: the end of a file, an empty or full pipe, a missing
//! peer. So where there is nothing before the fault, the file is asked whether it would transfer
//! anything. A byte that another thread sends between that question and a transfer into a buffer
//! of ours would be lost; two threads that read one pipe, one of them with a bad pointer, are rare
//! enough.

use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::time::Duration;

use fdtable::FileRef;
use fdtable_vfs::event::Events;
use fdtable_vfs::socket::{MsgFlags, OptionValue, Received, SendMessage, SocketOption};
use fdtable_vfs::{Errno, FileKind, OpenFlags, PollFd, RcuObject, RwFlags, SeekTo, SpliceFlags};
use libc::iovec;

use crate::abi::system::System;
use crate::abi::uaccess::{self, MAX_RW_COUNT};
use crate::host::file::HostFile;

/// Bytes that a pipe copies at once.
const PAGE: usize = 4096;

/// Bytes that a stream socket copies at once: the most of one socket buffer of Linux.
const SKB_BYTES: usize = 36_544;

/// Bytes of the send buffer that a message cannot have.
const SLACK: usize = 32;

/// Largest read whose buffer is probed as a whole, whatever the file; and most bytes of a read from
/// a pipe or a stream socket that has not more.
const ALWAYS_PROBED: usize = 64 * 1024;

/// Buffers of a transfer whose first bytes alone can be accessed.
pub(crate) struct Partial {
    /// At most [`MAX_RW_COUNT`] bytes.
    bufs: Vec<iovec>,
    total: usize,
    /// Bytes before the first that cannot be accessed.
    accessible: usize,
}

impl Partial {
    /// Finds out how much of the caller's buffers can be read, or written.
    ///
    /// # Safety
    /// As for [`uaccess::bytes`] or [`uaccess::bytes_mut`] for each buffer.
    #[cold]
    pub(crate) unsafe fn of(bufs: &[iovec], writes: bool) -> Self {
        let mut left = MAX_RW_COUNT;
        let mut accessible = 0;
        let mut is_whole = true;
        let mut shortened = Vec::new();
        for buf in bufs {
            let count = buf.iov_len.min(left);
            left -= count;
            if is_whole {
                let found = if writes {
                    // SAFETY: as the caller promises.
                    unsafe { uaccess::writable_prefix(buf.iov_base, count) }
                } else {
                    uaccess::readable_prefix(buf.iov_base, count)
                };
                accessible += found;
                is_whole = found == count;
            }
            shortened.push(iovec {
                iov_base: buf.iov_base,
                iov_len: count,
            });
        }
        Partial {
            bufs: shortened,
            total: MAX_RW_COUNT - left,
            accessible,
        }
    }

    /// Finds out how much of one buffer can be read, or written.
    ///
    /// # Safety
    /// As for [`of`](Self::of).
    pub(crate) unsafe fn of_one(at: *mut c_void, count: usize, writes: bool) -> Self {
        let buf = iovec {
            iov_base: at,
            iov_len: count,
        };
        // SAFETY: as the caller promises.
        unsafe { Self::of(&[buf], writes) }
    }

    /// Returns the length of the buffers.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Returns the first bytes of the buffers, which can be accessed.
    fn pieces(&self, count: usize) -> impl Iterator<Item = (*mut u8, usize)> {
        let mut left = count.min(self.accessible);
        self.bufs.iter().map(move |buf| {
            let count = buf.iov_len.min(left);
            left -= count;
            (buf.iov_base.cast(), count)
        })
    }

    fn slices(&self, count: usize) -> Vec<IoSlice<'_>> {
        let slice = |(at, count): (*mut u8, usize)| {
            // SAFETY: it was probed, and the caller of `of` has promised the rest.
            IoSlice::new(unsafe { std::slice::from_raw_parts(at, count) })
        };
        let pieces = self.pieces(count).filter(|&(_, count)| count > 0);
        pieces.map(slice).collect()
    }

    fn slices_mut(&self, count: usize) -> Vec<IoSliceMut<'_>> {
        let slice = |(at, count)| {
            // SAFETY: it was probed, and the caller of `of` has promised the rest.
            IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(at, count) })
        };
        let pieces = self.pieces(count).filter(|&(_, count)| count > 0);
        pieces.map(slice).collect()
    }

    /// Copies bytes to the buffers.
    fn fill(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut rest = bytes;
        for (at, count) in self.pieces(bytes.len()) {
            let (now, later) = rest.split_at(count);
            // SAFETY: as for `slices_mut`.
            unsafe { uaccess::put_bytes(at.cast(), now) }?;
            rest = later;
        }
        if rest.is_empty() {
            Ok(bytes.len())
        } else {
            Err(Errno::EFAULT)
        }
    }

    /// Returns how many whole chunks of `chunk` bytes can be accessed, in bytes.
    fn chunks(&self, chunk: usize) -> usize {
        self.accessible / chunk * chunk
    }
}

/// How a file copies.
#[derive(Clone, Copy, PartialEq)]
enum Copies {
    Bytes,
    Chunks(usize),
    Messages,
    Words,
}

/// How much of a long buffer a read uses: no more than the file can fill, so that memory which the
/// program has reserved for later is not touched.
pub(crate) struct Used {
    /// Bytes to read at most. A pipe or a stream socket returns no more, as if what comes during
    /// the call came after it.
    pub(crate) count: usize,
    /// Bytes to probe.
    pub(crate) probed: usize,
}

/// Returns how much of the buffer of a read is used.
#[inline]
pub(crate) fn used_by_read(system: &System, fd: c_int, count: usize, offset: Option<u64>) -> Used {
    if count <= ALWAYS_PROBED {
        return Used {
            count,
            probed: count,
        };
    }
    used_by_long_read(system, fd, count, offset)
}

#[cold]
fn used_by_long_read(system: &System, fd: c_int, count: usize, offset: Option<u64>) -> Used {
    let all = Used {
        count,
        probed: count,
    };
    let Ok(file) = system.file(fd) else {
        return all;
    };
    if HostFile::below(&**file).is_some() {
        return Used { count, probed: 1 };
    }
    let Ok(stat) = file.stat() else {
        return all;
    };
    let count = match stat.kind {
        FileKind::Regular => {
            let position = offset.unwrap_or_else(|| file.seek(SeekTo::Current(0)).unwrap_or(0));
            // At the end too, a read of a byte has errors that one of no bytes has not.
            count.min(stat.size.saturating_sub(position).max(1) as usize)
        }
        FileKind::Fifo => count.min(queued(&file)),
        FileKind::Socket if socket_type(system, fd) == libc::SOCK_STREAM => {
            count.min(queued(&file))
        }
        _ => return all,
    };
    Used {
        count,
        probed: count,
    }
}

/// Returns how many bytes a read from a pipe or a stream socket moves at most.
fn queued(file: &FileRef<RcuObject>) -> usize {
    file.readable_bytes().unwrap_or(0).max(ALWAYS_PROBED)
}

/// Returns how many bytes of several buffers, together `count`, a read uses and probes.
#[inline]
pub(crate) fn read_limit(system: &System, fd: c_int, count: usize, offset: Option<u64>) -> usize {
    // The host may fill all buffers, and returns no error for those that it does not fill.
    match used_by_read(system, fd, count, offset) {
        Used { count, probed } if probed == count => count,
        _ => MAX_RW_COUNT,
    }
}

/// Returns how many bytes of the buffers of a receive, together `count`, it uses and probes.
#[inline]
pub(crate) fn receive_limit(system: &System, fd: c_int, count: usize, flags: c_int) -> usize {
    match flags & libc::MSG_WAITALL {
        0 => read_limit(system, fd, count, None),
        _ => MAX_RW_COUNT,
    }
}

/// Reads as much as can be accessed.
///
/// # Errors
/// `EFAULT`; those of the transfer.
#[cold]
pub(crate) fn read(
    system: &System,
    fd: c_int,
    bufs: &Partial,
    offset: Option<u64>,
    flags: RwFlags,
) -> Result<usize, Errno> {
    let process = &system.process;
    let file = system.file(fd)?;
    if let Some(host_file) = HostFile::below(&**file) {
        return host_file.readv(&bufs.bufs, (offset.map(u64::cast_signed), flags));
    }
    match (copies(system, fd, &file), offset) {
        (Copies::Bytes, offset) => {
            if bufs.accessible > 0 {
                let mut slices = bufs.slices_mut(bufs.accessible);
                return process.preadv2(fd, &mut slices, offset, flags);
            }
            let position = || process.lseek(fd, SeekTo::Current(0));
            let offset = offset.map_or_else(position, Ok)?;
            match process.pread(fd, &mut [0], offset)? {
                0 => Ok(0),
                _ => Err(Errno::EFAULT),
            }
        }
        // It has no offset, and reports that.
        (_, Some(offset)) => process.pread(fd, &mut [0], offset),
        (Copies::Words, None) => {
            let mut word = [0; 8];
            let word = &mut word[..bufs.total.min(8)];
            let count = process.read(fd, word)?;
            bufs.fill(&word[..count])
        }
        (Copies::Chunks(PAGE), None) => {
            // A descriptor that is not open for reading is an error first.
            process.read(fd, &mut [])?;
            loop {
                let wanted = file.readable_bytes()?.min(bufs.total);
                if wanted > bufs.accessible {
                    return match bufs.chunks(PAGE) {
                        0 => Err(Errno::EFAULT),
                        count => process.readv(fd, &mut bufs.slices_mut(count)),
                    };
                }
                if wanted > 0 {
                    return process.readv(fd, &mut bufs.slices_mut(wanted));
                }
                let is_at_end = file.events().contains(Events::HUP);
                if is_at_end || file.is_nonblocking() {
                    return process.read(fd, &mut [0]);
                }
                wait_for(system, fd, Events::IN)?;
            }
        }
        (_, None) => receive(system, fd, bufs, MsgFlags::empty()).map(|received| received.count),
    }
}

/// Receives as much as can be accessed.
///
/// # Errors
/// `EFAULT`; those of the call.
#[cold]
pub(crate) fn receive(
    system: &System,
    fd: c_int,
    bufs: &Partial,
    flags: MsgFlags,
) -> Result<Received, Errno> {
    let process = &system.process;
    let file = system.file(fd)?;
    if copies(system, fd, &file) == Copies::Messages {
        let mut message = uaccess::vec_with_capacity(bufs.total.min(1 << 20))?;
        message.resize(bufs.total.min(1 << 20), 0);
        let received = process.recvmsg(fd, &mut [IoSliceMut::new(&mut message)], flags)?;
        bufs.fill(&message[..received.count.min(message.len())])?;
        return Ok(received);
    }
    loop {
        let look = MsgFlags::PEEK | MsgFlags::DONTWAIT;
        match process.recvmsg(fd, &mut [IoSliceMut::new(&mut [0])], look) {
            Ok(found) if found.count == 0 => return Ok(found),
            Ok(_) => break,
            Err(Errno::EAGAIN) if !file.is_nonblocking() && !flags.contains(MsgFlags::DONTWAIT) => {
                wait_for(system, fd, Events::IN)?;
            }
            Err(errno) => return Err(errno),
        }
    }
    let wanted = file.readable_bytes()?.min(bufs.total);
    let count = match wanted > bufs.accessible {
        true => bufs.chunks(SKB_BYTES),
        false => wanted,
    };
    if count == 0 {
        return Err(Errno::EFAULT);
    }
    process.recvmsg(fd, &mut bufs.slices_mut(count), flags | MsgFlags::DONTWAIT)
}

/// Writes as much as can be accessed.
///
/// # Errors
/// `EFAULT`; those of the transfer.
#[cold]
pub(crate) fn write(
    system: &System,
    fd: c_int,
    bufs: &Partial,
    offset: Option<u64>,
    flags: RwFlags,
) -> Result<usize, Errno> {
    let process = &system.process;
    let file = system.file(fd)?;
    if let Some(host_file) = HostFile::below(&**file) {
        return host_file.writev(&bufs.bufs, (offset.map(u64::cast_signed), flags));
    }
    match (copies(system, fd, &file), offset) {
        (Copies::Bytes, offset) => {
            if file
                .stat()
                .is_ok_and(|stat| !copies_what_is_written(stat.rdev))
            {
                process.write(fd, &[0])?;
                return Ok(bufs.total);
            }
            let done = process.pwritev2(fd, &bufs.slices(bufs.accessible), offset, flags);
            if bufs.accessible == 0 {
                done?;
                return Err(Errno::EFAULT);
            }
            done
        }
        // It has no offset, and reports that.
        (_, Some(offset)) => process.pwrite(fd, &[0], offset),
        (Copies::Words, None) => {
            let is_counter = file.label() == "anon_inode:[eventfd]";
            if is_counter && bufs.total >= 8 && bufs.accessible < 8 {
                return Err(Errno::EFAULT);
            }
            process.writev(fd, &bufs.slices(bufs.accessible))
        }
        (Copies::Chunks(PAGE), None) => {
            process.write(fd, &[])?;
            match bufs.chunks(PAGE) {
                0 => Err(room_error(system, fd, &file, MsgFlags::empty())),
                count => process.writev(fd, &bufs.slices(count)),
            }
        }
        (_, None) => send(system, fd, bufs, SendMessage::default(), MsgFlags::empty()),
    }
}

/// Writes as much as can be accessed to a pipe.
///
/// # Errors
/// `EFAULT`; those of the call.
#[cold]
pub(crate) fn vmsplice(
    system: &System,
    fd: c_int,
    bufs: &Partial,
    flags: SpliceFlags,
) -> Result<usize, Errno> {
    let slices = bufs.slices(bufs.accessible);
    // Without bytes, it finds the other errors of the descriptor.
    let moved = system.process.vmsplice_to_pipe(fd, &slices, flags)?;
    if moved > 0 {
        return Ok(moved);
    }
    let waits = match flags.contains(SpliceFlags::NONBLOCK) {
        true => MsgFlags::DONTWAIT,
        false => MsgFlags::empty(),
    };
    Err(room_error(system, fd, &system.file(fd)?, waits))
}

/// Sends as much as can be accessed; the bytes of `message` are those of `bufs`.
///
/// # Errors
/// `EFAULT`; those of the call.
#[cold]
pub(crate) fn send(
    system: &System,
    fd: c_int,
    bufs: &Partial,
    message: SendMessage<'_>,
    flags: MsgFlags,
) -> Result<usize, Errno> {
    let file = system.file(fd)?;
    if copies(system, fd, &file) == Copies::Messages {
        if socket_type(system, fd) == libc::SOCK_SEQPACKET {
            system.process.getpeername(fd)?;
        }
        check_message_size(system, fd, bufs)?;
        return Err(room_error(system, fd, &file, flags));
    }
    let bytes = bufs.slices(bufs.chunks(SKB_BYTES));
    let message = SendMessage {
        bytes: &bytes,
        ..message
    };
    // Without bytes, it finds the other errors.
    let sent = system.process.sendmsg(fd, message, flags)?;
    match bytes.is_empty() {
        true => Err(room_error(system, fd, &file, flags)),
        false => Ok(sent),
    }
}

/// Checks that a message is not longer than the send buffer allows.
///
/// # Errors
/// `EMSGSIZE`.
fn check_message_size(system: &System, fd: c_int, bufs: &Partial) -> Result<(), Errno> {
    match system.process.getsockopt(fd, SocketOption::SendBuffer)? {
        OptionValue::Number(size) if bufs.total > (size as usize).saturating_sub(SLACK) => {
            Err(Errno::EMSGSIZE)
        }
        _ => Ok(()),
    }
}

/// Returns the error of a write whose first chunk cannot be accessed, after it has waited for room.
fn room_error(system: &System, fd: c_int, file: &FileRef<RcuObject>, flags: MsgFlags) -> Errno {
    let mut events = file.events();
    if !events.intersects(Events::OUT | Events::ERR) {
        if file.is_nonblocking() || flags.contains(MsgFlags::DONTWAIT) {
            return Errno::EAGAIN;
        }
        match wait_for(system, fd, Events::OUT) {
            Ok(found) => events = found,
            Err(errno) => return errno,
        }
    }
    match events.contains(Events::ERR) {
        true => Errno::EPIPE,
        false => Errno::EFAULT,
    }
}

/// Waits for an event of a descriptor.
fn wait_for(system: &System, fd: c_int, events: Events) -> Result<Events, Errno> {
    let mut one = [PollFd::new(fd, events)];
    let forever: Option<Duration> = None;
    system.process.poll(&mut one, forever)?;
    Ok(one[0].revents)
}

/// Returns false for the devices that accept every write without a look at the bytes, or refuse it.
fn copies_what_is_written(device: u64) -> bool {
    let is_memory = libc::major(device) == 1;
    const NULL: u32 = 3;
    const ZERO: u32 = 5;
    const FULL: u32 = 7;
    !(is_memory && matches!(libc::minor(device), NULL | ZERO | FULL))
}

fn copies(system: &System, fd: c_int, file: &FileRef<RcuObject>) -> Copies {
    if file.status().contains(OpenFlags::PATH) {
        // The transfer itself reports that.
        return Copies::Bytes;
    }
    match file.stat().map(|stat| stat.kind) {
        Ok(FileKind::Fifo) => Copies::Chunks(PAGE),
        Ok(FileKind::Socket) if socket_type(system, fd) == libc::SOCK_STREAM => {
            Copies::Chunks(SKB_BYTES)
        }
        Ok(FileKind::Socket) => Copies::Messages,
        Ok(_) => Copies::Bytes,
        Err(_) => Copies::Words,
    }
}

fn socket_type(system: &System, fd: c_int) -> c_int {
    match system.process.getsockopt(fd, SocketOption::Type) {
        Ok(OptionValue::Number(number)) => number,
        _ => 0,
    }
}
