//! `syscall(2)`: system calls by number.
//!
//! The numbers of calls that this library implements lead to its functions. For all others see
//! [`host_calls`](super::host_calls).

use std::ffi::{CStr, c_char, c_int, c_long, c_uint};
use std::time::Instant;
use std::{mem, ptr};

use fdtable::host_fork;
use fdtable_vfs::Errno;

use crate::abi::call::call;
use crate::abi::links::LastLink;
use crate::abi::target::Target;
use crate::abi::uaccess;
use crate::aliases::host_calls::host_call;
use crate::event::events::*;
use crate::event::polling::*;
use crate::fs::attributes::*;
use crate::fs::copies::*;
use crate::fs::directories::*;
use crate::fs::locks::*;
use crate::fs::mmap::*;
use crate::fs::names::*;
use crate::fs::open::*;
use crate::fs::status::*;
use crate::fs::transfers::*;
use crate::fs::vectored::*;
use crate::host::other_files::*;
use crate::host::{self, OpenHow};
use crate::ipc::messages::*;
use crate::ipc::pipes::*;
use crate::ipc::sockets::*;
use crate::process::credentials::*;
use crate::process::descriptors::*;
use crate::process::ioctl::*;
use crate::process::limits::*;

/// Makes a system call by its number: `syscall(2)`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn fdt_syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: as the caller promises.
    unsafe { dispatch(number, [a, b, c, d, e, f]) }
}

