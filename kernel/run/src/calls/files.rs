//! Calls that `fdtable-posix` serves, of which each has a function of the C interface.

use fdtable_posix::*;

use crate::abi::{address_of, call};
use crate::block::Row;
use crate::memory::{self, pointer};

/// Makes a table of calls that functions serve, with those arguments of the call that have these
/// indices.
macro_rules! rows {
    ($($number:ident => $function:ident($($index:literal),*),)*) => {
        &[$((libc::$number, |_, a| call!($function($(a[$index]),*)))),*]
    };
}

/// Descriptors and transfers.
pub(super) const DESCRIPTORS: &[Row] = rows![
    SYS_openat => fdt_openat(0, 1, 2, 3),
    SYS_open => fdt_open(0, 1, 2),
    SYS_creat => fdt_creat(0, 1),
    SYS_openat2 => fdt_openat2(0, 1, 2, 3),
    SYS_close_range => fdt_close_range(0, 1, 2),
    SYS_dup => fdt_dup(0),
    SYS_dup2 => fdt_dup2(0, 1),
    SYS_dup3 => fdt_dup3(0, 1, 2),
    SYS_fcntl => fdt_fcntl(0, 1, 2),
    SYS_ioctl => fdt_ioctl(0, 1, 2),
    SYS_readv => fdt_readv(0, 1, 2),
    SYS_writev => fdt_writev(0, 1, 2),
    SYS_preadv => fdt_preadv(0, 1, 2, 3),
    SYS_pwritev => fdt_pwritev(0, 1, 2, 3),
    SYS_preadv2 => fdt_preadv2(0, 1, 2, 3, 5),
    SYS_pwritev2 => fdt_pwritev2(0, 1, 2, 3, 5),
    SYS_pipe => fdt_pipe(0),
    SYS_pipe2 => fdt_pipe2(0, 1),
    SYS_memfd_create => fdt_memfd_create(0, 1),
    SYS_sendfile => fdt_sendfile(0, 1, 2, 3),
    SYS_copy_file_range => fdt_copy_file_range(0, 1, 2, 3, 4, 5),
    SYS_splice => fdt_splice(0, 1, 2, 3, 4, 5),
    SYS_tee => fdt_tee(0, 1, 2, 3),
    SYS_vmsplice => fdt_vmsplice(0, 1, 2, 3),
    SYS_flock => fdt_flock(0, 1),
    SYS_truncate => fdt_truncate(0, 1),
    SYS_ftruncate => fdt_ftruncate(0, 1),
    SYS_fallocate => fdt_fallocate(0, 1, 2, 3),
    SYS_fsync => fdt_fsync(0),
    SYS_fdatasync => fdt_fdatasync(0),
    SYS_syncfs => fdt_syncfs(0),
    SYS_sync_file_range => fdt_sync_file_range(0, 1, 2, 3),
    SYS_fadvise64 => fdt_fadvise64(0, 1, 2, 3),
    SYS_readahead => fdt_readahead(0, 1, 2),
];

/// Paths and attributes.
pub(super) const PATHS: &[Row] = rows![
    SYS_stat => fdt_stat(0, 1),
    SYS_lstat => fdt_lstat(0, 1),
    SYS_fstat => fdt_fstat(0, 1),
    SYS_newfstatat => fdt_fstatat(0, 1, 2, 3),
    SYS_statx => fdt_statx(0, 1, 2, 3, 4),
    SYS_statfs => fdt_statfs(0, 1),
    SYS_fstatfs => fdt_fstatfs(0, 1),
    SYS_access => fdt_access(0, 1),
    SYS_faccessat2 => fdt_faccessat(0, 1, 2, 3),
    SYS_fchmodat2 => fdt_fchmodat(0, 1, 2, 3),
    SYS_chmod => fdt_chmod(0, 1),
    SYS_fchmod => fdt_fchmod(0, 1),
    SYS_chown => fdt_chown(0, 1, 2),
    SYS_lchown => fdt_lchown(0, 1, 2),
    SYS_fchown => fdt_fchown(0, 1, 2),
    SYS_fchownat => fdt_fchownat(0, 1, 2, 3, 4),
    SYS_utime => fdt_utime(0, 1),
    SYS_utimes => fdt_utimes(0, 1),
    SYS_futimesat => fdt_futimesat(0, 1, 2),
    SYS_utimensat => fdt_utimensat(0, 1, 2, 3),
    SYS_umask => fdt_umask(0),
    SYS_mkdir => fdt_mkdir(0, 1),
    SYS_mkdirat => fdt_mkdirat(0, 1, 2),
    SYS_mknod => fdt_mknod(0, 1, 2),
    SYS_mknodat => fdt_mknodat(0, 1, 2, 3),
    SYS_rmdir => fdt_rmdir(0),
    SYS_unlink => fdt_unlink(0),
    SYS_unlinkat => fdt_unlinkat(0, 1, 2),
    SYS_rename => fdt_rename(0, 1),
    SYS_renameat => fdt_renameat(0, 1, 2, 3),
    SYS_renameat2 => fdt_renameat2(0, 1, 2, 3, 4),
    SYS_link => fdt_link(0, 1),
    SYS_linkat => fdt_linkat(0, 1, 2, 3, 4),
    SYS_symlink => fdt_symlink(0, 1),
    SYS_symlinkat => fdt_symlinkat(0, 1, 2),
    SYS_readlink => fdt_readlink(0, 1, 2),
    SYS_readlinkat => fdt_readlinkat(0, 1, 2, 3),
    SYS_chdir => fdt_chdir(0),
    SYS_fchdir => fdt_fchdir(0),
    SYS_getcwd => fdt_getcwd(0, 1),
    SYS_getdents64 => fdt_getdents64(0, 1, 2),
];

