//! Calls that the host repeats after a handler with `SA_RESTART`.

use fdtable_posix::fdt_getsockopt;

/// Returns true if the host would repeat the call after a handler with `SA_RESTART`. Linux does not
/// repeat calls on a socket with a timeout.
pub(super) fn may_repeat(number: i64, a: &[i64; 6]) -> bool {
    match number {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => !has_timeout(a[0], libc::SO_RCVTIMEO),
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_connect => !has_timeout(a[0], libc::SO_SNDTIMEO),
        libc::SYS_futex => a[3] == 0,
        _ => REPEATED.contains(&number),
    }
}

const REPEATED: [i64; 20] = [
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_creat,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
];

/// Returns true if a descriptor is a socket with a timeout.
fn has_timeout(fd: i64, option: i32) -> bool {
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut size = size_of_val(&time) as libc::socklen_t;
    // SAFETY: there is room for the time and its size.
    let result = unsafe {
        fdt_getsockopt(
            fd as i32,
            libc::SOL_SOCKET,
            option,
            (&raw mut time).cast(),
            &raw mut size,
        )
    };
    result == 0 && (time.tv_sec, time.tv_usec) != (0, 0)
}
