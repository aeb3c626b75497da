//! Threads that sleep until something changes.
//!
//! A sleeping thread has left the [freezer](fdtable::host_fork), so a fork of the host process does
//! not wait for it. The thread does not exist in the child, where its entry in a wait queue is
//! skipped.
//!
//! On Linux, signal handlers interrupt a sleep, which ends the call with `EINTR`. A handler that is
//! installed with `SA_RESTART` interrupts only sleeps that [never restart](Restart::Never): those
//! of `poll` and its relatives, and of sockets with a timeout.

use std::cell::RefCell;
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::host_fork;
use fdtable_parker::{Parker, Restart, Wake};
use fdtable_shm::{Mutex, MutexGuard};

use super::{Events, WaitQueue, Wakeups, Watcher};
use crate::Errno;

/// Thread that can be woken.
#[derive(Debug)]
pub struct Sleeper {
    parker: Parker,
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
            if mine.generation != host_fork::generation() {
                let parents = mem::replace(&mut *mine, Arc::new(Self::new()));
                if host_fork::shares_memory() {
                    // The parent's thread has this reference.
                    mem::forget(parents);
                }
            }
            Arc::clone(&mine)
        });
        // Destructors of thread-local variables may run after this one is gone.
        mine.unwrap_or_else(|_| Arc::new(Self::new()))
    }

    fn new() -> Self {
        Sleeper {
            parker: Parker::new(),
            generation: host_fork::generation(),
        }
    }

    /// Sleeps until the thread is woken, until a signal handler interrupts it, or until the end of
    /// `limit`. Only its own thread calls it.
    ///
    /// It may return spuriously: the caller checks its condition and sleeps again. Blocks; the
    /// caller holds no lock and is not in a read-side section.
    pub fn sleep(&self, limit: Limit) -> Wake {
        let before = || {
            if let Some(hook) = BEFORE_SLEEPS.load() {
                hook();
            }
        };
        self.parker.park(limit.deadline, limit.restart, before)
    }
}

impl Watcher for Sleeper {
    fn wake(&self, _events: Events) {
        self.parker.unpark();
    }

    fn is_alive(&self) -> bool {
        self.generation == host_fork::generation() || host_fork::shares_memory()
    }
}

/// How long a call may wait, and which signal handlers interrupt it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    waits: bool,
    deadline: Option<Instant>,
    restart: Restart,
}

/// Hook that every thread runs before it sleeps.
static BEFORE_SLEEPS: AtomicCell<Option<fn()>> = AtomicCell::new(None);

/// Makes every thread call `hook` just before it sleeps, outside the freezer and without a lock. An
/// embedder with signals sets the mask of `ppoll` there. The last call counts.
pub fn run_before_sleeps(hook: fn()) {
    BEFORE_SLEEPS.store(Some(hook));
}

impl Limit {
    /// No wait at all (`O_NONBLOCK`, `MSG_DONTWAIT`).
    pub const NOW: Self = Limit {
        waits: false,
        deadline: None,
        restart: Restart::Never,
    };

    /// No deadline. Handlers with `SA_RESTART` do not interrupt.
    pub const FOREVER: Self = Limit {
        waits: true,
        deadline: None,
        restart: Restart::Allowed,
    };

    /// Returns a limit with a deadline; `None` is none.
    pub fn new(deadline: Option<Instant>, restart: Restart) -> Self {
        Limit {
            waits: true,
            deadline,
            restart,
        }
    }

    /// Returns the limit of the rest of a transfer, after some bytes: every handler ends it, and
    /// the result is the count of these bytes.
    pub(crate) fn of_rest(self) -> Self {
        let restart = Restart::Never;
        Limit { restart, ..self }
    }

    fn has_passed(self) -> bool {
        self.deadline
            .is_some_and(|deadline| deadline <= Instant::now())
    }
}

/// Waits until `attempt` returns a value, or until `limit`.
///
/// The attempt runs with the state locked, first at once and then after each wake-up. If it returns
/// nothing, the thread sleeps on `queue` as an exclusive waiter for `interest`. Each change wakes
/// one such waiter, so an attempt that succeeds and leaves something for another waiter has to
/// [pass the wake-up on](WaitQueue::pass_on). Blocks and allocates; the caller is not in a
/// read-side section.
///
/// # Errors
/// - Errors of the attempt.
/// - `EAGAIN` if it may not wait, or if the deadline comes first. After that there is one more
///   attempt.
/// - `EINTR` if a signal handler comes first. There is no attempt, because a value may be the
///   handler's own, and on Linux the call returns before the handler runs.
///
/// In each case, a wake-up for which this thread was chosen is not lost.
///
/// # How it waits
/// Before it sleeps, the thread yields the CPU once and tries again. On a busy machine, the threads
/// that run meanwhile may include the one it waits for, with many messages at once, and no thread
/// has to be put to sleep and woken: with 800 threads that talk over pipes, this is five times as
/// fast. On an idle machine, it costs one system call that returns at once. Then a thread whose
/// last sleeps were short looks for its wake-up for some microseconds
/// ([`Parker`]).
pub fn wait<S, R>(
    state: &Mutex<S>,
    queue: impl Fn(&mut S) -> &mut WaitQueue,
    interest: Events,
    limit: Limit,
    mut attempt: impl FnMut(&mut S) -> Option<Result<R, Errno>>,
) -> Result<R, Errno> {
    let mut locked = state.lock();
    if let Some(result) = attempt(&mut locked) {
        return result;
    }
    if !limit.waits {
        return Err(Errno::EAGAIN);
    }
    MutexGuard::unlocked(&mut locked, thread::yield_now);
    if let Some(result) = attempt(&mut locked) {
        return result;
    }
    let mut me = Sleeper::current();
    let (mut held, mut interrupted) = (None, false);
    let result = loop {
        if limit.has_passed() {
            break Err(Errno::EAGAIN);
        }
        let queue = queue(&mut locked);
        if !me.is_alive() {
            // A handler has forked the host process, and this is the child. Its wake-ups skip the
            // entry of the parent's sleeper.
            held.take()
                .into_iter()
                .for_each(|ticket| queue.leave(ticket));
            me = Sleeper::current();
        }
        // A spurious wake-up keeps its entry; a chosen sleeper gets a new one at the end.
        held = held.filter(|&ticket| queue.holds(ticket));
        if held.is_none() {
            held = Some(queue.sleep_on(Arc::clone(&me) as Arc<dyn Watcher>, interest));
        }
        let wake = MutexGuard::unlocked(&mut locked, || me.sleep(limit));
        if wake.interrupted {
            interrupted = true;
            break Err(Errno::EINTR);
        }
        // Also after the deadline: a chosen sleeper must look, or the change would wake no thread.
        if let Some(result) = attempt(&mut locked) {
            break result;
        }
    };
    let mut passed_on = Wakeups::default();
    if let Some(ticket) = held {
        let queue = queue(&mut locked);
        if !queue.holds(ticket) && interrupted {
            passed_on = queue.pass_on(interest);
        }
        queue.leave(ticket);
    }
    drop(locked);
    passed_on.run();
    result
}

#[cfg(test)]
mod tests;
