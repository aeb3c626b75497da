//! One step: the handler of `SIGTRAP`.
//!
//! It is called
//! - (a) by the breakpoint that opens a window: it sets the trap flag, and records the first
//!   instruction;
//! - (b) after each instruction: it records the next one, and clears the flag before the marker
//!   that closes the window;
//! - (c) in a thread that was started in a window and has none of its own, but has inherited the
//!   flag, which it clears;
//! - (d) by any other `SIGTRAP`, which it passes on to the previous handler. Inside of a window it
//!   also records the next instruction then. A foreign breakpoint ends without a trap, and while a
//!   signal is pending, the kernel drops the next one of its number: a step gets lost.
//!
//! Lost steps are recorded as remarks. Each instruction has to [follow](super::successor) from the
//! one before, and the trace of a window that was not closed here is incomplete.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Register};
use libc::{
    REG_EFL, REG_RCX, REG_RIP, REG_RSP, c_int, c_void, greg_t, sigaction, siginfo_t, ucontext_t,
};

use super::markers;
use super::markers::{BREAKPOINT, GATE_END, SYSTEM_CALL};
use super::operands;
use super::successor;
use super::system_call;
use super::window::{self, Window};
use crate::calls::MarkKind;
use crate::error::Error;
use crate::trace::Remark;

/// The trap flag.
pub(super) const TF: greg_t = 0x100;
/// Signal code of the kernel: a breakpoint.
const SI_KERNEL: c_int = 0x80;
/// `TRAP_TRACE`: a step.
const TRAP_TRACE: c_int = 2;
/// `TRAP_BRKPT`: an `int1`; or a step that a virtual machine did not report as one.
const TRAP_BRKPT: c_int = 1;
/// Length of the longest instruction.
const LONGEST: u64 = 15;
const PAGE: u64 = 4096;
/// The page that the kernel emulates: it can be called, and not read.
const VSYSCALL: u64 = 0xffff_ffff_ff60_0000;

/// The previous handler of `SIGTRAP`.
static FORMER: OnceLock<Result<sigaction, i32>> = OnceLock::new();

/// Installs the handler for the whole process, once.
pub(super) fn install() -> Result<(), Error> {
    match FORMER.get_or_init(replace) {
        Ok(_) => Ok(()),
        Err(errno) => Err(Error::System(
            "sigaction",
            io::Error::from_raw_os_error(*errno),
        )),
    }
}

