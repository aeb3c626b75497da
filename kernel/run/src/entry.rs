//! The entry of a system call from the guest to the runner, and the exit back to the guest.
//!
//! `fdtable_run_enter` takes the place of the instruction `syscall`: the number and the arguments
//! are in the registers of the kernel's convention, and `rcx` has the address to return to, as
//! after `syscall`. It switches to the runner's stack and thread-local memory, saves all registers
//! in a [`Frame`], and calls the function that the block has for it.
//!
//! # How the runner knows its thread
//!
//! The base of `gs` leads to the [`Block`] of the thread. The guest has `fs` for itself.
//!
//! # Signals
//!
//! A signal may arrive at any instruction. The byte `in_runner` of the block records whether it has
//! interrupted the runner or the guest. While it is set, a handler of the guest is deferred until
//! the call is over (see `signals`). The exit clears it by the last instruction but two, when all
//! registers are the guest's. A signal between the check for deferred signals and that instruction
//! moves the thread back to the check. A later one finishes the exit.
//!
//! # Vector registers
//!
//! Compiled code of the runner uses `xmm0` to `xmm15`, which are saved. It uses nothing wider:
//! the runner is compiled for the first x86-64, and [`prepare_process`](crate::prepare_process)
//! restricts its C library to that. Legacy instructions do not change the upper halves.

use std::arch::global_asm;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::block::Block;
use crate::frame::Frame;

/// A handler of the host's signals.
pub(crate) type SignalHandler = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) -> u8;

/// The handler on threads of the guest. It returns what the selector becomes.
static ON_SIGNAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// The handler on threads of the runner's libraries, whose result is not read.
static ON_FOREIGN_SIGNAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Sets the handlers that `fdtable_run_signal` calls, before a signal has it as its handler.
pub(crate) fn set_handlers(on_signal: SignalHandler, on_foreign_signal: SignalHandler) {
    ON_SIGNAL.store(on_signal as *mut c_void, Ordering::SeqCst);
    ON_FOREIGN_SIGNAL.store(on_foreign_signal as *mut c_void, Ordering::SeqCst);
}

/// Makes a call of the host that may block, unless signals are deferred.
pub(crate) fn host(number: i64, arguments: [i64; 6]) -> i64 {
    // SAFETY: the guest's own call, with what it passed.
    unsafe { fdtable_run_host(number, &raw const arguments) }
}

