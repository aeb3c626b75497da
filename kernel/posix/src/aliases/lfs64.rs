//! Aliases of calls, such as `open64`, for objects whose symbols were renamed.
//!
//! They are functions of their own because `objcopy` maps each new name to only one old name. On a
//! 64-bit machine `open64` is `open`. Names like `__poll` are glibc's internal aliases.

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};

use libc::{DIR, FILE, dirent, iovec, mode_t, off_t, ssize_t};

use crate::event::polling;
use crate::fs::{attributes, copies, locks, mkstemp, mmap, open, status, transfers, vectored};
use crate::process::signals::fdt_handler;
use crate::process::{descriptors, limits, signals};
use crate::stdio::directory_streams::{Compare, Filter};
use crate::stdio::{directory_streams, freopen, streams};

macro_rules! aliases {
    ($($alias:ident = $module:ident::$function:ident($($name:ident: $type:ty),*) -> $result:ty;)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $alias($($name: $type),*) -> $result {
            #[allow(unused_unsafe)]
            // SAFETY: as the caller promises.
            unsafe { $module::$function($($name),*) }
        }
    )+};
}

aliases! {
    fdt_open64 = open::fdt_open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fdt_openat64 = open::fdt_openat(fd: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fdt_creat64 = open::fdt_creat(path: *const c_char, mode: mode_t) -> c_int;
    fdt_fcntl64 = descriptors::fdt_fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    fdt___fcntl = descriptors::fdt_fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    fdt_ftruncate64 = transfers::fdt_ftruncate(fd: c_int, length: off_t) -> c_int;
    fdt_lseek64 = transfers::fdt_lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    fdt_pread64 = transfers::fdt_pread(fd: c_int, buf: *mut c_void, count: usize, offset: off_t) -> ssize_t;
    fdt_pwrite64 = transfers::fdt_pwrite(fd: c_int, bytes: *const c_void, count: usize, offset: off_t) -> ssize_t;
    fdt_stat64 = status::fdt_stat(path: *const c_char, stat: *mut libc::stat) -> c_int;
    fdt_lstat64 = status::fdt_lstat(path: *const c_char, stat: *mut libc::stat) -> c_int;
    fdt_fstat64 = status::fdt_fstat(fd: c_int, stat: *mut libc::stat) -> c_int;
    fdt_fstatat64 = status::fdt_fstatat(fd: c_int, path: *const c_char, stat: *mut libc::stat, flags: c_int) -> c_int;
    fdt_lockf64 = locks::fdt_lockf(fd: c_int, command: c_int, length: off_t) -> c_int;
    fdt___sysconf = limits::fdt_sysconf(name: c_int) -> c_long;
    fdt___poll = polling::fdt_poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int;
    fdt___select = polling::fdt_select(count: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, except: *mut libc::fd_set, timeout: *mut libc::timeval) -> c_int;
    fdt_getrlimit64 = limits::fdt_getrlimit(resource: c_int, limit: *mut libc::rlimit) -> c_int;
    fdt_setrlimit64 = limits::fdt_setrlimit(resource: c_int, limit: *const libc::rlimit) -> c_int;
    fdt_prlimit64 = limits::fdt_prlimit(process: libc::pid_t, resource: c_int, new: *const libc::rlimit, old: *mut libc::rlimit) -> c_int;
    fdt_eaccess = attributes::fdt_euidaccess(path: *const c_char, mode: c_int) -> c_int;
    fdt_truncate64 = attributes::fdt_truncate(path: *const c_char, length: off_t) -> c_int;
    fdt_statfs64 = status::fdt_statfs(path: *const c_char, statfs: *mut libc::statfs64) -> c_int;
    fdt_fstatfs64 = status::fdt_fstatfs(fd: c_int, statfs: *mut libc::statfs64) -> c_int;
    fdt_statvfs64 = status::fdt_statvfs(path: *const c_char, statvfs: *mut libc::statvfs) -> c_int;
    fdt_fstatvfs64 = status::fdt_fstatvfs(fd: c_int, statvfs: *mut libc::statvfs) -> c_int;
    fdt_fallocate64 = copies::fdt_fallocate(fd: c_int, how: c_int, offset: off_t, length: off_t) -> c_int;
    fdt_posix_fadvise64 = copies::fdt_posix_fadvise(fd: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int;
    fdt_posix_fallocate64 = copies::fdt_posix_fallocate(fd: c_int, offset: off_t, length: off_t) -> c_int;
    fdt_sendfile64 = copies::fdt_sendfile(to: c_int, from: c_int, offset: *mut off_t, count: usize) -> ssize_t;
    fdt_readdir64 = directory_streams::fdt_readdir(directory: *mut DIR) -> *mut dirent;
    fdt_readdir64_r = directory_streams::fdt_readdir_r(directory: *mut DIR, entry: *mut dirent, result: *mut *mut dirent) -> c_int;
    fdt_scandir64 = directory_streams::fdt_scandir(path: *const c_char, list: *mut *mut *mut dirent, filter: Filter, compare: Compare) -> c_int;
    fdt_fileno_unlocked = streams::fdt_fileno(stream: *mut FILE) -> c_int;
    fdt_freopen64 = freopen::fdt_freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    fdt_fopen64 = streams::fdt_fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fdt_tmpfile64 = streams::fdt_tmpfile() -> *mut FILE;
    fdt_mkstemp64 = mkstemp::fdt_mkstemp(template: *mut c_char) -> c_int;
    fdt_mkostemp64 = mkstemp::fdt_mkostemp(template: *mut c_char, flags: c_int) -> c_int;
    fdt_mkstemps64 = mkstemp::fdt_mkstemps(template: *mut c_char, suffix: c_int) -> c_int;
    fdt_mkostemps64 = mkstemp::fdt_mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    fdt_mmap64 = mmap::fdt_mmap(at: *mut c_void, length: usize, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void;
    fdt_preadv64 = vectored::fdt_preadv(fd: c_int, bufs: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    fdt_preadv64v2 = vectored::fdt_preadv2(fd: c_int, bufs: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fdt_pwritev64 = vectored::fdt_pwritev(fd: c_int, bufs: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    fdt___sigaction = signals::fdt_sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    fdt_ssignal = signals::fdt_signal(signal: c_int, handler: fdt_handler) -> fdt_handler;
    fdt_bsd_signal = signals::fdt_signal(signal: c_int, handler: fdt_handler) -> fdt_handler;
    fdt___sysv_signal = signals::fdt_sysv_signal(signal: c_int, handler: fdt_handler) -> fdt_handler;
    fdt_pwritev64v2 = vectored::fdt_pwritev2(fd: c_int, bufs: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
}
