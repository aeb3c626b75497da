//! Actions of the program for signals, as they are recorded.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use crossbeam_utils::atomic::AtomicCell;
use fdtable_shm::Mutex;
use fdtable_vfs::Errno;

use crate::host;

/// Action of the program for a signal.
pub(super) type Action = libc::sigaction;

/// Actions that were recorded: each once, however often the program installs it. The first have
/// static memory, because `sigaction` may be called in a handler that has interrupted an
/// allocation.
static FIRST: [OnceLock<Action>; 64] = [const { OnceLock::new() }; 64];

/// The actions that found no static memory. They are leaked.
pub(super) static KNOWN: Mutex<Vec<&'static Action>> = Mutex::new(Vec::new());

/// Returns the recorded copy of an action.
pub(super) fn intern(known: &mut Vec<&'static Action>, action: Action) -> &'static Action {
    for place in &FIRST {
        // The caller holds the lock, so no other thread fills the place.
        let recorded = place.get_or_init(|| action);
        if is_same(recorded, &action) {
            return recorded;
        }
    }
    let same = |other: &&&'static Action| is_same(other, &action);
    if let Some(found) = known.iter().find(same) {
        return found;
    }
    let leaked: &'static Action = Box::leak(Box::new(action));
    known.push(leaked);
    leaked
}

/// The recorded actions by signal, from 1 on. Each is one word that points to memory that is never
/// freed, because `handle` reads it.
static ACTIONS: [AtomicCell<Option<&'static Action>>; 64] = [const { AtomicCell::new(None) }; 64];

pub(super) fn place(signal: c_int) -> Option<&'static AtomicCell<Option<&'static Action>>> {
    ACTIONS.get(usize::try_from(signal).ok()?.checked_sub(1)?)
}

/// Handler of signals, which gets information about them.
pub(super) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Returns the action that installs a handler of ours in place of `action`. The reset is ours: a
/// deferred signal arrives twice.
pub(super) fn handled_by(action: &Action, handler: Handler) -> Action {
    let mut ours = *action;
    ours.sa_sigaction = handler as *const () as usize;
    ours.sa_flags = action.sa_flags & !libc::SA_RESETHAND | libc::SA_SIGINFO;
    ours
}

fn is_same(one: &Action, other: &Action) -> bool {
    one.sa_sigaction == other.sa_sigaction
        && one.sa_flags == other.sa_flags
        && (1..=64).all(|signal| {
            // SAFETY: both sets are valid, and the signal is one of the kernel's.
            let [a, b] = [one, other]
                .map(|action| unsafe { libc::sigismember(&raw const action.sa_mask, signal) });
            a == b
        })
}

/// Returns true if the action calls a function of the program.
pub(super) fn has_handler(action: &Action) -> bool {
    !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
}

/// Makes the host's `sigaction` call.
pub(super) fn exchange(signal: c_int, new: Option<&Action>) -> Result<Action, Errno> {
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the new action is valid or null, and the call stores the old one.
    unsafe { host::stored(|before| libc::sigaction(signal, new, before)) }
}
