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
mod layout;
mod messages;
#[cfg(target_arch = "x86_64")]
mod ptrace;
mod queue;
mod server;
#[cfg(target_arch = "x86_64")]
mod tracees;
#[cfg(not(target_arch = "x86_64"))]
#[path = "supervisor/untraced.rs"]
mod tracees;

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::ptr;

use fdtable_sync::rcu;
use fdtable_vfs::Errno;

use crate::host::{self, check};
use client::{ID, PIN_FDS, SOCKET, trace_this};
use messages::socket_pair;
use server::{SUPERVISOR, attend, shares};

pub use client::release;
pub(crate) use client::{ask_for, is_traced, open_pinned, pin, see, unpin, wake_pinned};
#[cfg(target_arch = "x86_64")]
pub(crate) use completion::plan::{end_of_call, end_thread, is_completion_process};
pub use layout::Threads;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use tracees::{end_of_call, end_thread, is_completion_process};

/// Starts the supervisor, for this process and all that it makes. Call it once, while the process
/// has one thread.
///
/// # Errors
/// Errors of the host's `socketpair` and `fork`.
pub fn start(threads: Threads) -> Result<(), Errno> {
    let [ours, theirs] = socket_pair()?;
    fdtable_shm::after_last_calls(end_of_call);
    let limit = host::limit(libc::RLIMIT_NOFILE)?.rlim_max.min(1 << 20) as c_int;
    {
        let pinned = shares(limit);
        let mut fds = PIN_FDS.lock();
        (fds.next, fds.end) = (pinned.start, pinned.end);
    }
    // The supervisor inherits that.
    rcu::use_ticks();
    let started = begin(theirs, limit, threads);
    host::close(theirs);
    ID.store(started.inspect_err(|_| host::close(ours))?);
    SOCKET.store(ours);
    trace_this();
    Ok(())
}

/// Makes the process, by two forks. Returns its id.
fn begin(socket: RawFd, limit: c_int, threads: Threads) -> Result<c_int, Errno> {
    let mut told = [-1; 2];
    // SAFETY: there is room for two descriptors.
    check(unsafe { libc::pipe2(told.as_mut_ptr(), libc::O_CLOEXEC) })?;
    fdtable_shm::name_child(SUPERVISOR);
    // SAFETY: this process has one thread, which continues in the child.
    let first = unsafe { libc::fork() };
    if first == 0 {
        // SAFETY: as above.
        let second = unsafe { libc::fork() };
        if second == 0 {
            attend(socket, limit, threads);
        } else {
            // SAFETY: the bytes are those of an integer.
            unsafe { libc::write(told[1], (&raw const second).cast(), size_of_val(&second)) };
        }
        // SAFETY: it takes an integer.
        unsafe { libc::_exit(0) };
    }
    host::close(told[1]);
    let mut id: c_int = -1;
    // SAFETY: there is room for an integer.
    unsafe { libc::read(told[0], (&raw mut id).cast(), size_of_val(&id)) };
    host::close(told[0]);
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(first, ptr::null_mut(), 0) };
    if first < 0 || id < 0 {
        Err(Errno::EAGAIN)
    } else {
        Ok(id)
    }
}
