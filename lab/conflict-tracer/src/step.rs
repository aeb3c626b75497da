//! Stepping: how a thread traces itself, instruction by instruction.
//!
//! With the trap flag set, an x86 CPU raises a trap after each instruction, and Linux delivers it
//! as `SIGTRAP` to the thread itself. The [handler] runs between two instructions. It decodes the
//! one that is *about to run*, computes from the saved registers which memory it will access, and
//! returns; the CPU runs that one instruction and traps again.
//!
//! | file | content |
//! |---|---|
//! | [`markers`] | the instructions that open and close a window, and the gate for system calls |
//! | [`window`] | the state of the handler, and how a window is opened and closed |
//! | [`log`] | the trace so far |
//! | [`handler`] | one step |
//! | [`successor`] | whether a step has been missed |
//! | [`chain`] | loads that depend on each other |
//! | [`operands`] | from an instruction and registers to accesses |
//! | [`vector`] | the indices of gathers and scatters |
//! | [`system_call`] | stepping across system calls |
//! | [`stack`], [`mask`] | the stack of the handler, and the signal mask |
//! | [`cpu_id`] | the CPU number that the traced code reads |
//!
//! The handler interrupts arbitrary code, perhaps `malloc`: it takes no lock, allocates nothing and
//! calls nothing that might.

mod chain;
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

/// Raises the limit of heap arenas, so that each thread gets one of its own. Does nothing if the C
/// library does not support it: threads of glibc share arenas beyond 8 for each real CPU.
pub(crate) fn raise_arena_limit() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a setting of the C library's heap, which takes effect with the next arena.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 4 * crate::MAX_CPUS as libc::c_int);
    }
}
