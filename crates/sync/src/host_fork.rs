//! A `fork(2)` of the host process: its child continues to use everything.
//!
//! This is called *host* fork to distinguish it from the fork of a table, an operation of the
//! library that does not touch the host. The child of a host fork has a copy of all memory and one
//! thread, the one that forked. The consequences for this library:
//!
//! | what | in the child | handled by |
//! |---|---|---|
//! | locks and half-updated data of other threads | permanently locked or inconsistent | the [freezer]: there are none |
//! | records of their read-side sections, [big-reader locks](crate::brlock) and quiescent-state readers | in use forever: no grace period would end | [`child`] forgets them |
//! | lists of callbacks that they were invoking, asleep in a callback | lost with their stacks | [`child`] counts them as run: they leak, and [`rcu::barrier`] continues |
//! | queues of callbacks, magazines, slabs, tables | a copy, nothing to be done | |
//! | the registration for `membarrier(2)`, and the rseq area | passed on by the kernel | |
//! | sequences of other threads that had not committed | have not happened | |
//! | threads that sleep on something | gone | wait queues compare [`generation`] |
//! | the thread that runs [timely callbacks](crate::rcu::call_timely) | gone | [`child`] forgets it: the next such call starts another |
//!
//! A program that must survive host forks calls [`register`] once, before there are threads, and
//! [enters the freezer](enter) around every use of the library:
//!
//! ```
//! use fdtable_sync::{host_fork, rcu};
//!
//! host_fork::register()?;
//! let call = || {
//!     let _inside = host_fork::enter();
//!     rcu::synchronize()
//! };
//! call()?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! A program that registers its own handlers, or forks by a system call that runs none, calls
//! [`prepare`], [`parent`] and [`child`] from there:
//!
//! ```
//! use fdtable_sync::host_fork;
//!
//! // SAFETY: the functions are for these places, and stay for the life of the process.
//! let answer = unsafe {
//!     libc::pthread_atfork(
//!         Some(host_fork::prepare),
//!         Some(host_fork::parent),
//!         Some(host_fork::child),
//!     )
//! };
//! assert_eq!(answer, 0);
//! ```
//!
//! Handlers that were registered before these run while the freezer is frozen, and may use the
//! library, as the thread that forks is inside; but they must not start threads that do. In the
//! child they run before [`child`]: there they must not wait for grace periods either, and
//! [`generation`] is still the parent's. A timely callback that they queue starts no thread: it may
//! wait for the next one. Handlers registered later run before and after, and must
//! not hold what a thread inside may wait for. If the handlers are registered twice, they nest.
//!
//! A fork waits for threads inside, and so for callbacks that they run: the caller of `fork(2)`
//! holds no lock that a callback takes, or `Drop` of an object.
//!
//! Fork outside of the freezer, or [leave it](blocking_section) for the call: C libraries may hold
//! a lock while handlers run (musl, glibc before 2.36). A thread that forks inside would wait there
//! for another's fork, which waits for the threads inside.
//!
//! # Without it
//!
//! A child that executes a program at once, or exits, is not affected. Any other child finds
//! everything as it was at the instant of the fork. A call waits forever if it meets a lock that
//! another thread held. Grace periods do not end if another thread was inside a section, and then
//! memory is kept. A file whose descriptor was being closed, or whose count was being
//! [spread](crate::refcount::spread), may be neither open nor ever released. After
//! `register`, the same happens to a thread that does not enter the freezer.
//!
//! # What it does not do
//!
//! - References that other threads held are counted in the child too: a file that one of them slept
//!   on is not released there. A reservation of theirs keeps its descriptor. Code that puts
//!   threads to sleep over such things has to know them, and to put them in order in the child.
//! - Records of threads that made their first call during the fork may leak, 256 bytes each.
//! - Other locks, of the caller's own code and of its libraries, are their owners' responsibility.
//!   Threads in a blocking section should not sleep on `parking_lot`: it keeps sleepers in a table
//!   of the process, and in the child their entries in it are void. The locks of this library and
//!   of the standard library on Linux keep theirs in the kernel.
//! - `vfork(2)`, and children that share memory: they must use nothing of the library.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};

#[cfg(unix)]
use crate::fallible::OutOfMemory;
use crate::platform::shared::registered;
use crate::rcu;

pub mod freezer;

pub use crate::platform::shared::is_shared as shares_memory;
pub use freezer::{
    BlockingSection, ForkGuard, blocking_section, enter, freeze, is_frozen_here, on_leaving,
    put_off, thaw,
};

/// How many host forks lie between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// True if [`child`] was called since [`prepare`].
static IS_TOLD: AtomicBool = AtomicBool::new(true);

/// Returns how many host forks lie between the first process and this one: 0 in the first, one more
/// in each child, provided that [`child`] was called there. Wraps around after 2³² of them.
///
/// A wait queue that keeps it beside a sleeper recognises a sleeper of another process, whose
/// thread does not exist. Neither blocks nor allocates; callable anywhere.
///
/// ```
/// assert_eq!(fdtable_sync::host_fork::generation(), 0);
/// ```
#[must_use]
#[inline]
pub fn generation() -> u32 {
    // Relaxed: it is written while there is one thread, and the others see what was written before
    // their start.
    GENERATION.load(Relaxed)
}

/// Registers [`prepare`], [`parent`] and [`child`] with `pthread_atfork(3)`, at the first call in
/// the process. To be called before there are threads that fork. Takes a lock, and may allocate.
///
/// # Errors
/// [`OutOfMemory`] (ENOMEM of `pthread_atfork`); nothing is registered then.
#[cfg(unix)]
pub fn register() -> Result<(), OutOfMemory> {
    static IS_REGISTERED: Mutex<bool> = Mutex::new(false);
    let _inside = enter();
    let mut is_registered = IS_REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_registered {
        // SAFETY: the three functions are for these places, and stay for the life of the process: a
        // library with this code in it is not unloaded, as its slabs say.
        let answer = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        if answer != 0 {
            return Err(OutOfMemory);
        }
        *is_registered = true;
    }
    Ok(())
}

/// Prepares a host fork: freezes the [freezer]. [`parent`] or [`child`] follows, on the same
/// thread. Blocks until no other thread is inside; see [`freeze`].
pub extern "C" fn prepare() {
    freeze();
    // Relaxed: for `child`, on the same thread.
    IS_TOLD.store(false, Relaxed);
}

/// Ends a host fork in the parent, also when it failed: thaws the freezer. Never blocks.
pub extern "C" fn parent() {
    thaw();
}

/// Ends a host fork in the child: forgets all threads but this one, counts the
/// [generation], and thaws the freezer. Never blocks.
///
/// # Safety
/// [`prepare`] came before the fork, on this thread. Between the fork and the first such call no
/// thread was started. Never called in the parent: a thread that is forgotten while it is inside a
/// read-side section reads what is freed. For the same reason this thread uses nothing that another
/// thread has found in a section of its own and handed over.
pub unsafe extern "C" fn child() {
    // Relaxed, all: there is one thread, and it starts the others.
    if !IS_TOLD.swap(true, Relaxed) {
        if let Some(hooks) = registered() {
            (hooks.forked)();
            // The records of the other threads are theirs, in the parent.
            rcu::leave_to_parent();
        } else {
            // SAFETY: as the caller promises, no other thread has used the library since the fork.
            unsafe { rcu::forget_other_threads() };
        }
        GENERATION.fetch_add(1, Relaxed);
    }
    thaw();
}
