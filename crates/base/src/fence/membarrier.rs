//! `membarrier(2)`, private and expedited. The process registers once, before the first light
//! fence relies on it.

use std::sync::OnceLock;

/// The answer of the one registration of this process. `fork(2)` passes it on.
static REGISTRATION: OnceLock<bool> = OnceLock::new();

/// Registers the process at the first call; tells whether the system call can be used. Every
/// call gives the same answer.
pub(super) fn register() -> bool {
    *REGISTRATION.get_or_init(|| {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    })
}

/// Runs a full fence on every processor that runs a thread of this process.
pub(super) fn expedited() {
    if !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        let reason = std::io::Error::last_os_error();
        eprintln!("fdtable: membarrier(2) worked before and fails now: {reason}");
        std::process::abort();
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: `membarrier` takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
