//! Access to memory of the caller that may not be there: a fault becomes a return value.
//!
//! # How it works
//!
//! As in Linux, a few assembly routines are the only instructions that may fault: one copies, and
//! two *probe* (one access for each page, which changes nothing). Their addresses are known. A
//! handler of ours for SIGSEGV and SIGBUS looks where the fault was. If it was in one of the
//! routines, the handler sets the program counter to their common exit, and the routine returns how
//! far it came. The routines use no stack, so there is nothing to unwind.
//!
//! Every other fault is the program's. `fdt_sigaction` records the program's action for the two
//! signals and returns it, while our handler stays installed, with the flags and the mask of the
//! program's action. So the kernel itself blocks what that action blocks and chooses
//! its stack. The handler then does what the action says: it calls the program's handler, or, for
//! the default action, restores it and returns, so that the fault repeats and ends the program.
//!
//! [`install`] runs when the process is created, by the first call. It records the actions that the
//! program had installed before.
//!
//! # What remains
//!
//! - Transfers copy between the objects and the caller's memory without these routines, after a
//!   probe. Memory that another thread unmaps or protects in between ends the program.
//! - A thread that blocks SIGSEGV or SIGBUS is ended by the kernel if a probe faults.
//! - A handler that the host's `sigaction` installs replaces ours. Then bad pointers lead to that
//!   handler.

use std::arch::global_asm;
use std::ffi::{c_int, c_void};
use std::mem;

use fdtable_vfs::Errno;

use crate::abi::actions::{Action, KNOWN, exchange, handled_by, has_handler, intern, place};
use crate::abi::handlers;
use crate::host;

// Each routine returns the address at which it stopped: for the copy the end of the target if it
// copied everything; for a probe the first page (or first byte) that cannot be accessed, or an
// address at or above `end`.
global_asm!(
    ".pushsection .text.fdtable_user,\"ax\",@progbits",
    ".p2align 4",
    ".globl fdtable_user_copy, fdtable_user_load, fdtable_user_store",
    ".globl fdtable_user_begin, fdtable_user_end, fdtable_user_exit",
    ".hidden fdtable_user_copy, fdtable_user_load, fdtable_user_store",
    ".hidden fdtable_user_begin, fdtable_user_end, fdtable_user_exit",
    ".type fdtable_user_copy, @function",
    ".type fdtable_user_load, @function",
    ".type fdtable_user_store, @function",
    "fdtable_user_begin:",
    // rdi: target, rsi: source, rdx: count.
    "fdtable_user_copy:",
    ".cfi_startproc",
    "    cmp rdx, 8",
    "    jb 3f",
    "2:  mov rax, [rsi]",
    "    mov [rdi], rax",
    "    add rsi, 8",
    "    add rdi, 8",
    "    sub rdx, 8",
    "    cmp rdx, 8",
    "    jae 2b",
    "3:  test rdx, rdx",
    "    jz fdtable_user_exit",
    "4:  mov al, [rsi]",
    "    mov [rdi], al",
    "    inc rsi",
    "    inc rdi",
    "    dec rdx",
    "    jnz 4b",
    "fdtable_user_exit:",
    "    mov rax, rdi",
    "    ret",
    ".cfi_endproc",
    // rdi: first, rsi: end.
    "fdtable_user_load:",
    ".cfi_startproc",
    "2:  movzx eax, byte ptr [rdi]",
    "    or rdi, 4095",
    "    inc rdi",
    "    cmp rdi, rsi",
    "    jb 2b",
    "    mov rax, rdi",
    "    ret",
    ".cfi_endproc",
    // Atomic: the transfer may fail or be short, and then another thread may write these bytes.
    "fdtable_user_store:",
    ".cfi_startproc",
    "2:  lock or byte ptr [rdi], 0",
    "    or rdi, 4095",
    "    inc rdi",
    "    cmp rdi, rsi",
    "    jb 2b",
    "    mov rax, rdi",
    "    ret",
    ".cfi_endproc",
    "fdtable_user_end:",
    ".popsection",
);

unsafe extern "C" {
    fn fdtable_user_copy(to: *mut u8, from: *const u8, count: usize) -> usize;
    fn fdtable_user_load(first: *const u8, end: usize) -> usize;
    fn fdtable_user_store(first: *mut u8, end: usize) -> usize;
    static fdtable_user_begin: u8;
    static fdtable_user_end: u8;
    static fdtable_user_exit: u8;
}

/// Copies `count` bytes.
///
/// # Errors
/// `EFAULT` if a part of them cannot be accessed; some bytes may be copied nevertheless.
///
/// # Safety
/// If the source and the target can be accessed, they may be: the caller owns one of them, and the
/// other is an argument of the program.
#[inline]
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, count: usize) -> Result<(), Errno> {
    // SAFETY: as the caller promises; a fault ends the copy.
    match unsafe { fdtable_user_copy(to, from, count) } == to.addr() + count {
        true => Ok(()),
        false => Err(Errno::EFAULT),
    }
}

/// Returns how many bytes from `first` on can be read, at most `count`, which is not 0. Both are
/// within the address space.
#[inline]
pub(super) fn readable(first: *const u8, count: usize) -> usize {
    let end = first.addr() + count;
    // SAFETY: the routine only reads, and a fault ends it.
    let stopped = unsafe { fdtable_user_load(first, end) };
    stopped.min(end) - first.addr()
}

