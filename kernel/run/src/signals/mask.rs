//! The signal mask of the guest, and that of the host for it.

use std::sync::atomic::{Ordering::SeqCst, compiler_fence};

use super::forwarding::{self, forward, take_pending};
use super::sets::{DEFERRED, NEVER_BLOCKED};
use crate::abi::exchange_mask;
use crate::block::{Block, MaskPlace};
use crate::ending;
use crate::interrupt::{KICK, kick};
use crate::memory;
use crate::pending::{self, EMULATED, bit};

/// Returns and changes the guest's mask: `rt_sigprocmask(2)`.
pub(crate) fn mask(block: &Block, a: &[i64; 6]) -> Result<i64, i32> {
    let (how, new, old) = (a[0] as i32, a[1].cast_unsigned(), a[2].cast_unsigned());
    if a[3] != 8 {
        return Err(libc::EINVAL);
    }
    let before = defer_all(block);
    if let Some(new) = memory::get_if_any::<u64>(new)? {
        let mask = match how {
            libc::SIG_BLOCK => before | new,
            libc::SIG_UNBLOCK => before & !new,
            libc::SIG_SETMASK => new,
            _ => return Err(libc::EINVAL),
        };
        set_guest_mask(block, mask);
    }
    memory::put_if_any(old, before)?;
    Ok(0)
}

/// Blocks all signals until the end of the call, and returns the guest's mask.
pub(crate) fn defer_all(block: &Block) -> u64 {
    block.mask_place.set(MaskPlace::Moving);
    // The handler of a signal that arrives after this reads the new value.
    compiler_fence(SeqCst);
    let before = exchange_mask(libc::SIG_BLOCK, DEFERRED);
    if !block.has_deferred() {
        block.defer(before);
    }
    // The handler of a signal that arrives before this finds the mask stored, or leaves that to
    // this call.
    compiler_fence(SeqCst);
    block.mask_place.set(MaskPlace::Host);
    block.mask() | block.mailbox.blocked()
}

/// Unblocks the signals that are not blocked during a call, after [`leave`], and sets the guest's
/// mask at its end.
pub(crate) fn resume(block: &Block, mask: u64) {
    exchange_mask(libc::SIG_SETMASK, DEFERRED);
    set_guest_mask(block, mask);
}

/// Sets the guest's mask at the end of the call. All signals are blocked.
pub(crate) fn set_guest_mask(block: &Block, mask: u64) {
    forwarding::forward_blocked(block, mask);
    block.mailbox.block(mask);
    block.defer(mask & !NEVER_BLOCKED);
}

/// Restores the mask at the beginning of a call, if the last call has waited with another one.
pub(crate) fn begin_call(block: &Block) {
    if let Some(mask) = block.suspended.take() {
        // No handler has run.
        defer_all(block);
        set_guest_mask(block, mask);
    }
}

/// Delivers emulated signals at the end of each call.
#[inline]
pub(crate) fn deliver_emulated(block: &Block) {
    if pending::are_some() {
        deliver_due(block);
    }
}

#[cold]
fn deliver_due(block: &Block) {
    if block.mailbox.is_due() {
        defer_all(block);
        exchange_mask(libc::SIG_BLOCK, bit(KICK));
        kick(block.id.get());
    }
}

/// Blocks all signals on the calling thread, which exits, also those of the runner. Forwards
/// signals for the process that the thread has taken and not delivered.
///
/// If the thread hands a program over, its pending signals are the program's.
pub(crate) fn leave(block: &Block) {
    exchange_mask(libc::SIG_SETMASK, !0);
    block.mailbox.block(!0);
    let hands_over = ending::has_claimed(block.id.get());
    let set = if hands_over { !0 } else { block.taken.get() };
    let mut infos = take_pending(set);
    if hands_over {
        infos.extend(std::iter::from_fn(|| block.mailbox.take(EMULATED)).map(|(_, info)| info));
    } else {
        infos.retain(|info| info[1] as i32 != libc::SI_TKILL);
    }
    if ending::is_claimed() {
        forwarding::CARRIED.lock().extend(infos);
        return;
    }
    infos.iter().for_each(|info| forward(block, info));
}
