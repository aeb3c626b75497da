//! The hooks that the library calls in a program whose processes share its memory.

use std::sync::OnceLock;

use fdtable_sync::platform::shared::SharedMemory;

use crate::{mapping, thread, visit};

pub(crate) static HOOKS: SharedMemory = SharedMemory {
    enter: thread::enter_call,
    leave: thread::restore,
    map: mapping::map_pages,
    unmap: mapping::unmap_pages,
    process: thread::process,
    forked: thread::forget_thread,
    thread: thread::id,
    has_ended: thread::has_died,
    has_heavy_fence,
    heavy_fence,
    restart: visit::each_cpu,
    thread_ends: thread::after_last_call,
};

/// Registers for fences that reach all processes that have registered: those of a tree, as a fork
/// passes it on. Every call gives the same answer.
pub(crate) fn has_heavy_fence() -> bool {
    static IS_REGISTERED: OnceLock<bool> = OnceLock::new();
    *IS_REGISTERED.get_or_init(|| {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED)
            && membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED)
    })
}

/// Runs a full fence on every CPU that runs a thread of a process that has registered, and on this
/// one.
fn heavy_fence() {
    if !has_heavy_fence() {
        return fdtable_sync::fence::full();
    }
    if !membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED) {
        let reason = std::io::Error::last_os_error();
        eprintln!("fdtable: membarrier(2) worked before and fails now: {reason}");
        std::process::abort();
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: `membarrier` takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
