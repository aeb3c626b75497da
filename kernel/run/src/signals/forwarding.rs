//! Signals that a thread has taken and forwards: to itself, to the process, or to a new program.

use std::ptr;

use crate::abi::{process_id, thread_id};
use crate::block::Block;
use crate::guarded::Guarded;
use crate::interrupt::kick;
use crate::pending::{EMULATED, Info, Target, bit, post};

/// Sends a signal to the process, with the same information if the host allows that.
///
/// # Safety
/// The information is valid.
pub(super) unsafe fn send_to_process(signal: i32, info: *const libc::siginfo_t) {
    // SAFETY: as the caller promises.
    if unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, process_id(), signal, info) } != 0 {
        // The host allows only the leader to forward the information of a `kill`.
        // SAFETY: it takes no pointer.
        unsafe { libc::kill(process_id(), signal) };
    }
}

/// Sends a signal to the calling thread, with the same information. It may have been for the
/// process: the thread forwards it there if it exits before a handler has run.
///
/// # Safety
/// The information is valid.
pub(super) unsafe fn send_again(block: &Block, signal: i32, info: *const libc::siginfo_t) {
    // SAFETY: as the caller promises.
    if unsafe { (*info).si_code } != libc::SI_TKILL {
        block.taken.set(block.taken.get() | bit(signal));
    }
    let (process, thread) = (process_id(), thread_id());
    // SAFETY: as the caller promises.
    if unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info) } != 0 {
        // SAFETY: it takes no pointer.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    }
}

/// Forwards the signals for the process that the calling thread has taken and that its new mask
/// blocks: another thread may not block them. All signals are blocked.
pub(super) fn forward_blocked(block: &Block, mask: u64) {
    let set = block.taken.get() & mask;
    if set == 0 {
        return;
    }
    block.taken.set(block.taken.get() & !set);
    take_pending(set)
        .iter()
        .for_each(|info| forward(block, info));
}

/// Signals for the new program: other threads had taken them for the process.
pub(super) static CARRIED: Guarded<Vec<Info>> = Guarded::new(Vec::new());

/// Forgets the signals of the parent, in the child of a fork.
pub(crate) fn forget_carried() {
    CARRIED.lock().clear();
}

/// Takes the pending signals of a set, which the calling thread blocks.
pub(super) fn take_pending(set: u64) -> Vec<Info> {
    let take = || {
        let mut info: Info = [0; 16];
        let no_time = [0_i64; 2];
        let (set, at, time) = (&raw const set, &raw mut info, &raw const no_time);
        // SAFETY: the set and the time are valid, and there is room for the information.
        let taken = unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, set, at, time, 8) };
        (taken > 0).then_some(info)
    };
    std::iter::from_fn(take).collect()
}

/// Forwards a signal that the calling thread has taken and blocks: to the thread if it was for a
/// thread, otherwise to the process. So two of one signal stay two.
pub(super) fn forward(block: &Block, info: &Info) {
    let (signal, code) = (info[0] as i32, info[1] as i32);
    let is_own = code == libc::SI_TKILL;
    if bit(signal) & EMULATED == 0 {
        let at = ptr::from_ref(info).cast();
        return match is_own {
            // SAFETY: the host has reported the information, or the runner has made it.
            true => unsafe { send_again(block, signal, at) },
            // SAFETY: as above.
            false => unsafe { send_to_process(signal, at) },
        };
    }
    let target = match is_own {
        true => Target::Thread(block.id.get()),
        false => Target::Process,
    };
    if let Some(Some(thread)) = post(target, signal, info, block.mailbox) {
        kick(thread);
    }
}