/// # Safety
/// The arguments are those that the system call expects.
unsafe fn dispatch(number: c_long, a: [c_long; 6]) -> c_long {
    // SAFETY: as the caller promises, for each system call.
    unsafe {
        match number {
            libc::SYS_read => fdt_read(int(a[0]), pointer(a[1]), a[2] as usize) as c_long,
            libc::SYS_write => fdt_write(int(a[0]), pointer(a[1]), a[2] as usize) as c_long,
            libc::SYS_openat => {
                fdt_openat(int(a[0]), pointer(a[1]), int(a[2]), unsigned(a[3])).into()
            }
            libc::SYS_close => fdt_close(int(a[0])).into(),
            libc::SYS_close_range => {
                fdt_close_range(unsigned(a[0]), unsigned(a[1]), int(a[2])).into()
            }
            libc::SYS_dup => fdt_dup(int(a[0])).into(),
            libc::SYS_dup3 => fdt_dup3(int(a[0]), int(a[1]), int(a[2])).into(),
            libc::SYS_fcntl => fdt_fcntl(int(a[0]), int(a[1]), a[2] as u64).into(),
            libc::SYS_ioctl => fdt_ioctl(int(a[0]), a[1] as u64, a[2] as u64).into(),
            libc::SYS_pread64 => fdt_pread(int(a[0]), pointer(a[1]), a[2] as usize, a[3]) as c_long,
            libc::SYS_pwrite64 => {
                fdt_pwrite(int(a[0]), pointer(a[1]), a[2] as usize, a[3]) as c_long
            }
            libc::SYS_readv => fdt_readv(int(a[0]), pointer(a[1]), int(a[2])) as c_long,
            libc::SYS_writev => fdt_writev(int(a[0]), pointer(a[1]), int(a[2])) as c_long,
            libc::SYS_preadv => fdt_preadv(int(a[0]), pointer(a[1]), int(a[2]), a[3]) as c_long,
            libc::SYS_pwritev => fdt_pwritev(int(a[0]), pointer(a[1]), int(a[2]), a[3]) as c_long,
            libc::SYS_preadv2 => {
                fdt_preadv2(int(a[0]), pointer(a[1]), int(a[2]), a[3], int(a[5])) as c_long
            }
            libc::SYS_pwritev2 => {
                fdt_pwritev2(int(a[0]), pointer(a[1]), int(a[2]), a[3], int(a[5])) as c_long
            }
            libc::SYS_lseek => fdt_lseek(int(a[0]), a[1], int(a[2])),
            libc::SYS_pipe2 => fdt_pipe2(pointer(a[0]), int(a[1])).into(),
            libc::SYS_socketpair => {
                fdt_socketpair(int(a[0]), int(a[1]), int(a[2]), pointer(a[3])).into()
            }
            libc::SYS_ppoll => with_time_left(pointer(a[2]), || {
                masked(a[3], a[4], |mask| {
                    fdt_ppoll(pointer(a[0]), a[1] as u64, pointer(a[2]), mask)
                })
            }),
            libc::SYS_eventfd2 => fdt_eventfd(unsigned(a[0]), int(a[1])).into(),
            libc::SYS_timerfd_create => fdt_timerfd_create(int(a[0]), int(a[1])).into(),
            libc::SYS_timerfd_settime => {
                fdt_timerfd_settime(int(a[0]), int(a[1]), pointer(a[2]), pointer(a[3])).into()
            }
            libc::SYS_timerfd_gettime => fdt_timerfd_gettime(int(a[0]), pointer(a[1])).into(),
            libc::SYS_epoll_create1 => fdt_epoll_create1(int(a[0])).into(),
            libc::SYS_epoll_ctl => {
                fdt_epoll_ctl(int(a[0]), int(a[1]), int(a[2]), pointer(a[3])).into()
            }
            libc::SYS_epoll_pwait => masked(a[4], a[5], |mask| {
                fdt_epoll_pwait(int(a[0]), pointer(a[1]), int(a[2]), int(a[3]), mask)
            }),
            libc::SYS_epoll_pwait2 => masked(a[4], a[5], |mask| {
                fdt_epoll_pwait2(int(a[0]), pointer(a[1]), int(a[2]), pointer(a[3]), mask)
            }),
            libc::SYS_memfd_create => fdt_memfd_create(pointer(a[0]), unsigned(a[1])).into(),
            libc::SYS_fstat => fdt_fstat(int(a[0]), pointer(a[1])).into(),
            libc::SYS_newfstatat => {
                fdt_fstatat(int(a[0]), pointer(a[1]), pointer(a[2]), int(a[3])).into()
            }
            libc::SYS_statx => fdt_statx(
                int(a[0]),
                pointer(a[1]),
                int(a[2]),
                unsigned(a[3]),
                pointer(a[4]),
            )
            .into(),
            libc::SYS_statfs => fdt_statfs(pointer(a[0]), pointer(a[1])).into(),
            libc::SYS_fstatfs => fdt_fstatfs(int(a[0]), pointer(a[1])).into(),
            libc::SYS_faccessat2 => {
                fdt_faccessat(int(a[0]), pointer(a[1]), int(a[2]), int(a[3])).into()
            }
            libc::SYS_fchmod => fdt_fchmod(int(a[0]), unsigned(a[1])).into(),
            libc::SYS_fchown => fdt_fchown(int(a[0]), unsigned(a[1]), unsigned(a[2])).into(),
            libc::SYS_fchownat => fdt_fchownat(
                int(a[0]),
                pointer(a[1]),
                unsigned(a[2]),
                unsigned(a[3]),
                int(a[4]),
            )
            .into(),
            libc::SYS_umask => fdt_umask(unsigned(a[0])).into(),
            libc::SYS_truncate => fdt_truncate(pointer(a[0]), a[1]).into(),
            libc::SYS_ftruncate => fdt_ftruncate(int(a[0]), a[1]).into(),
            libc::SYS_fallocate => fdt_fallocate(int(a[0]), int(a[1]), a[2], a[3]).into(),
            libc::SYS_fsync => fdt_fsync(int(a[0])).into(),
            libc::SYS_fdatasync => fdt_fdatasync(int(a[0])).into(),
            libc::SYS_syncfs => fdt_syncfs(int(a[0])).into(),
            libc::SYS_sync_file_range => {
                fdt_sync_file_range(int(a[0]), a[1], a[2], unsigned(a[3])).into()
            }
            libc::SYS_readahead => fdt_readahead(int(a[0]), a[1], a[2] as usize) as c_long,
            libc::SYS_utimensat => {
                fdt_utimensat(int(a[0]), pointer(a[1]), pointer(a[2]), int(a[3])).into()
            }
            libc::SYS_mkdirat => fdt_mkdirat(int(a[0]), pointer(a[1]), unsigned(a[2])).into(),
            libc::SYS_mknodat => {
                fdt_mknodat(int(a[0]), pointer(a[1]), unsigned(a[2]), a[3] as u64).into()
            }
            libc::SYS_unlinkat => fdt_unlinkat(int(a[0]), pointer(a[1]), int(a[2])).into(),
            libc::SYS_renameat => {
                fdt_renameat(int(a[0]), pointer(a[1]), int(a[2]), pointer(a[3])).into()
            }
            libc::SYS_renameat2 => fdt_renameat2(
                int(a[0]),
                pointer(a[1]),
                int(a[2]),
                pointer(a[3]),
                unsigned(a[4]),
            )
            .into(),
            libc::SYS_linkat => fdt_linkat(
                int(a[0]),
                pointer(a[1]),
                int(a[2]),
                pointer(a[3]),
                int(a[4]),
            )
            .into(),
            libc::SYS_symlinkat => fdt_symlinkat(pointer(a[0]), int(a[1]), pointer(a[2])).into(),
            libc::SYS_readlinkat => {
                fdt_readlinkat(int(a[0]), pointer(a[1]), pointer(a[2]), a[3] as usize) as c_long
            }
            libc::SYS_chdir => fdt_chdir(pointer(a[0])).into(),
            libc::SYS_fchdir => fdt_fchdir(int(a[0])).into(),
            libc::SYS_getdents64 => {
                fdt_getdents64(int(a[0]), pointer(a[1]), a[2] as usize) as c_long
            }
            libc::SYS_flock => fdt_flock(int(a[0]), int(a[1])).into(),
            libc::SYS_sendfile => {
                fdt_sendfile(int(a[0]), int(a[1]), pointer(a[2]), a[3] as usize) as c_long
            }
            libc::SYS_copy_file_range => fdt_copy_file_range(
                int(a[0]),
                pointer(a[1]),
                int(a[2]),
                pointer(a[3]),
                a[4] as usize,
                unsigned(a[5]),
            ) as c_long,
            libc::SYS_prlimit64 => {
                fdt_prlimit(int(a[0]), int(a[1]), pointer(a[2]), pointer(a[3])).into()
            }
            libc::SYS_socket => fdt_socket(int(a[0]), int(a[1]), int(a[2])).into(),
            libc::SYS_bind => fdt_bind(int(a[0]), pointer(a[1]), unsigned(a[2])).into(),
            libc::SYS_listen => fdt_listen(int(a[0]), int(a[1])).into(),
            libc::SYS_accept => fdt_accept(int(a[0]), pointer(a[1]), pointer(a[2])).into(),
            libc::SYS_accept4 => {
                fdt_accept4(int(a[0]), pointer(a[1]), pointer(a[2]), int(a[3])).into()
            }
            libc::SYS_connect => fdt_connect(int(a[0]), pointer(a[1]), unsigned(a[2])).into(),
            libc::SYS_shutdown => fdt_shutdown(int(a[0]), int(a[1])).into(),
            libc::SYS_getsockname => {
                fdt_getsockname(int(a[0]), pointer(a[1]), pointer(a[2])).into()
            }
            libc::SYS_getpeername => {
                fdt_getpeername(int(a[0]), pointer(a[1]), pointer(a[2])).into()
            }
            libc::SYS_getsockopt => fdt_getsockopt(
                int(a[0]),
                int(a[1]),
                int(a[2]),
                pointer(a[3]),
                pointer(a[4]),
            )
            .into(),
            libc::SYS_setsockopt => fdt_setsockopt(
                int(a[0]),
                int(a[1]),
                int(a[2]),
                pointer(a[3]),
                unsigned(a[4]),
            )
            .into(),
            libc::SYS_sendto => fdt_sendto(
                int(a[0]),
                pointer(a[1]),
                a[2] as usize,
                int(a[3]),
                pointer(a[4]),
                unsigned(a[5]),
            ) as c_long,
            libc::SYS_sendmsg => fdt_sendmsg(int(a[0]), pointer(a[1]), int(a[2])) as c_long,
            libc::SYS_sendmmsg => {
                fdt_sendmmsg(int(a[0]), pointer(a[1]), unsigned(a[2]), int(a[3])).into()
            }
            libc::SYS_recvfrom => fdt_recvfrom(
                int(a[0]),
                pointer(a[1]),
                a[2] as usize,
                int(a[3]),
                pointer(a[4]),
                pointer(a[5]),
            ) as c_long,
            libc::SYS_recvmsg => fdt_recvmsg(int(a[0]), pointer(a[1]), int(a[2])) as c_long,
            libc::SYS_recvmmsg => fdt_recvmmsg(
                int(a[0]),
                pointer(a[1]),
                unsigned(a[2]),
                int(a[3]),
                pointer(a[4]),
            )
            .into(),
            libc::SYS_splice => fdt_splice(
                int(a[0]),
                pointer(a[1]),
                int(a[2]),
                pointer(a[3]),
                a[4] as usize,
                unsigned(a[5]),
            ) as c_long,
            libc::SYS_tee => fdt_tee(int(a[0]), int(a[1]), a[2] as usize, unsigned(a[3])) as c_long,
            libc::SYS_vmsplice => {
                fdt_vmsplice(int(a[0]), pointer(a[1]), a[2] as usize, unsigned(a[3])) as c_long
            }
            libc::SYS_inotify_init1 => fdt_inotify_init1(int(a[0])).into(),
            libc::SYS_inotify_add_watch => {
                fdt_inotify_add_watch(int(a[0]), pointer(a[1]), unsigned(a[2])).into()
            }
            libc::SYS_inotify_rm_watch => fdt_inotify_rm_watch(int(a[0]), int(a[1])).into(),
            libc::SYS_setuid => fdt_setuid(unsigned(a[0])).into(),
            libc::SYS_setgid => fdt_setgid(unsigned(a[0])).into(),
            libc::SYS_setreuid => fdt_setreuid(unsigned(a[0]), unsigned(a[1])).into(),
            libc::SYS_setregid => fdt_setregid(unsigned(a[0]), unsigned(a[1])).into(),
            libc::SYS_setresuid => {
                fdt_setresuid(unsigned(a[0]), unsigned(a[1]), unsigned(a[2])).into()
            }
            libc::SYS_setresgid => {
                fdt_setresgid(unsigned(a[0]), unsigned(a[1]), unsigned(a[2])).into()
            }
            libc::SYS_setfsuid => fdt_setfsuid(unsigned(a[0])).into(),
            libc::SYS_setfsgid => fdt_setfsgid(unsigned(a[0])).into(),
            libc::SYS_capset => fdt_capset(pointer(a[0]), pointer(a[1])).into(),
            libc::SYS_prctl => prctl(a),
            libc::SYS_setgroups => setgroups(a),
            libc::SYS_pselect6 => with_time_left(pointer(a[4]), || select6(a)),
            libc::SYS_fadvise64 => {
                errno_result(fdt_posix_fadvise(int(a[0]), a[1], a[2], int(a[3])))
            }
            // The kernel's call has no flags.
            libc::SYS_faccessat => fdt_faccessat(int(a[0]), pointer(a[1]), int(a[2]), 0).into(),
            libc::SYS_fchmodat => fdt_fchmodat(int(a[0]), pointer(a[1]), unsigned(a[2]), 0).into(),
            libc::SYS_mmap => mmap(a),
            libc::SYS_signalfd4 => {
                masked(a[1], a[2], |mask| fdt_signalfd(int(a[0]), mask, int(a[3])))
            }
            libc::SYS_openat2 => {
                openat2(int(a[0]), pointer(a[1]), pointer(a[2]), a[3] as usize).into()
            }
            libc::SYS_sync => {
                fdt_sync();
                0
            }
            libc::SYS_getcwd => getcwd(pointer(a[0]), a[1] as usize),
            _ => legacy_call(number, a),
        }
    }
}

