//! The claim of one thread to end the others, and the end of a process that another one kills.
//!
//! One thread at a time executes a program or ends the process. It marks the other threads until
//! the host has none of them (see `exec`).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use fdtable::host_fork;
use fdtable_posix::runner;

use crate::abi::{process_id, thread_id};
use crate::{interrupt, thread};

/// The thread that ends the others, because it executes a program or ends the process; 0 for none.
static CLAIMANT: AtomicI32 = AtomicI32::new(0);

/// Returns true if a thread ends the others.
pub(crate) fn is_claimed() -> bool {
    CLAIMANT.load(Ordering::SeqCst) != 0
}

/// Returns true if this thread ends the others.
pub(crate) fn has_claimed(thread: i32) -> bool {
    CLAIMANT.load(Ordering::SeqCst) == thread
}

/// Releases the claim: the program has begun, or this is the child of a fork.
pub(crate) fn release_claim() {
    CLAIMANT.store(0, Ordering::SeqCst);
}

/// Claims the right to end the other threads. Returns false if another thread has claimed it.
pub(crate) fn claim() -> bool {
    CLAIMANT
        .compare_exchange(0, thread_id(), Ordering::SeqCst, Ordering::SeqCst)
        .is_ok()
}

/// Ends all other threads except the leader, which then waits for a program.
pub(crate) fn end_others() {
    let mut others = BTreeSet::new();
    loop {
        others.extend(thread::end_others());
        others.remove(&process_id());
        others.retain(|&id| is_there(id));
        if others.is_empty() && thread::is_alone() {
            return;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Returns true if the host has a thread of this process with an id.
pub(crate) fn is_there(id: i32) -> bool {
    // SAFETY: it takes no pointers.
    unsafe { libc::syscall(libc::SYS_tgkill, process_id(), id, 0) == 0 }
}

/// True once another process of the tree has killed this one.
static IS_KILLED: AtomicBool = AtomicBool::new(false);

/// Returns true if another process of the tree kills this one. It ends at the end of its calls.
pub(crate) fn is_killed() -> bool {
    let is_killed = runner::must_exit();
    if is_killed {
        IS_KILLED.store(true, Ordering::SeqCst);
    }
    is_killed
}

/// Lets a process of the tree finish its calls before it is killed. Waits for a tenth of a second
/// at most. Returns false, and does nothing, for other processes.
pub(crate) fn end_before_kill(id: i32) -> bool {
    const PATIENCE: i32 = 100;
    // SAFETY: it takes integers.
    if unsafe { libc::kill(id, 0) } != 0 || !runner::request_exit(id) {
        return false;
    }
    // SAFETY: it takes integers.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) } as i32;
    if pidfd < 0 {
        return true;
    }
    interrupt::kill(id);
    let mut ended = libc::pollfd {
        fd: pidfd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: there is one entry.
    unsafe { libc::poll(&raw mut ended, 1, PATIENCE) };
    // SAFETY: it takes an integer.
    unsafe { libc::close(pidfd) };
    true
}

/// Closes the files of this process, which is about to exit.
pub(crate) fn leave_tree() {
    if !thread::is_alone() && claim() {
        end_others();
    }
    runner::end();
    // No other thread exits during a call.
    host_fork::freeze();
}

/// Returns true if another process of the tree has killed this one, as [`is_killed`] has found.
pub(crate) fn was_killed() -> bool {
    IS_KILLED.load(Ordering::SeqCst)
}
