//! Signal handlers of the program, which may make calls of this library.
//!
//! # The problem
//!
//! A call holds locks. A handler that interrupts it, and makes a call that needs one of them, would
//! wait forever.
//!
//! # How it works
//!
//! `fdt_sigaction` records the program's action and installs [`handle`] in its place, with the
//! flags and the mask of the program's action. It returns the recorded action.
//!
//! A thread inside the [freezer](host_fork) may hold locks, and outside it holds none. If `handle`
//! finds its thread outside, it calls the program's handler. If not, it sends the signal to its
//! thread again, with the same information, and blocks all signals where it returns. When the
//! thread is outside, at the end of the call or before it sleeps, [`resume`] restores the mask.
//! Then the kernel delivers what is pending, in its order, with the stack that the action asks for.
//!
//! A call that sleeps is outside. After a handler, `handle` [interrupts](interrupt) its sleep, also
//! one that has not reached the kernel yet.
//!
//! Signals of faults are not deferred: see [`NEVER_DEFERRED`]. [`faults`](super::faults) handles
//! those of bad pointers, and calls their handlers by [`call_handler`]: these interrupt sleeps too,
//! if they are sent.
//!
//! # The mask of `ppoll`
//!
//! It applies while the call sleeps: [`with_mask`] leaves it for [`before_sleep`]. So signals that
//! it unblocks arrive when the thread is outside, and end the sleep. A call that finds a descriptor
//! ready at once does not let them in, as on the host.
//!
//! # What remains
//!
//! - A handler that interrupts the allocator of the program, and makes a call that allocates, waits
//!   forever. On the host, `open` and its relatives are safe there.
//! - The first call of a thread allocates, also in a handler.
//! - A handler that the host's `sigaction` installs runs at once, wherever it interrupts. If it
//!   makes a call, that may wait forever.
//! - A handler that leaves a sleeping call by `siglongjmp` leaks what the call holds: a reference
//!   to the open file, and an entry in a wait queue, which may take a wake-up that was for another
//!   thread.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::{mem, ptr};

use crossbeam_utils::atomic::AtomicCell;
use fdtable::host_fork;
use fdtable_vfs::Errno;
use fdtable_vfs::event::{interrupt, run_before_sleeps};

use crate::abi::actions::{self, Action, Handler};
use crate::host;

thread_local! {
    /// The mask to restore when the thread is outside, if signals are deferred. Like the others, it
    /// is constant at first and has no destructor, so that a handler may use it.
    static DEFERRED_MASK: Cell<Option<u64>> = const { Cell::new(None) };

    /// The mask for the next sleep of the call.
    static SLEEP_MASK: Cell<Option<u64>> = const { Cell::new(None) };

    /// The mask before that sleep.
    static BEFORE_SLEEP: Cell<Option<u64>> = const { Cell::new(None) };

    /// How many handlers have run.
    static RUNS: Cell<usize> = const { Cell::new(0) };
}

/// Signals that are not deferred: those of faults, which would repeat; that of `abort`, which does
/// not return; those that have no handler; and the two of the C library's threads.
const NEVER_DEFERRED: [c_int; 11] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGKILL,
    libc::SIGSTOP,
    32,
    33,
];

/// The signals that are blocked while one is deferred.
const DEFERRABLE: u64 = !set_of(&NEVER_DEFERRED);

/// Returns a set of signals.
pub const fn set_of(signals: &[c_int]) -> u64 {
    let (mut bits, mut index) = (0, 0);
    while index < signals.len() {
        bits |= bit(signals[index]);
        index += 1;
    }
    bits
}

/// Returns the set of one signal.
pub const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Makes threads run deferred signals, and set the mask of `ppoll`.
pub(crate) fn install() {
    host_fork::on_leaving(resume);
    run_before_sleeps(before_sleep);
}

/// Returns and changes the action of the program for a signal, as `sigaction(2)` does.
///
/// # Errors
/// Errors of the host's `sigaction`.
pub(super) fn change(signal: c_int, new: Option<&Action>) -> Result<Action, Errno> {
    let Some(place) = actions::place(signal) else {
        return actions::exchange(signal, new);
    };
    host_fork::on_leaving(resume);
    // Without signals, so that no handler of this thread waits for the lock.
    host::with_signals_blocked(|| {
        let mut known = actions::KNOWN.lock();
        let recorded = place.load();
        let handler = new.filter(|new| actions::has_handler(new));
        if let Some(new) = handler {
            place.store(Some(actions::intern(&mut known, *new)));
        }
        let installed = handler.map(|new| actions::handled_by(new, handle));
        match (
            actions::exchange(signal, installed.as_ref().or(new)),
            recorded,
        ) {
            (Ok(before), Some(recorded)) if is_ours(&before) => Ok(*recorded),
            (Err(errno), _) => {
                place.store(recorded);
                Err(errno)
            }
            (before, _) => before,
        }
    })
}

fn is_ours(action: &Action) -> bool {
    action.sa_sigaction == handle as *const () as usize
}

