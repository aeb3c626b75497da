//! The inner steps of every call: panics, and forks of the host process.
//!
//! A call runs inside the [freezer](host_fork). A fork of the host process by another thread
//! waits until the call ends or sleeps.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fdtable::host_fork;
use fdtable_vfs::Errno;

use crate::process::supervisor::end_of_call;

/// Runs a body inside the freezer. A panic becomes an error.
#[inline(always)]
pub(crate) fn guarded<R>(body: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    let inside = || {
        let _inside = (host_fork::enter(), fdtable_shm::enter());
        body()
    };
    let result = catch_unwind(AssertUnwindSafe(inside));
    let result = result.unwrap_or_else(|panic| Err(forget(panic)));
    end_of_call();
    result
}

/// Like [`guarded`], where nothing can fail.
pub(crate) fn inside(body: impl FnOnce()) {
    let _ = guarded(|| {
        body();
        Ok(())
    });
}

type Panic = Box<dyn std::any::Any + Send>;

/// Leaks the payload of a panic, because dropping it could panic again.
#[cold]
fn forget(panic: Panic) -> Errno {
    mem::forget(panic);
    Errno::EIO
}
