//! `membarrier(2)`, private and expedited. The process registers once for each kind,
//! before it relies on that.

use std::sync::LazyLock;

use crate::fence::{self, NotRestarted};

/// True if the process has registered for fences. `fork(2)` passes it on.
static FENCES: LazyLock<bool> = LazyLock::new(|| {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
        && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
});

/// True if it has registered for those that also restart sequences (Linux ≥ 5.10), where there may
/// be some.
static RESTARTS: LazyLock<bool> = LazyLock::new(|| {
    cfg!(target_arch = "x86_64")
        && *FENCES
        && membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ)
        && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ)
});

pub(crate) fn has_heavy_fence() -> bool {
    *FENCES
}

pub(crate) fn can_restart() -> bool {
    *RESTARTS
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
