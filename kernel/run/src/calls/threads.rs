//! Calls about threads, processes and signals, which the runner serves.

use super::{Request, Row};
use crate::abi::{on_host, thread_id};
use crate::{code, exec, exit, prctl, process, signals};

pub(super) const ROWS: &[Row] = &[
    (libc::SYS_arch_prctl, |r, a| prctl::set_base(r.block, *a)),
    (libc::SYS_prctl, prctl),
    (libc::SYS_seccomp, with_filter),
    (libc::SYS_set_tid_address, |r, a| {
        r.block.clear_on_exit.set(a[0].cast_unsigned());
        thread_id().into()
    }),
    // The runner's C library has registered its own.
    (libc::SYS_rseq, |_, _| -i64::from(libc::ENOSYS)),
    (libc::SYS_set_robust_list, |r, a| {
        let result = on_host(r.number, *a);
        if result == 0 {
            r.block.robust_list.set(a[0].cast_unsigned());
        }
        result
    }),
    (libc::SYS_exit, |_, a| exit::end_thread(a[0] as i32)),
    (libc::SYS_exit_group, |_, a| exit::end_process(a[0] as i32)),
    (libc::SYS_fork, |r, _| process::fork(r.block, r.frame, 0)),
    (libc::SYS_vfork, |r, _| {
        let flags = libc::CLONE_VFORK | libc::CLONE_VM;
        process::fork(r.block, r.frame, flags as u64)
    }),
    (libc::SYS_clone, |r, a| process::clone(r.block, r.frame, *a)),
    (libc::SYS_clone3, |r, a| {
        process::clone3(r.block, r.frame, *a)
    }),
    (libc::SYS_execve, |r, a| {
        exec::execute(r.block, r.frame, libc::AT_FDCWD, a[0], a[1], a[2], 0)
    }),
    (libc::SYS_execveat, |r, a| {
        let [directory, path, arguments, environment, flags, _] = *a;
        let (directory, flags) = (directory as i32, flags as i32);
        exec::execute(
            r.block,
            r.frame,
            directory,
            path,
            arguments,
            environment,
            flags,
        )
    }),
    (libc::SYS_timer_create, |_, a| exec::create_timer(*a)),
    (libc::SYS_timer_delete, |_, a| exec::delete_timer(*a)),
    (libc::SYS_rt_sigaction, |_, a| signals::action(*a)),
    (libc::SYS_rt_sigprocmask, |r, a| signals::mask(r.block, *a)),
    (libc::SYS_rt_sigreturn, |r, _| {
        signals::sigreturn(r.block, r.frame)
    }),
    (libc::SYS_sigaltstack, |r, a| {
        signals::alternate_stack(r.block, r.frame, *a)
    }),
    (libc::SYS_rt_sigsuspend, |r, a| {
        signals::suspend(r.block, *a)
    }),
    (libc::SYS_rt_sigtimedwait, |r, a| {
        signals::timed_wait(r.block, *a)
    }),
    (libc::SYS_rt_sigpending, |r, a| {
        signals::pending(r.block, *a)
    }),
    (libc::SYS_kill, send),
    (libc::SYS_tkill, send),
    (libc::SYS_tgkill, send),
    (libc::SYS_rt_sigqueueinfo, send),
    (libc::SYS_rt_tgsigqueueinfo, send),
];

fn prctl(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
    match a[0] as i32 {
        PR_SET_SYSCALL_USER_DISPATCH => -i64::from(libc::EINVAL),
        libc::PR_SET_SECCOMP => with_filter(r, a),
        libc::PR_SET_DUMPABLE => prctl::set_dumpable(*a),
        libc::PR_GET_DUMPABLE => prctl::dumpable(*a),
        _ => on_host(r.number, *a),
    }
}

/// Makes a call that may install a filter of calls.
fn with_filter(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    code::pin();
    on_host(r.number, *a)
}

fn send(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    signals::send(r.block, r.number, *a).unwrap_or_else(|| on_host(r.number, *a))
}
