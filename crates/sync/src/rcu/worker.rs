//! The worker: a thread that runs the callbacks which other threads leave.
//!
//! Callbacks run in batches, on the threads that queue more (see [`callbacks`]). If no thread does,
//! the last ones wait. That is right for callbacks that free memory. It is wrong for those whose
//! lateness can be seen: [`call_timely`](super::call_timely) queues one, and has the worker run it
//! soon if no other thread does.
//!
//! The first such call starts the worker. While there are such callbacks, the worker *looks* every
//! [`TICK`]. A look runs what was queued before the look before it, and has not run since. So a
//! callback runs in the second look after it was queued: after one to two ticks, a grace period,
//! and the callbacks before it. A queue whose threads queue enough is left to them, since each look
//! finds that what was due has run. So a batch stays a batch, on the CPU whose caches have its
//! memory.
//!
//! # No call is missed
//!
//! The worker sleeps while there is nothing to do, and a call must wake it. The frequent call only
//! loads a word, the *state*. The steps, with letters that stand at the same steps in the code:
//!
//! | | a call | | a look of the worker |
//! |---|---|---|---|
//! | (A) | push the callback, under the lock of its queue | (R) | run callbacks until each queue has reached its mark |
//! | (B) | load the state; return if it is `CALLED` | (C) | exchange the state from `CALLED` to `WATCHING` |
//! | (D) | exchange the state for `CALLED`, and wake the worker if it was `PARKED` | (N) | if that succeeded: under the lock of each queue, set its mark to what was queued |
//! | | | (P) | if it failed, and (R) has reached all marks: exchange the state from `WATCHING` to `PARKED`, and sleep |
//!
//! A call is *noted* by an (N) that took the lock of its queue after (A). The next look, or a later
//! one, runs its callback, and no (P) comes before. Each call is noted, in a few ticks:
//!
//! - Consider an (N) that took the lock before (A). The lock orders its (C) before (B). So (B) sees
//!   the `WATCHING` of that (C), or a later state.
//! - If (B) sees `CALLED`, a later (C) succeeds. By the first point, the (N) that follows it cannot
//!   have taken the lock before (A): then (B) would have seen the state that this (C) stored, or a
//!   later one. So that (N) notes the call.
//! - Otherwise (D) stores `CALLED`, or fails as another call has stored it, and the same holds. If
//!   the worker was parked, this (D) wakes it. If it was about to park, (P) fails, or comes before
//!   (D), which then finds `PARKED`.
//!
//! The locks of the queues order everything, so the accesses to the state are relaxed. A start
//! exchanges `ABSENT` for `CALLED`, as (D).
//!
//! # The thread
//!
//! - It takes no memory from the heap, as it may be started by a close when there is none. If it
//!   cannot be started, the callback waits as others do, and one of the next [`RETRY`] calls tries
//!   again.
//! - It blocks all signals but those that a thread raises itself by a fault, and those too after
//!   [`block_faults`].
//! - In a look it is inside the [freezer](crate::host_fork), and leaves it after every few
//!   callbacks, so a fork waits for it no longer than for a close. Asleep it is outside. In the
//!   child it does not exist, and [`Worker::forget_thread`] says so: the next call starts another.
//! - Between looks it has no record, and so does not count as a reader: a lone thread of the
//!   program stays alone, and needs no fences.
//!
//! # Without the thread
//!
//! [`without_thread`] ends the thread, if there is one, and starts another when it is over. In
//! between the state is `PAUSED`, which needs nothing of a call, like `CALLED`: the new thread
//! begins with `CALLED`, so its first (C) succeeds, and the (N) that follows notes the calls that
//! have seen `PAUSED`.
//!
//! # The end of the process
//!
//! The thread does not keep the process alive. A handler of `atexit(3)`, registered before the
//! first start, runs what is still queued, as the end of a thread does. First it ends the worker,
//! so that no callback meets what later handlers destroy. It waits up to [`END_LIMIT`] for a look
//! that is under way. If a callback takes longer, the worker ends after it, or with the process.
//! Handlers that were registered later run before, and the callbacks may run during them. In a
//! child of a fork without the handlers of [`host_fork`](crate::host_fork) it does nothing: another
//! thread may have held a lock.
//!
//! # Costs
//!
//! Measured on a 2-CPU x86-64 with `examples/callback_delay.rs`: a callback that no other follows
//! runs after 3.1 ms (median), at worst of 200 after 5 to 7 ms; on a machine with twice as many
//! ready threads as CPUs, at worst after 20 to 50 ms. In a loop `call_timely` costs as much as
//! `call`, within 1 ns of 38, and with one call a millisecond too (0.2 µs, with cold caches). With
//! one in 20 ms each call wakes the worker, which takes 2 µs.
//!
//! The C library's allocator may take fewer steps in a process with one thread: with glibc 2.36 an
//! allocation and its free take 17 ns longer once there is another thread, whatever it does.

use core::time::Duration;

