//! A `fork(2)` of the host process: its child goes on using everything.
//!
//! *Host* fork, to tell it from the fork of a table, which is an operation of the library and
//! leaves the host as it is. The child of a host fork has a copy of all memory and one thread, the
//! one that forked. What that means for this library, and who sees to it:
//!
//! | what | in the child | who sees to it |
//! |---|---|---|
//! | locks, and what is changed by half, of other threads | for ever so | the [freezer]: there are none |
//! | records of their read-side sections, [gates](crate::gate) and quiescent-state readers | inside for ever: no grace period would end | [`child`] forgets them |
//! | lists of callbacks that they invoke, asleep in a callback | lost with their stacks | [`child`] takes them as run: they leak, and [`rcu::barrier`] goes on |
//! | queues of callbacks, magazines, slabs, tables | a copy, nothing to be done | |
//! | the registration for `membarrier(2)`, and the rseq area | passed on by the kernel | |
//! | sequences of other threads that had not committed | have not happened | |
//! | threads that sleep on something | gone | wait queues compare [`generation`] |
//!
//! Whoever sees to it that forks are met in order calls [`register`] once, before there are
//! threads, and [enters the freezer](crate::freezer::enter) around whatever uses the library:
//!
//! ```
//! use fdtable_base::{freezer, host_fork, rcu};
//!
//! host_fork::register()?;
//! let call = || {
//!     let _inside = freezer::enter();
//!     rcu::synchronize()
//! };
//! call()?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Whoever registers handlers of their own, or forks by a system call that runs none, calls
//! [`prepare`], [`parent`] and [`child`] from there:
//!
//! ```
//! use fdtable_base::host_fork;
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
//! [`generation`] is the parent's still. Those registered later run before and after, and must not
//! hold what a thread inside may wait for. Register twice, and the two nest.
//!
//! A fork waits for those inside, and so for callbacks that they run: the caller of `fork(2)` holds
//! no lock that a callback takes, or `Drop` of an object.
//!
//! Fork outside of the freezer, or [step out](freezer::step_out) for it: C libraries may hold a
//! lock while handlers run (musl, glibc before 2.36). A thread that forks inside would wait there
//! for another's fork, which waits for those inside.
//!
//! # Without it
//!
//! A child that executes a program at once, or leaves, is not concerned. Any other finds everything
//! as it was at some moment: a call waits for ever if it meets a lock that another thread held, and
//! grace periods do not end if another thread was inside a section. Then memory is kept. A file
//! whose descriptor was being closed may be neither open nor released. The same happens after
//! `register` to who does not enter the freezer.
//!
//! # What it does not do
//!
//! - References that other threads held are counted in the child too: a file that one of them slept
//!   on is not released there. A reservation of theirs keeps its number, and a use that they began
//!   is waited for. Who puts threads to sleep over such things has to know them, and to put them in
//!   the child.
//! - Records of threads that made their first call at the moment of the fork may leak, 256 bytes
//!   each.
//! - The locks of others, of the caller's own code and of what it is built on, are their owners' to
//!   see to. Threads that step out should not sleep on `parking_lot`: it keeps sleepers in a table
//!   of the process, which the locks of this library share, and in the child their places in it are
//!   void. The standard library's locks on Linux have theirs in the kernel.
//! - `vfork(2)`, and children that share memory: they must use nothing of the library.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};

#[cfg(unix)]
use crate::fallible::OutOfMemory;
use crate::{freezer, rcu};

/// How many host forks this process is away from the first.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Whether [`child`] was called since [`prepare`].
static IS_TOLD: AtomicBool = AtomicBool::new(true);

/// Tells how many host forks lie between the first process and this one: 0 in the first, one more
/// in each child, as far as [`child`] was called there. Wraps around after 2³² of them.
///
/// A wait queue that keeps it beside a sleeper knows a sleeper of another process, who is gone.
/// Neither blocks nor allocates; callable anywhere.
///
/// ```
/// assert_eq!(fdtable_base::host_fork::generation(), 0);
/// ```
#[must_use]
#[inline]
pub fn generation() -> u32 {
    // Relaxed: it is written while there is one thread, and the others see what was before their
    // start.
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
    let _inside = freezer::enter();
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

/// Prepares a host fork: freezes the [freezer]. [`parent`] or [`child`] follows, on the
/// same thread. Blocks until no other thread is inside; see [`freezer::freeze`].
pub extern "C" fn prepare() {
    freezer::freeze();
    // Relaxed: for `child`, on the same thread.
    IS_TOLD.store(false, Relaxed);
}

/// Ends a host fork in the parent, also when it failed: thaws the freezer. Never blocks.
pub extern "C" fn parent() {
    freezer::thaw();
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
        // SAFETY: as the caller promises, no other thread has used the library since the fork.
        unsafe { rcu::forget_other_threads() };
        GENERATION.fetch_add(1, Relaxed);
    }
    freezer::thaw();
}
