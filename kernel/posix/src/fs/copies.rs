//! Copies between files, allocation and write-back: `sendfile`, `copy_file_range`, `fallocate`,
//! `fadvise64`, `sync`.

use std::ffi::{c_int, c_uint};

use fdtable::FileRef;
use fdtable_vfs::{Errno, FallocateFlags, FileKind, RcuObject};
use libc::{off_t, ssize_t};

use crate::abi::call::call;
use crate::abi::uaccess;
use crate::fs::transfers::to_unsigned;
use crate::host;
use crate::host::file::HostFile;

/// Copies from one open file to another: `sendfile(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: usize,
) -> ssize_t {
    call(|system| {
        // A negative offset is above `i64::MAX` as an unsigned one, and refused as such.
        // SAFETY: as the caller promises.
        let mut at = unsafe { uaccess::get_if_any(offset) }?.map(off_t::cast_unsigned);
        let moved = system.process.sendfile(to, from, at.as_mut(), count);
        let moved = system.signal_on_error(to, moved)?;
        // SAFETY: as the caller promises.
        unsafe { put_offset(offset, at) }?;
        Ok(moved)
    })
}

/// Copies a range of a file to another: `copy_file_range(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_copy_file_range(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    count: usize,
    flags: c_uint,
) -> ssize_t {
    call(|system| {
        system.opened_file(from)?;
        system.opened_file(to)?;
        // SAFETY: as the caller promises.
        let mut source = unsafe { uaccess::get_if_any(from_offset) }?.map(off_t::cast_unsigned);
        // SAFETY: as the caller promises.
        let mut target = unsafe { uaccess::get_if_any(to_offset) }?.map(off_t::cast_unsigned);
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let process = &system.process;
        let wraps =
            |offset: Option<u64>| offset.is_some_and(|at| at.checked_add(count as u64).is_none());
        if wraps(source) || wraps(target) {
            // Errors of the files come first.
            process.copy_file_range(from, Some(&mut 0), to, Some(&mut 0), 0)?;
            return Err(Errno::EOVERFLOW);
        }
        let moved = process.copy_file_range(from, source.as_mut(), to, target.as_mut(), count);
        let moved = system.sigxfsz_on_efbig(moved)?;
        // SAFETY: as the caller promises.
        unsafe { put_offset(from_offset, source) }?;
        // SAFETY: as the caller promises.
        unsafe { put_offset(to_offset, target) }?;
        Ok(moved)
    })
}

/// Allocates or frees space for a range of a file: `fallocate(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_fallocate(fd: c_int, how: c_int, offset: off_t, length: off_t) -> c_int {
    call(|system| {
        let file = system.opened_file(fd)?;
        let (from, count) = (to_unsigned(offset)?, to_unsigned(length)?);
        if let Some(host_file) = HostFile::below(&**file) {
            return host::fallocate(host_file.fd().get(), how, offset, length);
        }
        let how = FallocateFlags::from_bits_retain(how.cast_unsigned());
        system.sigxfsz_on_efbig(system.process.fallocate(fd, how, from, count))
    })
}

/// Announces how a file will be used: `fadvise64(2)`. It has no effect on fdtable's files.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_fadvise64(fd: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int {
    call(|system| {
        let file = system.opened_file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            let fd = host_file.fd();
            // SAFETY: the call takes no pointer.
            return host::done(unsafe {
                libc::syscall(libc::SYS_fadvise64, fd.get(), offset, length, advice)
            });
        }
        if is_pipe(&file) {
            return Err(Errno::ESPIPE);
        }
        if length < 0 || !(libc::POSIX_FADV_NORMAL..=libc::POSIX_FADV_NOREUSE).contains(&advice) {
            return Err(Errno::EINVAL);
        }
        Ok(())
    })
}

/// Reads ahead: `readahead(2)`. It has no effect on fdtable's files.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_readahead(fd: c_int, _offset: off_t, _count: usize) -> ssize_t {
    call(|system| {
        let file = system.file(fd)?;
        match file.stat().map(|stat| stat.kind) {
            Ok(FileKind::Regular) if file.status().can_read() => Ok(0_usize),
            Ok(FileKind::Regular) => Err(Errno::EBADF),
            _ => Err(Errno::EINVAL),
        }
    })
}

/// Waits until the host has written everything: `sync(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_sync() {
    // It cannot fail.
    let _ = host::blocking(|| {
        // SAFETY: the call takes no pointer.
        unsafe { libc::sync() };
        Ok(())
    });
}

/// Waits until the file system of a descriptor is written: `syncfs(2)`. It does nothing for
/// fdtable's files, which are in memory.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_syncfs(fd: c_int) -> c_int {
    call(|system| {
        let file = system.opened_file(fd)?;
        match HostFile::below(&**file).map(HostFile::fd) {
            // SAFETY: the call takes no pointer.
            Some(fd) => host::blocking(|| host::done(unsafe { libc::syncfs(fd.get()) })),
            None => Ok(()),
        }
    })
}

/// Waits until a range of a file is written: `sync_file_range(2)`. It does nothing for fdtable's
/// files, which are in memory.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_sync_file_range(
    fd: c_int,
    offset: off_t,
    length: off_t,
    flags: c_uint,
) -> c_int {
    call(|system| {
        let file = system.file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            let host_fd = host_file.fd();
            // SAFETY: the call takes no pointer.
            let sync = || unsafe { libc::sync_file_range(host_fd.get(), offset, length, flags) };
            return host::blocking(|| host::done(sync()));
        }
        if flags > 7 || offset < 0 || length < 0 {
            return Err(Errno::EINVAL);
        }
        match file.stat()?.kind {
            FileKind::Regular | FileKind::Directory => Ok(()),
            _ => Err(Errno::ESPIPE),
        }
    })
}

pub(crate) fn is_pipe(file: &FileRef<RcuObject>) -> bool {
    file.stat().is_ok_and(|stat| stat.kind == FileKind::Fifo)
}

/// Reads an optional offset of the caller.
///
/// # Safety
/// If `at` can be an address, an offset is there.
pub(crate) unsafe fn offset_of(at: *mut off_t) -> Result<Option<u64>, Errno> {
    // SAFETY: as the caller promises.
    unsafe { uaccess::get_if_any(at) }?
        .map(to_unsigned)
        .transpose()
}

/// Writes the offset at the end of a copy to the caller.
///
/// # Safety
/// If `at` can be an address, there is room for an offset.
pub(crate) unsafe fn put_offset(at: *mut off_t, offset: Option<u64>) -> Result<(), Errno> {
    match offset {
        // SAFETY: as the caller promises.
        Some(offset) => unsafe { uaccess::put(at, offset.cast_signed()) },
        None => Ok(()),
    }
}
