//! Signal actions: `sigaction`, `signal` and their relatives.
//!
//! They record the program's action, because a handler of this library is installed in its place:
//! that of [`faults`] for SIGSEGV and SIGBUS, that of [`handlers`](crate::abi::handlers) for all
//! others.

#![allow(non_camel_case_types)]

use std::ffi::c_int;
use std::mem;

use crossbeam_utils::atomic::AtomicCell;
use fdtable_vfs::Errno;
use libc::sigaction;

use crate::abi::call::{guarded, set_errno, with_errno};
use crate::abi::{faults, uaccess};
use crate::host;

/// Handler of a signal; null is the default action, and 1 ignores the signal.
pub type fdt_handler = Option<extern "C" fn(signal: c_int)>;

/// Returns and changes the action for a signal: `sigaction(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_sigaction(
    signal: c_int,
    new: *const sigaction,
    old: *mut sigaction,
) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let new = unsafe { uaccess::get_if_any(new) }?;
        let before = faults::change(signal, new.as_ref())?;
        if !old.is_null() {
            // SAFETY: as the caller promises.
            unsafe { uaccess::put(old, before) }?;
        }
        Ok(0)
    })
}

/// Sets the handler of a signal, which stays blocked in it and restarts calls: `signal(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_signal(signal: c_int, handler: fdt_handler) -> fdt_handler {
    let flags = match interrupts(signal) {
        true => 0,
        false => libc::SA_RESTART,
    };
    set_handler(signal, handler, flags, true)
}

/// Sets the handler of a signal once, without blocking the signal in it: `sysv_signal(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_sysv_signal(signal: c_int, handler: fdt_handler) -> fdt_handler {
    set_handler(
        signal,
        handler,
        libc::SA_RESETHAND | libc::SA_NODEFER,
        false,
    )
}

/// Sets the handler of a signal and unblocks the signal, or blocks it for `SIG_HOLD`: `sigset(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_sigset(signal: c_int, handler: fdt_handler) -> fdt_handler {
    /// The handler argument that the `libc` crate does not define.
    const SIG_HOLD: usize = 2;
    let holds = to_word(handler) == SIG_HOLD;
    let new = (!holds).then(|| action(handler, 0));
    let before = guarded(|| faults::change(signal, new.as_ref()));
    let before = before.map(|before| before.sa_sigaction);
    let how = if holds {
        libc::SIG_BLOCK
    } else {
        libc::SIG_UNBLOCK
    };
    match before.and_then(|before| Ok((before, host::mask_signal(how, signal)?))) {
        Ok((_, true)) => to_handler(SIG_HOLD),
        Ok((before, false)) => to_handler(before),
        Err(errno) => failed(errno),
    }
}

/// Ignores a signal: `sigignore(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_sigignore(signal: c_int) -> c_int {
    with_errno(|| {
        faults::change(signal, Some(&action(to_handler(libc::SIG_IGN), 0)))?;
        Ok(0)
    })
}

/// Chooses whether a signal interrupts calls or restarts them: `siginterrupt(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    with_errno(|| {
        let mut action = faults::change(signal, None)?;
        action.sa_flags &= !libc::SA_RESTART;
        if interrupts == 0 {
            action.sa_flags |= libc::SA_RESTART;
        }
        faults::change(signal, Some(&action))?;
        let bit = 1 << (signal - 1);
        match interrupts {
            0 => INTERRUPTING.fetch_and(!bit),
            _ => INTERRUPTING.fetch_or(bit),
        };
        Ok(0)
    })
}

/// The signals for which `siginterrupt` was called last with another value than 0. It decides what
/// `signal` does later.
static INTERRUPTING: AtomicCell<u64> = AtomicCell::new(0);

fn interrupts(signal: c_int) -> bool {
    (1..=64).contains(&signal) && INTERRUPTING.load() & 1 << (signal - 1) != 0
}

fn set_handler(signal: c_int, handler: fdt_handler, flags: c_int, blocks: bool) -> fdt_handler {
    let mut new = action(handler, flags);
    if blocks {
        // SAFETY: the set is valid. An invalid signal is an error of the next call too.
        unsafe { libc::sigaddset(&raw mut new.sa_mask, signal) };
    }
    let before = if to_word(handler) == libc::SIG_ERR {
        Err(Errno::EINVAL)
    } else {
        guarded(|| faults::change(signal, Some(&new)))
    };
    match before {
        Ok(before) => to_handler(before.sa_sigaction),
        Err(errno) => failed(errno),
    }
}

fn action(handler: fdt_handler, flags: c_int) -> sigaction {
    // SAFETY: all zeroes is a valid action, with an empty mask.
    let mut action: sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = to_word(handler);
    action.sa_flags = flags;
    action
}

fn failed(errno: Errno) -> fdt_handler {
    set_errno(errno);
    to_handler(libc::SIG_ERR)
}

fn to_word(handler: fdt_handler) -> usize {
    handler.map_or(libc::SIG_DFL, |handler| handler as *const () as usize)
}

fn to_handler(word: usize) -> fdt_handler {
    // SAFETY: an optional function pointer and a word have the same size; null is `None`. The
    // caller of the handler is the program.
    unsafe { mem::transmute::<usize, fdt_handler>(word) }
}
