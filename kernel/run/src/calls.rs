//! Dispatches the system calls of the guest.
//!
//! `fdtable-posix` serves calls on descriptors and paths. The runner serves calls about threads,
//! signals, memory and exec. All other calls go to the host.

use std::ffi::c_long;

use fdtable_posix::{fdt_getsockopt, fdt_read, fdt_syscall, fdt_write, runner};

use crate::entry::{Frame, fdtable_run_host};
use crate::memory::{self, pointer};
use crate::thread::Block;
use crate::{code, exec, patch, process, signals};

/// Converts a result of the C interface, where -1 means that `errno` says why.
pub(crate) fn checked(result: i64) -> Result<i64, i32> {
    match result {
        -1 => Err(errno()),
        result => Ok(result),
    }
}

/// Converts the address that a mapping returns.
pub(crate) fn checked_address(place: *mut std::ffi::c_void) -> Result<u64, i32> {
    if place == libc::MAP_FAILED {
        return Err(errno());
    }
    Ok(place.expose_provenance() as u64)
}

fn errno() -> i32 {
    // SAFETY: the C library has one for each thread.
    unsafe { *libc::__errno_location() }
}

/// Makes a call of the host that may block, unless signals wait.
pub(crate) fn host(number: i64, arguments: [i64; 6]) -> i64 {
    // SAFETY: the guest's own call, with what it passed.
    unsafe { fdtable_run_host(number, &raw const arguments) }
}

/// Makes a call of the host that does not block.
pub(crate) fn host_now(number: i64, a: [i64; 6]) -> i64 {
    let [a, b, c, d, e, f] = a;
    // SAFETY: as above, or a call of the runner's own.
    checked(unsafe { libc::syscall(number, a, b, c, d, e, f) })
        .unwrap_or_else(|errno| -i64::from(errno))
}

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
            process::end_thread(0);
        }
        let result = match number {
            // The most frequent ones, without a choice among all.
            libc::SYS_read => read(frame),
            libc::SYS_write => write(frame),
            libc::SYS_close
            | libc::SYS_lseek
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_sendto
            | libc::SYS_recvfrom => posix(number, frame.arguments()),
            _ => dispatch(block, frame, number, frame.arguments()),
        };
        if !signals::is_in_vain(block, result) {
            break result;
        }
    };
    if block.is_to_end() {
        process::end_thread(0);
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

fn read(frame: &Frame) -> i64 {
    let (fd, place) = (frame.rdi as i32, pointer(frame.rsi));
    // SAFETY: the guest's own call, with what it passed.
    result_of(unsafe { fdt_read(fd, place, frame.rdx as usize) } as i64)
}

fn write(frame: &Frame) -> i64 {
    let (fd, place) = (frame.rdi as i32, pointer(frame.rsi));
    // SAFETY: the guest's own call, with what it passed.
    result_of(unsafe { fdt_write(fd, place, frame.rdx as usize) } as i64)
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
            posix(number, a)
        }
        libc::SYS_madvise => {
            let _closed =
                discards(a[2]).then(|| patch::discard(memory::range(address(0), address(1))));
            posix(number, a)
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
            posix(number, a)
        }
        libc::SYS_seccomp => {
            code::keep();
            posix(number, a)
        }
        libc::SYS_munmap => {
            let _closed = patch::forget([memory::range(address(0), address(1))]);
            memory::unmap(address(0), address(1), || posix(number, a))
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
            let result = memory::unmap(address(0), unmapped, || posix(number, a));
            if result >= 0 {
                memory::note(result.cast_unsigned(), address(2));
            }
            result
        }
        libc::SYS_shmat => {
            let size = segment_size(a[0] as i32);
            let _closed = (a[2] & i64::from(libc::SHM_REMAP) != 0)
                .then(|| patch::forget([memory::range(address(1), size)]));
            let result = posix(number, a);
            if !(-4095..0).contains(&result) {
                memory::note(result.cast_unsigned(), size);
            }
            result
        }
        libc::SYS_shmdt => {
            let size = memory::size_at(address(0));
            memory::unmap(address(0), size, || posix(number, a))
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
            signals::send(block, number, a).unwrap_or_else(|| posix(number, a))
        }
        libc::SYS_ppoll => signals::with_mask(block, a[3], a[4], || {
            signals::or_interrupted(block, posix(number, [a[0], a[1], a[2], 0, 0, 0]))
        }),
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
            signals::with_mask(block, a[4], a[5], || {
                let result = posix(number, [a[0], a[1], a[2], a[3], 0, 0]);
                let waits = match number {
                    libc::SYS_epoll_pwait => a[3] as i32 != 0,
                    // SAFETY: the call has read the time there.
                    _ => a[3] == 0 || unsafe { *pointer::<[i64; 2]>(address(3)) } != [0, 0],
                };
                if waits && result >= 0 {
                    return signals::or_interrupted(block, result);
                }
                result
            })
        }
        libc::SYS_pselect6 => signals::with_mask_behind(block, a),
        // The thread.
        libc::SYS_arch_prctl => process::set_base(block, a),
        libc::SYS_set_tid_address => {
            block.clear_on_exit.set(address(0));
            // SAFETY: it takes no pointer.
            unsafe { libc::gettid() }.into()
        }
        // The runner's C library has registered its own.
        libc::SYS_rseq => -i64::from(libc::ENOSYS),
        libc::SYS_set_robust_list => {
            let result = posix(number, a);
            if result == 0 {
                block.robust_list.set(address(0));
            }
            result
        }
        libc::SYS_exit => process::end_thread(a[0] as i32),
        libc::SYS_exit_group => process::end_process(a[0] as i32),
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
            posix(number, a)
        }
        libc::SYS_prctl if a[0] == libc::PR_SET_DUMPABLE.into() => process::set_dumpable(a),
        libc::SYS_prctl if a[0] == libc::PR_GET_DUMPABLE.into() => process::dumpable(a),
        // Calls with a relative timeout. One with an absolute timeout is made again as it is.
        libc::SYS_poll => signals::with_milliseconds(block, a, 2, |a| posix(number, a)),
        libc::SYS_epoll_wait => signals::with_milliseconds(block, a, 3, |a| posix(number, a)),
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
        libc::SYS_waitid => process::wait(number, a, |a| posix(number, a)),
        libc::SYS_futex
        | libc::SYS_clock_nanosleep
        | libc::SYS_pause
        | libc::SYS_semop
        | libc::SYS_semtimedop
        | libc::SYS_msgrcv
        | libc::SYS_msgsnd
        | libc::SYS_futex_waitv => host(number, a),
        _ => posix(number, a),
    }
}

/// Makes a call of the C interface.
pub(crate) fn posix(number: i64, a: [i64; 6]) -> i64 {
    let [a, b, c, d, e, f]: [c_long; 6] = a;
    // SAFETY: the guest's own call, with what it passed.
    result_of(unsafe { fdt_syscall(number, a, b, c, d, e, f) })
}

/// Returns what the guest gets for the result of a C function.
fn result_of(result: i64) -> i64 {
    checked(result).unwrap_or_else(|errno| -i64::from(errno))
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
    let result = posix(libc::SYS_mmap, a);
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
