//! Calls of the host on the process itself: IDs, limits, signals, and calls by their numbers.

use std::ffi::{c_int, c_long};

use fdtable::host_fork;
use fdtable_vfs::Errno;

use super::check::{check, errno, stored};
use super::direct::{self, Wait};
use super::paths::OwnedHostFd;

/// Returns the process ID.
pub(crate) fn process_id() -> libc::pid_t {
    // SAFETY: the call takes no pointer.
    unsafe { libc::getpid() }
}

/// Opens a descriptor for a process or, with flags, for a thread.
pub(crate) fn pidfd_open(id: libc::pid_t, flags: c_int) -> Result<OwnedHostFd, Errno> {
    // SAFETY: the call takes no pointer.
    let pidfd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, id, flags) })?;
    Ok(OwnedHostFd(pidfd as c_int))
}

/// Returns true if there is a process with this ID, or its parent has not waited for it yet.
pub(crate) fn is_alive(id: libc::pid_t) -> bool {
    // SAFETY: the call takes no pointer.
    unsafe { libc::kill(id, 0) == 0 || errno() != Errno::ESRCH }
}

/// Returns a system value.
fn sysconf(name: c_int) -> c_long {
    // SAFETY: the call takes no pointer.
    unsafe { libc::sysconf(name) }
}

/// Returns the page size.
pub(crate) fn page_size() -> i64 {
    sysconf(libc::_SC_PAGESIZE)
}

/// Returns half of the host's memory in bytes: the limit of a `tmpfs` of the host.
pub(crate) fn half_of_memory() -> u64 {
    let pages = sysconf(libc::_SC_PHYS_PAGES).max(0).cast_unsigned();
    pages.saturating_mul(page_size().cast_unsigned()) / 2
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

/// Runs an action with all signals blocked, but for those of the C library. A thread that it starts
/// inherits the mask.
pub(crate) fn with_signals_blocked<R>(action: impl FnOnce() -> R) -> R {
    const OF_LIBRARY: u64 = 0b11 << 31;
    let before = exchange_mask(libc::SIG_BLOCK, !OF_LIBRARY);
    let result = action();
    exchange_mask(libc::SIG_SETMASK, before);
    result
}

/// Changes the signal mask of the thread, and returns the previous one. The C library's form would
/// never block its own signals, and its set has more words.
pub fn exchange_mask(how: c_int, mask: u64) -> u64 {
    let mut before = 0_u64;
    let (new, old, size) = (&raw const mask, &raw mut before, size_of::<u64>());
    // SAFETY: the set has the length of the kernel's, and there is room for the previous one.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, new, old, size) };
    before
}

/// Makes a system call that this library does not implement. May block.
///
/// # Safety
/// The arguments are those that the system call expects.
pub(crate) unsafe fn syscall(number: c_long, arguments: [c_long; 6]) -> Result<c_long, Errno> {
    let wait = match number {
        libc::SYS_waitid | libc::SYS_mq_timedreceive | libc::SYS_mq_timedsend => Wait::Possible,
        _ => Wait::Never,
    };
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    unsafe { direct::call(wait, number, arguments) }
}
