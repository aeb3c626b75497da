//! Calls that move bytes or the file position.

use std::ffi::{c_int, c_void};

use fdtable::FileRef;
use fdtable_vfs::event::Events;
use fdtable_vfs::socket::{OptionValue, SocketOption};
use fdtable_vfs::{Errno, FileKind, Limit, Object, RcuObject, Resource, RwFlags, SeekTo};

use crate::abi::call::call;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::fs::partial::{self, Partial};
use crate::host;
use crate::host::file::HostFile;

/// Reads at the position: `read(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_read(fd: c_int, buf: *mut c_void, count: usize) -> libc::ssize_t {
    // SAFETY: as the caller promises.
    call(|system| unsafe { read(system, fd, buf, count, None) })
}

/// Writes at the position: `write(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_write(fd: c_int, bytes: *const c_void, count: usize) -> libc::ssize_t {
    // SAFETY: as the caller promises.
    call(|system| unsafe { write(system, fd, bytes, count, None) })
}

/// Reads at an offset: `pread(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_pread(
    fd: c_int,
    buf: *mut c_void,
    count: usize,
    offset: libc::off_t,
) -> libc::ssize_t {
    call(|system| {
        let offset = system.transfer_offset(fd, Direction::Read, offset, count)?;
        // SAFETY: as the caller promises.
        unsafe { read(system, fd, buf, count, Some(offset)) }
    })
}

/// Writes at an offset: `pwrite(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_pwrite(
    fd: c_int,
    bytes: *const c_void,
    count: usize,
    offset: libc::off_t,
) -> libc::ssize_t {
    call(|system| {
        let offset = system.transfer_offset(fd, Direction::Write, offset, count)?;
        // SAFETY: as the caller promises.
        unsafe { write(system, fd, bytes, count, Some(offset)) }
    })
}

/// Moves the position: `lseek(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_lseek(fd: c_int, offset: libc::off_t, whence: c_int) -> libc::off_t {
    call(|system| {
        let to = match whence {
            libc::SEEK_SET if offset < 0 => return system.seek_below_start(fd),
            libc::SEEK_SET => to_unsigned(offset).map(SeekTo::Start),
            libc::SEEK_CUR => Ok(SeekTo::Current(offset)),
            libc::SEEK_END => Ok(SeekTo::End(offset)),
            // For these, every negative offset is beyond the end of the file.
            libc::SEEK_DATA => to_unsigned(offset).map(SeekTo::Data).or(Err(Errno::ENXIO)),
            libc::SEEK_HOLE => to_unsigned(offset).map(SeekTo::Hole).or(Err(Errno::ENXIO)),
            _ => return Err(system.opened_file(fd).err().unwrap_or(Errno::EINVAL)),
        };
        let to = system.after(fd, to)?;
        match system.process.lseek(fd, to) {
            Err(Errno::ESPIPE) if is_anonymous(&**system.file(fd)?) => Ok(0),
            moved => Ok(moved?.cast_signed()),
        }
    })
}

impl System {
    /// Returns the result of a seek to a negative position.
    ///
    /// # Errors
    /// `EINVAL`, except that a device has no other position than 0; those of the descriptor.
    #[cold]
    fn seek_below_start(&self, fd: c_int) -> Result<libc::off_t, Errno> {
        let file = self.file(fd)?;
        if HostFile::below(&**file).is_none() {
            if is_anonymous(&**file) {
                return Ok(0);
            }
            let kind = file.stat()?.kind;
            self.process.lseek(fd, SeekTo::Current(0))?;
            if kind == FileKind::CharDevice {
                return Ok(0);
            }
        }
        Err(Errno::EINVAL)
    }
}

/// Returns true for an eventfd or epoll of ours, which has the position 0.
fn is_anonymous(file: &dyn Object) -> bool {
    HostFile::below(file).is_none() && file.stat() == Err(Errno::EOPNOTSUPP)
}

/// Sets the size of an open file: `ftruncate(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_ftruncate(fd: c_int, length: libc::off_t) -> c_int {
    call(|system| system.sigxfsz_on_efbig(system.process.ftruncate(fd, to_unsigned(length)?)))
}

