//! Runs unmodified Linux programs for x86-64 on the kernel of this library, in one process.
//!
//! The *guest* is the program, with its own dynamic loader and C library. The *runner* is this
//! library, in the same address space, with a C library of its own. Every system call of the guest
//! enters the runner.
//!
//! Reading order: `entry` (from the guest to the runner and back), `block` and `thread` (the state
//! of a thread), `calls` (the handlers of calls), `patch` (rewritten call sites), `signals` and
//! `pending`, `command`, `program` and `elf` (loading and starting a program), `process`, `vfork`,
//! `exec`, `ending` and `exit`, `tracer`, `observe` (reports about the calls), `doctor`. No file
//! uses a file that uses it.
//!
//! This is no security boundary: the guest can read and write the memory of the runner.

// A call and the pointer to its argument depend on one promise of the guest.
#![allow(clippy::multiple_unsafe_ops_per_block)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod abi;
mod beside;
mod block;
mod calls;
mod code;
mod command;
mod doctor;
mod elf;
mod ending;
mod entry;
mod exec;
mod exit;
mod frame;
mod guarded;
mod interrupt;
mod memory;
mod observe;
mod options;
mod patch;
mod pending;
mod prctl;
mod process;
mod program;
mod robust;
mod signals;
mod thread;
mod tracer;
mod vfork;

/// Memory of the kernel, which the processes of a program may share, and memory of this process.
#[global_allocator]
static HEAP: fdtable_shm::Heap<std::alloc::System> = fdtable_shm::Heap(std::alloc::System);

pub use beside::start_beside;
pub use command::{Command, Error, prepare_process, run};
pub use doctor::{Offer, examine};
pub use options::{Choice, Descriptors, Findings, Options, Owners, Report};
