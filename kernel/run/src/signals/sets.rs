//! Sets of signals, as the host has them in words.

use crate::pending::{EMULATED, bit};

/// Signals by which the host reports faults. They may also be sent.
pub(crate) const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGFPE)
    | bit(libc::SIGSYS);
/// The signals that are blocked while a signal is deferred.
pub(crate) const DEFERRED: u64 = !EMULATED;
/// Signals of [`DEFERRED`] that the host can block.
pub(crate) const BLOCKABLE: u64 = DEFERRED & !bit(libc::SIGKILL) & !bit(libc::SIGSTOP);
pub(crate) const NEVER_BLOCKED: u64 = !BLOCKABLE;

/// Signals whose default action ignores them.
pub(crate) const IGNORED_BY_DEFAULT: u64 =
    bit(libc::SIGCHLD) | bit(libc::SIGURG) | bit(libc::SIGWINCH) | bit(libc::SIGCONT);

/// Returns true if the host reports a fault by a signal with this code. Such a signal was not sent.
pub(crate) const fn is_fault(signal: i32, code: i32) -> bool {
    bit(signal) & FAULTS != 0 && code > 0
}
