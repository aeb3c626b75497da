//! The supervisor: a process beside a tree of processes that share one kernel.
//!
//! It runs the callbacks of RCU that no other thread has run: the processes have no thread for
//! them, which could die with a lock. It [traces](tracees) the processes of the tree: the calls of
//! one that is killed are completed, and it is [reaped](super::tree::reap). And it pins
//! descriptors of the host of objects that outlive the process that has opened them ([`pin`]): a
//! process that needs one opens it through `/proc`, or asks for it.
//!
//! It is made by two forks before the program starts, so it is no child of the tree. It has a
//! session of its own and no descriptor but its socket and those that it pins, and ends when the
//! last process of the tree has ended. If it is killed, the host lets go what it traces, processes
//! are reaped by parents that wait for them, and a pinned descriptor is lost to all but those that
//! have it open.
//!
//! Where the host does not let it trace, it watches the processes, and reaps each that has ended.
//! A call in which one is killed stays incomplete then.

mod client;
#[cfg(target_arch = "x86_64")]
mod completion;
mod messages;
#[cfg(target_arch = "x86_64")]
mod ptrace;
#[cfg(target_arch = "x86_64")]
mod queue;
#[cfg(target_arch = "x86_64")]
mod server;
#[cfg(target_arch = "x86_64")]
mod threads;
#[cfg(target_arch = "x86_64")]
mod tracees;

pub use client::release;
pub(crate) use client::{ask_for, is_traced, open_pinned, pin, see, unpin, wake_pinned};
#[cfg(target_arch = "x86_64")]
pub(crate) use completion::plan::{end_of_call, end_thread, is_completion_process};
#[cfg(target_arch = "x86_64")]
pub use {server::start, threads::Threads};

/// Returns false: no supervisor is started on machines without a runner.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn is_completion_process() -> bool {
    false
}

/// Does nothing, as above.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn end_of_call() {}
