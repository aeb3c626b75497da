//! The entry and exit of every call in a process: errno, panics, forks, and the end of the process.
//!
//! A call runs inside the [freezer](host_fork). A fork of the host process by another thread
//! waits until the call ends or sleeps.

use std::any::Any;
use std::ffi::c_int;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fdtable::{host_fork, rcu};

use crate::errno::Errno;

pub(crate) use fdtable::host_fork::{ForkGuard as Entry, enter};

/// How long a thread sleeps before it checks again for the end of sections.
const PAUSE: Duration = Duration::from_micros(50);

/// Maximum rounds of callbacks at process exit: callbacks of one round may queue more.
const ROUNDS: usize = 16;

/// State that the `libc` crate does not define.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Prepares the process for its first table: it may fork, and its end runs the queued callbacks.
///
/// # Errors
/// `ENOMEM`; the next call tries again.
pub(crate) fn prepare() -> Result<(), Errno> {
    host_fork::register().map_err(|_| Errno::ENOMEM)?;
    run_callbacks_at_exit()
}

/// Runs a body inside the freezer. A panic becomes an error.
#[inline(always)]
pub(crate) fn guarded<R>(body: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    let inside = || {
        let _inside = enter();
        body()
    };
    match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(result) => result,
        Err(panic) => Err(forget(panic)),
    }
}

/// Leaks the payload of a panic, because dropping it could panic again.
#[cold]
fn forget(panic: Box<dyn Any + Send>) -> Errno {
    mem::forget(panic);
    Errno::EIO
}

/// Sets errno of the calling thread.
#[cold]
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the C library keeps one errno for each thread, valid while the thread runs.
    unsafe { *libc::__errno_location() = errno.number() };
}

/// Waits until all callbacks that are queued now have run. It waits outside of the freezer: a
/// callback may wait at the end of its own sleep for a fork of the host process.
///
/// # Errors
/// `EDEADLK` inside a section or a callback, and where it would wait in a handler of a fork.
pub(crate) fn wait_for_callbacks() -> Result<(), Errno> {
    let mut barrier = rcu::Barrier::new();
    while !guarded(|| barrier.poll().map_err(|_| Errno::EDEADLK))? {
        // The thread that runs a callback may wait for the end of the fork, or not exist in the
        // child.
        if host_fork::is_frozen_here() {
            return Err(Errno::EDEADLK);
        }
        // In a call of `release` the thread is inside by the outer call.
        let _out = host_fork::blocking_section();
        without_cancellation(|| thread::sleep(PAUSE));
    }
    Ok(())
}

/// Runs a call of the C library with thread cancellation disabled. A thread that is cancelled in
/// the call would unwind through functions of this library, which aborts the process.
fn without_cancellation(call: impl FnOnce()) {
    let mut before = 0;
    // SAFETY: there is room for the previous state.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
    call();
    // SAFETY: it restores the previous state.
    unsafe { pthread_setcancelstate(before, &raw mut before) };
}

/// Registers an exit handler that runs the queued callbacks. Handlers that the embedder registers
/// later run before it.
///
/// # Errors
/// `ENOMEM`; the next call tries again.
fn run_callbacks_at_exit() -> Result<(), Errno> {
    extern "C" fn at_exit() {
        // Each round runs what the previous one queued. The number is limited, because another
        // thread may never leave its section.
        for _ in 0..ROUNDS {
            if !matches!(guarded(|| Ok(rcu::try_barrier())), Ok(Ok(_))) {
                return;
            }
        }
    }
    static IS_REGISTERED: Mutex<bool> = Mutex::new(false);
    let mut is_registered = IS_REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_registered {
        // SAFETY: the function stays valid for the life of the process: this library is never
        // unloaded.
        if unsafe { libc::atexit(at_exit) } != 0 {
            return Err(Errno::ENOMEM);
        }
        *is_registered = true;
    }
    Ok(())
}
