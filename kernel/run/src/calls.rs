//! Dispatches the system calls of the guest.
//!
//! `fdtable-posix` serves calls on descriptors and paths. The runner serves calls about threads,
//! signals, memory and exec. All other calls go to the host: see [`on_host`].

use std::ffi::CStr;

use fdtable_posix::*;

use crate::abi::{call, errno, host_now, on_host};
use crate::block::Block;
use crate::entry::host;
use crate::frame::Frame;
use crate::memory::{self, pointer};
use crate::{code, exec, exit, patch, prctl, process, signals};

/// Serves a call of the guest. The entry calls it.
pub(crate) extern "C" fn serve(frame: &mut Frame) {
    let block = Block::current();
    // As in the kernel, the low half counts.
    let number = i64::from(frame.rax as i32);
    block.returns.set(0);
    let site = block.trapped_at.take();
    if site != 0 {
        patch::rewrite(site, number);
    }
    signals::begin_call(block);
    let result = loop {
        if block.is_to_end() {
            exit::end_thread(0);
        }
        let a = frame.arguments();
        let result = match number {
            // The most frequent ones, without a choice among all.
            libc::SYS_read => call!(fdt_read(a[0], a[1], a[2])),
            libc::SYS_write => call!(fdt_write(a[0], a[1], a[2])),
            libc::SYS_close => call!(fdt_close(a[0])),
            libc::SYS_lseek => call!(fdt_lseek(a[0], a[1], a[2])),
            libc::SYS_pread64 => call!(fdt_pread(a[0], a[1], a[2], a[3])),
            libc::SYS_pwrite64 => call!(fdt_pwrite(a[0], a[1], a[2], a[3])),
            libc::SYS_sendto => call!(fdt_sendto(a[0], a[1], a[2], a[3], a[4], a[5])),
            libc::SYS_recvfrom => call!(fdt_recvfrom(a[0], a[1], a[2], a[3], a[4], a[5])),
            _ => dispatch(block, frame, number, a),
        };
        if !signals::is_in_vain(block, result) {
            break result;
        }
    };
    if block.is_to_end() {
        exit::end_thread(0);
    }
    block.begin_way_out();
    signals::deliver_kept(block);
    if result == -i64::from(libc::EINTR) && block.waits() && may_repeat(number, &frame.arguments())
    {
        block.repeats.set(number);
    } else {
        block.repeats.set(-1);
    }
    frame.rax = result.cast_unsigned();
    if site != 0 {
        frame.rip = patch::return_to(block, frame.rip);
    }
    let stack = block.child_stack.take();
    if stack != 0 {
        frame.rsp = stack;
    }
}

/// Returns true if a call of the host may wait, by its arguments. One that does not is made also if
/// a signal has arrived: a wake-up that is left out is lost.
fn may_wait(number: i64, a: &[i64; 6]) -> bool {
    let has = |index: usize, flag: i32| a[index] & i64::from(flag) != 0;
    match number {
        libc::SYS_futex => {
            let command = a[1] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
            matches!(
                command,
                libc::FUTEX_WAIT
                    | libc::FUTEX_WAIT_BITSET
                    | libc::FUTEX_LOCK_PI
                    | libc::FUTEX_LOCK_PI2
                    | libc::FUTEX_WAIT_REQUEUE_PI
            )
        }
        libc::SYS_wait4 => !has(2, libc::WNOHANG),
        libc::SYS_msgrcv => !has(4, libc::IPC_NOWAIT),
        libc::SYS_msgsnd => !has(3, libc::IPC_NOWAIT),
        _ => true,
    }
}

/// Returns true if a `clock_nanosleep` is for a time that passes as the runner measures it.
fn is_of_wall_clock(a: &[i64; 6]) -> bool {
    let is_wall = matches!(
        a[0] as i32,
        libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME | libc::CLOCK_TAI
    );
    is_wall && a[1] & i64::from(libc::TIMER_ABSTIME) == 0
}