global_asm!(
    ".pushsection .text.fdtable_run,\"ax\",@progbits",
    ".p2align 6",
    ".irp label, begin, end, enter, start, stop, check, check_ends, delivers, delivered, signal",
    ".globl fdtable_run_\\label",
    ".hidden fdtable_run_\\label",
    ".endr",
    ".irp label, restore, sigreturn, returns, returned, clone",
    ".globl fdtable_run_\\label",
    ".hidden fdtable_run_\\label",
    ".endr",
    ".irp label, host, host_prompt, host_checks, host_done, host_ends",
    ".globl fdtable_run_\\label",
    ".hidden fdtable_run_\\label",
    ".endr",
    "fdtable_run_begin:",
    // The entry.
    "fdtable_run_enter:",
    "    mov byte ptr gs:[{in_runner}], 1",
    "    mov byte ptr gs:[{selector}], 0",
    "    mov gs:[{guest_rsp}], rsp",
    "    mov rsp, gs:[{stack}]",
    "    push rcx",
    "    push qword ptr gs:[{guest_rsp}]",
    "    pushfq",
    "    cld",
    // Compiled code accesses memory at any alignment.
    "    test dword ptr [rsp], {alignment_check}",
    "    jz 4f",
    "    push {plain_flags}; popfq",
    "4:",
    "    push r15; push r14; push r13; push r12; push rbp; push rbx",
    "    push r10; push r9; push r8; push rdi; push rsi; push rdx; push rax",
    "    sub rsp, 256",
    ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "    movups [rsp + 16 * \\i], xmm\\i",
    ".endr",
    "    rdfsbase rsi",
    "    mov gs:[{guest_fs}], rsi",
    "    mov rsi, gs:[{host_fs}]",
    "    wrfsbase rsi",
    "    mov rdi, rsp",
    "    call qword ptr gs:[{serve}]",
    // The exit to the guest, with the frame on the top of the stack.
    "5:  mov rsi, gs:[{guest_fs}]",
    "    wrfsbase rsi",
    ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "    movups xmm\\i, [rsp + 16 * \\i]",
    ".endr",
    "    add rsp, 256",
    "    mov rcx, [rsp + 120]",
    "    mov gs:[{guest_rip}], rcx",
    "    mov r11, [rsp + 104]",
    // A `syscall` leaves another value there: see `signals::has_trapped`.
    "    bts r11, 63",
    // The flags: `popfq` takes longer than all of this. It is left to those that no arithmetic
    // sets, such as the direction.
    "    test r11d, {rare_flags}",
    "    jnz 8f",
    "    mov eax, r11d; shr eax, 11; add al, 0x7F",
    "    mov ecx, r11d; mov ah, cl; sahf",
    "    pop rax; pop rdx; pop rsi; pop rdi; pop r8; pop r9; pop r10",
    "    pop rbx; pop rbp; pop r12; pop r13; pop r14; pop r15",
    "    mov rsp, [rsp + 8]",
    "    jmp fdtable_run_check",
    "8:  pop rax; pop rdx; pop rsi; pop rdi; pop r8; pop r9; pop r10",
    "    pop rbx; pop rbp; pop r12; pop r13; pop r14; pop r15",
    "    popfq",
    "    pop rsp",
    "fdtable_run_check:",
    "    movzx ecx, byte ptr gs:[{deferred}]",
    "    jrcxz 6f",
    "    jmp 7f",
    "6:  mov byte ptr gs:[{selector}], 1",
    "    mov byte ptr gs:[{in_runner}], 0",
    "    mov rcx, gs:[{guest_rip}]",
    "    jmp rcx",
    "fdtable_run_check_ends:",
    // Signals are deferred. Unblock them here, where all registers but those in the block are the
    // guest's.
    "7:  mov gs:[{saved}], rax; mov gs:[{saved} + 8], rdi; mov gs:[{saved} + 16], rsi",
    "    mov gs:[{saved} + 24], rdx; mov gs:[{saved} + 32], r10; mov gs:[{saved} + 40], r11",
    "    mov eax, 14; mov edi, 2; mov rsi, gs:[{block}]; lea rsi, [rsi + {mask}]",
    "    mov edx, 0; mov r10d, 8",
    "    syscall",
    "fdtable_run_delivers:",
    "    mov byte ptr gs:[{deferred}], 0",
    "    mov rax, gs:[{saved}]; mov rdi, gs:[{saved} + 8]; mov rsi, gs:[{saved} + 16]",
    "    mov rdx, gs:[{saved} + 24]; mov r10, gs:[{saved} + 32]; mov r11, gs:[{saved} + 40]",
    "    jmp fdtable_run_check",
    "fdtable_run_delivered:",
    // Runs a thread of the guest from the frame at `rdi` on, until `fdtable_run_stop`.
    "fdtable_run_start:",
    "    push rbx; push rbp; push r12; push r13; push r14; push r15; sub rsp, 8",
    "    push {plain_flags}; popfq",
    "    mov gs:[{stack}], rsp",
    "    mov rsp, rdi",
    "    jmp 5b",
    "fdtable_run_stop:",
    "    mov rsp, gs:[{stack}]",
    "    add rsp, 8; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
    "    ret",
    // The handler of all signals, on the alternate stack. `rdx` is the context.
    "fdtable_run_signal:",
    // A thread of the runner's libraries has no block, or that of the thread that has started it.
    "    rdgsbase rax",
    "    test rax, rax",
    "    jz 2f",
    "    mov eax, 186",
    "    syscall",
    "    cmp eax, gs:[{id}]",
    "    jne 2f",
    "    push rbx",
    "    mov byte ptr gs:[{selector}], 0",
    "    rdfsbase rbx",
    "    mov rax, gs:[{host_fs}]",
    "    wrfsbase rax",
    "    call qword ptr [rip + {on_signal}]",
    "    wrfsbase rbx",
    "    mov gs:[{selector}], al",
    "    pop rbx",
    "    ret",
    "2:  jmp qword ptr [rip + {on_foreign_signal}]",
    "fdtable_run_restore:",
    "    mov eax, 15",
    "    syscall",
    // The guest returns from a handler: the context is at its stack pointer.
    "fdtable_run_sigreturn:",
    "    mov rsi, gs:[{guest_fs}]",
    "    wrfsbase rsi",
    "    mov rsp, gs:[{guest_rsp}]",
    "    mov eax, 15",
    "    mov byte ptr gs:[{deferred}], 0",
    // A signal that arrives from here on arrives in the guest.
    "fdtable_run_returns:",
    "    mov byte ptr gs:[{selector}], 1",
    "    mov byte ptr gs:[{in_runner}], 0",
    "    syscall",
    "fdtable_run_returned:",
    // A call of the host that may block, unless signals are deferred. `rdi`: number; `rsi`:
    // arguments. Threads of the runner have no block, or that of the thread that has started them;
    // they make no such call.
    "fdtable_run_host:",
    "    mov rax, rdi; mov r11, rsi",
    "    mov rdi, [r11]; mov rsi, [r11 + 8]; mov rdx, [r11 + 16]",
    "    mov r10, [r11 + 24]; mov r8, [r11 + 32]; mov r9, [r11 + 40]",
    "fdtable_run_host_checks:",
    "    cmp byte ptr gs:[{deferred}], 0",
    "    jne fdtable_run_host_ends",
    "    syscall",
    "fdtable_run_host_done:",
    "    ret",
    "fdtable_run_host_ends:",
    "    mov rax, -4",
    "    ret",
    // A call that does not wait, on any thread. In this range the host's kernel does not read the
    // selector, which is most of the cost of interception.
    "fdtable_run_host_prompt:",
    "    mov rax, rdi; mov r11, rsi",
    "    mov rdi, [r11]; mov rsi, [r11 + 8]; mov rdx, [r11 + 16]",
    "    mov r10, [r11 + 24]; mov r8, [r11 + 32]; mov r9, [r11 + 40]",
    "    syscall",
    "    ret",
    // A process that shares memory. `rdi`: flags; `rsi`: the top of its stack of the runner; `rdx`:
    // the word that its end clears; `rcx`: its block; `r8`: its registers.
    "fdtable_run_clone:",
    "    mov r10, rdx; mov r9, r8; mov r8, rcx; mov edx, 0",
    "    mov eax, 56",
    "    syscall",
    "    test rax, rax",
    "    jz 9f",
    "    ret",
    "9:  wrgsbase r8",
    "    mov eax, 186",
    "    syscall",
    "    mov gs:[{id}], eax",
    // Its calls are intercepted too. Without that it does not run.
    "    mov edi, 59; mov esi, 1",
    "    lea rdx, [rip + fdtable_run_begin]; lea r10, [rip + fdtable_run_end]; sub r10, rdx",
    "    lea r8, [r8 + {selector}]",
    "    mov eax, 157",
    "    syscall",
    "    test rax, rax",
    "    jnz 3f",
    "    mov rdi, r9",
    "    call fdtable_run_start",
    "3:  ud2",
    "fdtable_run_end:",
    ".popsection",
    // All but carry, parity, adjust, zero, sign, overflow, interrupts on, and the bit that is 1.
    rare_flags = const !0xAD7_i32,
    on_signal = sym ON_SIGNAL,
    on_foreign_signal = sym ON_FOREIGN_SIGNAL,
    id = const offset_of!(Block, id),
    alignment_check = const 1 << 18,
    // Interrupts on, and the bit that is 1.
    plain_flags = const 0x202,
    block = const offset_of!(Block, myself),
    serve = const offset_of!(Block, serve),
    in_runner = const offset_of!(Block, in_runner),
    selector = const offset_of!(Block, selector),
    deferred = const offset_of!(Block, deferred),
    guest_rsp = const offset_of!(Block, guest_rsp),
    guest_rip = const offset_of!(Block, guest_rip),
    guest_fs = const offset_of!(Block, guest_fs),
    host_fs = const offset_of!(Block, host_fs),
    stack = const offset_of!(Block, stack),
    mask = const offset_of!(Block, mask),
    // In the order of `SAVED`.
    saved = const offset_of!(Block, saved),
);

