//! Signals by which threads of the runner interrupt each other.

use crate::abi::process_id;

/// Interrupts a thread of the guest for a change of code, or to check pending signals.
pub(crate) const KICK: i32 = libc::SIGSTKFLT;
/// The code of a signal by which threads of the runner interrupt each other. The host leaves
/// negative ones to programs, and nothing else uses this one.
pub(crate) const OURS: i32 = -0x0FD7;

/// The signal, and its code, by which a process learns that another process kills it.
pub(crate) const KILLED: (i32, i32) = (libc::SIGSYS, -0x0FD9);

/// Interrupts a thread of this process, whose call goes on. Returns false if it has ended.
pub(crate) fn kick(thread: i32) -> bool {
    send(process_id(), thread, KICK, OURS)
}

/// Interrupts a thread of this process, and its call, because it exits. The host may merge that
/// with a SIGSYS that reports a call: a thread that exits does not make the call.
pub(crate) fn kick_to_exit(thread: i32) {
    send(process_id(), thread, libc::SIGSYS, OURS);
}

/// Interrupts a process of the tree that is killed. Its runner checks that by other means too.
pub(crate) fn kill(process: i32) {
    let (signal, code) = KILLED;
    send(process, process, signal, code);
}

fn send(process: i32, thread: i32, signal: i32, code: i32) -> bool {
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    (info.si_signo, info.si_code) = (signal, code);
    let info = &raw const info;
    // SAFETY: the information is valid.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info) == 0 }
}