/// Calls that newer architectures do not have.
///
/// # Safety
/// As [`dispatch`].
#[cfg(target_arch = "x86_64")]
unsafe fn legacy_call(number: c_long, a: [c_long; 6]) -> c_long {
    // SAFETY: as the caller promises, for each system call.
    unsafe {
        match number {
            libc::SYS_open => fdt_open(pointer(a[0]), int(a[1]), unsigned(a[2])).into(),
            libc::SYS_creat => fdt_creat(pointer(a[0]), unsigned(a[1])).into(),
            libc::SYS_dup2 => fdt_dup2(int(a[0]), int(a[1])).into(),
            libc::SYS_pipe => fdt_pipe(pointer(a[0])).into(),
            libc::SYS_poll => fdt_poll(pointer(a[0]), a[1] as u64, int(a[2])).into(),
            libc::SYS_select => fdt_select(
                int(a[0]),
                pointer(a[1]),
                pointer(a[2]),
                pointer(a[3]),
                pointer(a[4]),
            )
            .into(),
            libc::SYS_signalfd => masked(a[1], a[2], |mask| fdt_signalfd(int(a[0]), mask, 0)),
            libc::SYS_inotify_init => fdt_inotify_init().into(),
            libc::SYS_getdents => getdents(int(a[0]), pointer(a[1]), a[2] as usize),
            libc::SYS_eventfd => fdt_eventfd(unsigned(a[0]), 0).into(),
            libc::SYS_epoll_create => fdt_epoll_create(int(a[0])).into(),
            libc::SYS_epoll_wait => {
                fdt_epoll_wait(int(a[0]), pointer(a[1]), int(a[2]), int(a[3])).into()
            }
            libc::SYS_stat => fdt_stat(pointer(a[0]), pointer(a[1])).into(),
            libc::SYS_lstat => fdt_lstat(pointer(a[0]), pointer(a[1])).into(),
            libc::SYS_access => fdt_access(pointer(a[0]), int(a[1])).into(),
            libc::SYS_chmod => fdt_chmod(pointer(a[0]), unsigned(a[1])).into(),
            libc::SYS_chown => fdt_chown(pointer(a[0]), unsigned(a[1]), unsigned(a[2])).into(),
            libc::SYS_lchown => fdt_lchown(pointer(a[0]), unsigned(a[1]), unsigned(a[2])).into(),
            libc::SYS_utimes => fdt_utimes(pointer(a[0]), pointer(a[1])).into(),
            libc::SYS_futimesat => fdt_futimesat(int(a[0]), pointer(a[1]), pointer(a[2])).into(),
            libc::SYS_utime => fdt_utime(pointer(a[0]), pointer(a[1])).into(),
            libc::SYS_mkdir => fdt_mkdir(pointer(a[0]), unsigned(a[1])).into(),
            libc::SYS_mknod => fdt_mknod(pointer(a[0]), unsigned(a[1]), a[2] as u64).into(),
            libc::SYS_rmdir => fdt_rmdir(pointer(a[0])).into(),
            libc::SYS_unlink => fdt_unlink(pointer(a[0])).into(),
            libc::SYS_rename => fdt_rename(pointer(a[0]), pointer(a[1])).into(),
            libc::SYS_link => fdt_link(pointer(a[0]), pointer(a[1])).into(),
            libc::SYS_symlink => fdt_symlink(pointer(a[0]), pointer(a[1])).into(),
            libc::SYS_readlink => {
                fdt_readlink(pointer(a[0]), pointer(a[1]), a[2] as usize) as c_long
            }
            libc::SYS_getrlimit => fdt_getrlimit(int(a[0]), pointer(a[1])).into(),
            libc::SYS_setrlimit => fdt_setrlimit(int(a[0]), pointer(a[1])).into(),
            _ => host_call(number, a),
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
use host_call as legacy_call;

/// Runs a call with the signal mask at `at`. The mask has the kernel's length, which is shorter
/// than that of the C library.
///
/// # Safety
/// As [`dispatch`].
unsafe fn masked(
    at: c_long,
    size: c_long,
    call_with: impl FnOnce(*const libc::sigset_t) -> c_int,
) -> c_long {
    // SAFETY: as the caller promises.
    match unsafe { mask(pointer(at), size as usize) } {
        Ok(None) => call_with(ptr::null()).into(),
        Ok(Some(mask)) => call_with(&raw const mask).into(),
        Err(errno) => call(|_| Err(errno)),
    }
}

/// Reads a signal mask of the kernel's length; null means none.
///
/// # Errors
/// `EINVAL` if the length differs; `EFAULT`.
///
/// # Safety
/// If `at` can be an address, a mask is there.
unsafe fn mask(at: *const u64, size: usize) -> Result<Option<libc::sigset_t>, Errno> {
    if at.is_null() {
        return Ok(None);
    }
    if size != size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as the caller promises.
    let signals = unsafe { uaccess::get(at) }?;
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut mask: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: the set begins with the 64 signals of the kernel.
    unsafe { (&raw mut mask).cast::<u64>().write_unaligned(signals) };
    Ok(Some(mask))
}

/// Runs `pselect6`, whose last argument points to a mask and its length.
///
/// # Safety
/// As [`dispatch`].
unsafe fn select6(a: [c_long; 6]) -> c_long {
    // SAFETY: as the caller promises.
    let [at, size] = match unsafe { uaccess::get_if_any(pointer::<[c_long; 2]>(a[5])) } {
        Ok(mask) => mask.unwrap_or([0; 2]),
        Err(errno) => return call(|_| Err(errno)),
    };
    let [read, write, except] = [1, 2, 3].map(|index| pointer(a[index]));
    // SAFETY: as the caller promises.
    unsafe {
        masked(at, size, |mask| {
            fdt_pselect(int(a[0]), read, write, except, pointer(a[4]), mask)
        })
    }
}

/// Makes a call with a timeout, and writes the time left to it, as the kernel does.
///
/// # Safety
/// If `at` can be an address, a `timespec` is there.
unsafe fn with_time_left(at: *mut libc::timespec, wait: impl FnOnce() -> c_long) -> c_long {
    let begun = Instant::now();
    // SAFETY: as the caller promises.
    let Ok(Some(limit)) = (unsafe { duration(at) }) else {
        return wait();
    };
    let result = wait();
    let left = limit.saturating_sub(begun.elapsed());
    let left = libc::timespec {
        tv_sec: left.as_secs().cast_signed(),
        tv_nsec: left.subsec_nanos().into(),
    };
    // SAFETY: as the caller promises. It may be read-only data, which a call that ended at once
    // leaves unchanged.
    let _ = unsafe { uaccess::put(at, left) };
    result
}

/// Returns the length of the working directory's path with the null, unlike the C library.
///
/// # Safety
/// As [`dispatch`].
unsafe fn getcwd(buf: *mut c_char, size: usize) -> c_long {
    // The C library has another error for the first, and allocates for the second.
    if size == 0 || buf.is_null() {
        let errno = if size == 0 {
            Errno::ERANGE
        } else {
            Errno::EFAULT
        };
        return call(|_| Err(errno));
    }
    // SAFETY: as the caller promises.
    let path = unsafe { fdt_getcwd(buf, size) };
    if path.is_null() {
        return -1;
    }
    // SAFETY: the call has written a C string.
    unsafe { CStr::from_ptr(path) }.count_bytes() as c_long + 1
}

/// Reads directory entries in the old layout, where the type is the last byte of a record. Records
/// have the same lengths in both layouts.
///
/// # Safety
/// As [`dispatch`].
#[cfg(target_arch = "x86_64")]
unsafe fn getdents(fd: c_int, buf: *mut u8, size: usize) -> c_long {
    const LENGTH: usize = 16;
    const TYPE: usize = 18;
    // SAFETY: as the caller promises.
    let read = unsafe { fdt_getdents64(fd, buf.cast(), size) };
    if read <= 0 {
        return read as c_long;
    }
    // SAFETY: the call has written so many bytes.
    let mut records = unsafe { std::slice::from_raw_parts_mut(buf, read.cast_unsigned()) };
    while !records.is_empty() {
        let length = u16::from_ne_bytes([records[LENGTH], records[LENGTH + 1]]);
        let (record, rest) = records.split_at_mut(length.into());
        record[TYPE..].rotate_left(1);
        records = rest;
    }
    read as c_long
}

/// Opens a path by a struct: `openat2(2)`. On our side, `resolve` may have only `RESOLVE_CACHED`,
/// which is true of all files in memory.
///
/// # Safety
/// As [`dispatch`].
unsafe fn openat2(directory: c_int, path: *const c_char, at: *const OpenHow, size: usize) -> c_int {
    const RESOLVE_CACHED: u64 = 0x20;
    call(|system| {
        // SAFETY: as the caller promises.
        let how = unsafe { open_how(at, size) }?;
        let flags = how.flags as c_int;
        let target = match how.resolve {
            // SAFETY: as the caller promises.
            0 => unsafe {
                system.target_to_open(directory, path, flags, &mut |directory, path| {
                    let resolve = libc::RESOLVE_NO_SYMLINKS;
                    let _out = host_fork::blocking_section();
                    host::openat2_inside(directory, path, OpenHow { resolve, ..how })
                })
            },
            // SAFETY: as the caller promises.
            _ => unsafe { system.target(directory, path, LastLink::of_open(flags)) },
        };
        match target? {
            Target::Host(path) => {
                let opened = match (path.into_result(), how.resolve) {
                    (Ok(opened), _) => opened,
                    (Err(path), 0) => {
                        host::openat2_inside(path.directory().get(), path.path(), how)?
                    }
                    // The way to a file is restricted for the path as it was given.
                    (Err(path), _) => {
                        host::openat2_inside(path.directory().get(), path.as_given(), how)?
                    }
                };
                adopt_new(system, opened.into_raw(), flags & libc::O_CLOEXEC)
            }
            Target::Ours(..) if how.resolve & !RESOLVE_CACHED != 0 => Err(Errno::EINVAL),
            Target::Ours(at, path) => {
                let makes = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);
                let (known, mode) = (how.flags & !(host::OPEN_FLAGS as u64) == 0, how.mode);
                if !known || mode > 0o7777 || mode != 0 && how.flags as c_int & makes == 0 {
                    return Err(Errno::EINVAL);
                }
                system.open_ours(at, &path, flags, mode as libc::mode_t)
            }
        }
    })
}

/// Reads the argument of `openat2`. A longer struct must have zeroes at its end.
///
/// # Errors
/// `EINVAL` if it is too short; `E2BIG` if it has more; `EFAULT`.
///
/// # Safety
/// If `at` can be an address, so many bytes are there.
unsafe fn open_how(at: *const OpenHow, size: usize) -> Result<OpenHow, Errno> {
    const PAGE: usize = 4096;
    if size < size_of::<OpenHow>() {
        return Err(Errno::EINVAL);
    }
    if size > PAGE {
        return Err(Errno::from_raw(libc::E2BIG));
    }
    // SAFETY: as the caller promises.
    let more = unsafe { uaccess::bytes(at.cast(), size) }?;
    if more[size_of::<OpenHow>()..].iter().any(|&byte| byte != 0) {
        return Err(Errno::from_raw(libc::E2BIG));
    }
    // SAFETY: as the caller promises.
    unsafe { uaccess::get(at) }
}

/// # Safety
/// As [`dispatch`].
unsafe fn mmap(a: [c_long; 6]) -> c_long {
    let (protection, flags, fd) = (int(a[2]), int(a[3]), int(a[4]));
    // SAFETY: as the caller promises.
    let place = unsafe { fdt_mmap(pointer(a[0]), a[1] as usize, protection, flags, fd, a[5]) };
    place.expose_provenance() as c_long
}

/// Converts a returned error number to the convention of system calls: -1 and errno.
fn errno_result(error: c_int) -> c_long {
    match error {
        0 => 0,
        error => call(|_| Err(Errno::from_raw(error))),
    }
}

/// The kernel uses the low half of such an argument.
fn int(argument: c_long) -> c_int {
    argument as c_int
}

fn unsigned(argument: c_long) -> c_uint {
    argument as c_uint
}

fn pointer<T>(argument: c_long) -> *mut T {
    ptr::with_exposed_provenance_mut(argument as usize)
}
