//! `membarrier(2)`, private and expedited. The process registers once, before the first light
//! fence relies on it.

use std::sync::OnceLock;

/// The answer of the process's one registration. `fork(2)` passes it on.
static REGISTRATION: OnceLock<bool> = OnceLock::new();

/// The same for the command that restarts sequences.
#[cfg(target_arch = "x86_64")]
static RESTART_REGISTRATION: OnceLock<bool> = OnceLock::new();

/// Registers the process at the first call. Returns true if the system call can be used. Every call
/// gives the same answer.
pub(super) fn register() -> bool {
    *REGISTRATION.get_or_init(|| {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    })
}

/// As [`register`], for the command that also restarts sequences (Linux ≥ 5.10).
#[cfg(target_arch = "x86_64")]
pub(super) fn register_restart() -> bool {
    *RESTART_REGISTRATION.get_or_init(|| {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ)
            && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ)
    })
}

/// Runs a full fence on every CPU that runs a thread of this process, and whatever else the command
/// does.
pub(super) fn expedited(command: libc::c_int) {
    if !membarrier(command) {
        let reason = std::io::Error::last_os_error();
        eprintln!("fdtable: membarrier(2) worked before and fails now: {reason}");
        std::process::abort();
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: `membarrier` takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