/// Returns true if a call of `futex` waits, and its time is not a point in time.
fn is_relative_wait(a: &[i64; 6]) -> bool {
    let command = a[1] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    command == libc::FUTEX_WAIT && a[3] != 0
}

/// Returns true if the host would repeat the call after a handler with `SA_RESTART`.
fn may_repeat(number: i64, a: &[i64; 6]) -> bool {
    let timeout = match number {
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => {
            libc::SO_RCVTIMEO
        }
        libc::SYS_accept | libc::SYS_accept4 => libc::SO_RCVTIMEO,
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => {
            libc::SO_SNDTIMEO
        }
        libc::SYS_connect => libc::SO_SNDTIMEO,
        _ => 0,
    };
    if timeout != 0 && has_timeout(a[0], timeout) {
        return false;
    }
    match number {
        libc::SYS_futex => a[3] == 0,
        _ => matches!(
            number,
            libc::SYS_read
                | libc::SYS_write
                | libc::SYS_readv
                | libc::SYS_writev
                | libc::SYS_pread64
                | libc::SYS_pwrite64
                | libc::SYS_preadv
                | libc::SYS_pwritev
                | libc::SYS_preadv2
                | libc::SYS_pwritev2
                | libc::SYS_open
                | libc::SYS_openat
                | libc::SYS_openat2
                | libc::SYS_creat
                | libc::SYS_wait4
                | libc::SYS_waitid
                | libc::SYS_accept
                | libc::SYS_accept4
                | libc::SYS_connect
                | libc::SYS_recvfrom
                | libc::SYS_recvmsg
                | libc::SYS_sendto
                | libc::SYS_sendmsg
                | libc::SYS_flock
                | libc::SYS_fcntl
                | libc::SYS_ioctl
                | libc::SYS_splice
                | libc::SYS_tee
                | libc::SYS_vmsplice
                | libc::SYS_sendfile
                | libc::SYS_copy_file_range
        ),
    }
}

/// Returns true if a descriptor is a socket with a timeout. Linux does not repeat its calls.
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

