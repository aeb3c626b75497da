//! A pair of fences of unequal cost: `light` for the side that runs all the time, `heavy` for the
//! side that can wait.
//!
//! A light fence on one thread and a heavy one on another act together as two
//! `fence(SeqCst)` would: of a store before and a load after each of them, at least one side's
//! load sees the other side's store. This is what a read-side critical section needs when it
//! announces "I am inside" and then reads, while an updater unpublishes and then looks for readers
//! inside (Dekker's pattern).
//!
//! With `membarrier(2)`, the light fence is a compiler fence, and the heavy one asks the operating
//! system to run a full fence on every CPU that runs a thread of this process.
//! A thread that does not run at that time passed a full fence when it was switched out.
//! The full fence falls at one point of the light side's program order, and either the light
//! fence is before that point (then its store is visible when the heavy fence returns) or after
//! it (then its loads come after the heavy side's stores).
//!
//! Without `std` a kernel provides the heavy fence
//! ([`Platform::heavy_fence`](crate::platform::kernel::Platform::heavy_fence)).
//!
//! Without either, both are `fence(SeqCst)`. `prepare` finds out once which kind works; a
//! light side that does not know yet takes a full fence, which pairs with both kinds. Models have
//! their own pair, which promises no more than the system call does.
//!
//! With `membarrier(2)` of Linux ≥ 5.10 and rseq areas, a [`restart`] is a heavy fence that also
//! restarts the [restartable sequences](mod@crate::sequence) of this process. Where processes
//! [share memory](crate::platform::shared), it restarts those of all, and takes longer.
//!
//! Costs measured on a 2-CPU x86-64: light 0 ns or 8 ns; heavy 0.3 µs when no other thread of
//! the process runs, 9 to 20 µs when one does. So: one heavy fence for a batch, or for a thread's
//! first section, never one for each operation.

#[cfg(loom)]
pub mod model;

use crate::platform::atomic::Ordering::SeqCst;
pub use crate::platform::shared::NotRestarted;
use crate::platform::shared::registered;
use crate::platform::system;
use crate::sequence::Area;

/// A full fence on this thread. Pairs with [`heavy`] and with itself.
#[inline]
#[cfg_attr(loom, track_caller)]
pub fn full() {
    crate::platform::atomic::fence(SeqCst);
}

/// The free side of the pair, once [`prepare`] has returned `true`. Everything before it and
/// everything after it keep their order as seen by a thread that passes [`heavy`]: the heavy fence
/// makes this thread's CPU run the fence; here only the compiler must keep the order. Before
/// [`prepare`] has returned `true` this orders nothing with other CPUs: use [`full`].
#[inline(always)]
#[cfg_attr(loom, track_caller)]
pub fn light() {
    #[cfg(loom)]
    model::light();
    #[cfg(not(loom))]
    core::sync::atomic::compiler_fence(SeqCst);
}

/// Returns true if [`light`] may be used: if [`heavy`] reaches other CPUs. Enters the operating
/// system at the first call.
pub fn prepare() -> bool {
    match registered() {
        Some(hooks) => (hooks.has_heavy_fence)(),
        None => system::has_heavy_fence(),
    }
}

/// The expensive side of the pair; also a full fence for the calling thread. Enters the operating
/// system, which may make it wait briefly.
///
/// Aborts the process if `membarrier(2)` worked at first and fails now (a seccomp filter that
/// was installed later): other threads already rely on it, and going on would free memory
/// that they read.
#[cfg_attr(loom, track_caller)]
pub fn heavy() {
    match registered() {
        Some(hooks) => (hooks.heavy_fence)(),
        None => system::heavy_fence(),
    }
}

/// Returns true if [`restart`] may be used. Enters the operating system at the first call.
#[must_use]
pub fn prepare_restart() -> bool {
    registered().is_some() || system::can_restart()
}

/// Acts as [`heavy`], and restarts the [restartable sequences](mod@crate::sequence) of this
/// process, and of all others with which it shares memory. On return, each that a thread had begun
/// before has either ended or begun again. The argument shows that [`prepare_restart`] has returned
/// true.
///
/// Aborts the process if `membarrier(2)` worked at first and fails now, as `heavy` does.
///
/// # Errors
/// [`NotRestarted`], where processes share memory, if this thread may not run on each CPU that is
/// online: sequences there may go on. Never else.
pub fn restart(_: Area) -> Result<(), NotRestarted> {
    match registered() {
        Some(hooks) => (hooks.restart)(),
        None => system::restart(),
    }
}
