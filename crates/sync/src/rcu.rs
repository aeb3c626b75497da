//! Read-copy-update: readers pay nothing, updaters wait before they free.
//!
//! A reader enters a *read-side critical section* ([`read_lock`]), reads published pointers,
//! and leaves when the [`Guard`] drops. An updater unpublishes an object, waits for a *grace
//! period*, a span of time in which every section that was under way has ended, and only then
//! frees the object. No reader that found the object can still be inside, and no later one can
//! find it.
//!
//! # How it works
//!
//! Grace periods are numbered. Every reader [announces](crate::announce) its section in a word
//! which it alone writes: 0 outside of sections; inside, the number of the grace period that had
//! begun last when the section began. The steps, with letters that stand at the same steps in the
//! code:
//!
//! | | reader | | updater |
//! |---|---|---|---|
//! | (A) | load the number, acquire; store it in the record, release | (P) | unpublish the object |
//! | (B) | light fence | (N) | raise the number to *n*, release |
//! | (C) | load the pointer, read the object | (Q) | heavy fence |
//! | (D) | store 0 in the record, release | (R) | load the words of every record, acquire, until each is 0 or carries *n* |
//! | | | (T) | free the object |
//!
//! Take one section of one reader.
//!
//! *Case 1: it carries n.* Then (A) read from (N), a release-acquire pair, so (C) sees (P): the
//! reader cannot find the object.
//!
//! *Case 2: it carries an older number, and (B) is ordered after (Q).* Then (C) sees (P) too.
//!
//! *Case 3: it carries an older number, and (B) is ordered before (Q).* Then (R) sees this (A) or
//! a later store of the same reader, and is satisfied only by a later one: the (D) of this
//! section, or the (A) or (D) of a later section. All of these are releases that come after (C)
//! in the reader's order, and (R) is an acquire: (C) comes before (T).
//!
//! *Two words.* A record has another such word, for sections that begin while the first one is
//! taken; it counts them, and goes back to 0 when the last of them ends. A section is in the word
//! in which it began until it ends, whatever the other one says. So each of the cases holds for
//! each word by itself, and (R) is satisfied when both words are.
//!
//! A reader that is delayed between the two halves of (A) stores an old number late. Then an
//! updater may wait for it without need; cases 2 and 3 do not ask how old the number is. No updater
//! starves: a later section that began after (Q) carries *n*, and no further grace period begins
//! before this one ends.
//!
//! The fences are those of [`fence`](mod@crate::fence): the light one costs the reader nothing
//! where `membarrier(2)` works. A thread that needs a grace period takes a ticket for the next one
//! to begin ([`grace`]), so one heavy fence serves all threads that took their tickets before it.
//! Callbacks wait in per-CPU queues and pay for it in batches ([`callbacks`]), and a thread of the
//! library runs those that must not wait for a batch ([`worker`]).
//!
//! # Variants of the read side
//!
//! - [`read_lock`]: any thread, any time. The record is the thread's own, claimed at its first
//!   section. During thread exit, and in a kernel that keeps no
//!   [word](crate::platform::kernel::Platform::thread_word) for each thread, each section claims a
//!   record of its own.
//! - [`qsbr::Reader`]: quiescent-state based, for loops that have a natural point at which they
//!   hold nothing. The section lasts from one such point to the next, and entering is free even
//!   where `membarrier(2)` is missing.
//!
//! # Rules
//!
//! A section must be short and must not block: while it lasts, nothing that was unpublished during
//! it is freed, anywhere in the process. [`synchronize`] and [`barrier`] refuse to run inside one.
//! [`host_fork`](crate::host_fork) describes what a `fork(2)` of the host leaves in the child, and
//! how RCU continues there.

mod callbacks;
mod grace;
pub mod qsbr;
mod queue;
pub(crate) mod reader;
#[cfg(feature = "std")]
mod worker;
#[cfg(not(feature = "std"))]
#[path = "rcu/ticks.rs"]
mod worker;

pub use callbacks::{Barrier, call, call_later, catch_up, defer, end_thread};
pub use queue::{Effect, Head};
pub use reader::{Guard, read_lock};
pub(crate) use reader::{Section, first_record};
pub use worker::bound_wait;
#[cfg(feature = "std")]
pub use worker::use_ticks;
#[cfg(all(feature = "std", unix, not(loom)))]
pub use worker::{block_faults, without_thread};