/// Returns how many bytes from `first` on can be written, at most `count`, which is not 0. Both are
/// within the address space.
///
/// # Safety
/// If they can be written, no other thread writes to the first of them.
#[inline]
pub(super) unsafe fn writable(first: *mut u8, count: usize) -> usize {
    let end = first.addr() + count;
    // SAFETY: the routine changes nothing, and a fault ends it.
    let stopped = unsafe { fdtable_user_store(first, end) };
    stopped.min(end) - first.addr()
}

/// The signals of faults.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

// SAFETY: all zeroes is the default action.
static DEFAULT: Action = unsafe { mem::zeroed() };

/// Installs the handler for both signals, and records the actions that it replaces.
pub(crate) fn install() {
    // Without signals, so that no handler of this thread waits for the lock.
    host::with_signals_blocked(|| {
        let mut known = KNOWN.lock();
        for signal in SIGNALS {
            if let Some(place) = place(signal).filter(|place| place.load().is_none())
                && let Ok(before) = exchange(signal, None)
            {
                place.store(Some(intern(&mut known, before)));
                // It cannot fail: the signal is valid, and the old action was returned.
                let _ = exchange(signal, Some(&ours(&before)));
            }
        }
    });
}

/// Returns and changes the action of the program for a signal, as `sigaction(2)` does. The actions
/// for other signals are those of [`handlers`].
///
/// # Errors
/// Errors of the host's `sigaction`.
pub(crate) fn change(signal: c_int, new: Option<&Action>) -> Result<Action, Errno> {
    let Some(place) = place(signal).filter(|_| SIGNALS.contains(&signal)) else {
        return handlers::change(signal, new);
    };
    host::with_signals_blocked(|| {
        let mut known = KNOWN.lock();
        let Some(before) = place.load() else {
            return exchange(signal, new);
        };
        if let Some(new) = new {
            place.store(Some(intern(&mut known, *new)));
            exchange(signal, Some(&ours(new)))?;
        }
        Ok(*before)
    })
}

/// Returns the action that installs our handler in place of `action`.
fn ours(action: &Action) -> Action {
    let mut ours = handled_by(action, handle);
    // The stack is ours where the program has no handler.
    if !has_handler(action) {
        ours.sa_flags |= libc::SA_ONSTACK;
    }
    ours
}

/// Handles both signals. Calls only functions that are async-signal-safe.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid information.
    let was_sent = unsafe { was_sent(info) };
    // SAFETY: the kernel passes a valid context, which only this thread uses.
    if !was_sent && unsafe { leave_routine(context.cast()) } {
        return;
    }
    // SAFETY: as above.
    unsafe { run_action(signal, info, context) };
}

/// Returns true if the signal was sent, by `kill` or one of its relatives, and is no fault.
///
/// # Safety
/// The information is that of a signal handler.
unsafe fn was_sent(info: *const libc::siginfo_t) -> bool {
    // SAFETY: as the caller promises.
    unsafe { (*info).si_code <= 0 }
}

/// Continues at the exit of the routines, if the fault was in one of them.
///
/// # Safety
/// The context is that of a signal handler.
pub(crate) unsafe fn leave_routine(context: *mut libc::ucontext_t) -> bool {
    let [begin, end, exit] = [
        &raw const fdtable_user_begin,
        &raw const fdtable_user_end,
        &raw const fdtable_user_exit,
    ]
    .map(|label| label.addr() as libc::greg_t);
    // SAFETY: as the caller promises.
    let counter = unsafe { &raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
    // SAFETY: as the caller promises.
    if !(begin..end).contains(unsafe { &*counter }) {
        return false;
    }
    // SAFETY: as above. The routines have no frame, and their exit needs only the target register.
    unsafe { counter.write(exit) };
    true
}

/// Does what the program's action says.
///
/// # Safety
/// The arguments are those of a signal handler.
unsafe fn run_action(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: as the caller promises.
    let was_sent = unsafe { was_sent(info) };
    let place = place(signal);
    let Some((place, action)) = place.and_then(|place| Some((place, place.load()?))) else {
        return end_program(signal, was_sent);
    };
    match action.sa_sigaction {
        libc::SIG_IGN if was_sent => {}
        // A fault cannot be ignored.
        libc::SIG_IGN | libc::SIG_DFL => end_program(signal, was_sent),
        _ => {
            if action.sa_flags & libc::SA_RESETHAND != 0 {
                place.store(Some(&DEFAULT));
                let _ = exchange(signal, Some(&ours(&DEFAULT)));
            }
            // SAFETY: as the caller promises.
            unsafe { handlers::call_handler(action, signal, info, context) };
        }
    }
}

/// Restores the default action, so that the fault ends the program when it repeats. A signal that
/// was sent does not repeat, so it is sent again.
fn end_program(signal: c_int, was_sent: bool) {
    let _ = exchange(signal, Some(&DEFAULT));
    if was_sent {
        // SAFETY: the call takes no pointer.
        unsafe { libc::raise(signal) };
    }
}
