//! `membarrier(2)`, private and expedited. The process registers once, before the first light
//! fence relies on it.

use std::sync::OnceLock;

use crate::fence::{self, NotRestarted};

/// Commands that the process has registered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registered {
    /// For nothing: the system call cannot be used.
    No,
    /// For fences.
    Fences,
    /// For fences, and for those that also restart sequences (Linux ≥ 5.10).
    Restarting,
}

/// The answer of the process's one registration. `fork(2)` passes it on.
static REGISTRATION: OnceLock<Registered> = OnceLock::new();

/// Registers the process at the first call. Every call gives the same answer.
fn register() -> Registered {
    *REGISTRATION.get_or_init(|| {
        if !membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            || !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
        {
            Registered::No
        } else if restarts() {
            Registered::Restarting
        } else {
            Registered::Fences
        }
    })
}

/// Registers for the command that restarts sequences, where there may be some.
fn restarts() -> bool {
    cfg!(target_arch = "x86_64")
        && membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ)
        && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ)
}

pub(crate) fn has_heavy_fence() -> bool {
    register() != Registered::No
}

pub(crate) fn can_restart() -> bool {
    register() == Registered::Restarting
}

/// Runs a full fence on every CPU that runs a thread of this process. A fence of this thread alone
/// if it has registered for nothing.
pub(crate) fn heavy_fence() {
    if !has_heavy_fence() {
        return fence::full();
    }
    must(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

pub(crate) fn restart() -> Result<(), NotRestarted> {
    must(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
    Ok(())
}

/// Runs a command that the process has registered for.
fn must(command: libc::c_int) {
    if !membarrier(command) {
        let why = std::io::Error::last_os_error();
        eprintln!("fdtable: membarrier(2) worked before and fails now: {why}");
        std::process::abort();
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: `membarrier` takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