use core::fmt;
use core::ptr::NonNull;

#[cfg(feature = "std")]
use crate::announce::RECORDS;
use crate::announce::inside_callback;

/// The error of waiting for a grace period from a place that the grace period waits for:
/// inside a read-side section, on a thread with an online [`qsbr::Reader`], or, for
/// [`barrier`], inside a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldDeadlock;

impl fmt::Display for WouldDeadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("waiting for a grace period here would wait for itself")
    }
}

impl core::error::Error for WouldDeadlock {}

/// Waits until every read-side section that was under way has ended. Blocks.
///
/// ```
/// use fdtable_sync::rcu;
///
/// rcu::synchronize()?;
/// let guard = rcu::read_lock();
/// assert_eq!(rcu::synchronize(), Err(rcu::WouldDeadlock));
/// # drop(guard);
/// # Ok::<(), rcu::WouldDeadlock>(())
/// ```
///
/// # Errors
/// [`WouldDeadlock`] inside a section of this thread. In a kernel that keeps no
/// [word](crate::platform::kernel::Platform::thread_word) for each thread, the library cannot know
/// its caller, and a call inside a section waits forever.
///
/// # Panics
/// In such a kernel, in a debug build, if it seems to wait for itself for some seconds.
#[doc(alias = "synchronize_rcu")]
pub fn synchronize() -> Result<(), WouldDeadlock> {
    if reader::inside_section() {
        return Err(WouldDeadlock);
    }
    grace::GRACE.wait(grace::GRACE.ticket());
    Ok(())
}

/// Refuses inside a section or a callback of this thread.
fn check_outside() -> Result<(), WouldDeadlock> {
    if reader::inside_section() || inside_callback() {
        return Err(WouldDeadlock);
    }
    Ok(())
}

/// Waits until every callback has run that was queued by [`call`] or [`defer`] before, by any
/// thread. Memory that they free is free then: a slab that became empty too. Blocks, and runs
/// callbacks: the caller holds no lock that one of them takes.
///
/// # Errors
/// [`WouldDeadlock`] inside a section of this thread or inside a callback. In a kernel that keeps
/// no word for each thread, such a call waits forever, as that of [`synchronize`].
///
/// # Panics
/// As for [`synchronize`].
#[doc(alias = "rcu_barrier")]
pub fn barrier() -> Result<(), WouldDeadlock> {
    check_outside()?;
    callbacks::drain();
    Ok(())
}

/// Runs the callbacks that were queued before, unless a reader is in the way. They may have been
/// queued by any thread, with [`call`] or [`defer`]. Returns true if all have run. The others stay
/// queued. With `std` it also runs what these callbacks queue, for up to 16 rounds; they do not
/// count for the answer.
///
/// Waits for no reader for longer than a few looks at it, and up to a millisecond for callbacks
/// that another thread is running. It runs callbacks: the caller holds no lock that one of them
/// takes. Takes the lock of the queue of each CPU, and a heavy fence or two if callbacks are queued
/// and other threads are readers.
///
/// Not for a loop: each call is about what is queued by then, so while other threads queue
/// callbacks it may never return true. A loop polls a [`Barrier`].
///
/// ```
/// use fdtable_sync::rcu;
///
/// let section = rcu::read_lock();
/// rcu::defer(|| println!("no reader is in the way"));
/// assert_eq!(rcu::try_barrier(), Err(rcu::WouldDeadlock));
/// drop(section);
/// if !rcu::try_barrier()? {
///     println!("another thread is inside a section");
/// }
/// # Ok::<(), rcu::WouldDeadlock>(())
/// ```
///
/// # Errors
/// [`WouldDeadlock`] inside a section of this thread or inside a callback; nothing has run. In a
/// kernel that keeps no word for each thread, the library cannot know its caller: inside a section
/// it returns false then, and inside a callback those run that are not of the same queue.
pub fn try_barrier() -> Result<bool, WouldDeadlock> {
    check_outside()?;
    Ok(callbacks::drain_briefly())
}

