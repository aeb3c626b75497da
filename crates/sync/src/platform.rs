//! Differences between an operating system, a kernel and the model checker: atomics, locks, cells,
//! and the busy-wait step.
//!
//! The rest of the crate names only this module, so the source that runs in production and
//! the source that runs under `loom` are the same. [`kernel`] is the interface for kernels.

use core::marker::PhantomData;

#[cfg(loom)]
#[allow(missing_docs, reason = "they are those of the standard library")]
pub mod atomic;
pub mod kernel;
mod mutex;
#[cfg(not(any(loom, all(feature = "std", target_os = "linux"))))]
mod plain;
pub mod shared;
#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
pub mod sleeping;
#[cfg(all(feature = "std", not(loom)))]
#[path = "platform/hosted.rs"]
pub(crate) mod system;
#[cfg(not(feature = "std"))]
#[path = "platform/hooks.rs"]
pub(crate) mod system;
#[cfg(loom)]
#[path = "platform/model.rs"]
pub(crate) mod system;

#[cfg(not(loom))]
pub use core::sync::atomic;

#[cfg(loom)]
pub use loom::sync::Arc;
pub use mutex::{Mutex, MutexGuard, let_others};
#[cfg(feature = "std")]
pub use system::futex;
pub use system::relax;
#[cfg(not(loom))]
pub use system::{allocate_page, free_page};
pub(crate) use system::{enter_lock, leave_lock};

/// Keeps the CPU for the holder of a lock until this is dropped: see [`keep_cpu`].
#[derive(Debug)]
#[must_use = "the CPU is kept until this is dropped"]
pub struct KeptCpu(PhantomData<*const ()>);

/// Keeps other code that uses the library off this CPU until the value is dropped, where a kernel
/// [can](kernel::Platform::enter_lock). Nests. Does nothing with `std`: a thread that waits for a
/// lock sleeps or yields its CPU.
#[inline(always)]
pub fn keep_cpu() -> KeptCpu {
    enter_lock();
    KeptCpu(PhantomData)
}

impl Drop for KeptCpu {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: entered when this was made, on this thread.
        unsafe { leave_lock() };
    }
}

/// From this step on a waiting thread yields its CPU.
const YIELDS: u32 = if cfg!(loom) { 0 } else { 64 };

/// Waits in busy-wait steps while the condition holds.
pub(crate) fn wait_while(mut holds: impl FnMut() -> bool) {
    let mut attempts = 0;
    while holds() {
        relax(attempts);
        attempts = attempts.saturating_add(1);
    }
}

/// How often a thread keeps away from a lock before it yields its CPU.
const WAITS: u32 = if cfg!(loom) { 0 } else { 5 };

/// Does nothing for about a microsecond, and twice as long for each attempt before. That is some
/// dozens of times as long as a lock is held, so that the holder can take it again and again
/// meanwhile.
fn keep_away(attempts: u32) {
    const FIRST: u32 = 32;
    for _ in 0..FIRST << attempts {
        core::hint::spin_loop();
    }
    // A kernel serves the requests of other CPUs in it.
    relax(attempts);
}

/// Keeps away from a lock that another thread holds for some tens of instructions. `attempts`
/// counts the caller's looks so far. After a few, the thread yields its CPU.
pub fn back_off(attempts: u32) {
    match attempts.checked_sub(WAITS) {
        None => keep_away(attempts),
        Some(more) => relax(YIELDS.saturating_add(more)),
    }
}

/// Declares a static of the library, in the section that a program can [share](shared) among its
/// processes. Loom makes it anew for every execution of a model. Elsewhere it is a plain
/// constant-initialised static.
#[macro_export]
macro_rules! global {
    ($(#[$meta:meta])* pub$(($($scope:tt)+))? static $name:ident: $type:ty = $init:expr;) => {
        $crate::own! {
            $(#[$meta])*
            #[cfg_attr(all(target_os = "linux", not(loom)), unsafe(link_section = "fdt_shared"))]
            pub$(($($scope)+))? static $name: $type = $init;
        }
    };
}

/// Declares a static that each process has for itself. Loom makes it anew for every execution of a
/// model. Without loom it is a plain constant-initialised static.
#[macro_export]
macro_rules! own {
    ($(#[$meta:meta])* pub$(($($scope:tt)+))? static $name:ident: $type:ty = $init:expr;) => {
        #[cfg(not(loom))]
        $(#[$meta])*
        pub$(($($scope)+))? static $name: $type = $init;
        #[cfg(loom)]
        $crate::platform::lazy_static! {
            $(#[$meta])*
            pub$(($($scope)+))? static ref $name: $type = $init;
        }
    };
}

/// Defines a function that is `const`, but for loom, which makes its atomics when a model runs.
#[doc(hidden)]
#[macro_export]
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($argument:tt)*) -> $answer:ty $body:block) => {
        #[cfg(not(loom))]
        $(#[$meta])*
        $vis const fn $name($($argument)*) -> $answer $body
        #[cfg(loom)]
        $(#[$meta])*
        $vis fn $name($($argument)*) -> $answer $body
    };
}
pub use crate::{const_fn, global, own};
#[cfg(loom)]
#[doc(hidden)]
pub use loom::lazy_static;