/// Waits until the file is on stable storage: `fsync(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_fsync(fd: c_int) -> c_int {
    call(|system| system.process.fsync(fd))
}

/// Like `fsync`: `fdatasync(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_fdatasync(fd: c_int) -> c_int {
    fdt_fsync(fd)
}

/// Reads at an offset, or at the position.
///
/// # Safety
/// As for [`uaccess::bytes_mut`].
#[inline(always)]
unsafe fn read(
    system: &System,
    fd: c_int,
    buf: *mut c_void,
    count: usize,
    offset: Option<u64>,
) -> Result<usize, Errno> {
    let used = partial::used_by_read(system, fd, count, offset);
    // SAFETY: as the caller promises.
    let Ok(bytes) = (unsafe { uaccess::bytes_mut_probed(buf, count, used.probed) }) else {
        // SAFETY: as the caller promises.
        let bufs = unsafe { partial_of(system, fd, Direction::Read, buf, count, offset) }?;
        return partial::read(system, fd, &bufs, offset, RwFlags::empty());
    };
    let count = used.count.min(bytes.len());
    let bytes = &mut bytes[..count];
    match offset {
        Some(offset) => system.process.pread(fd, bytes, offset),
        None => system.process.read(fd, bytes),
    }
}

/// Writes at an offset, or at the position.
///
/// # Safety
/// As for [`uaccess::bytes`].
#[inline(always)]
unsafe fn write(
    system: &System,
    fd: c_int,
    bytes: *const c_void,
    count: usize,
    offset: Option<u64>,
) -> Result<usize, Errno> {
    // SAFETY: as the caller promises.
    let written = match (unsafe { uaccess::bytes(bytes, count) }, offset) {
        (Ok(bytes), Some(offset)) => system.process.pwrite(fd, bytes, offset),
        (Ok(bytes), None) => system.process.write(fd, bytes),
        (Err(_), _) => {
            let (direction, at) = (Direction::Write, bytes.cast_mut());
            // SAFETY: as the caller promises.
            let bufs = unsafe { partial_of(system, fd, direction, at, count, offset) }?;
            partial::write(system, fd, &bufs, offset, RwFlags::empty())
        }
    };
    system.signal_on_write(fd, written, count)
}

/// Returns the buffer of a transfer that cannot be accessed as a whole.
///
/// # Errors
/// Errors of [`transfer_error`](System::transfer_error) if it is above the address space.
///
/// # Safety
/// As for [`uaccess::bytes`] or [`uaccess::bytes_mut`].
#[cold]
unsafe fn partial_of(
    system: &System,
    fd: c_int,
    direction: Direction,
    at: *mut c_void,
    count: usize,
    offset: Option<u64>,
) -> Result<Partial, Errno> {
    uaccess::check_range_end(at.cast::<u8>(), count)
        .map_err(|errno| system.transfer_error(fd, direction, offset.is_some(), errno))?;
    // SAFETY: as the caller promises.
    Ok(unsafe { Partial::of_one(at, count, direction == Direction::Read) })
}

impl System {
    /// Sends SIGPIPE with `EPIPE` from a pipe or a stream socket of ours, and SIGXFSZ as
    /// [`sigxfsz_on_efbig`](Self::sigxfsz_on_efbig) does.
    #[inline]
    pub(crate) fn signal_on_error<R>(&self, fd: c_int, done: Result<R, Errno>) -> Result<R, Errno> {
        if done.as_ref().is_err_and(|&errno| errno == Errno::EPIPE) {
            self.sigpipe(fd);
        }
        self.sigxfsz_on_efbig(done)
    }

    /// Sends SIGPIPE like [`signal_on_error`](Self::signal_on_error), and also if a pipe of ours
    /// has lost its last reader after some of `count` bytes were written.
    #[inline]
    pub(crate) fn signal_on_write(
        &self,
        fd: c_int,
        done: Result<usize, Errno>,
        count: usize,
    ) -> Result<usize, Errno> {
        if done.is_ok_and(|written| written < count) && self.has_lost_readers(fd) {
            host::raise(libc::SIGPIPE);
        }
        self.signal_on_error(fd, done)
    }

