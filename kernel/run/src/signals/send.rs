//! Signals that the guest sends, and those that are pending.

use super::actions::{IGNORE, SIGNALS, recorded};
use crate::abi::{on_host, process_id};
use crate::block::{Block, Request};
use crate::ending;
use crate::interrupt::kick;
use crate::memory::{self, pointer};
use crate::pending::{EMULATED, Info, Target, bit, post, unblocks};

/// Returns the pending signals: `rt_sigpending(2)`.
pub(crate) fn pending(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let result = on_host(r.number, *a);
    let emulated = r.block.mailbox.pending() & r.block.mailbox.blocked();
    if result == 0 && emulated != 0 {
        // The host writes only as many bytes as the call asks for.
        let mut bytes = emulated.to_le_bytes();
        let size = (a[1] as usize).min(bytes.len());
        let at = pointer::<u8>(a[0].cast_unsigned());
        for (index, byte) in bytes[..size].iter_mut().enumerate() {
            // SAFETY: the call has written there.
            unsafe { *at.add(index) |= *byte };
        }
    }
    result
}

/// Sends a signal: `kill(2)` and its relatives.
pub(crate) fn send(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    send_emulated(r.block, r.number, a).unwrap_or_else(|| on_host(r.number, *a))
}

/// Sends an emulated signal to this process or a thread of it. Returns `None` if the call is for
/// the host.
fn send_emulated(block: &Block, number: i64, a: &[i64; 6]) -> Option<i64> {
    let process = i64::from(process_id());
    let to = |id: i64| Target::Thread(id as i32);
    let (target, signal, info_at) = match number {
        libc::SYS_kill if a[0] == process => (Target::Process, a[1], 0),
        libc::SYS_rt_sigqueueinfo if a[0] == process => (Target::Process, a[1], a[2]),
        libc::SYS_tkill => (to(a[0]), a[1], 0),
        libc::SYS_tgkill if a[0] == process => (to(a[1]), a[2], 0),
        libc::SYS_rt_tgsigqueueinfo if a[0] == process => (to(a[1]), a[2], a[3]),
        libc::SYS_kill | libc::SYS_rt_sigqueueinfo if a[0] > 0 => {
            return kill_another(number, a);
        }
        _ => return None,
    };
    let signal = signal as i32;
    let is_own = || match target {
        Target::Thread(id) => ending::is_there(id),
        Target::Process => true,
    };
    if signal == libc::SIGKILL && is_own() {
        ending::leave_tree();
    }
    if !(1..=SIGNALS as i32).contains(&signal) || bit(signal) & EMULATED == 0 {
        return None;
    }
    let mut info: Info = [0; 16];
    if info_at == 0 {
        let code = match target {
            Target::Process => libc::SI_USER,
            Target::Thread(_) => libc::SI_TKILL,
        };
        // SAFETY: it takes nothing.
        let user = unsafe { libc::getuid() };
        let word = |low: i32, high: u32| u64::from(low.cast_unsigned()) | u64::from(high) << 32;
        info[0] = word(signal, 0);
        info[1] = word(code, 0);
        info[2] = word(process as i32, user);
    } else {
        // If it cannot be read, the host says so.
        info = memory::get(info_at.cast_unsigned()).ok()?;
        // As the host does.
        info[0] = info[0] & !0xFFFF_FFFF | u64::from(signal.cast_unsigned());
    }
    if is_ignored(target, signal) {
        return Some(0);
    }
    if let Some(thread) = post(target, signal, &info, block.mailbox)? {
        kick(thread);
    }
    Some(0)
}

/// Sends a signal to another process. SIGKILL ends a process of the tree at the end of its calls.
fn kill_another(number: i64, a: &[i64; 6]) -> Option<i64> {
    if a[1] as i32 != libc::SIGKILL {
        return None;
    }
    let was_there = ending::end_before_kill(a[0] as i32);
    let result = on_host(number, *a);
    // Its parent may have learned of its end already.
    let is_gone = was_there && result == -i64::from(libc::ESRCH);
    Some(if is_gone { 0 } else { result })
}

/// Returns true if an emulated signal has no effect. On Linux, an ignored signal becomes pending
/// while it is blocked.
pub(super) fn is_ignored(target: Target, signal: i32) -> bool {
    recorded(signal).handler == IGNORE && unblocks(target, signal)
}