/// Serves a call by its number. Not a part of `serve`: the compiler computes what many arms use
/// before it looks at the number, which took 10 ns of each call.
#[inline(never)]
fn dispatch(block: &'static Block, frame: &mut Frame, number: i64, a: [i64; 6]) -> i64 {
    let address = |index: usize| a[index].cast_unsigned();
    match number {
        // Memory.
        libc::SYS_mmap => map(a),
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
            let _closed = (a[2] != patch::CODE.into())
                .then(|| patch::restore(memory::range(address(0), address(1))));
            on_host(number, a)
        }
        libc::SYS_madvise => {
            let _closed =
                discards(a[2]).then(|| patch::discard(memory::range(address(0), address(1))));
            on_host(number, a)
        }
        libc::SYS_process_madvise => {
            let ranges = if discards(a[3]) {
                address(2).min(IOV_MAX)
            } else {
                0
            };
            // The call fails if a range cannot be read.
            let range = |index: u64| {
                let at = pointer::<[u64; 2]>(address(1).wrapping_add(16 * index));
                // SAFETY: words have any value.
                let [start, length] = unsafe { runner::value(at) }?;
                Some(patch::discard(memory::range(start, length)))
            };
            let _closed: Vec<_> = (0..ranges).map_while(range).collect();
            on_host(number, a)
        }
        libc::SYS_seccomp => {
            code::keep();
            on_host(number, a)
        }
        libc::SYS_munmap => {
            let _closed = patch::forget([memory::range(address(0), address(1))]);
            memory::unmap(address(0), address(1), || on_host(number, a))
        }
        libc::SYS_mremap => {
            let replaced = match a[3] & i64::from(libc::MREMAP_FIXED) {
                0 => 0..0,
                _ => memory::range(address(4), address(2)),
            };
            let _closed = patch::forget([memory::range(address(0), address(1)), replaced]);
            let unmapped = match a[3] & i64::from(libc::MREMAP_DONTUNMAP) {
                0 => address(1),
                _ => 0,
            };
            let result = memory::unmap(address(0), unmapped, || on_host(number, a));
            if result >= 0 {
                memory::note(result.cast_unsigned(), address(2));
            }
            result
        }
        libc::SYS_shmat => {
            let size = segment_size(a[0] as i32);
            let _closed = (a[2] & i64::from(libc::SHM_REMAP) != 0)
                .then(|| patch::forget([memory::range(address(1), size)]));
            let result = on_host(number, a);
            if !(-4095..0).contains(&result) {
                memory::note(result.cast_unsigned(), size);
            }
            result
        }
        libc::SYS_shmdt => {
            let size = memory::size_at(address(0));
            memory::unmap(address(0), size, || on_host(number, a))
        }
        libc::SYS_brk => memory::set_break(address(0)).cast_signed(),
        // Signals.
        libc::SYS_rt_sigaction => signals::action(a),
        libc::SYS_rt_sigprocmask => signals::mask(block, a),
        libc::SYS_rt_sigreturn => signals::sigreturn(block, frame),
        libc::SYS_sigaltstack => signals::alternate_stack(block, frame, a),
        libc::SYS_rt_sigsuspend => signals::suspend(block, a),
        libc::SYS_rt_sigtimedwait => signals::timed_wait(block, a),
        libc::SYS_rt_sigpending => signals::pending(block, a),
        libc::SYS_kill
        | libc::SYS_tkill
        | libc::SYS_tgkill
        | libc::SYS_rt_sigqueueinfo
        | libc::SYS_rt_tgsigqueueinfo => {
            signals::send(block, number, a).unwrap_or_else(|| on_host(number, a))
        }
        libc::SYS_ppoll => signals::with_mask(block, a[3], a[4], || {
            let poll = || call!(fdt_ppoll(a[0], a[1], a[2], 0));
            signals::or_interrupted(block, signals::with_time_left(a[2], poll))
        }),
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
            signals::with_mask(block, a[4], a[5], || {
                let (result, waits) = match number {
                    libc::SYS_epoll_pwait => {
                        let result = call!(fdt_epoll_wait(a[0], a[1], a[2], a[3]));
                        (result, a[3] as i32 != 0)
                    }
                    _ => {
                        let result = call!(fdt_epoll_pwait2(a[0], a[1], a[2], a[3], 0));
                        // SAFETY: the call has read the time there.
                        let waits =
                            a[3] == 0 || unsafe { *pointer::<[i64; 2]>(address(3)) } != [0, 0];
                        (result, waits)
                    }
                };
                if waits && result >= 0 {
                    return signals::or_interrupted(block, result);
                }
                result
            })
        }
        libc::SYS_pselect6 => signals::with_mask_behind(block, a),
        // The thread.
        libc::SYS_arch_prctl => prctl::set_base(block, a),
        libc::SYS_set_tid_address => {
            block.clear_on_exit.set(address(0));
            // SAFETY: it takes no pointer.
            unsafe { libc::gettid() }.into()
        }
        // The runner's C library has registered its own.
        libc::SYS_rseq => -i64::from(libc::ENOSYS),
        libc::SYS_set_robust_list => {
            let result = on_host(number, a);
            if result == 0 {
                block.robust_list.set(address(0));
            }
            result
        }
        libc::SYS_exit => exit::end_thread(a[0] as i32),
        libc::SYS_exit_group => exit::end_process(a[0] as i32),
        libc::SYS_fork => process::fork(block, frame, 0),
        libc::SYS_vfork => process::fork(block, frame, (libc::CLONE_VFORK | libc::CLONE_VM) as u64),
        libc::SYS_clone => process::clone(block, frame, a),
        libc::SYS_clone3 => process::clone3(block, frame, a),
        libc::SYS_execve => exec::execute(block, frame, libc::AT_FDCWD, a[0], a[1], a[2], 0),
        libc::SYS_execveat => {
            exec::execute(block, frame, a[0] as i32, a[1], a[2], a[3], a[4] as i32)
        }
        libc::SYS_timer_create => exec::create_timer(a),
        libc::SYS_timer_delete => exec::delete_timer(a),
        libc::SYS_prctl if a[0] == 59 => -i64::from(libc::EINVAL),
        libc::SYS_prctl if a[0] == libc::PR_SET_SECCOMP.into() => {
            code::keep();
            on_host(number, a)
        }
        libc::SYS_prctl if a[0] == libc::PR_SET_DUMPABLE.into() => prctl::set_dumpable(a),
        libc::SYS_prctl if a[0] == libc::PR_GET_DUMPABLE.into() => prctl::dumpable(a),
        // Calls with a relative timeout. One with an absolute timeout is made again as it is.
        libc::SYS_poll => {
            signals::with_milliseconds(block, a, 2, |a| call!(fdt_poll(a[0], a[1], a[2])))
        }
        libc::SYS_epoll_wait => signals::with_milliseconds(block, a, 3, |a| {
            call!(fdt_epoll_wait(a[0], a[1], a[2], a[3]))
        }),
        libc::SYS_nanosleep => signals::with_time(block, a, 0, |a| host(number, a)),
        libc::SYS_clock_nanosleep if is_of_wall_clock(&a) => {
            signals::with_time(block, a, 2, |a| host(number, a))
        }
        libc::SYS_semtimedop if a[3] != 0 => signals::with_time(block, a, 3, |a| host(number, a)),
        libc::SYS_futex if is_relative_wait(&a) => {
            signals::with_time(block, a, 3, |a| host(number, a))
        }
        libc::SYS_wait4 if !may_wait(number, &a) => {
            process::wait(number, a, |a| host_now(number, a))
        }
        // Calls that may block in the host, unless their arguments forbid it.
        libc::SYS_futex | libc::SYS_msgrcv | libc::SYS_msgsnd if !may_wait(number, &a) => {
            host_now(number, a)
        }
        libc::SYS_wait4 => process::wait(number, a, |a| host(number, a)),
        libc::SYS_waitid => process::wait(number, a, |a| on_host(number, a)),
        libc::SYS_futex
        | libc::SYS_clock_nanosleep
        | libc::SYS_pause
        | libc::SYS_semop
        | libc::SYS_semtimedop
        | libc::SYS_msgrcv
        | libc::SYS_msgsnd
        | libc::SYS_futex_waitv => host(number, a),
        // Descriptors and transfers.
        libc::SYS_openat => call!(fdt_openat(a[0], a[1], a[2], a[3])),
        libc::SYS_open => call!(fdt_open(a[0], a[1], a[2])),
        libc::SYS_creat => call!(fdt_creat(a[0], a[1])),
        libc::SYS_openat2 => call!(fdt_openat2(a[0], a[1], a[2], a[3])),
        libc::SYS_close_range => call!(fdt_close_range(a[0], a[1], a[2])),
        libc::SYS_dup => call!(fdt_dup(a[0])),
        libc::SYS_dup2 => call!(fdt_dup2(a[0], a[1])),
        libc::SYS_dup3 => call!(fdt_dup3(a[0], a[1], a[2])),
        libc::SYS_fcntl => call!(fdt_fcntl(a[0], a[1], a[2])),
        libc::SYS_ioctl => call!(fdt_ioctl(a[0], a[1], a[2])),
        libc::SYS_readv => call!(fdt_readv(a[0], a[1], a[2])),
        libc::SYS_writev => call!(fdt_writev(a[0], a[1], a[2])),
        libc::SYS_preadv => call!(fdt_preadv(a[0], a[1], a[2], a[3])),
        libc::SYS_pwritev => call!(fdt_pwritev(a[0], a[1], a[2], a[3])),
        libc::SYS_preadv2 => call!(fdt_preadv2(a[0], a[1], a[2], a[3], a[5])),
        libc::SYS_pwritev2 => call!(fdt_pwritev2(a[0], a[1], a[2], a[3], a[5])),
        libc::SYS_pipe => call!(fdt_pipe(a[0])),
        libc::SYS_pipe2 => call!(fdt_pipe2(a[0], a[1])),
        libc::SYS_memfd_create => call!(fdt_memfd_create(a[0], a[1])),
        libc::SYS_sendfile => call!(fdt_sendfile(a[0], a[1], a[2], a[3])),
        libc::SYS_copy_file_range => call!(fdt_copy_file_range(a[0], a[1], a[2], a[3], a[4], a[5])),
        libc::SYS_splice => call!(fdt_splice(a[0], a[1], a[2], a[3], a[4], a[5])),
        libc::SYS_tee => call!(fdt_tee(a[0], a[1], a[2], a[3])),
        libc::SYS_vmsplice => call!(fdt_vmsplice(a[0], a[1], a[2], a[3])),
        libc::SYS_flock => call!(fdt_flock(a[0], a[1])),
        libc::SYS_truncate => call!(fdt_truncate(a[0], a[1])),
        libc::SYS_ftruncate => call!(fdt_ftruncate(a[0], a[1])),
        libc::SYS_fallocate => call!(fdt_fallocate(a[0], a[1], a[2], a[3])),
        libc::SYS_fsync => call!(fdt_fsync(a[0])),
        libc::SYS_fdatasync => call!(fdt_fdatasync(a[0])),
        libc::SYS_syncfs => call!(fdt_syncfs(a[0])),
        libc::SYS_sync => call!(fdt_sync()),
        libc::SYS_sync_file_range => call!(fdt_sync_file_range(a[0], a[1], a[2], a[3])),
        libc::SYS_readahead => call!(fdt_readahead(a[0], a[1], a[2])),
        libc::SYS_fadvise64 => error_of(call!(fdt_posix_fadvise(a[0], a[1], a[2], a[3]))),
        // Paths and attributes.
        libc::SYS_stat => call!(fdt_stat(a[0], a[1])),
        libc::SYS_lstat => call!(fdt_lstat(a[0], a[1])),
        libc::SYS_fstat => call!(fdt_fstat(a[0], a[1])),
        libc::SYS_newfstatat => call!(fdt_fstatat(a[0], a[1], a[2], a[3])),
        libc::SYS_statx => call!(fdt_statx(a[0], a[1], a[2], a[3], a[4])),
        libc::SYS_statfs => call!(fdt_statfs(a[0], a[1])),
        libc::SYS_fstatfs => call!(fdt_fstatfs(a[0], a[1])),
        libc::SYS_access => call!(fdt_access(a[0], a[1])),
        // The kernel's call has no flags.
        libc::SYS_faccessat => call!(fdt_faccessat(a[0], a[1], a[2], 0)),
        libc::SYS_faccessat2 => call!(fdt_faccessat(a[0], a[1], a[2], a[3])),
        libc::SYS_chmod => call!(fdt_chmod(a[0], a[1])),
        libc::SYS_fchmod => call!(fdt_fchmod(a[0], a[1])),
        libc::SYS_fchmodat => call!(fdt_fchmodat(a[0], a[1], a[2], 0)),
        libc::SYS_chown => call!(fdt_chown(a[0], a[1], a[2])),
        libc::SYS_lchown => call!(fdt_lchown(a[0], a[1], a[2])),
        libc::SYS_fchown => call!(fdt_fchown(a[0], a[1], a[2])),
        libc::SYS_fchownat => call!(fdt_fchownat(a[0], a[1], a[2], a[3], a[4])),
        libc::SYS_utime => call!(fdt_utime(a[0], a[1])),
        libc::SYS_utimes => call!(fdt_utimes(a[0], a[1])),
        libc::SYS_futimesat => call!(fdt_futimesat(a[0], a[1], a[2])),
        libc::SYS_utimensat => call!(fdt_utimensat(a[0], a[1], a[2], a[3])),
        libc::SYS_umask => call!(fdt_umask(a[0])),
        libc::SYS_mkdir => call!(fdt_mkdir(a[0], a[1])),
        libc::SYS_mkdirat => call!(fdt_mkdirat(a[0], a[1], a[2])),
        libc::SYS_mknod => call!(fdt_mknod(a[0], a[1], a[2])),
        libc::SYS_mknodat => call!(fdt_mknodat(a[0], a[1], a[2], a[3])),
        libc::SYS_rmdir => call!(fdt_rmdir(a[0])),
        libc::SYS_unlink => call!(fdt_unlink(a[0])),
        libc::SYS_unlinkat => call!(fdt_unlinkat(a[0], a[1], a[2])),
        libc::SYS_rename => call!(fdt_rename(a[0], a[1])),
        libc::SYS_renameat => call!(fdt_renameat(a[0], a[1], a[2], a[3])),
        libc::SYS_renameat2 => call!(fdt_renameat2(a[0], a[1], a[2], a[3], a[4])),
        libc::SYS_link => call!(fdt_link(a[0], a[1])),
        libc::SYS_linkat => call!(fdt_linkat(a[0], a[1], a[2], a[3], a[4])),
        libc::SYS_symlink => call!(fdt_symlink(a[0], a[1])),
        libc::SYS_symlinkat => call!(fdt_symlinkat(a[0], a[1], a[2])),
        libc::SYS_readlink => call!(fdt_readlink(a[0], a[1], a[2])),
        libc::SYS_readlinkat => call!(fdt_readlinkat(a[0], a[1], a[2], a[3])),
        libc::SYS_chdir => call!(fdt_chdir(a[0])),
        libc::SYS_fchdir => call!(fdt_fchdir(a[0])),
        libc::SYS_getdents64 => call!(fdt_getdents64(a[0], a[1], a[2])),
        libc::SYS_getdents => old_entries(a),
        libc::SYS_getcwd => working_directory(a),
        // Sockets.
        libc::SYS_socket => call!(fdt_socket(a[0], a[1], a[2])),
        libc::SYS_socketpair => call!(fdt_socketpair(a[0], a[1], a[2], a[3])),
        libc::SYS_bind => call!(fdt_bind(a[0], a[1], a[2])),
        libc::SYS_listen => call!(fdt_listen(a[0], a[1])),
        libc::SYS_accept => call!(fdt_accept(a[0], a[1], a[2])),
        libc::SYS_accept4 => call!(fdt_accept4(a[0], a[1], a[2], a[3])),
        libc::SYS_connect => call!(fdt_connect(a[0], a[1], a[2])),
        libc::SYS_shutdown => call!(fdt_shutdown(a[0], a[1])),
        libc::SYS_getsockname => call!(fdt_getsockname(a[0], a[1], a[2])),
        libc::SYS_getpeername => call!(fdt_getpeername(a[0], a[1], a[2])),
        libc::SYS_getsockopt => call!(fdt_getsockopt(a[0], a[1], a[2], a[3], a[4])),
        libc::SYS_setsockopt => call!(fdt_setsockopt(a[0], a[1], a[2], a[3], a[4])),
        libc::SYS_sendmsg => call!(fdt_sendmsg(a[0], a[1], a[2])),
        libc::SYS_sendmmsg => call!(fdt_sendmmsg(a[0], a[1], a[2], a[3])),
        libc::SYS_recvmsg => call!(fdt_recvmsg(a[0], a[1], a[2])),
        libc::SYS_recvmmsg => call!(fdt_recvmmsg(a[0], a[1], a[2], a[3], a[4])),
        // Events.
        libc::SYS_select => call!(fdt_select(a[0], a[1], a[2], a[3], a[4])),
        libc::SYS_eventfd => call!(fdt_eventfd(a[0], 0)),
        libc::SYS_eventfd2 => call!(fdt_eventfd(a[0], a[1])),
        libc::SYS_timerfd_create => call!(fdt_timerfd_create(a[0], a[1])),
        libc::SYS_timerfd_settime => call!(fdt_timerfd_settime(a[0], a[1], a[2], a[3])),
        libc::SYS_timerfd_gettime => call!(fdt_timerfd_gettime(a[0], a[1])),
        libc::SYS_epoll_create => call!(fdt_epoll_create(a[0])),
        libc::SYS_epoll_create1 => call!(fdt_epoll_create1(a[0])),
        libc::SYS_epoll_ctl => call!(fdt_epoll_ctl(a[0], a[1], a[2], a[3])),
        libc::SYS_signalfd => signal_descriptor(a, 0),
        libc::SYS_signalfd4 => signal_descriptor(a, a[3]),
        libc::SYS_inotify_init => call!(fdt_inotify_init()),
        libc::SYS_inotify_init1 => call!(fdt_inotify_init1(a[0])),
        libc::SYS_inotify_add_watch => call!(fdt_inotify_add_watch(a[0], a[1], a[2])),
        libc::SYS_inotify_rm_watch => call!(fdt_inotify_rm_watch(a[0], a[1])),
        // Limits and credentials.
        libc::SYS_getrlimit => call!(fdt_getrlimit(a[0], a[1])),
        libc::SYS_setrlimit => call!(fdt_setrlimit(a[0], a[1])),
        libc::SYS_prlimit64 => call!(fdt_prlimit(a[0], a[1], a[2], a[3])),
        libc::SYS_setuid => call!(fdt_setuid(a[0])),
        libc::SYS_setgid => call!(fdt_setgid(a[0])),
        libc::SYS_setreuid => call!(fdt_setreuid(a[0], a[1])),
        libc::SYS_setregid => call!(fdt_setregid(a[0], a[1])),
        libc::SYS_setresuid => call!(fdt_setresuid(a[0], a[1], a[2])),
        libc::SYS_setresgid => call!(fdt_setresgid(a[0], a[1], a[2])),
        libc::SYS_setfsuid => call!(fdt_setfsuid(a[0])),
        libc::SYS_setfsgid => call!(fdt_setfsgid(a[0])),
        libc::SYS_capset => call!(fdt_capset(a[0], a[1])),
        _ => on_host(number, a),
    }
}

