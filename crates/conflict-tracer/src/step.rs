//! Stepping: how a thread watches itself, instruction by instruction.
//!
//! With the trap flag set, an x86 processor raises a trap after each instruction, and Linux makes a
//! `SIGTRAP` of it, on the thread itself. The [handler] runs between two instructions. It decodes
//! the one that is *about to run*, computes from the saved registers which memory it will touch,
//! and returns; the processor runs that one instruction and traps again.
//!
//! | file | what it does |
//! |---|---|
//! | [`markers`] | the instructions that open and close a window, and the gate for system calls |
//! | [`window`] | what the handler works with, and how a window is opened and closed |
//! | [`log`] | what has been seen so far |
//! | [`handler`] | one step |
//! | [`successor`] | whether a step has been missed |
//! | [`operands`] | from an instruction and registers to accesses |
//! | [`vector`] | the indices of gathers and scatters |
//! | [`system_call`] | how stepping gets across the kernel |
//! | [`stack`], [`mask`] | the stack that the handler runs on, and that it may run |
//! | [`cpu_id`] | the number of the CPU that the traced code believes it runs on |
//!
//! The handler is inside of whatever the thread is doing, `malloc` perhaps: it takes no lock,
//! allocates nothing and calls nothing that might.

mod cpu_id;
mod handler;
mod log;
mod markers;
mod mask;
mod operands;
mod stack;
mod successor;
mod system_call;
mod vector;
mod window;

pub(crate) use cpu_id::{CpuId, possible_cpus};
pub(crate) use window::Window;

/// Has each thread get a heap arena of its own, as far as the C library knows how: glibc shares
/// those past 8 for each processor of the machine that this really is.
pub(crate) fn raise_arena_limit() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a setting of the C library's heap, which takes effect with the next arena.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 4 * crate::MAX_CPUS as libc::c_int);
    }
}
