//! Stepping across the kernel.
//!
//! Only the number of a system call is recorded. Some calls need care:
//!
//! - The kernel returns with the trap flag set, but the CPU traps only *after* the next
//!   instruction, which would run untraced. So the call is made in the [gate](super::markers): the
//!   untraced instruction is the gate's `nop`, and the thread continues after its own call. Calls
//!   that return twice or elsewhere (`clone`, `fork`, `sigreturn`) are made in place, and the
//!   instruction after them is recorded as skipped.
//! - A thread that blocks all signals would be killed by its next step. So its mask is changed
//!   here, in the state that the kernel restores when the handler returns, without `SIGTRAP`.
//! - `getcpu` returns the simulated CPU.
//! - A call that removes the handler, from this thread or from one that it starts, ends the
//!   stepping: the next trap would kill the process.

use libc::{
    REG_EFL, REG_R10, REG_R11, REG_RAX, REG_RCX, REG_RDI, REG_RDX, REG_RIP, REG_RSI, SIG_BLOCK,
    SIG_SETMASK, SIG_UNBLOCK, c_int, greg_t, ucontext_t,
};

use super::handler::TF;
use super::markers::{self, SYSTEM_CALL};
use super::window::Window;
use crate::trace::Remark;

/// The kernel's mask of signals: a bit for each, from number 1.
type Mask = u64;

/// Signals that are never blocked: the step itself, and those that cannot be blocked.
const NEVER: Mask = bit(libc::SIGTRAP) | bit(libc::SIGKILL) | bit(libc::SIGSTOP);

/// `linux/sched.h`: the child handles no signal.
const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;

const fn bit(signal: c_int) -> Mask {
    1 << (signal - 1)
}

/// Records the call, and steps across it. Returns true if it has been done here.
pub(super) fn enter(window: &mut Window, thread: &mut ucontext_t) -> bool {
    let registers = &mut thread.uc_mcontext.gregs;
    let number = registers[REG_RAX as usize];
    window.log.remark(Remark::SystemCall(number as u64));
    match number {
        libc::SYS_rt_sigprocmask => {
            let answer = change_mask(thread);
            answer_with(thread, answer);
            return true;
        }
        libc::SYS_getcpu => {
            let answer = write_cpu(window, thread);
            answer_with(thread, answer);
            return true;
        }
        libc::SYS_rt_sigaction | libc::SYS_clone3 if takes_handler(number, registers) => {
            registers[REG_EFL as usize] &= !TF;
        }
        libc::SYS_clone
        | libc::SYS_clone3
        | libc::SYS_fork
        | libc::SYS_vfork
        | libc::SYS_rt_sigreturn => {
            window.log.remark(Remark::SkippedInstruction);
        }
        _ => {
            window.resume = window.decoded.next_ip();
            registers[REG_RIP as usize] = markers::gate() as greg_t;
        }
    }
    false
}

/// Returns true if no handler is left for a step after the call.
fn takes_handler(number: greg_t, registers: &[greg_t; 23]) -> bool {
    let (first, second) = (registers[REG_RDI as usize], registers[REG_RSI as usize]);
    if number == libc::SYS_rt_sigaction {
        return first == greg_t::from(libc::SIGTRAP) && second != 0;
    }
    let flags = first as *const u64;
    // SAFETY: the thread passes `struct clone_args` to the kernel for reading, which begins with
    // its flags. If the memory is not mapped, this faults where the kernel would have returned
    // EFAULT.
    !flags.is_null() && unsafe { flags.read_unaligned() } & CLONE_CLEAR_SIGHAND != 0
}

/// Leaves the registers as the call would have.
fn answer_with(thread: &mut ucontext_t, answer: greg_t) {
    let registers = &mut thread.uc_mcontext.gregs;
    registers[REG_RIP as usize] += SYSTEM_CALL as greg_t;
    registers[REG_RCX as usize] = registers[REG_RIP as usize];
    registers[REG_R11 as usize] = registers[REG_EFL as usize];
    registers[REG_RAX as usize] = answer;
}

/// `rt_sigprocmask(how, set, former, size)`, on the mask with which the thread continues.
fn change_mask(thread: &mut ucontext_t) -> greg_t {
    let argument = |register: c_int| thread.uc_mcontext.gregs[register as usize];
    let how = argument(REG_RDI) as c_int;
    let set = argument(REG_RSI) as *const Mask;
    let former = argument(REG_RDX) as *mut Mask;
    if argument(REG_R10) as usize != size_of::<Mask>() {
        return greg_t::from(-libc::EINVAL);
    }
    let mask = (&raw mut thread.uc_sigmask).cast::<Mask>();
    // SAFETY: the kernel's mask is the first word of the C library's, which is larger.
    let before = unsafe { *mask };
    if !set.is_null() {
        // SAFETY: the thread passes it to the kernel for reading. If the memory is not mapped, this
        // faults where the kernel would have returned EFAULT.
        let set = unsafe { set.read_unaligned() };
        let after = match how {
            SIG_BLOCK => before | set,
            SIG_UNBLOCK => before & !set,
            SIG_SETMASK => set,
            _ => return greg_t::from(-libc::EINVAL),
        };
        // SAFETY: as above.
        unsafe { *mask = after & !NEVER };
    }
    if !former.is_null() {
        // SAFETY: as for `set`, for writing.
        unsafe { former.write_unaligned(before) };
    }
    0
}

/// `getcpu(cpu, node)`: the node is the first one.
fn write_cpu(window: &Window, thread: &ucontext_t) -> greg_t {
    let place = |register: c_int| thread.uc_mcontext.gregs[register as usize] as *mut u32;
    for (place, value) in [(place(REG_RDI), window.cpu as u32), (place(REG_RSI), 0)] {
        if !place.is_null() {
            // SAFETY: the thread passes it to the kernel for writing. If the memory is not mapped,
            // this faults where the kernel would have returned EFAULT.
            unsafe { place.write_unaligned(value) };
        }
    }
    0
}