unsafe extern "C" {
    /// Runs the guest from these registers on, until [`fdtable_run_stop`].
    pub(crate) fn fdtable_run_start(frame: *const Frame);
    /// Returns from [`fdtable_run_start`], in a call.
    pub(crate) fn fdtable_run_stop() -> !;
    /// Continues where the guest's handler returns to.
    pub(crate) fn fdtable_run_sigreturn() -> !;
    pub(crate) fn fdtable_run_returns();
    pub(crate) fn fdtable_run_returned();
    pub(crate) fn fdtable_run_signal();
    pub(crate) fn fdtable_run_restore();
    pub(crate) fn fdtable_run_enter();
    pub(crate) fn fdtable_run_begin();
    pub(crate) fn fdtable_run_end();
    pub(crate) fn fdtable_run_check();
    pub(crate) fn fdtable_run_check_ends();
    pub(crate) fn fdtable_run_delivers();
    pub(crate) fn fdtable_run_delivered();
    /// Makes a call of the host that may block. Returns its result, or `-EINTR` if signals are
    /// deferred.
    pub(crate) fn fdtable_run_host(number: i64, arguments: *const [i64; 6]) -> i64;
    /// Makes a call of the host that does not wait. Returns its result.
    pub(crate) fn fdtable_run_host_prompt(number: i64, arguments: *const [i64; 6]) -> i64;
    /// Starts a process that shares memory: `clone(2)`. It continues as by [`fdtable_run_start`].
    pub(crate) fn fdtable_run_clone(
        flags: u64,
        stack: *mut u8,
        ended: *mut i32,
        block: *const c_void,
        frame: *const Frame,
    ) -> i64;
    pub(crate) fn fdtable_run_host_checks();
    pub(crate) fn fdtable_run_host_done();
    pub(crate) fn fdtable_run_host_ends();
}

/// Returns the address of a label.
pub(crate) fn address(label: unsafe extern "C" fn()) -> u64 {
    label as usize as u64
}
