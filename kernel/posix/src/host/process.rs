//! Calls of the host on the process itself: IDs, limits, signals, and calls by their numbers.

use std::ffi::{c_int, c_long};
use std::mem::MaybeUninit;

use fdtable::host_fork;
use fdtable_vfs::Errno;

use super::check::{errno, stored};
use super::direct::{self, Wait};

/// Returns the process ID.
pub(crate) fn process_id() -> libc::pid_t {
    // SAFETY: the call takes no pointer.
    unsafe { libc::getpid() }
}

/// Returns the ID of the calling thread.
pub(crate) fn thread_id() -> libc::pid_t {
    // SAFETY: the call takes no pointer.
    unsafe { libc::gettid() }
}

/// Returns true if there is a process with this ID, or its parent has not waited for it yet.
pub(crate) fn is_alive(id: libc::pid_t) -> bool {
    // SAFETY: the call takes no pointer.
    unsafe { libc::kill(id, 0) == 0 || errno() != Errno::ESRCH }
}

/// Registers a function that runs in each child of a fork.
pub(crate) fn in_children(function: extern "C" fn()) {
    // SAFETY: the function is valid for the life of the process. If there is no memory to register
    // it, a child reports its parent's process ID in the owner of a lock.
    unsafe { libc::pthread_atfork(None, None, Some(function)) };
}

/// Returns a system value.
pub(crate) fn sysconf(name: c_int) -> c_long {
    // SAFETY: the call takes no pointer.
    unsafe { libc::sysconf(name) }
}

/// Returns random bits, of the quality that the host has without blocking.
pub(crate) fn random() -> u64 {
    let mut bits = 0_u64;
    // SAFETY: there is room for eight bytes.
    unsafe { libc::getrandom((&raw mut bits).cast(), 8, libc::GRND_NONBLOCK) };
    bits
}

/// Returns a limit of the process.
pub(crate) fn limit(resource: libc::__rlimit_resource_t) -> Result<libc::rlimit, Errno> {
    // SAFETY: the call stores such a struct.
    unsafe { stored(|limit| libc::getrlimit(resource, limit)) }
}

/// Returns a limit, and optionally sets it.
pub(crate) fn prlimit(
    process: libc::pid_t,
    resource: c_int,
    new: Option<libc::rlimit>,
) -> Result<libc::rlimit, Errno> {
    let new = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the new limit is valid or null, and the call stores the old one.
    unsafe { stored(|old| libc::prlimit(process, resource.cast_unsigned(), new, old)) }
}

/// Sends a signal to the calling thread, as the host does on a write without a reader. The handler
/// runs outside the freezer, because it may leave by `siglongjmp`.
pub(crate) fn raise(signal: c_int) {
    let _out = host_fork::blocking_section();
    // SAFETY: the call takes no pointer.
    unsafe { libc::raise(signal) };
}

/// Runs an action with all signals blocked. A thread that it starts inherits the mask.
pub(crate) fn with_signals_blocked<R>(action: impl FnOnce() -> R) -> R {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the call initializes the set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set is initialized.
    let before = set_signal_mask(unsafe { all.assume_init_ref() });
    let result = action();
    set_signal_mask(&before);
    result
}

/// Sets the signal mask of the thread, and returns the previous one.
pub(crate) fn set_signal_mask(mask: &libc::sigset_t) -> libc::sigset_t {
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are valid.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, before.as_mut_ptr()) };
    // SAFETY: the call has initialized it.
    unsafe { before.assume_init() }
}

/// Makes a system call that this library does not implement. May block.
///
/// # Safety
/// The arguments are those that the system call expects.
pub(crate) unsafe fn syscall(number: c_long, arguments: [c_long; 6]) -> Result<c_long, Errno> {
    let wait = match number {
        libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_mq_timedreceive | libc::SYS_mq_timedsend => {
            Wait::Possible
        }
        libc::SYS_io_getevents | libc::SYS_rt_sigtimedwait | libc::SYS_pause => Wait::Possible,
        _ => Wait::Never,
    };
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    unsafe { direct::call(wait, number, arguments) }
}
