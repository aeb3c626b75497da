//! The supervisor: a process beside a tree of processes that share one kernel.
//!
//! - It runs callbacks of RCU that no other thread has run. The processes have no thread for them,
//!   because that could be killed while it holds a lock.
//! - It [traces](tracees) the processes. If one is killed, it has the calls of that completed, and
//!   then [reaps](super::tree::reap) it.
//! - It [pins](pin) host descriptors of objects that outlive the process that has opened them. A
//!   process that needs one opens it through `/proc`, or asks for it.
//!
//! Two forks make it before the program starts, so it is no child of the tree. It has a session of
//! its own, and no descriptors but its socket and the pinned ones. It exits after the last process
//! of the tree. If it is killed, the host releases its tracees, parents that wait reap their
//! children, and a pinned descriptor is lost to all processes that do not have it open.
//!
//! If the host refuses to let it trace, it only watches the processes, and reaps each one that has
//! ended. A call of a killed process stays incomplete then.

mod client;
mod completion;
mod messages;
mod ptrace;
mod queue;
mod server;
mod threads;
mod tracees;

#[cfg(target_arch = "x86_64")]
pub use client::begin_tracing;
pub use client::release;
pub(crate) use client::{ask_for, is_traced, open_pinned, pin, see, unpin, wake_pinned};
pub(crate) use completion::plan::{end_of_call, end_thread, is_completion_process};
pub use {server::start, threads::Threads};
