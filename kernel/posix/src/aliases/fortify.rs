//! The `_chk` variants of calls, which `_FORTIFY_SOURCE` selects.
//!
//! The compiler passes the size of the buffer. A call that would write past its end aborts the
//! process, like glibc's own.

use std::ffi::{c_char, c_int, c_void};

use libc::{off_t, ssize_t};

use crate::event::polling;
use crate::fs::{directories, names, open, realpath, status, transfers};
use crate::host::{other_files, terminals};
use crate::ipc::messages;

unsafe extern "C" {
    fn __chk_fail() -> !;
}

/// Aborts the process if a call may write more than fits into the buffer.
pub(crate) fn check_room(wanted: usize, room: usize) {
    if wanted > room {
        // SAFETY: it takes no argument and does not return.
        unsafe { __chk_fail() }
    }
}

/// Defines functions that no header declares: cbindgen does not expand macros.
macro_rules! undeclared {
    ($($function:item)+) => { $($function)+ };
}

undeclared! {
    /// `open` without a mode.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___open_2(path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { open::fdt_open(path, flags, 0) }
    }

    /// `open64` without a mode.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___open64_2(path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { open::fdt_open(path, flags, 0) }
    }

    /// `openat` without a mode.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___openat_2(fd: c_int, path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { open::fdt_openat(fd, path, flags, 0) }
    }

    /// `openat64` without a mode.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___openat64_2(fd: c_int, path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { open::fdt_openat(fd, path, flags, 0) }
    }

    /// `read` with a check of the buffer length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___read_chk(
        fd: c_int,
        buf: *mut c_void,
        count: usize,
        room: usize,
    ) -> ssize_t {
        check_room(count, room);
        // SAFETY: as the caller promises.
        unsafe { transfers::fdt_read(fd, buf, count) }
    }

    /// `pread` with a check of the buffer length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___pread_chk(
        fd: c_int,
        buf: *mut c_void,
        count: usize,
        offset: off_t,
        room: usize,
    ) -> ssize_t {
        check_room(count, room);
        // SAFETY: as the caller promises.
        unsafe { transfers::fdt_pread(fd, buf, count, offset) }
    }

    /// `pread64` with a check of the buffer length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___pread64_chk(
        fd: c_int,
        buf: *mut c_void,
        count: usize,
        offset: off_t,
        room: usize,
    ) -> ssize_t {
        // SAFETY: as the caller promises.
        unsafe { fdt___pread_chk(fd, buf, count, offset, room) }
    }

    /// `poll` with a check of the array length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___poll_chk(
        fds: *mut libc::pollfd,
        count: libc::nfds_t,
        timeout: c_int,
        room: usize,
    ) -> c_int {
        check_room(count as usize, room / size_of::<libc::pollfd>());
        // SAFETY: as the caller promises.
        unsafe { polling::fdt_poll(fds, count, timeout) }
    }

    /// `ppoll` with a check of the array length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___ppoll_chk(
        fds: *mut libc::pollfd,
        count: libc::nfds_t,
        timeout: *const libc::timespec,
        mask: *const libc::sigset_t,
        room: usize,
    ) -> c_int {
        check_room(count as usize, room / size_of::<libc::pollfd>());
        // SAFETY: as the caller promises.
        unsafe { polling::fdt_ppoll(fds, count, timeout, mask) }
    }

    /// `stat` of old C libraries, which pass the version of the struct.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___xstat(_version: c_int, path: *const c_char, stat: *mut libc::stat) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { status::fdt_stat(path, stat) }
    }

    /// `lstat` of old C libraries, which pass the version of the struct.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___lxstat(_version: c_int, path: *const c_char, stat: *mut libc::stat) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { status::fdt_lstat(path, stat) }
    }

    /// `fstat` of old C libraries, which pass the version of the struct.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___fxstat(_version: c_int, fd: c_int, stat: *mut libc::stat) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { status::fdt_fstat(fd, stat) }
    }

    /// `fstatat` of old C libraries, which pass the version of the struct.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___fxstatat(_version: c_int, fd: c_int, path: *const c_char, stat: *mut libc::stat, flags: c_int) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { status::fdt_fstatat(fd, path, stat, flags) }
    }

    /// `stat64` of old C libraries, which pass the version of the struct.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___xstat64(_version: c_int, path: *const c_char, stat: *mut libc::stat) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { status::fdt_stat(path, stat) }
    }

    /// `lstat64` of old C libraries, which pass the version of the struct.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___lxstat64(_version: c_int, path: *const c_char, stat: *mut libc::stat) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { status::fdt_lstat(path, stat) }
    }

    /// `fstat64` of old C libraries, which pass the version of the struct.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___fxstat64(_version: c_int, fd: c_int, stat: *mut libc::stat) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { status::fdt_fstat(fd, stat) }
    }

    /// `fstatat64` of old C libraries, which pass the version of the struct.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___fxstatat64(_version: c_int, fd: c_int, path: *const c_char, stat: *mut libc::stat, flags: c_int) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { status::fdt_fstatat(fd, path, stat, flags) }
    }

    /// `mknod` of old C libraries, which pass the version of the call.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___xmknod(_version: c_int, path: *const c_char, mode: libc::mode_t, device: *const libc::dev_t) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { names::fdt_mknod(path, mode, *device) }
    }

    /// `mknodat` of old C libraries, which pass the version of the call.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___xmknodat(_version: c_int, fd: c_int, path: *const c_char, mode: libc::mode_t, device: *const libc::dev_t) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { names::fdt_mknodat(fd, path, mode, *device) }
    }

    /// `getcwd` with a check of the buffer length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___getcwd_chk(buf: *mut c_char, size: usize, room: usize) -> *mut c_char {
        check_room(size, room);
        // SAFETY: as the caller promises.
        unsafe { directories::fdt_getcwd(buf, size) }
    }

    /// `readlink` with a check of the buffer length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___readlink_chk(
        path: *const c_char,
        buf: *mut c_char,
        size: usize,
        room: usize,
    ) -> ssize_t {
        check_room(size, room);
        // SAFETY: as the caller promises.
        unsafe { names::fdt_readlink(path, buf, size) }
    }

    /// `readlinkat` with a check of the buffer length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___readlinkat_chk(
        fd: c_int,
        path: *const c_char,
        buf: *mut c_char,
        size: usize,
        room: usize,
    ) -> ssize_t {
        check_room(size, room);
        // SAFETY: as the caller promises.
        unsafe { names::fdt_readlinkat(fd, path, buf, size) }
    }

    /// `realpath` with a check of the buffer length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___realpath_chk(
        path: *const c_char,
        resolved: *mut c_char,
        room: usize,
    ) -> *mut c_char {
        check_room(libc::PATH_MAX as usize, room);
        // SAFETY: as the caller promises.
        unsafe { realpath::fdt_realpath(path, resolved) }
    }

    /// `recv` with a check of the buffer length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___recv_chk(
        fd: c_int,
        buf: *mut c_void,
        count: usize,
        room: usize,
        flags: c_int,
    ) -> ssize_t {
        check_room(count, room);
        // SAFETY: as the caller promises.
        unsafe { messages::fdt_recv(fd, buf, count, flags) }
    }

    /// `recvfrom` with a check of the buffer length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___recvfrom_chk(
        fd: c_int,
        buf: *mut c_void,
        count: usize,
        room: usize,
        flags: c_int,
        from: *mut libc::sockaddr,
        length: *mut libc::socklen_t,
    ) -> ssize_t {
        check_room(count, room);
        // SAFETY: as the caller promises.
        unsafe { messages::fdt_recvfrom(fd, buf, count, flags, from, length) }
    }

    /// `ttyname_r` with a check of the buffer length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___ttyname_r_chk(
        fd: c_int,
        buf: *mut c_char,
        size: usize,
        room: usize,
    ) -> c_int {
        check_room(size, room);
        // SAFETY: as the caller promises.
        unsafe { other_files::fdt_ttyname_r(fd, buf, size) }
    }

    /// `ptsname_r` with a check of the buffer length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdt___ptsname_r_chk(
        fd: c_int,
        buf: *mut c_char,
        size: usize,
        room: usize,
    ) -> c_int {
        check_room(size, room);
        // SAFETY: as the caller promises.
        unsafe { terminals::fdt_ptsname_r(fd, buf, size) }
    }
}
