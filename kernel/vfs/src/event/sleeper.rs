//! Threads that sleep until something changes.
//!
//! A sleeping thread has left the [freezer](fdtable::host_fork), so a fork of the host process does
//! not wait for it. The thread does not exist in the child, where its entry in a wait queue is
//! skipped.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Instant;

use fdtable::host_fork;
use parking_lot::{Mutex, MutexGuard};

use super::{Events, WaitQueue, Watcher};

/// Thread that can be woken.
#[derive(Debug)]
pub struct Sleeper {
    thread: Thread,
    /// Process of the thread: the number of host forks that led to it.
    generation: u32,
}

thread_local! {
    static MINE: RefCell<Arc<Sleeper>> = RefCell::new(Arc::new(Sleeper::new()));
}

impl Sleeper {
    /// Returns the calling thread as a sleeper.
    pub fn current() -> Arc<Sleeper> {
        let mine = MINE.try_with(|mine| {
            let mut mine = mine.borrow_mut();
            // After a host fork, the cached one belongs to the parent process.
            if !mine.is_alive() {
                *mine = Arc::new(Self::new());
            }
            Arc::clone(&mine)
        });
        // Destructors of thread-local variables may run after this one is gone.
        mine.unwrap_or_else(|_| Arc::new(Self::new()))
    }

    fn new() -> Self {
        Sleeper {
            thread: thread::current(),
            generation: host_fork::generation(),
        }
    }

    /// Sleeps until the calling thread is woken, or until `deadline`.
    ///
    /// It may return spuriously: the caller checks its condition and sleeps again. Blocks; the
    /// caller holds no lock and is not in a read-side section.
    pub fn sleep(deadline: Option<Instant>) {
        let _out = host_fork::blocking_section();
        match deadline {
            None => thread::park(),
            Some(deadline) => {
                thread::park_timeout(deadline.saturating_duration_since(Instant::now()));
            }
        }
    }
}

impl Watcher for Sleeper {
    fn wake(&self, _events: Events) {
        self.thread.unpark();
    }

    fn is_alive(&self) -> bool {
        self.generation == host_fork::generation()
    }
}

/// Waits until `attempt` returns a value, or until `deadline`.
///
/// The attempt runs with the state locked, first at once and then after each wake-up. If it returns
/// nothing, the thread sleeps on `queue` as an exclusive waiter for `interest`. Each change wakes
/// one such waiter, so an attempt that succeeds and leaves something for another waiter has to
/// [pass the wake-up on](WaitQueue::pass_on). Returns nothing if the deadline comes first. Blocks
/// and allocates; the caller is not in a read-side section.
///
/// Before it sleeps, the thread yields the CPU once and tries again. On a busy machine, the threads
/// that run meanwhile may include the one it waits for, with many messages at once, and no thread
/// has to be put to sleep and woken: with 800 threads that talk over pipes, this is five times as
/// fast. On an idle machine, it costs one system call that returns at once. It does not spin.
pub fn wait<S, R>(
    state: &Mutex<S>,
    queue: impl Fn(&mut S) -> &mut WaitQueue,
    interest: Events,
    deadline: Option<Instant>,
    mut attempt: impl FnMut(&mut S) -> Option<R>,
) -> Option<R> {
    let mut locked = state.lock();
    if let Some(result) = attempt(&mut locked) {
        return Some(result);
    }
    MutexGuard::unlocked(&mut locked, thread::yield_now);
    if let Some(result) = attempt(&mut locked) {
        return Some(result);
    }
    let me = Sleeper::current();
    let mut held = None;
    let result = loop {
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            break None;
        }
        let queue = queue(&mut locked);
        // A spurious wake-up keeps its entry; a chosen sleeper gets a new one at the end.
        held = held.filter(|&ticket| queue.holds(ticket));
        if held.is_none() {
            held = Some(queue.sleep_on(Arc::clone(&me) as Arc<dyn Watcher>, interest));
        }
        MutexGuard::unlocked(&mut locked, || Sleeper::sleep(deadline));
        // Also after the deadline: a chosen sleeper must look, or the change would wake no thread.
        if let Some(result) = attempt(&mut locked) {
            break Some(result);
        }
    };
    if let Some(ticket) = held {
        queue(&mut locked).leave(ticket);
    }
    result
}

#[cfg(test)]
mod tests;