/// Returns the size of a segment of shared memory, which is attached.
fn segment_size(id: i32) -> u64 {
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut segment: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for the answer.
    match unsafe { libc::shmctl(id, libc::IPC_STAT, &raw mut segment) } {
        -1 => 0,
        _ => segment.shm_segsz as u64,
    }
}

/// The most ranges of one call.
const IOV_MAX: u64 = 1024;

/// Returns true if advice to the host discards pages.
fn discards(advice: i64) -> bool {
    const MADV_GUARD_INSTALL: i32 = 102;
    let all = [
        libc::MADV_DONTNEED,
        libc::MADV_DONTNEED_LOCKED,
        libc::MADV_FREE,
        MADV_GUARD_INSTALL,
    ];
    all.contains(&(advice as i32))
}

/// Maps memory, and notes that it is the guest's.
fn map(a: [i64; 6]) -> i64 {
    let replaced = || memory::range(a[0].cast_unsigned(), a[1].cast_unsigned());
    let closed = (a[3] & i64::from(libc::MAP_FIXED) != 0).then(|| patch::forget([replaced()]));
    let result = call!(fdt_mmap(a[0], a[1], a[2], a[3], a[4], a[5]));
    drop(closed);
    if !(-4095..0).contains(&result) {
        memory::note(result.cast_unsigned(), a[1].cast_unsigned());
        let mapping = patch::Mapping {
            protection: a[2] as i32,
            flags: a[3] as i32,
            fd: a[4] as i32,
            offset: a[5].cast_unsigned(),
        };
        patch::map(result.cast_unsigned(), a[1].cast_unsigned(), mapping);
    }
    result
}

/// Makes `signalfd`, whose mask has the kernel's length: shorter than that of the C library.
fn signal_descriptor(a: [i64; 6], flags: i64) -> i64 {
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
    call!(fdt_signalfd(
        a[0],
        (&raw const mask).expose_provenance() as i64,
        flags
    ))
}

/// Returns the length of the working directory's path with the null, unlike the C library.
fn working_directory(a: [i64; 6]) -> i64 {
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
fn old_entries(a: [i64; 6]) -> i64 {
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

/// Converts a returned error number.
fn error_of(error: i64) -> i64 {
    -error
}

#[cfg(test)]
mod tests;
