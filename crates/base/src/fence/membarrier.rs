//! `membarrier(2)`, private and expedited. The process registers once, before the first light
//! fence relies on it.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Set once [`register`] has succeeded. A copy of what `REGISTRATION` holds that is cheap to
/// read.
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// The answer of the one registration of this process. `fork(2)` passes it on.
static REGISTRATION: OnceLock<bool> = OnceLock::new();

/// Tells whether the heavy side is known to use the system call.
///
/// `Relaxed` is harmless: a thread that still sees `false` takes a full fence, which pairs with
/// both kinds of heavy fence. `true` is stored only after the registration, and from then on
/// [`register`] answers `true` to every heavy side, as it asks the `OnceLock` and not this copy.
#[inline(always)]
pub(super) fn registered() -> bool {
    REGISTERED.load(Relaxed)
}

/// Registers the process at the first call; tells whether the system call can be used.
pub(super) fn register() -> bool {
    *REGISTRATION.get_or_init(|| {
        let works = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        // Relaxed: see `registered`.
        REGISTERED.store(works, Relaxed);
        works
    })
}

/// Runs a full fence on every processor that runs a thread of this process.
pub(super) fn expedited() {
    if !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        let reason = std::io::Error::last_os_error();
        eprintln!("fdtable: membarrier(2) worked before and fails now: {reason}");
        std::process::abort();
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: `membarrier` takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