/// Handles every signal but those of bad pointers. Calls only functions that are async-signal-safe.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(action) = actions::place(signal).and_then(AtomicCell::load) else {
        return;
    };
    if bit(signal) & DEFERRABLE != 0 && host_fork::put_off() {
        // SAFETY: the kernel passes valid information, and a valid context.
        unsafe { defer(signal, info, context.cast()) };
        return;
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        // As in the kernel, its flags and its mask stay.
        let mut reset = *action;
        reset.sa_sigaction = libc::SIG_DFL;
        let _ = actions::exchange(signal, Some(&reset));
    }
    // SAFETY: the kernel passes valid arguments.
    unsafe { call_handler(action, signal, info, context) };
}

/// Calls the program's handler, and then interrupts the sleep of the thread.
///
/// # Safety
/// The action has a handler, and the other arguments are those of a signal handler.
pub(super) unsafe fn call_handler(
    action: &Action,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    RUNS.set(RUNS.get().wrapping_add(1));
    let handler = action.sa_sigaction;
    if action.sa_flags & libc::SA_SIGINFO == 0 {
        // SAFETY: the program installed it as a handler with one argument.
        let handler: extern "C" fn(c_int) = unsafe { mem::transmute(handler) };
        handler(signal);
    } else {
        // SAFETY: the program installed it as a handler with three arguments.
        let handler: Handler = unsafe { mem::transmute(handler) };
        handler(signal, info, context);
    }
    interrupt(action.sa_flags & libc::SA_RESTART != 0);
}

/// Defers a signal: sends it again, and blocks all signals until [`resume`].
///
/// # Safety
/// The arguments are those of a signal handler.
unsafe fn defer(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: it takes nothing.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the C library keeps one for each thread, for as long as that runs.
    let errno_before = unsafe { errno.read() };
    // Now: the signal is not blocked here with SA_NODEFER, and others are not.
    block_deferrable();
    // The kernel's set has one word, also where the C library's has more.
    // SAFETY: as the caller promises.
    let mask = unsafe { (&raw mut (*context).uc_sigmask).cast::<u64>() };
    // SAFETY: as above.
    let before = unsafe { mask.read() };
    // A handler that has interrupted this one may have saved its mask. The older one counts.
    if before & DEFERRABLE != DEFERRABLE {
        DEFERRED_MASK.set(Some(before));
    }
    // SAFETY: as above.
    unsafe { mask.write(before | DEFERRABLE) };
    // SAFETY: the calls take no pointers.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    let number = libc::SYS_rt_tgsigqueueinfo;
    // SAFETY: the information is valid.
    if unsafe { libc::syscall(number, process, thread, signal, info) } != 0 {
        // No memory for the information, or a filter of system calls.
        // SAFETY: the call takes no pointer.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    }
    // SAFETY: as above.
    unsafe { errno.write(errno_before) };
}

/// Lets the deferred signals in. The thread is outside.
fn resume() {
    if let Some(mask) = DEFERRED_MASK.take() {
        host::exchange_mask(libc::SIG_SETMASK, mask);
    }
}

/// Runs on a thread that is about to sleep, outside.
fn before_sleep() {
    if let Some(mask) = SLEEP_MASK.take() {
        BEFORE_SLEEP.set(Some(host::exchange_mask(libc::SIG_SETMASK, mask)));
    }
}

/// Runs a call that waits, with another signal mask while it sleeps, if there is one.
///
/// # Errors
/// Errors of the call.
pub(crate) fn with_mask<R>(
    mask: Option<libc::sigset_t>,
    call: impl FnOnce() -> Result<R, Errno>,
) -> Result<R, Errno> {
    let Some(mask) = mask else {
        return call();
    };
    // A handler may make such a call too, while this one sleeps.
    let outer = (SLEEP_MASK.replace(Some(word(&mask))), BEFORE_SLEEP.take());
    let result = call();
    if let Some(before) = BEFORE_SLEEP.take() {
        restore(before);
    }
    SLEEP_MASK.set(outer.0);
    BEFORE_SLEEP.set(outer.1);
    result
}

/// Lets signals in that `mask` unblocks, as a call does that has no time to sleep.
///
/// # Errors
/// `EINTR` if a handler has run.
pub(crate) fn let_in(mask: Option<&libc::sigset_t>) -> Result<(), Errno> {
    let Some(mask) = mask else {
        return Ok(());
    };
    let _outside = host_fork::blocking_section();
    let runs = RUNS.get();
    let before = host::exchange_mask(libc::SIG_SETMASK, word(mask));
    host::exchange_mask(libc::SIG_SETMASK, before);
    match RUNS.get() == runs {
        true => Ok(()),
        false => Err(Errno::EINTR),
    }
}

/// Sets the mask of the thread, now or when deferred signals are let in.
fn restore(mask: u64) {
    // First, so that none is deferred between the two steps.
    block_deferrable();
    match DEFERRED_MASK.get() {
        Some(_) => DEFERRED_MASK.set(Some(mask)),
        None => {
            host::exchange_mask(libc::SIG_SETMASK, mask);
        }
    }
}

fn block_deferrable() {
    host::exchange_mask(libc::SIG_BLOCK, DEFERRABLE);
}

/// Returns the kernel's part of a set.
fn word(set: &libc::sigset_t) -> u64 {
    // SAFETY: the set begins with the 64 signals of the kernel.
    unsafe { ptr::from_ref(set).cast::<u64>().read() }
}
