//! Panics that are caught: with `std`.

use core::any::Any;
use core::mem;
use core::panic::AssertUnwindSafe;
use std::boxed::Box;
use std::panic::{catch_unwind, resume_unwind};

use crate::platform::atomic::AtomicU64;
use crate::platform::atomic::Ordering::Relaxed;

static CONTAINED: AtomicU64 = AtomicU64::new(0);

/// Returns how many panics were contained since the process began. These did not propagate out
/// of a call, because another one did, or because the thread was not responsible for them.
/// Never blocks.
///
/// If a program finds this number raised, it has a release hook, a waker or a `Drop` that
/// panics; the panic hook of `std` has reported each. Always 0 without the feature `std`.
pub fn contained_panics() -> u64 {
    // Relaxed: a figure, which orders nothing.
    CONTAINED.load(Relaxed)
}

/// Runs `work`. Its panic propagates out of this call, or is contained if the thread unwinds
/// already.
///
/// # Panics
/// If `work` does.
#[inline]
pub fn run(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        raise(panic);
    }
}

/// Runs `work`, and contains its panic.
#[inline]
pub fn contain(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        discard(panic);
    }
}

/// Resumes a caught panic, unless it would meet another one, which would end the process.
#[cold]
fn raise(panic: Box<dyn Any + Send>) {
    if std::thread::panicking() {
        discard(panic);
    } else {
        resume_unwind(panic);
    }
}

#[cold]
fn discard(panic: Box<dyn Any + Send>) {
    // Relaxed: as above.
    CONTAINED.fetch_add(1, Relaxed);
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Relaxed: as above.
        CONTAINED.fetch_add(1, Relaxed);
        // Its drop could panic in turn, and so on.
        mem::forget(another);
    }
}