/// Sockets.
pub(super) const SOCKETS: &[Row] = rows![
    SYS_socket => fdt_socket(0, 1, 2),
    SYS_socketpair => fdt_socketpair(0, 1, 2, 3),
    SYS_bind => fdt_bind(0, 1, 2),
    SYS_listen => fdt_listen(0, 1),
    SYS_accept => fdt_accept(0, 1, 2),
    SYS_accept4 => fdt_accept4(0, 1, 2, 3),
    SYS_connect => fdt_connect(0, 1, 2),
    SYS_shutdown => fdt_shutdown(0, 1),
    SYS_getsockname => fdt_getsockname(0, 1, 2),
    SYS_getpeername => fdt_getpeername(0, 1, 2),
    SYS_getsockopt => fdt_getsockopt(0, 1, 2, 3, 4),
    SYS_setsockopt => fdt_setsockopt(0, 1, 2, 3, 4),
    SYS_sendmsg => fdt_sendmsg(0, 1, 2),
    SYS_sendmmsg => fdt_sendmmsg(0, 1, 2, 3),
    SYS_recvmsg => fdt_recvmsg(0, 1, 2),
    SYS_recvmmsg => fdt_recvmmsg(0, 1, 2, 3, 4),
];

/// Events.
pub(super) const EVENTS: &[Row] = rows![
    SYS_select => fdt_select(0, 1, 2, 3, 4),
    SYS_eventfd2 => fdt_eventfd(0, 1),
    SYS_timerfd_create => fdt_timerfd_create(0, 1),
    SYS_timerfd_settime => fdt_timerfd_settime(0, 1, 2, 3),
    SYS_timerfd_gettime => fdt_timerfd_gettime(0, 1),
    SYS_epoll_create => fdt_epoll_create(0),
    SYS_epoll_create1 => fdt_epoll_create1(0),
    SYS_epoll_ctl => fdt_epoll_ctl(0, 1, 2, 3),
    SYS_inotify_init1 => fdt_inotify_init1(0),
    SYS_inotify_add_watch => fdt_inotify_add_watch(0, 1, 2),
    SYS_inotify_rm_watch => fdt_inotify_rm_watch(0, 1),
];

/// Limits and credentials.
pub(super) const LIMITS: &[Row] = rows![
    SYS_getrlimit => fdt_getrlimit(0, 1),
    SYS_setrlimit => fdt_setrlimit(0, 1),
    SYS_prlimit64 => fdt_prlimit(0, 1, 2, 3),
    SYS_setuid => fdt_setuid(0),
    SYS_setgid => fdt_setgid(0),
    SYS_setreuid => fdt_setreuid(0, 1),
    SYS_setregid => fdt_setregid(0, 1),
    SYS_setresuid => fdt_setresuid(0, 1, 2),
    SYS_setresgid => fdt_setresgid(0, 1, 2),
    SYS_setfsuid => fdt_setfsuid(0),
    SYS_setfsgid => fdt_setfsgid(0),
    SYS_capset => fdt_capset(0, 1),
];

/// Calls that differ from the functions of the C interface.
pub(super) const OTHERS: &[Row] = &[
    (libc::SYS_sync, |_, _| {
        fdt_sync();
        0
    }),
    (libc::SYS_inotify_init, |_, _| call!(fdt_inotify_init())),
    // The kernel's call has no flags.
    (libc::SYS_faccessat, |_, a| {
        call!(fdt_faccessat(a[0], a[1], a[2], 0))
    }),
    (libc::SYS_fchmodat, |_, a| {
        call!(fdt_fchmodat(a[0], a[1], a[2], 0))
    }),
    (libc::SYS_getdents, |_, a| old_entries(a)),
    (libc::SYS_eventfd, |_, a| call!(fdt_eventfd(a[0], 0))),
    (libc::SYS_signalfd, |_, a| signal_descriptor(a, 0)),
    (libc::SYS_signalfd4, |_, a| signal_descriptor(a, a[3])),
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
    let Ok(signals) = memory::get::<u64>(a[1].cast_unsigned()) else {
        return -i64::from(libc::EFAULT);
    };
    // SAFETY: the set begins with the 64 signals of the kernel.
    unsafe { (&raw mut mask).cast::<u64>().write_unaligned(signals) };
    call!(fdt_signalfd(a[0], address_of(&mask), flags))
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
