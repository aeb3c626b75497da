//! Signals of the guest.
//!
//! The runner installs one handler for each signal that the guest handles, and records the guest's
//! action. The handler runs on a stack of the runner. There are two cases:
//!
//! - The signal has interrupted the guest. The handler copies the kernel's frame to the guest's
//!   stack, and continues at the guest's handler. Its return is a system call, which restores the
//!   context from the copy.
//! - The signal has interrupted the runner, and is deferred. The handler sends it again, blocks all
//!   signals in the interrupted context, and interrupts the sleep of the thread. At the end of the
//!   call, when the registers are the guest's, the entry restores the mask. The kernel delivers the
//!   signal there, which is the first case. If the thread blocks the signal by then, or exits, it
//!   forwards it to the process, because the signal may have been for the process.
//!
//! Signals that end the guest are the host's, unless there are reports to make before (`observe`).
//!
//! So a handler of the guest never runs during a call, and may leave by `siglongjmp`.
//!
//! The mask of the host is that of the guest, without the signals that the runner needs. By SIGSYS
//! the host's kernel reports system calls, and Linux never sends SIGSTKFLT. Threads of the runner
//! interrupt each other by both: after a handler of SIGSTKFLT, calls of the host go on, and SIGSYS
//! ends them. SIGSEGV and SIGBUS report bad addresses in calls, and SIGTRAP a site that changes.
//! `pending` emulates these five: their masks, and their pending state.

mod actions;
mod forwarding;
mod frames;
mod handler;
mod mask;
mod send;
mod sets;
mod waits;

use fdtable_posix::runner::{self, DirectCalls};
use fdtable_vfs::event::{interrupt, run_before_sleeps};

use crate::abi::{exchange_mask, host_now};
use crate::block::Block;
use crate::entry::{self, fdtable_run_host, fdtable_run_host_prompt};
use crate::interrupt::KICK;
use crate::pending::EMULATED;
use crate::{memory, observe};

use actions::{ALWAYS, DEFAULT, IGNORE, SIGNALS, install_host, ours, record, recorded};
use forwarding::CARRIED;

pub(crate) use actions::{action, take_back};
pub(crate) use forwarding::forget_carried;
pub(crate) use frames::{alternate_stack, sigreturn};
pub(crate) use mask::*;
pub(crate) use send::{pending, send};
pub(crate) use waits::*;

/// Installs the runner's own handlers, and takes over the actions that the process was started
/// with. Returns the mask that it was started with.
pub(crate) fn install() -> u64 {
    entry::set_handlers(handler::on_signal, handler::on_foreign_signal);
    runner::begin(DirectCalls {
        waiting: fdtable_run_host,
        prompt: fdtable_run_host_prompt,
    });
    runner::set_mappings(memory::shown);
    run_before_sleeps(before_sleep);
    for signal in 1..=SIGNALS as i32 {
        let mut before = DEFAULT;
        let at = (&raw mut before).expose_provenance() as i64;
        host_now(libc::SYS_rt_sigaction, [signal.into(), 0, at, 8, 0, 0]);
        if before.handler == IGNORE && signal != libc::SIGPIPE {
            record(signal, before);
        } else if before.handler > IGNORE || signal == libc::SIGPIPE {
            // The runner's libraries handle or ignore the signal.
            install_host(signal, &DEFAULT);
        }
    }
    for signal in ALWAYS {
        let mut action = ours(0);
        if signal == KICK {
            // A call of the guest goes on after it.
            action.flags |= libc::SA_RESTART as u64;
        }
        install_host(signal, &action);
    }
    for signal in (1..=SIGNALS as i32).filter(|&signal| observe::is_last(signal)) {
        if recorded(signal) == DEFAULT {
            install_host(signal, &ours(0));
        }
    }
    exchange_mask(libc::SIG_UNBLOCK, EMULATED)
}

/// Resets the actions for a new program. Handlers become the default; ignored signals stay ignored.
/// Pending signals stay pending, also those in [`CARRIED`]. The caller is the leader, and has
/// deferred all signals.
pub(crate) fn reset(block: &Block) {
    // The host drops pending signals whose action becomes the default, if that ignores them.
    let mut carried = forwarding::take_pending(sets::IGNORED_BY_DEFAULT);
    for signal in 1..=SIGNALS as i32 {
        let action = recorded(signal);
        if action.handler > IGNORE {
            record(signal, DEFAULT);
            if observe::is_last(signal) {
                install_host(signal, &ours(0));
            } else if !ALWAYS.contains(&signal) {
                install_host(signal, &DEFAULT);
            }
        }
    }
    carried.append(&mut CARRIED.lock());
    carried
        .iter()
        .for_each(|info| forwarding::forward(block, info));
}

fn before_sleep() {
    if Block::current().has_deferred() {
        interrupt(false);
    }
}
