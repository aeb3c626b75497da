//! Calls that may wait: with a timeout, with another signal mask, or in the host.
//!
//! A call with a relative timeout is made again with the time left, after a signal of the runner
//! has interrupted it. A call with an absolute timeout is made again as it is.

use fdtable_posix::*;

use crate::abi::{answer, call, host_now, on_host};
use crate::block::{Request, Row};
use crate::entry::host;
use crate::{memory, process, signals};

pub(super) const ROWS: &[Row] = &[
    (libc::SYS_poll, |r, a| {
        signals::with_milliseconds(r.block, *a, 2, |a| call!(fdt_poll(a[0], a[1], a[2])))
    }),
    (libc::SYS_ppoll, ppoll),
    (libc::SYS_pselect6, |r, a| {
        answer(signals::pselect(r.block, a))
    }),
    (libc::SYS_epoll_wait, |r, a| {
        signals::with_milliseconds(r.block, *a, 3, |a| {
            call!(fdt_epoll_wait(a[0], a[1], a[2], a[3]))
        })
    }),
    (libc::SYS_epoll_pwait, epoll_pwait),
    (libc::SYS_epoll_pwait2, epoll_pwait2),
    (libc::SYS_nanosleep, |r, a| sleep(r, a, 0)),
    (libc::SYS_clock_nanosleep, |r, a| {
        match is_of_wall_clock(a) {
            true => sleep(r, a, 2),
            false => host(r.number, *a),
        }
    }),
    (libc::SYS_semtimedop, |r, a| match a[3] {
        0 => host(r.number, *a),
        _ => sleep(r, a, 3),
    }),
    (libc::SYS_futex, |r, a| match is_relative_wait(a) {
        true => sleep(r, a, 3),
        false => in_host(r, a),
    }),
    (libc::SYS_msgrcv, in_host),
    (libc::SYS_msgsnd, in_host),
    (libc::SYS_pause, in_host),
    (libc::SYS_semop, in_host),
    (libc::SYS_futex_waitv, in_host),
    (libc::SYS_wait4, |r, a| {
        process::wait(r.number, *a, |a| match may_wait(libc::SYS_wait4, &a) {
            true => host(libc::SYS_wait4, a),
            false => host_now(libc::SYS_wait4, a),
        })
    }),
    (libc::SYS_waitid, |r, a| {
        process::wait(r.number, *a, |a| on_host(libc::SYS_waitid, a))
    }),
];

/// Makes a call of the host that may block, unless its arguments forbid it.
fn in_host(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    match may_wait(r.number, a) {
        true => host(r.number, *a),
        false => host_now(r.number, *a),
    }
}

/// Makes a call of the host whose argument `time` is the address of a relative timeout.
fn sleep(r: &mut Request<'_>, a: &[i64; 6], time: usize) -> i64 {
    signals::with_time(r.block, *a, time, |a| host(r.number, a))
}

fn ppoll(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    answer(signals::with_mask(r.block, a[3], a[4], || {
        let poll = || call!(fdt_ppoll(a[0], a[1], a[2], 0));
        signals::or_interrupted(r.block, signals::with_time_left(a[2], poll))
    }))
}

fn epoll_pwait(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    answer(signals::with_mask(r.block, a[4], a[5], || {
        let result = call!(fdt_epoll_wait(a[0], a[1], a[2], a[3]));
        or_interrupted_wait(r, result, || a[3] as i32 != 0)
    }))
}

fn epoll_pwait2(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    answer(signals::with_mask(r.block, a[4], a[5], || {
        let result = call!(fdt_epoll_pwait2(a[0], a[1], a[2], a[3], 0));
        let has_time = || memory::get(a[3].cast_unsigned()) != Ok([0_i64; 2]);
        or_interrupted_wait(r, result, has_time)
    }))
}

/// Returns the result of an `epoll` call with a mask. Without time it does not wait, and no signal
/// changes its result.
fn or_interrupted_wait(r: &Request<'_>, result: i64, may_wait: impl FnOnce() -> bool) -> i64 {
    match result >= 0 && may_wait() {
        true => signals::or_interrupted(r.block, result),
        false => result,
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
