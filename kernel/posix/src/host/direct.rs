//! System calls of the host that are made directly: without the C library's cancellation points,
//! and by a runner of programs in its own way.

use std::ffi::{c_int, c_long};
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::time::Duration;

use fdtable_vfs::Errno;

use super::check::errno;

/// `words!(arguments…)`: the arguments of a system call as words, and zeroes behind them.
macro_rules! words {
    ($($argument:expr),*) => {{
        #[allow(clippy::unnecessary_cast, reason = "some are words already")]
        let given = [$($argument as ::std::ffi::c_long),*];
        let mut arguments = [0; 6];
        arguments[..given.len()].copy_from_slice(&given);
        arguments
    }};
}

pub(crate) use words;

/// Makes a system call: its number, and its arguments. Returns a negative error number on failure.
pub type DirectCall = unsafe extern "C" fn(c_long, *const [c_long; 6]) -> c_long;

/// Functions by which a runner of programs makes system calls of the host.
#[derive(Debug, Clone, Copy)]
pub struct DirectCalls {
    /// Function for calls that may wait. Such a call fails with `EINTR` if a signal has arrived
    /// since the program's call began.
    pub waiting: DirectCall,
    /// Function for calls that do not wait for other programs, such as transfers of files on disk.
    pub prompt: DirectCall,
}

static CALLS: OnceLock<DirectCalls> = OnceLock::new();

/// Has all direct calls made by these functions from now on. The first call of this decides.
pub(crate) fn set(calls: DirectCalls) {
    let _ = CALLS.set(calls);
}

/// Returns true if a runner of programs makes the calls.
pub(crate) fn is_set() -> bool {
    CALLS.get().is_some()
}

/// Makes a transfer. Where a runner ends it for a signal before it has begun, it is made all the
/// same if it does not wait: as on the host, a signal ends only a call that waits.
///
/// # Safety
/// The arguments are those of the system call, and the first is the descriptor that it may wait
/// for.
#[inline]
pub(crate) unsafe fn make_transfer(
    wait: Wait,
    events: i16,
    number: c_long,
    arguments: [c_long; 6],
) -> Result<c_long, Errno> {
    // SAFETY: as the caller promises.
    let result = unsafe { call(wait, number, arguments) };
    if result != Err(Errno::EINTR) || wait == Wait::Never || CALLS.get().is_none() {
        return result;
    }
    if would_wait(arguments[0] as RawFd, events) {
        return result;
    }
    // SAFETY: as the caller promises.
    unsafe { call(Wait::Never, number, arguments) }
}

/// Returns true if a transfer of a descriptor would wait for these events.
#[cold]
fn would_wait(fd: RawFd, events: i16) -> bool {
    let mut entry = pollfd(fd, events);
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let (place, time) = (&raw mut entry, &raw const now);
    // SAFETY: the pointers are to one entry and a time; there is no mask.
    let ready = unsafe { direct(libc::SYS_ppoll, words!(place, 1, time, 0, 0)) };
    // SAFETY: the call takes no pointer.
    let flags = unsafe { direct(libc::SYS_fcntl, words!(fd, libc::F_GETFL)) };
    let nonblocking = flags.is_ok_and(|flags| flags & c_long::from(libc::O_NONBLOCK) != 0);
    ready == Ok(0) && !nonblocking
}

/// Returns an entry of `poll(2)`.
pub(crate) fn pollfd(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Waits for events, and returns their number. Where a runner ends the wait for a signal before it
/// has begun, events that are there come first, as on the host.
pub(crate) fn wait_for_events(
    timeout: Option<Duration>,
    wait: impl Fn(Option<Duration>) -> Result<c_long, Errno>,
) -> Result<usize, Errno> {
    let mut count = wait(timeout);
    if count == Err(Errno::EINTR) && CALLS.get().is_some() {
        let found = wait(Some(Duration::ZERO));
        count = found.and_then(|count| match count {
            0 => Err(Errno::EINTR),
            count => Ok(count),
        });
    }
    count.map(|count| count as usize)
}

/// Possibility that a call waits for other threads or programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Possible,
    Never,
}

impl Wait {
    /// Returns `Never` for a transfer of a socket with `MSG_DONTWAIT`, else `Possible`.
    pub(crate) fn of(flags: c_int) -> Self {
        match flags & libc::MSG_DONTWAIT {
            0 => Self::Possible,
            _ => Self::Never,
        }
    }

    /// Returns `Never` for a wait with the limit 0, else `Possible`.
    pub(crate) fn within(timeout: Option<Duration>) -> Self {
        match timeout {
            Some(Duration::ZERO) => Self::Never,
            _ => Self::Possible,
        }
    }
}

/// Makes a system call of the host directly.
///
/// # Safety
/// The arguments are those of the system call.
#[inline]
pub(crate) unsafe fn call(
    wait: Wait,
    number: c_long,
    arguments: [c_long; 6],
) -> Result<c_long, Errno> {
    let Some(calls) = CALLS.get() else {
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: as the caller promises.
        return match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
            -1 => Err(errno()),
            result => Ok(result),
        };
    };
    let make = match wait {
        Wait::Possible => calls.waiting,
        Wait::Never => calls.prompt,
    };
    // SAFETY: as the caller promises.
    let result = unsafe { make(number, &raw const arguments) };
    match result {
        -4095..=-1 => Err(Errno::from_raw(-result as c_int)),
        result => Ok(result),
    }
}

/// Makes a system call that never waits, as [`call`] does.
///
/// # Safety
/// The arguments are those of the system call.
pub(crate) unsafe fn direct(number: c_long, arguments: [c_long; 6]) -> Result<c_long, Errno> {
    // SAFETY: as the caller promises.
    unsafe { call(Wait::Never, number, arguments) }
}
