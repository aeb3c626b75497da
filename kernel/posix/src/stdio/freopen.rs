//! `freopen`: the same stream, on another file.
//!
//! A stream of ours gets another file at its descriptor. One of the standard streams that is still
//! the C library's becomes ours first, if the path is ours; otherwise the C library reopens it.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use fdtable::FdFlags;
use fdtable_vfs::Errno;
use libc::FILE;

use crate::abi::call::{call, errno, guarded, set_errno};
use crate::abi::links::LastLink;
use crate::abi::system::system;
use crate::abi::target::{HostPath, Target};
use crate::abi::uaccess;
use crate::fs::open::fdt_open;
use crate::host;
use crate::host::file::{HostFile, Keep};
use crate::process::descriptors::{fdt_close, fdt_dup3};
use crate::stdio::file_layout::Locked;
use crate::stdio::standard;
use crate::stdio::streams::{Cookie, Mode, cookie_of, fdt_fopen};

/// Opens another file for a stream, or the same file with another mode if `path` is null:
/// `freopen(3)`. A standard stream may be replaced by another stream, which is returned and which
/// `stdin`, `stdout` or `stderr` is from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> *mut FILE {
    if let Some(cookie) = cookie_of(stream) {
        // SAFETY: as the caller promises.
        return unsafe { reopen(path, mode, stream, cookie) };
    }
    let number = standard::number_of(stream);
    // SAFETY: as the caller promises.
    let on_host = match unsafe { host_path(path) } {
        Ok(on_host) => on_host,
        Err(errno) => {
            set_errno(errno);
            return ptr::null_mut();
        }
    };
    match (on_host, number) {
        // SAFETY: as the caller promises.
        (Some(path), _) => unsafe { reopen_on_host(path.as_ref(), mode, stream, number) },
        (None, Some(number)) => {
            // SAFETY: the standard stream is open, as the caller promises.
            unsafe { Locked::new(stream) }.flush();
            let Some(stream) = standard::take_over(number) else {
                return ptr::null_mut();
            };
            match cookie_of(stream) {
                // SAFETY: as the caller promises, and the new stream is open.
                Some(cookie) => unsafe { reopen(path, mode, stream, cookie) },
                None => ptr::null_mut(),
            }
        }
        (None, None) => {
            // Such a stream cannot lead to a file of ours, so another one does.
            // SAFETY: as the caller promises.
            let _ = host::blocking(|| host::check(unsafe { libc::fclose(stream) }));
            // SAFETY: as the caller promises.
            unsafe { fdt_fopen(path, mode) }
        }
    }
}

/// Returns the path for the C library if it is the host's: null stays null. Returns `None` if the
/// path is ours.
///
/// # Errors
/// `EFAULT`; `EINVAL`.
///
/// # Safety
/// If `path` can be an address, a C string is there.
unsafe fn host_path<'p>(path: *const c_char) -> Result<Option<Option<HostPath<'p>>>, Errno> {
    if path.is_null() {
        return Ok(Some(None));
    }
    // SAFETY: as the caller promises.
    guarded(
        || match unsafe { system().target(libc::AT_FDCWD, path, LastLink::Follow) }? {
            Target::Host(path) => Ok(Some(Some(path))),
            Target::Ours(..) => Ok(None),
        },
    )
}

/// Has the C library reopen a stream of its own on a host path, or with another mode.
///
/// # Safety
/// As for `freopen(3)`.
unsafe fn reopen_on_host(
    path: Option<&HostPath<'_>>,
    mode: *const c_char,
    stream: *mut FILE,
    number: Option<c_int>,
) -> *mut FILE {
    let path = path.map_or(ptr::null(), HostPath::as_ptr);
    call(|system| {
        // SAFETY: as the caller promises.
        let reopened =
            host::blocking(|| host::check_pointer(unsafe { libc::freopen(path, mode, stream) }));
        if let Some(number) = number {
            // The C library has opened the new file at the same host descriptor.
            let files = system.process.files();
            let replaced = HostFile::of(number, Keep::Open)
                .and_then(|file| Ok(files.replace(number, file, FdFlags::empty()).map(drop)?));
            if replaced.is_err() {
                let _ = system.process.close(number);
            }
        }
        reopened
    })
}

/// Reopens a stream of ours. As in the C library, the descriptor stays the same, and after an error
/// the stream has none.
///
/// # Safety
/// As for `freopen(3)`, and the cookie is that of the stream.
unsafe fn reopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
    cookie: *const Cookie,
) -> *mut FILE {
    // SAFETY: as the caller promises.
    let locked = unsafe { Locked::new(stream) };
    // SAFETY: this thread holds the lock, and the stream is open.
    let cookie = unsafe { &*cookie };
    locked.flush();
    // SAFETY: as the caller promises.
    match unsafe { opened(path, mode, cookie.fd()) } {
        Ok((fd, mode)) => {
            let access = mode.flags & libc::O_ACCMODE;
            let (reads, writes) = (access != libc::O_WRONLY, access != libc::O_RDONLY);
            locked.reset(reads, writes, mode.flags & libc::O_APPEND != 0);
            cookie.set_fd(fd);
            mode.seek_to_end(fd);
            stream
        }
        Err(errno) => {
            locked.reset(false, false, false);
            fdt_close(cookie.fd());
            cookie.set_fd(-1);
            set_errno(errno);
            ptr::null_mut()
        }
    }
}

/// Opens the file of a reopened stream, at the stream's descriptor if it has one.
///
/// # Errors
/// `EFAULT`; `EINVAL` for the mode; those of `open`; `EBADF` if there is neither a path nor a
/// descriptor.
///
/// # Safety
/// If the pointers can be addresses, C strings are there.
unsafe fn opened(
    path: *const c_char,
    mode: *const c_char,
    before: c_int,
) -> Result<(c_int, Mode), Errno> {
    // SAFETY: as the caller promises.
    let mode = guarded(|| Mode::read(unsafe { uaccess::string(mode) }?))?;
    let same = CString::new(format!("/proc/self/fd/{before}")).map_err(|_| Errno::EINVAL)?;
    let path = if path.is_null() { same.as_ptr() } else { path };
    // SAFETY: as the caller promises.
    let fd = unsafe { fdt_open(path, mode.flags, 0o666) };
    if fd < 0 {
        return Err(errno());
    }
    if before < 0 || fd == before {
        return Ok((fd, mode));
    }
    let moved = fdt_dup3(fd, before, mode.flags & libc::O_CLOEXEC);
    let failed = errno();
    fdt_close(fd);
    if moved < 0 {
        return Err(failed);
    }
    Ok((before, mode))
}
