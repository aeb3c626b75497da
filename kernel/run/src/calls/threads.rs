//! Calls about threads, processes and signals, which the runner serves.

use crate::abi::{answer, on_host, thread_id};
use crate::block::Row;
use crate::prctl::{prctl, set_base, with_filter};
use crate::{exec, exit, process, signals, tracer};

pub(super) const ROWS: &[Row] = &[
    (libc::SYS_arch_prctl, set_base),
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
    (libc::SYS_fork, process::fork),
    (libc::SYS_vfork, process::vfork),
    (libc::SYS_clone, process::clone),
    (libc::SYS_clone3, process::clone3),
    (libc::SYS_execve, exec::execve),
    (libc::SYS_execveat, exec::execveat),
    (libc::SYS_timer_create, exec::create_timer),
    (libc::SYS_timer_delete, exec::delete_timer),
    (libc::SYS_rt_sigaction, |_, a| answer(signals::action(a))),
    (libc::SYS_rt_sigprocmask, |r, a| {
        answer(signals::mask(r.block, a))
    }),
    (libc::SYS_rt_sigreturn, signals::sigreturn),
    (libc::SYS_sigaltstack, |r, a| {
        answer(signals::alternate_stack(r, a))
    }),
    (libc::SYS_rt_sigsuspend, |r, a| {
        answer(signals::suspend(r.block, a))
    }),
    (libc::SYS_rt_sigtimedwait, |r, a| {
        answer(signals::timed_wait(r, a))
    }),
    (libc::SYS_rt_sigpending, signals::pending),
    (libc::SYS_ptrace, tracer::trace),
    (libc::SYS_kill, tracer::send),
    (libc::SYS_tkill, signals::send),
    (libc::SYS_tgkill, tracer::send),
    (libc::SYS_rt_sigqueueinfo, signals::send),
    (libc::SYS_rt_tgsigqueueinfo, signals::send),
];
