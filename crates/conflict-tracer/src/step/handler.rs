//! One step: what the handler of `SIGTRAP` does.
//!
//! It is called
//! - (a) by the breakpoint that opens a window: it sets the trap flag, and looks at the first
//!   instruction;
//! - (b) after each instruction: it looks at the next one;
//! - (c) by the breakpoint that closes a window, if stepping got lost on the way there: it says so;
//! - (d) in a thread that was started in a window and has none of its own, but has inherited the
//!   flag: it clears it;
//! - (e) by whoever else sends `SIGTRAP`: that goes to the handler that was there before.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl};
use libc::{
    REG_EFL, REG_RCX, REG_RIP, REG_RSP, c_int, c_void, greg_t, sigaction, siginfo_t, ucontext_t,
};

use super::markers;
use super::markers::{BREAKPOINT, GATE_END, SYSTEM_CALL};
use super::operands;
use super::system_call;
use super::window::{self, Window};
use crate::calls::MarkKind;
use crate::error::Error;
use crate::trace::Remark;

/// The trap flag.
const TF: greg_t = 0x100;
/// The kernel's own: a breakpoint.
const SI_KERNEL: c_int = 0x80;
/// A step.
const TRAP_TRACE: c_int = 2;
/// A trap of which the processor did not say why. Virtual machines lose that at times, so with the
/// trap flag set it is a step.
const TRAP_BRKPT: c_int = 1;
/// No instruction is longer.
const LONGEST: u64 = 15;
const PAGE: u64 = 4096;

/// Who handled `SIGTRAP` before.
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
    // SAFETY: the mask is a valid place. Other signals wait for the end of the step.
    unsafe { libc::sigfillset(&raw mut own.sa_mask) };
    let mut former = MaybeUninit::uninit();
    // SAFETY: both are valid, and the handler keeps to what a handler may do.
    if unsafe { sigaction(libc::SIGTRAP, &raw const own, former.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    // SAFETY: the call succeeded and wrote it.
    Ok(unsafe { former.assume_init() })
}

extern "C" fn on_trap(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a handler with `SA_SIGINFO` both, for its own use, until it returns.
    let code = unsafe { (*info).si_code };
    // SAFETY: as above.
    let thread = unsafe { &mut *context.cast::<ucontext_t>() };
    // SAFETY: a window of this thread is only used here while it is open: the thread is in here.
    let window = unsafe { window::own().as_mut() };
    let registers = &mut thread.uc_mcontext.gregs;
    let rip = registers[REG_RIP as usize] as u64;
    match (window, code) {
        (Some(window), SI_KERNEL) if rip == markers::opening() + BREAKPOINT => {
            go_back(registers);
            registers[REG_EFL as usize] |= TF;
            look(window, thread);
        }
        (Some(window), SI_KERNEL) if rip == markers::closing() + BREAKPOINT => {
            if !window.log.is_cut_off() {
                window.log.remark(Remark::SteppingLost);
            }
        }
        (Some(window), TRAP_TRACE) => look(window, thread),
        (Some(window), TRAP_BRKPT) if registers[REG_EFL as usize] & TF != 0 => {
            look(window, thread);
        }
        (None, TRAP_TRACE) => {
            registers[REG_EFL as usize] &= !TF;
        }
        _ => pass_on(signal, info, context),
    }
}

/// Looks at the instruction that is about to run.
fn look(window: &mut Window, thread: &mut ucontext_t) {
    let registers = &mut thread.uc_mcontext.gregs;
    leave_gate(window.resume, registers);
    loop {
        let registers = &mut thread.uc_mcontext.gregs;
        let rip = registers[REG_RIP as usize] as u64;
        if rip == markers::closing() {
            window.log.take_back();
            registers[REG_RIP as usize] += BREAKPOINT as greg_t;
            registers[REG_EFL as usize] &= !TF;
            return;
        }
        if !window.log.begin(rip) {
            registers[REG_EFL as usize] &= !TF;
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
    match window.decoded.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => {
            window.log.call(MarkKind::Call(window.decoded.ip()));
        }
        FlowControl::Return => window.log.call(MarkKind::Return),
        _ => {}
    }
}

/// Sees to what stepping does not get across by itself. Tells whether the instruction has been
/// done, and the next one is to be looked at.
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
        _ => {}
    }
    false
}

/// Sets the trap flag in the flags that the thread is about to load from its stack.
fn keep_flag(thread: &mut ucontext_t) {
    let top = thread.uc_mcontext.gregs[REG_RSP as usize] as *mut u16;
    // SAFETY: the thread is about to load these flags itself, and they are below its stack
    // afterwards. If the place is not there, it faults here as it would there.
    unsafe { *top |= TF as u16 };
}

/// Decodes the instruction at `rip`.
fn decode(window: &mut Window, rip: u64) {
    let whole = (PAGE - rip % PAGE).min(LONGEST);
    // The next page may not be there: it is read only if the instruction goes on in it.
    if !decode_within(window, rip, whole) {
        decode_within(window, rip, LONGEST);
    }
}

/// Tells whether the instruction is no longer than that.
fn decode_within(window: &mut Window, rip: u64, length: u64) -> bool {
    let mut code = [0_u8; LONGEST as usize];
    let code = &mut code[..length as usize];
    // SAFETY: the thread is about to run the bytes up to the end of the page, or of the instruction
    // that goes on past it. A copy, because the decoder minds where in the address space it reads.
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

/// Brings a thread that came through the gate back to where it made its system call.
fn leave_gate(resume: u64, registers: &mut [greg_t; 23]) {
    let gate = markers::gate();
    let rip = registers[REG_RIP as usize] as u64;
    if (gate + SYSTEM_CALL..=gate + GATE_END).contains(&rip) {
        registers[REG_RIP as usize] = resume as greg_t;
        registers[REG_RCX as usize] = resume as greg_t;
    }
}

/// Has a trap that is not ours handled as it would have been before. Where that was not handled at
/// all, the process ends by it.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(Ok(former)) = FORMER.get() else {
        return;
    };
    match former.sa_sigaction {
        libc::SIG_IGN => {}
        libc::SIG_DFL => end_by(signal, former),
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

/// Sends the signal once more without a handler; it is delivered when this one returns.
fn end_by(signal: c_int, default: &sigaction) {
    // SAFETY: the action is the one that was there before.
    unsafe { sigaction(signal, default, null_mut()) };
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(signal) };
}
