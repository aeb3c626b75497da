//! The actions of the guest, and the host's actions for them.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::{address_of, host_now};
use crate::entry::{address, fdtable_run_restore, fdtable_run_signal};
use crate::guarded::Guarded;
use crate::interrupt::KICK;
use crate::memory::{self, Plain};
use crate::observe;
use crate::pending::discard;

/// The action for a signal, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) handler: u64,
    pub(super) flags: u64,
    pub(super) restorer: u64,
    pub(super) mask: u64,
}

// SAFETY: integers.
unsafe impl Plain for Action {}

impl Action {
    pub(super) fn has(&self, flag: i32) -> bool {
        self.flags & u64::from(flag.cast_unsigned()) != 0
    }
}

pub(super) const DEFAULT: Action = Action {
    handler: 0,
    flags: 0,
    restorer: 0,
    mask: 0,
};
pub(super) const IGNORE: u64 = 1;
const SA_RESTORER: u64 = 0x0400_0000;
pub(super) const SIGNALS: usize = 64;

/// The actions of the guest, from signal 1 on. Each is in memory that is never freed, because
/// handlers read it.
static ACTIONS: [AtomicPtr<Action>; SIGNALS] = [const { AtomicPtr::new(ptr::null_mut()) }; SIGNALS];
/// All actions that were ever recorded, each once.
static KNOWN: Guarded<Vec<&'static Action>> = Guarded::new(Vec::new());

/// Signals whose handler of the runner stays, whatever the guest installs.
pub(super) const ALWAYS: [i32; 5] = [
    libc::SIGSYS,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGTRAP,
    KICK,
];

pub(super) fn recorded(signal: i32) -> Action {
    let place = usize::try_from(signal - 1)
        .ok()
        .and_then(|index| ACTIONS.get(index));
    // Acquire: pairs with the release in `record`, so that the action is visible.
    let action = place.map_or(ptr::null_mut(), |place| place.load(Ordering::Acquire));
    // SAFETY: an action is never freed.
    unsafe { action.as_ref() }.copied().unwrap_or(DEFAULT)
}

pub(super) fn record(signal: i32, action: Action) {
    let mut known = KNOWN.lock();
    let found = known.iter().copied().find(|&known| *known == action);
    let stored = found.unwrap_or_else(|| {
        let stored: &'static Action = Box::leak(Box::new(action));
        known.push(stored);
        stored
    });
    let place = &ACTIONS[signal as usize - 1];
    // Release: pairs with the acquire in `recorded`.
    place.store(ptr::from_ref(stored).cast_mut(), Ordering::Release);
}

/// Sets the action of the host for a signal.
pub(super) fn install_host(signal: i32, action: &Action) -> i64 {
    let (new, old) = (address_of(action), 0);
    host_now(libc::SYS_rt_sigaction, [signal.into(), new, old, 8, 0, 0])
}

/// Returns the action with the runner's handler, and the flags of the guest's that the kernel
/// reads.
pub(super) fn ours(flags: u64) -> Action {
    let passed = flags & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
    Action {
        handler: address(fdtable_run_signal),
        flags: passed | (libc::SA_SIGINFO | libc::SA_ONSTACK) as u64 | SA_RESTORER,
        restorer: address(fdtable_run_restore),
        mask: !0,
    }
}

/// Returns and changes an action: `rt_sigaction(2)`.
pub(crate) fn action(a: &[i64; 6]) -> Result<i64, i32> {
    let (signal, new, old) = (a[0] as i32, a[1].cast_unsigned(), a[2].cast_unsigned());
    if a[3] != 8 || !(1..=SIGNALS as i32).contains(&signal) {
        return Err(libc::EINVAL);
    }
    let before = recorded(signal);
    if let Some(new) = memory::get_if_any::<Action>(new)? {
        if matches!(signal, libc::SIGKILL | libc::SIGSTOP) {
            return Err(libc::EINVAL);
        }
        record(signal, new);
        if new.handler == IGNORE {
            discard(signal);
        }
        if !ALWAYS.contains(&signal) {
            let result = install_host(signal, &of_host(signal, new));
            if result < 0 {
                record(signal, before);
                return Ok(result);
            }
        }
    }
    memory::put_if_any(old, before)?;
    Ok(0)
}

/// Returns the host's action for one of the guest.
fn of_host(signal: i32, action: Action) -> Action {
    let is_last = action.handler == 0 && observe::is_last(signal);
    if action.handler > IGNORE || is_last {
        ours(action.flags)
    } else {
        Action {
            restorer: address(fdtable_run_restore),
            flags: action.flags | SA_RESTORER,
            ..action
        }
    }
}

/// Installs the guest's actions again for the signals that the C library uses. The runner's C
/// library installs its own when it makes the first thread of a process, after the guest's.
pub(crate) fn take_back() {
    const OF_LIBRARIES: [i32; 2] = [32, 33];
    for signal in OF_LIBRARIES {
        let mut action = recorded(signal);
        loop {
            install_host(signal, &of_host(signal, action));
            // Another thread may have changed and installed it since.
            let now = recorded(signal);
            if now == action {
                break;
            }
            action = now;
        }
    }
}
