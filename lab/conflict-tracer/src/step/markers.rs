//! The two ends of a window, and the gate for system calls.
//!
//! A window opens with a breakpoint, so that the handler is called at that instruction and nothing
//! else is traced: it steps from the return of the opening marker to the call of the closing one,
//! which it recognizes by its address. A thread without stepping passes the closing marker without
//! effect.

use std::arch::global_asm;

global_asm!(
    ".pushsection .text.conflict_tracer, \"ax\"",
    ".balign 16",
    ".hidden conflict_tracer_open",
    ".globl conflict_tracer_open",
    "conflict_tracer_open:",
    "int3",
    "ret",
    ".balign 16",
    ".hidden conflict_tracer_close",
    ".globl conflict_tracer_close",
    "conflict_tracer_close:",
    "ret",
    ".balign 16",
    ".hidden conflict_tracer_gate",
    ".globl conflict_tracer_gate",
    "conflict_tracer_gate:",
    "syscall",
    "nop",
    "ud2",
    ".popsection",
);

unsafe extern "C" {
    /// Opens a window: the thread is stepped from the return of this function.
    fn conflict_tracer_open();
    /// Closes it: the call of this function is no longer part of the trace.
    fn conflict_tracer_close();
    /// Never called directly: the handler redirects system calls to it.
    fn conflict_tracer_gate();
}

/// The length of `int3`.
pub(super) const BREAKPOINT: u64 = 1;
/// The length of `syscall`.
pub(super) const SYSTEM_CALL: u64 = 2;
/// End of the gate, after its `nop`.
pub(super) const GATE_END: u64 = SYSTEM_CALL + 1;

/// Calls the marker that opens a window.
///
/// # Safety
/// The [handler](super::handler) is installed, and the thread has a window for it.
#[inline(always)]
pub(super) unsafe fn open_window() {
    // SAFETY: the caller's promise: the breakpoint finds a handler, which returns to the caller.
    unsafe { conflict_tracer_open() }
}

/// Calls the marker that closes it.
#[inline(always)]
pub(super) fn close_window() {
    // SAFETY: it returns.
    unsafe { conflict_tracer_close() }
}

/// Returns the address of the marker that opens.
pub(super) fn opening() -> u64 {
    conflict_tracer_open as *const () as u64
}

/// Returns the address of the marker that closes.
pub(super) fn closing() -> u64 {
    conflict_tracer_close as *const () as u64
}

/// Returns the address of the gate's `syscall`.
pub(super) fn gate() -> u64 {
    conflict_tracer_gate as *const () as u64
}