/// Runs the callbacks that were queued before the last tick and have not run since, unless a reader
/// is in the way. Returns true if callbacks are still queued: then another tick is wanted.
///
/// For a program without the thread that [`call_timely`] starts: one without `std`, or one that has
/// called `use_ticks`. It calls this every few milliseconds, or at least while the answer is true
/// and after it has queued callbacks. Each callback then runs in the second tick after it was
/// queued or before, if no reader is in the way. Callbacks that are younger than the last tick are
/// left to the threads that queue more, which run them in batches.
///
/// Callable on any thread, at any time outside of sections and callbacks, also by several threads.
/// Waits for no reader for longer than a few looks at it, but runs callbacks: the caller holds no
/// lock that one of them takes. Takes the lock of the queue of each CPU, twice, and a heavy fence
/// or two if callbacks are due and other threads are readers.
///
/// ```
/// use fdtable_sync::rcu;
///
/// rcu::defer(|| println!("runs in the second tick"));
/// while rcu::tick()? {
///     std::thread::sleep(std::time::Duration::from_millis(3));
/// }
/// # Ok::<(), rcu::WouldDeadlock>(())
/// ```
///
/// # Errors
/// As [`try_barrier`].
pub fn tick() -> Result<bool, WouldDeadlock> {
    check_outside()?;
    worker::begin_tick();
    callbacks::run_due(|| true);
    let some_queued = callbacks::note_due();
    if some_queued && cfg!(not(feature = "std")) {
        // Asks for the next one.
        bound_wait();
    }
    Ok(some_queued)
}

/// Queues the callback of `head`, which [runs code](Effect::RunsCode), as [`call`] does, and bounds
/// the time until it runs: for callbacks whose lateness can be seen, such as one that closes a
/// connection.
///
/// The callback runs within 10 milliseconds after the last reader has left that may see its object,
/// also if no thread queues another, and at the latest when the process exits normally. The bound
/// is a goal, not a deadline of a real-time system: it holds if the callbacks before it are short,
/// and a thread that becomes ready soon gets a CPU.
///
/// The first call starts a thread that runs what other threads leave, `fdtable-rcu`. It blocks all
/// signals but those of its own faults ([`block_faults`] changes that), and
/// sleeps while there is nothing to do. If it cannot be started, the callback runs as one of
/// [`call`], and a later call tries again. A caller that must not start threads calls
/// [`use_ticks`] before. Between the handlers of a [host fork](crate::host_fork)
/// no thread is started. In its child the next call starts one.
///
/// The callback may run on that thread. When the process exits, by `exit(3)` or the end of `main`,
/// callbacks that are still queued run on the thread that exits, unless a reader is in the way: so
/// a thread that exits the process must not hold a lock that a callback takes.
///
/// Costs a load more than `call`, of a word that all CPUs share; every few milliseconds an exchange
/// of that word. The call that ends the worker's sleep enters the operating system. The first one
/// also allocates. Without `std` there is no thread: a
/// [hook](crate::platform::kernel::Platform::want_tick) asks for a [`tick`].
///
/// # Safety
/// As for [`call`].
///
/// # Panics
/// As [`call`].
#[inline]
pub unsafe fn call_timely(head: NonNull<Head>) {
    // SAFETY: as the caller promises.
    unsafe { call(Effect::RunsCode, head) };
    bound_wait();
}

/// Forgets the records of all other threads, the callbacks that they were invoking, and the worker.
/// For a child of a fork.
///
/// # Safety
/// The other threads do not exist.
#[cfg(feature = "std")]
pub(crate) unsafe fn forget_other_threads() {
    // SAFETY: as the caller promises.
    unsafe { RECORDS.forget_others() };
    let own = queue::invoker_name();
    callbacks::forget_invocations(|thread| thread != own);
    worker::WORKER.forget_thread();
}

/// Gives the calling thread, the first of a process that shares memory with its parent, a record of
/// its own. The one that it had is that of the parent's thread.
#[cfg(feature = "std")]
pub(crate) fn leave_to_parent() {
    RECORDS.leave_to_parent();
    worker::WORKER.forget_thread();
}

/// Ends what the threads of another process were inside of when it ended, where processes [share
/// memory](crate::host_fork::shares_memory): their sections, read sides of big-reader locks, and
/// the callbacks that they were invoking. These leak. Neither blocks nor allocates.
///
/// # Safety
/// The process with this [name](crate::platform::shared::SharedMemory::process) has ended.
#[cfg(feature = "std")]
pub unsafe fn forget_process(name: u32) {
    debug_assert!(name != 0, "all threads of a process alone have this name");
    // SAFETY: as the caller promises.
    unsafe { RECORDS.forget_process(name) };
    callbacks::forget_invocations(|process| process.get() == name as usize);
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