use crossbeam_utils::CachePadded;

use super::callbacks;
use crate::platform::atomic::AtomicU32;
use crate::platform::atomic::Ordering::Relaxed;
use crate::platform::{Mutex, futex, own};

#[cfg(all(unix, not(loom)))]
#[path = "worker/unix.rs"]
mod thread;
#[cfg(not(any(unix, loom)))]
#[path = "worker/other.rs"]
mod thread;
#[cfg(loom)]
#[path = "worker/model.rs"]
mod thread;

#[cfg(not(loom))]
use crate::host_fork::{freezer::enter_borrowing as enter, is_frozen_here};
use thread::Thread;
#[cfg(all(unix, not(loom)))]
pub use thread::{block_faults, without_thread};
#[cfg(loom)]
use thread::{enter, is_frozen_here};

/// The time between looks. Two of them, a grace period and a busy CPU fit into 10 milliseconds.
const TICK: Duration = Duration::from_millis(3);

/// How many calls follow a failed start before the next one.
const RETRY: u32 = 256;

/// There is no worker. A call starts it.
const ABSENT: u32 = 0;
/// The worker sleeps until it is woken. A call wakes it.
const PARKED: u32 = 1;
/// The worker will look, and no call came since it noted the queues.
const WATCHING: u32 = 2;
/// The worker will look and note the queues. This state and those above need nothing of a call.
const CALLED: u32 = 3;
/// The caller runs callbacks by [`tick`](super::tick), and there is no worker.
const TICKS: u32 = 4;
/// The process ends, and there is no worker any more.
#[cfg_attr(any(loom, not(unix)), allow(dead_code, reason = "ends show on Unix"))]
const ENDED: u32 = 5;
/// The thread has ended until [`without_thread`] is over, which starts another.
#[cfg_attr(
    loom,
    allow(dead_code, reason = "no call does without the thread in a model")
)]
const PAUSED: u32 = 6;

/// The worker of the process.
pub(super) struct Worker {
    /// Read by each call, so it has a line of its own.
    state: CachePadded<AtomicU32>,
    /// Held while the thread is started or ended.
    thread: Mutex<Start>,
    /// Not 0 once the thread does nothing more.
    has_left: AtomicU32,
    /// The process that has registered the handler of its end, or inherited it; 0 if none has.
    /// Outside of the lock, which no thread may ever release in the child of a fork.
    #[cfg_attr(any(loom, not(unix)), allow(dead_code, reason = "ends show on Unix"))]
    process: AtomicU32,
}

/// State of the thread's start.
struct Start {
    thread: Option<Thread>,
    /// How many calls do not try to start it.
    skips: u32,
}

/// Action of the worker between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Sleep,
    Park,
    End,
}

own! {
    pub(super) static WORKER: Worker = Worker {
        state: CachePadded::new(AtomicU32::new(ABSENT)),
        thread: Mutex::new(Start { thread: None, skips: 0 }),
        has_left: AtomicU32::new(0),
        process: AtomicU32::new(0),
    };
}

/// Bounds the time until what was queued last is run, as [`call_timely`](super::call_timely) does:
/// for callers of [`call_later`](super::call_later).
#[inline]
pub fn bound_wait() {
    WORKER.note_call();
}

/// Does nothing: the caller of ticks makes them.
pub(super) fn begin_tick() {}

/// Promises that the program calls [`tick`](super::tick) every few milliseconds: no thread is
/// started for [`call_timely`](super::call_timely). For programs that may not have further threads.
/// To be called once, before the first callback is queued; also effective later, when it ends the
/// thread within a few milliseconds. It cannot be undone, and holds in children of a host fork too.
///
/// Nor is a handler registered for the end of the process: what is queued then runs only where the
/// thread that ends it has queued callbacks, or the program calls
/// [`try_barrier`](super::try_barrier).
///
/// Does not block for long, nor allocate. Callable anywhere but in a signal handler.
///
/// ```
/// use fdtable_sync::rcu;
///
/// rcu::use_ticks();
/// rcu::defer(|| println!("runs in the second tick"));
/// // Every few milliseconds:
/// while rcu::tick()? {}
/// # Ok::<(), rcu::WouldDeadlock>(())
/// ```
pub fn use_ticks() {
    if let Some(thread) = WORKER.stop(TICKS) {
        thread.detach();
    }
}

impl Worker {
    #[inline]
    fn note_call(&'static self) {
        // (B) Relaxed: see "No call is missed".
        let state = self.state.load(Relaxed);
        // weaken: call-that-leaves-its-queue-to-the-last-note
        if state < CALLED {
            self.note_first_call(state);
        }
    }

