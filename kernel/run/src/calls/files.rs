//! Calls that `fdtable-posix` serves, of which each has a function of the C interface.

use std::ffi::CStr;

use fdtable_posix::*;

use super::Row;
use crate::abi::{address_of, call, errno};
use crate::memory::pointer;

/// Descriptors and transfers.
pub(super) const DESCRIPTORS: &[Row] = &[
    (libc::SYS_openat, |_, a| {
        call!(fdt_openat(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_open, |_, a| call!(fdt_open(a[0], a[1], a[2]))),
    (libc::SYS_creat, |_, a| call!(fdt_creat(a[0], a[1]))),
    (libc::SYS_openat2, |_, a| {
        call!(fdt_openat2(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_close_range, |_, a| {
        call!(fdt_close_range(a[0], a[1], a[2]))
    }),
    (libc::SYS_dup, |_, a| call!(fdt_dup(a[0]))),
    (libc::SYS_dup2, |_, a| call!(fdt_dup2(a[0], a[1]))),
    (libc::SYS_dup3, |_, a| call!(fdt_dup3(a[0], a[1], a[2]))),
    (libc::SYS_fcntl, |_, a| call!(fdt_fcntl(a[0], a[1], a[2]))),
    (libc::SYS_ioctl, |_, a| call!(fdt_ioctl(a[0], a[1], a[2]))),
    (libc::SYS_readv, |_, a| call!(fdt_readv(a[0], a[1], a[2]))),
    (libc::SYS_writev, |_, a| call!(fdt_writev(a[0], a[1], a[2]))),
    (libc::SYS_preadv, |_, a| {
        call!(fdt_preadv(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_pwritev, |_, a| {
        call!(fdt_pwritev(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_preadv2, |_, a| {
        call!(fdt_preadv2(a[0], a[1], a[2], a[3], a[5]))
    }),
    (libc::SYS_pwritev2, |_, a| {
        call!(fdt_pwritev2(a[0], a[1], a[2], a[3], a[5]))
    }),
    (libc::SYS_pipe, |_, a| call!(fdt_pipe(a[0]))),
    (libc::SYS_pipe2, |_, a| call!(fdt_pipe2(a[0], a[1]))),
    (libc::SYS_memfd_create, |_, a| {
        call!(fdt_memfd_create(a[0], a[1]))
    }),
    (libc::SYS_sendfile, |_, a| {
        call!(fdt_sendfile(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_copy_file_range, |_, a| {
        call!(fdt_copy_file_range(a[0], a[1], a[2], a[3], a[4], a[5]))
    }),
    (libc::SYS_splice, |_, a| {
        call!(fdt_splice(a[0], a[1], a[2], a[3], a[4], a[5]))
    }),
    (libc::SYS_tee, |_, a| call!(fdt_tee(a[0], a[1], a[2], a[3]))),
    (libc::SYS_vmsplice, |_, a| {
        call!(fdt_vmsplice(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_flock, |_, a| call!(fdt_flock(a[0], a[1]))),
    (libc::SYS_truncate, |_, a| call!(fdt_truncate(a[0], a[1]))),
    (libc::SYS_ftruncate, |_, a| call!(fdt_ftruncate(a[0], a[1]))),
    (libc::SYS_fallocate, |_, a| {
        call!(fdt_fallocate(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_fsync, |_, a| call!(fdt_fsync(a[0]))),
    (libc::SYS_fdatasync, |_, a| call!(fdt_fdatasync(a[0]))),
    (libc::SYS_syncfs, |_, a| call!(fdt_syncfs(a[0]))),
    (libc::SYS_sync, |_, _| call!(fdt_sync())),
    (libc::SYS_sync_file_range, |_, a| {
        call!(fdt_sync_file_range(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_readahead, |_, a| {
        call!(fdt_readahead(a[0], a[1], a[2]))
    }),
    (libc::SYS_fadvise64, |_, a| {
        -call!(fdt_posix_fadvise(a[0], a[1], a[2], a[3]))
    }),
];

/// Paths and attributes.
pub(super) const PATHS: &[Row] = &[
    (libc::SYS_stat, |_, a| call!(fdt_stat(a[0], a[1]))),
    (libc::SYS_lstat, |_, a| call!(fdt_lstat(a[0], a[1]))),
    (libc::SYS_fstat, |_, a| call!(fdt_fstat(a[0], a[1]))),
    (libc::SYS_newfstatat, |_, a| {
        call!(fdt_fstatat(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_statx, |_, a| {
        call!(fdt_statx(a[0], a[1], a[2], a[3], a[4]))
    }),
    (libc::SYS_statfs, |_, a| call!(fdt_statfs(a[0], a[1]))),
    (libc::SYS_fstatfs, |_, a| call!(fdt_fstatfs(a[0], a[1]))),
    (libc::SYS_access, |_, a| call!(fdt_access(a[0], a[1]))),
    // The kernel's call has no flags.
    (libc::SYS_faccessat, |_, a| {
        call!(fdt_faccessat(a[0], a[1], a[2], 0))
    }),
    (libc::SYS_faccessat2, |_, a| {
        call!(fdt_faccessat(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_chmod, |_, a| call!(fdt_chmod(a[0], a[1]))),
    (libc::SYS_fchmod, |_, a| call!(fdt_fchmod(a[0], a[1]))),
    (libc::SYS_fchmodat, |_, a| {
        call!(fdt_fchmodat(a[0], a[1], a[2], 0))
    }),
    (libc::SYS_chown, |_, a| call!(fdt_chown(a[0], a[1], a[2]))),
    (libc::SYS_lchown, |_, a| call!(fdt_lchown(a[0], a[1], a[2]))),
    (libc::SYS_fchown, |_, a| call!(fdt_fchown(a[0], a[1], a[2]))),
    (libc::SYS_fchownat, |_, a| {
        call!(fdt_fchownat(a[0], a[1], a[2], a[3], a[4]))
    }),
    (libc::SYS_utime, |_, a| call!(fdt_utime(a[0], a[1]))),
    (libc::SYS_utimes, |_, a| call!(fdt_utimes(a[0], a[1]))),
    (libc::SYS_futimesat, |_, a| {
        call!(fdt_futimesat(a[0], a[1], a[2]))
    }),
    (libc::SYS_utimensat, |_, a| {
        call!(fdt_utimensat(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_umask, |_, a| call!(fdt_umask(a[0]))),
    (libc::SYS_mkdir, |_, a| call!(fdt_mkdir(a[0], a[1]))),
    (libc::SYS_mkdirat, |_, a| {
        call!(fdt_mkdirat(a[0], a[1], a[2]))
    }),
    (libc::SYS_mknod, |_, a| call!(fdt_mknod(a[0], a[1], a[2]))),
    (libc::SYS_mknodat, |_, a| {
        call!(fdt_mknodat(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_rmdir, |_, a| call!(fdt_rmdir(a[0]))),
    (libc::SYS_unlink, |_, a| call!(fdt_unlink(a[0]))),
    (libc::SYS_unlinkat, |_, a| {
        call!(fdt_unlinkat(a[0], a[1], a[2]))
    }),
    (libc::SYS_rename, |_, a| call!(fdt_rename(a[0], a[1]))),
    (libc::SYS_renameat, |_, a| {
        call!(fdt_renameat(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_renameat2, |_, a| {
        call!(fdt_renameat2(a[0], a[1], a[2], a[3], a[4]))
    }),
    (libc::SYS_link, |_, a| call!(fdt_link(a[0], a[1]))),
    (libc::SYS_linkat, |_, a| {
        call!(fdt_linkat(a[0], a[1], a[2], a[3], a[4]))
    }),
    (libc::SYS_symlink, |_, a| call!(fdt_symlink(a[0], a[1]))),
    (libc::SYS_symlinkat, |_, a| {
        call!(fdt_symlinkat(a[0], a[1], a[2]))
    }),
    (libc::SYS_readlink, |_, a| {
        call!(fdt_readlink(a[0], a[1], a[2]))
    }),
    (libc::SYS_readlinkat, |_, a| {
        call!(fdt_readlinkat(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_chdir, |_, a| call!(fdt_chdir(a[0]))),
    (libc::SYS_fchdir, |_, a| call!(fdt_fchdir(a[0]))),
    (libc::SYS_getdents64, |_, a| {
        call!(fdt_getdents64(a[0], a[1], a[2]))
    }),
    (libc::SYS_getdents, |_, a| old_entries(a)),
    (libc::SYS_getcwd, |_, a| working_directory(a)),
];

/// Sockets.
pub(super) const SOCKETS: &[Row] = &[
    (libc::SYS_socket, |_, a| call!(fdt_socket(a[0], a[1], a[2]))),
    (libc::SYS_socketpair, |_, a| {
        call!(fdt_socketpair(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_bind, |_, a| call!(fdt_bind(a[0], a[1], a[2]))),
    (libc::SYS_listen, |_, a| call!(fdt_listen(a[0], a[1]))),
    (libc::SYS_accept, |_, a| call!(fdt_accept(a[0], a[1], a[2]))),
    (libc::SYS_accept4, |_, a| {
        call!(fdt_accept4(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_connect, |_, a| {
        call!(fdt_connect(a[0], a[1], a[2]))
    }),
    (libc::SYS_shutdown, |_, a| call!(fdt_shutdown(a[0], a[1]))),
    (libc::SYS_getsockname, |_, a| {
        call!(fdt_getsockname(a[0], a[1], a[2]))
    }),
    (libc::SYS_getpeername, |_, a| {
        call!(fdt_getpeername(a[0], a[1], a[2]))
    }),
    (libc::SYS_getsockopt, |_, a| {
        call!(fdt_getsockopt(a[0], a[1], a[2], a[3], a[4]))
    }),
    (libc::SYS_setsockopt, |_, a| {
        call!(fdt_setsockopt(a[0], a[1], a[2], a[3], a[4]))
    }),
    (libc::SYS_sendmsg, |_, a| {
        call!(fdt_sendmsg(a[0], a[1], a[2]))
    }),
    (libc::SYS_sendmmsg, |_, a| {
        call!(fdt_sendmmsg(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_recvmsg, |_, a| {
        call!(fdt_recvmsg(a[0], a[1], a[2]))
    }),
    (libc::SYS_recvmmsg, |_, a| {
        call!(fdt_recvmmsg(a[0], a[1], a[2], a[3], a[4]))
    }),
];

/// Events.
pub(super) const EVENTS: &[Row] = &[
    (libc::SYS_eventfd, |_, a| call!(fdt_eventfd(a[0], 0))),
    (libc::SYS_eventfd2, |_, a| call!(fdt_eventfd(a[0], a[1]))),
    (libc::SYS_timerfd_create, |_, a| {
        call!(fdt_timerfd_create(a[0], a[1]))
    }),
    (libc::SYS_timerfd_settime, |_, a| {
        call!(fdt_timerfd_settime(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_timerfd_gettime, |_, a| {
        call!(fdt_timerfd_gettime(a[0], a[1]))
    }),
    (libc::SYS_epoll_create, |_, a| call!(fdt_epoll_create(a[0]))),
    (libc::SYS_epoll_create1, |_, a| {
        call!(fdt_epoll_create1(a[0]))
    }),
    (libc::SYS_epoll_ctl, |_, a| {
        call!(fdt_epoll_ctl(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_signalfd, |_, a| signal_descriptor(a, 0)),
    (libc::SYS_signalfd4, |_, a| signal_descriptor(a, a[3])),
    (libc::SYS_inotify_init, |_, _| call!(fdt_inotify_init())),
    (libc::SYS_inotify_init1, |_, a| {
        call!(fdt_inotify_init1(a[0]))
    }),
    (libc::SYS_inotify_add_watch, |_, a| {
        call!(fdt_inotify_add_watch(a[0], a[1], a[2]))
    }),
    (libc::SYS_inotify_rm_watch, |_, a| {
        call!(fdt_inotify_rm_watch(a[0], a[1]))
    }),
];

/// Limits and credentials.
pub(super) const LIMITS: &[Row] = &[
    (libc::SYS_getrlimit, |_, a| call!(fdt_getrlimit(a[0], a[1]))),
    (libc::SYS_setrlimit, |_, a| call!(fdt_setrlimit(a[0], a[1]))),
    (libc::SYS_prlimit64, |_, a| {
        call!(fdt_prlimit(a[0], a[1], a[2], a[3]))
    }),
    (libc::SYS_setuid, |_, a| call!(fdt_setuid(a[0]))),
    (libc::SYS_setgid, |_, a| call!(fdt_setgid(a[0]))),
    (libc::SYS_setreuid, |_, a| call!(fdt_setreuid(a[0], a[1]))),
    (libc::SYS_setregid, |_, a| call!(fdt_setregid(a[0], a[1]))),
    (libc::SYS_setresuid, |_, a| {
        call!(fdt_setresuid(a[0], a[1], a[2]))
    }),
    (libc::SYS_setresgid, |_, a| {
        call!(fdt_setresgid(a[0], a[1], a[2]))
    }),
    (libc::SYS_setfsuid, |_, a| call!(fdt_setfsuid(a[0]))),
    (libc::SYS_setfsgid, |_, a| call!(fdt_setfsgid(a[0]))),
    (libc::SYS_capset, |_, a| call!(fdt_capset(a[0], a[1]))),
];

/// Makes `signalfd`, whose mask has the kernel's length: shorter than that of the C library.
fn signal_descriptor(a: &[i64; 6], flags: i64) -> i64 {
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    if a[1] == 0 {
        return call!(fdt_signalfd(a[0], 0, flags));
    }
    if a[2] as usize != size_of::<u64>() {
        return -i64::from(libc::EINVAL);
    }
    // SAFETY: a word has any value.
    let Some(signals) = (unsafe { runner::value(pointer::<u64>(a[1].cast_unsigned())) }) else {
        return -i64::from(libc::EFAULT);
    };
    // SAFETY: the set begins with the 64 signals of the kernel.
    unsafe { (&raw mut mask).cast::<u64>().write_unaligned(signals) };
    call!(fdt_signalfd(a[0], address_of(&mask), flags))
}

/// Returns the length of the working directory's path with the null, unlike the C library.
fn working_directory(a: &[i64; 6]) -> i64 {
    // The C library has another error for the first, and allocates for the second.
    match (a[1], a[0]) {
        (0, _) => return -i64::from(libc::ERANGE),
        (_, 0) => return -i64::from(libc::EFAULT),
        _ => {}
    }
    let place = pointer(a[0].cast_unsigned());
    // SAFETY: the guest's own call, with what it passed.
    let path = unsafe { fdt_getcwd(place, a[1] as usize) };
    if path.is_null() {
        return -i64::from(errno());
    }
    // SAFETY: the call has written a C string.
    unsafe { CStr::from_ptr(path) }.count_bytes() as i64 + 1
}

/// Reads directory entries in the old layout, where the type is the last byte of a record. Records
/// have the same lengths in both layouts.
fn old_entries(a: &[i64; 6]) -> i64 {
    const LENGTH: usize = 16;
    const TYPE: usize = 18;
    let read = call!(fdt_getdents64(a[0], a[1], a[2]));
    if read <= 0 {
        return read;
    }
    let place = pointer::<u8>(a[1].cast_unsigned());
    // SAFETY: the call has written so many bytes.
    let mut records = unsafe { std::slice::from_raw_parts_mut(place, read as usize) };
    while !records.is_empty() {
        let length = u16::from_ne_bytes([records[LENGTH], records[LENGTH + 1]]);
        let (record, rest) = records.split_at_mut(length.into());
        record[TYPE..].rotate_left(1);
        records = rest;
    }
    read
}
