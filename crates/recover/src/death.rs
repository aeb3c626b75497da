//! Where a thread may die: the announced steps, for tests.
//!
//! `die_here!(n)` stands between two steps. In a test, a process chooses how many of them it passes
//! before it kills itself, and notes which ones it has reached. Elsewhere it is nothing.

/// A step at which a test can end the process. Each has a number of its own, below
/// [`POINTS`](crate::death::POINTS).
macro_rules! die_here {
    ($number:literal) => {
        #[cfg(test)]
        $crate::death::reach($number);
    };
}
pub(crate) use die_here;

/// One more than the highest number of a point.
#[cfg(test)]
pub(crate) const POINTS: u32 = 60;

#[cfg(all(test, loom))]
use loom::thread_local;
#[cfg(all(test, not(loom)))]
use std::thread_local;

#[cfg(test)]
thread_local! {
    /// How many points this thread passes before it dies; negative if it lives.
    #[allow(clippy::missing_const_for_thread_local, reason = "the model checker has none")]
    static LEFT: core::cell::Cell<i64> = core::cell::Cell::new(-1);
}

/// Lets this thread die when it has passed `count` points from now on.
#[cfg(test)]
pub(crate) fn die_after(count: u32) {
    LEFT.with(|left| left.set(i64::from(count)));
}

#[cfg(test)]
pub(crate) fn reach(point: u32) {
    assert!(point < POINTS);
    let left = LEFT.with(|left| left.replace(left.get() - 1));
    if left == 0 {
        end(point);
    }
}

/// The points at which a process has died, a bit for each, and the last one: in shared memory,
/// where a test has some.
#[cfg(all(test, not(loom)))]
pub(crate) static REACHED: core::sync::atomic::AtomicPtr<[core::sync::atomic::AtomicU64; 2]> =
    core::sync::atomic::AtomicPtr::new(core::ptr::null_mut());

/// Ends the process as a kill does.
#[cfg(all(test, not(loom)))]
fn end(point: u32) {
    use core::sync::atomic::Ordering::Relaxed;
    let reached = REACHED.load(Relaxed);
    if !reached.is_null() {
        // SAFETY: it is in a shared mapping that is never unmapped.
        let [all, last] = unsafe { &*reached };
        all.fetch_or(1 << point, Relaxed);
        last.store(point.into(), Relaxed);
    }
    // SAFETY: ends this process, and does not return.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("the process was killed");
}

/// Ends the thread of a model, which catches it. Nothing on the way has a destructor that changes
/// shared memory.
#[cfg(all(test, loom))]
fn end(_: u32) {
    std::panic::resume_unwind(Box::new("death"));
}