    /// Notes the first call since the last look.
    #[cold]
    fn note_first_call(&'static self, mut state: u32) {
        while state < CALLED {
            if state == ABSENT {
                return self.start(Thread::spawn);
            }
            // (D) Relaxed, both: as in (B).
            match self.state.compare_exchange(state, CALLED, Relaxed, Relaxed) {
                // weaken: call-that-wakes-no-worker
                Ok(PARKED) => return futex::wake(&self.state, 1),
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }

    /// Starts the thread. If another thread is about to, it notes this call.
    fn start(&'static self, spawn: impl FnOnce(&'static Self) -> Option<Thread>) {
        // The child of a fork could not tell this thread from a new one of its own.
        if is_frozen_here() {
            return;
        }
        let Some(mut start) = self.thread.try_lock() else {
            return;
        };
        if start.skips > 0 {
            start.skips -= 1;
            return;
        }
        // Relaxed, both: as in (B). It fails if the thread was started, or is not wanted, since the
        // caller looked. A thread that was started has yet to take the locks of the queues for
        // the first time, or the caller would have seen its state.
        if self
            .state
            .compare_exchange(ABSENT, CALLED, Relaxed, Relaxed)
            .is_err()
        {
            return;
        }
        self.run_callbacks_at_exit();
        self.spawn(&mut start, spawn);
    }

    /// Makes the thread. The state is `CALLED`.
    fn spawn(
        &'static self,
        start: &mut Start,
        spawn: impl FnOnce(&'static Self) -> Option<Thread>,
    ) {
        // Relaxed: the thread that is started sees it.
        self.has_left.store(0, Relaxed);
        start.thread = spawn(self);
        if start.thread.is_none() {
            start.skips = RETRY;
            // Relaxed, both: no worker has seen it.
            let _ = self
                .state
                .compare_exchange(CALLED, ABSENT, Relaxed, Relaxed);
        }
    }

    /// The life of the thread.
    fn attend(&self) {
        loop {
            match self.look() {
                Next::Sleep => {
                    // Relaxed: only a look. A call that changes the state wakes no worker. Time is
                    // not part of what is modelled.
                    let state = if cfg!(loom) {
                        CALLED
                    } else {
                        self.state.load(Relaxed)
                    };
                    if state <= CALLED {
                        futex::wait(&self.state, state, Some(TICK));
                    }
                }
                Next::Park => loop {
                    futex::wait(&self.state, PARKED, None);
                    // Relaxed: as in (B).
                    if self.state.load(Relaxed) != PARKED {
                        break;
                    }
                },
                Next::End => break,
            }
        }
        // Relaxed: it only says that this thread has nothing more to do.
        self.has_left.store(1, Relaxed);
    }

    fn look(&self) -> Next {
        let mut inside = Some(enter());
        // (R)
        let reached = callbacks::run_due(|| {
            // A fork that waits comes in between.
            let _ = inside.take();
            inside = Some(enter());
            // Relaxed: a look that goes on for a little longer does no harm.
            self.state.load(Relaxed) <= CALLED
        });
        self.settle(reached)
    }

    /// The second half of a look. `reached` is true if (R) has reached all marks.
    fn settle(&self, reached: bool) -> Next {
        // (C) Relaxed, all: as in (B).
        // weaken: queues-noted-before-the-worker-watches
        let state = match self
            .state
            .compare_exchange(CALLED, WATCHING, Relaxed, Relaxed)
        {
            Ok(_) => {
                // (N)
                // weaken: queues-noted-before-the-worker-watches
                callbacks::note_due();
                return Next::Sleep;
            }
            Err(state) => state,
        };
        if state != WATCHING {
            return Next::End;
        }
        // (P)
        // weaken: worker-that-parks-behind-a-reader
        if reached
            && self
                .state
                // weaken: worker-that-parks-whatever-the-state
                .compare_exchange(WATCHING, PARKED, Relaxed, Relaxed)
                .is_ok()
        {
            return Next::Park;
        }
        Next::Sleep
    }

    /// Ends the thread, soon. Returns it if there is one; if not, there is nothing to pause.
    fn stop(&self, state: u32) -> Option<Thread> {
        let mut start = self.thread.lock();
        let thread = start.thread.take();
        if state == PAUSED && thread.is_none() {
            return None;
        }
        // An exchange, which (P) comes before, or meets. Relaxed: as in (B). With the lock, so that
        // no call starts another thread before, which this one would not return.
        self.state.swap(state, Relaxed);
        drop(start);
        // Also if it is not parked, since it may sleep for a tick.
        futex::wake(&self.state, 1);
        thread
    }

    /// Says that the thread does not exist: the next call starts one.
    ///
    /// For a child of a fork. The thread that forked held no lock of this, as the start of a thread
    /// does not fork; and the others were outside of the freezer.
    pub(super) fn forget_thread(&self) {
        let mut start = self.thread.lock();
        // Without a word to the C library, which knows that it is gone.
        start.thread = None;
        self.follow_fork();
        // Relaxed: there is one thread. If it was paused, the thread that would resume it is gone.
        let state = self.state.load(Relaxed);
        if state <= CALLED || state == PAUSED {
            // Relaxed: as above.
            self.state.store(ABSENT, Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