fn replace() -> Result<sigaction, i32> {
    // SAFETY: all zeroes is a value of this type: no flags, no mask.
    let mut own: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    own.sa_sigaction = on_trap as extern "C" fn(_, _, _) as usize;
    own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the mask is a valid place. Other signals are blocked until the end of the step.
    unsafe { libc::sigfillset(&raw mut own.sa_mask) };
    let mut former = MaybeUninit::uninit();
    // SAFETY: both are valid, and the handler is async-signal-safe.
    if unsafe { sigaction(libc::SIGTRAP, &raw const own, former.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    // SAFETY: the call succeeded and wrote it.
    Ok(unsafe { former.assume_init() })
}

extern "C" fn on_trap(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both to a handler with `SA_SIGINFO`, for its own use, until it
    // returns.
    let code = unsafe { (*info).si_code };
    // SAFETY: as above.
    let thread = unsafe { &mut *context.cast::<ucontext_t>() };
    // SAFETY: a window of this thread is only used here while it is open: the thread is in here.
    let window = unsafe { window::own().as_mut() };
    let registers = &mut thread.uc_mcontext.gregs;
    let rip = registers[REG_RIP as usize] as u64;
    let is_stepped = registers[REG_EFL as usize] & TF != 0;
    match (window, code) {
        (Some(window), SI_KERNEL) if rip == markers::opening() + BREAKPOINT => {
            go_back(registers);
            registers[REG_EFL as usize] |= TF;
            look(window, thread);
        }
        (Some(window), TRAP_TRACE) => step(window, thread),
        (Some(window), TRAP_BRKPT) if is_stepped && window.decoded.code() != Code::Int1 => {
            step(window, thread);
        }
        (None, TRAP_TRACE | TRAP_BRKPT) if is_stepped => {
            registers[REG_EFL as usize] &= !TF;
        }
        (window, _) => {
            pass_on(signal, info, context);
            if let Some(window) = window.filter(|_| is_stepped) {
                catch_up(window, thread);
            }
        }
    }
}

/// Proceeds to the next instruction.
fn step(window: &mut Window, thread: &mut ucontext_t) {
    let registers = &mut thread.uc_mcontext.gregs;
    leave_gate(window.resume, registers);
    if !successor::may_be(&window.decoded, registers[REG_RIP as usize] as u64) {
        window.log.remark(Remark::SkippedInstruction);
    }
    look(window, thread);
}

/// Proceeds after a trap that was not a step, unless the last instruction has not run yet. For a
/// string instruction this is unknown: an iteration may be recorded twice, but none is missed.
fn catch_up(window: &mut Window, thread: &mut ucontext_t) {
    let rip = thread.uc_mcontext.gregs[REG_RIP as usize] as u64;
    let is_to_come = rip == window.decoded.ip() && !window.decoded.is_string_instruction();
    if !is_to_come && rip != markers::gate() {
        step(window, thread);
    }
}

/// Records the instruction that is about to run.
fn look(window: &mut Window, thread: &mut ucontext_t) {
    loop {
        let registers = &mut thread.uc_mcontext.gregs;
        let rip = registers[REG_RIP as usize] as u64;
        if rip == markers::closing() {
            window.log.end();
            registers[REG_EFL as usize] &= !TF;
            return;
        }
        if !window.log.begin(rip) {
            registers[REG_EFL as usize] &= !TF;
            return;
        }
        if rip - rip % PAGE == VSYSCALL {
            window.decoded = Instruction::default();
            window.log.remark(Remark::SkippedInstruction);
            return;
        }
        decode(window, rip);
        operands::note(window, thread);
        note_call(window);
        if !is_done_here(window, thread) {
            return;
        }
    }
}

fn note_call(window: &mut Window) {
    let decoded = &window.decoded;
    let calls = [
        decoded.is_call_near(),
        decoded.is_call_near_indirect(),
        decoded.is_call_far(),
        decoded.is_call_far_indirect(),
    ];
    // System calls return without a return instruction.
    if calls.contains(&true) {
        window.log.call(MarkKind::Call(decoded.ip()));
    } else if decoded.flow_control() == FlowControl::Return {
        window.log.call(MarkKind::Return);
    }
}

/// Handles instructions that stepping alone cannot cross. Returns true if the instruction is done,
/// and the next one has to be recorded.
fn is_done_here(window: &mut Window, thread: &mut ucontext_t) -> bool {
    match window.decoded.code() {
        Code::Syscall => return system_call::enter(window, thread),
        Code::INVALID => window.log.remark(Remark::UnknownInstruction),
        Code::Mfence => window.log.remark(Remark::Fence),
        Code::Pause => window.log.remark(Remark::Pause),
        Code::Popfq | Code::Popfw => keep_flag(thread),
        Code::Iretq | Code::Int_imm8 | Code::Sysenter => {
            window.log.remark(Remark::SkippedInstruction);
        }
        // The CPU does not trap between a load of the stack segment and the next instruction.
        _ if window.decoded.op0_register() == Register::SS => {
            window.log.remark(Remark::SkippedInstruction);
        }
        _ => {}
    }
    false
}

/// Sets the trap flag in the flags that the thread is about to load from its stack.
fn keep_flag(thread: &mut ucontext_t) {
    let top = thread.uc_mcontext.gregs[REG_RSP as usize] as *mut u16;
    // SAFETY: the thread is about to load these flags itself, and they are below its stack
    // afterwards. If the memory is not mapped, it faults here as it would there.
    unsafe { *top |= TF as u16 };
}

/// Decodes the instruction at `rip`.
fn decode(window: &mut Window, rip: u64) {
    let whole = (PAGE - rip % PAGE).min(LONGEST);
    // The next page may not be mapped: it is read only if the instruction extends into it.
    if !decode_within(window, rip, whole) {
        decode_within(window, rip, LONGEST);
    }
}

/// Returns true if the instruction is at most `length` bytes long.
fn decode_within(window: &mut Window, rip: u64, length: u64) -> bool {
    let mut code = [0_u8; LONGEST as usize];
    let code = &mut code[..length as usize];
    // SAFETY: the thread is about to run the bytes up to the end of the page, or of the instruction
    // that extends past it. A copy, because the decoder depends on the address from which it reads.
    unsafe { std::ptr::copy_nonoverlapping(rip as *const u8, code.as_mut_ptr(), code.len()) };
    let mut decoder = Decoder::with_ip(64, code, rip, DecoderOptions::NONE);
    decoder.decode_out(&mut window.decoded);
    decoder.last_error() != iced_x86::DecoderError::NoMoreBytes
}

/// Returns from the marker that opened the window, in place of its `ret`.
fn go_back(registers: &mut [greg_t; 23]) {
    let top = registers[REG_RSP as usize] as *const greg_t;
    // SAFETY: the marker has been called, and pushes nothing.
    registers[REG_RIP as usize] = unsafe { *top };
    registers[REG_RSP as usize] += size_of::<greg_t>() as greg_t;
}

/// Returns a thread that came through the gate to the place of its system call.
fn leave_gate(resume: u64, registers: &mut [greg_t; 23]) {
    let gate = markers::gate();
    let rip = registers[REG_RIP as usize] as u64;
    if (gate + SYSTEM_CALL..=gate + GATE_END).contains(&rip) {
        registers[REG_RIP as usize] = resume as greg_t;
        registers[REG_RCX as usize] = resume as greg_t;
    }
}

/// Passes a foreign trap on to the previous handler. Ends the process if there was none.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(Ok(former)) = FORMER.get() else {
        return;
    };
    // SAFETY: the kernel passes it to the handler that calls this.
    let is_sent = unsafe { (*info).si_code } <= 0;
    match former.sa_sigaction {
        libc::SIG_IGN if is_sent => {}
        // A trap of the CPU's own cannot be ignored.
        libc::SIG_DFL | libc::SIG_IGN => end_by(signal),
        handler if former.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: it was installed as a handler with three arguments.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: it was installed as a handler with one argument.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// Sends the signal again without a handler; it is delivered when this one returns.
fn end_by(signal: c_int) {
    // SAFETY: all zeroes is a value of this type: the default.
    let default: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the action is valid.
    unsafe { sigaction(signal, &raw const default, null_mut()) };
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(signal) };
}