    /// Sends SIGXFSZ with `EFBIG` if this process limits the size of files, as the host does.
    #[inline]
    pub(crate) fn sigxfsz_on_efbig<R>(&self, done: Result<R, Errno>) -> Result<R, Errno> {
        if done.as_ref().is_err_and(|&errno| errno == Errno::EFBIG)
            && self.process.getrlimit(Resource::FileSize).soft != Limit::INFINITY
        {
            host::raise(libc::SIGXFSZ);
        }
        done
    }

    #[cold]
    fn has_lost_readers(&self, fd: c_int) -> bool {
        self.file(fd).is_ok_and(|file| {
            HostFile::below(&**file).is_none()
                && file.stat().is_ok_and(|stat| stat.kind == FileKind::Fifo)
                && file.events().contains(Events::ERR)
        })
    }

    #[cold]
    fn sigpipe(&self, fd: c_int) {
        // The host sends the signal for its own files.
        let is_hosts = |file: FileRef<RcuObject>| HostFile::below(&**file).is_some();
        if self.file(fd).is_ok_and(is_hosts) {
            return;
        }
        let kind = self.process.getsockopt(fd, SocketOption::Type);
        let stream = OptionValue::Number(libc::SOCK_STREAM);
        if kind.is_ok_and(|kind| kind != stream) {
            return;
        }
        host::raise(libc::SIGPIPE);
    }
}

/// Direction of a transfer.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl System {
    /// Converts the offset of a transfer.
    ///
    /// # Errors
    /// `EINVAL` if it is negative; if the transfer could end above `i64::MAX`, that of
    /// [`transfer_error`](Self::transfer_error).
    #[inline]
    pub(crate) fn transfer_offset(
        &self,
        fd: c_int,
        direction: Direction,
        offset: libc::off_t,
        count: usize,
    ) -> Result<u64, Errno> {
        let from = to_unsigned(offset)?;
        let end = offset.checked_add_unsigned(count as u64);
        if end.is_none() && count <= isize::MAX as usize {
            return Err(self.transfer_error(fd, direction, true, Errno::EINVAL));
        }
        Ok(from)
    }

    /// Returns the error of a transfer whose buffer or range is wrong. Errors of the descriptor
    /// come first, as on the host: `EBADF` if it is not open for the transfer, `ESPIPE` if it has
    /// no offsets, and `EINVAL` if its type has no such transfer.
    #[cold]
    pub(crate) fn transfer_error(
        &self,
        fd: c_int,
        direction: Direction,
        has_offset: bool,
        errno: Errno,
    ) -> Errno {
        let checked = self.check_transfer(fd, direction, has_offset);
        checked.err().unwrap_or(errno)
    }

    pub(crate) fn check_transfer(
        &self,
        fd: c_int,
        direction: Direction,
        has_offset: bool,
    ) -> Result<(), Errno> {
        let file = self.opened_file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            // The host checks the descriptor, and a transfer of no buffers does nothing else.
            let how = (has_offset.then_some(0), RwFlags::empty());
            let none = match direction {
                Direction::Read => host_file.readv(&[], how),
                Direction::Write => host_file.writev(&[], how),
            };
            return none.map(drop);
        }
        let kind = file.stat().map(|stat| stat.kind);
        if has_offset && matches!(kind, Err(_) | Ok(FileKind::Fifo | FileKind::Socket)) {
            return Err(Errno::ESPIPE);
        }
        let is_open = match direction {
            Direction::Read => file.status().can_read(),
            Direction::Write => file.status().can_write(),
        };
        if !is_open {
            return Err(Errno::EBADF);
        }
        match kind.is_ok() || file.label() == "anon_inode:[eventfd]" {
            true => Ok(()),
            false => Err(Errno::EINVAL),
        }
    }
}

/// Converts an offset or length.
///
/// # Errors
/// `EINVAL` if it is negative.
pub(crate) fn to_unsigned(offset: libc::off_t) -> Result<u64, Errno> {
    u64::try_from(offset).map_err(|_| Errno::EINVAL)
}
