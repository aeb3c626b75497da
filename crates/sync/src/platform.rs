//! Differences between an operating system, a kernel and the model checker: atomics, locks, cells,
//! and the busy-wait step.
//!
//! The rest of the crate names only this module, so the source that runs in production and
//! the source that runs under `loom` are the same. [`kernel`] is the interface for kernels.

#[cfg(loom)]
#[allow(missing_docs, reason = "they are those of the standard library")]
pub mod atomic;
#[cfg(all(feature = "std", target_os = "linux"))]
#[cfg_attr(loom, allow(dead_code, reason = "models have locks of their own"))]
pub mod futex;
#[cfg(not(feature = "std"))]
pub(crate) mod hooks;
pub mod kernel;
mod mutex;
pub mod shared;
#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
pub mod sleeping;
#[cfg(not(feature = "std"))]
pub mod thread;

#[cfg(not(loom))]
pub use core::sync::atomic;

#[cfg(loom)]
pub use loom::sync::Arc;
pub use mutex::{Mutex, MutexGuard, let_others};

/// Keeps other code that uses the library off this CPU until [`leave_lock`], where a kernel
/// [can](kernel::Platform::enter_lock). Nests. Does nothing with `std`: a thread that waits for a
/// lock sleeps or yields its CPU.
#[inline(always)]
pub fn enter_lock() {
    #[cfg(not(feature = "std"))]
    hooks::enter_lock();
}

/// Undoes one [`enter_lock`].
///
/// # Safety
/// This thread has entered a lock that it did not leave yet.
#[inline(always)]
pub unsafe fn leave_lock() {
    #[cfg(not(feature = "std"))]
    // SAFETY: as the caller promises.
    unsafe {
        hooks::leave_lock();
    }
}

/// Allocates a page of a kernel, at a multiple of its size: see
/// [`Platform::allocate_page`](kernel::Platform::allocate_page). With `std`, from the global
/// allocator.
#[must_use]
pub fn allocate_page(node: u16) -> Option<core::ptr::NonNull<u8>> {
    #[cfg(not(feature = "std"))]
    return hooks::allocate_page(node);
    #[cfg(feature = "std")]
    <kernel::Defaults as kernel::Platform>::allocate_page(node)
}

/// Frees a page of a kernel.
///
/// # Safety
/// [`allocate_page`] returned it; it is freed once, and no longer used.
pub unsafe fn free_page(page: core::ptr::NonNull<u8>) {
    #[cfg(not(feature = "std"))]
    // SAFETY: as the caller promises.
    unsafe {
        hooks::free_page(page);
    }
    #[cfg(feature = "std")]
    // SAFETY: as the caller promises.
    unsafe {
        <kernel::Defaults as kernel::Platform>::free_page(page);
    }
}

/// From this step on a waiting thread yields its CPU.
#[cfg(not(loom))]
const YIELDS: u32 = 64;

/// Lets others run: a busy-wait step. `attempts` counts the caller's steps so far. After a few, the
/// thread yields its CPU, since the thread that it waits for may need it.
pub fn relax(attempts: u32) {
    #[cfg(loom)]
    {
        // Repeated waiting for a thread that is never run shows a model nothing new.
        if attempts >= 3 {
            loom::skip_branch();
        }
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    {
        if cfg!(feature = "std") && attempts < YIELDS {
            core::hint::spin_loop();
            return;
        }
        // After many more it sleeps: a thread of a higher priority would not let the other run by
        // yielding its CPU.
        #[cfg(feature = "std")]
        if attempts < 1024 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(core::time::Duration::from_micros(50));
        }
        #[cfg(not(feature = "std"))]
        hooks::relax(attempts);
    }
}

/// Lets another thread run. Does nothing in a model.
fn yield_cpu() {
    #[cfg(all(feature = "std", not(loom)))]
    std::thread::yield_now();
    #[cfg(not(any(feature = "std", loom)))]
    hooks::relax(0);
}

/// How often a thread keeps away from a lock before it yields its CPU.
#[cfg(not(loom))]
const WAITS: u32 = 5;

/// Does nothing for about a microsecond, and twice as long for each attempt before. That is some
/// dozens of times as long as a lock is held, so that the holder can take it again and again
/// meanwhile.
#[cfg(not(loom))]
fn keep_away(attempts: u32) {
    const FIRST: u32 = 32;
    for _ in 0..FIRST << attempts {
        core::hint::spin_loop();
    }
    // A kernel serves the requests of other CPUs in it.
    #[cfg(not(feature = "std"))]
    hooks::relax(attempts);
}

/// Keeps away from a lock that another thread holds for some tens of instructions. `attempts`
/// counts the caller's looks so far. After a few, the thread yields its CPU.
pub fn back_off(attempts: u32) {
    #[cfg(loom)]
    relax(attempts);
    #[cfg(not(loom))]
    match attempts.checked_sub(WAITS) {
        None => keep_away(attempts),
        Some(more) => relax(YIELDS.saturating_add(more)),
    }
}

/// Declares a static of the library, in the section that a program can [share](shared) among its
/// processes. Loom makes it anew for every execution of a model. Elsewhere it is a plain
/// constant-initialised static.
#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
#[macro_export]
macro_rules! global {
    ($(#[$meta:meta])* pub$(($($scope:tt)+))? static $name:ident: $type:ty = $init:expr;) => {
        $(#[$meta])*
        #[unsafe(link_section = "fdt_shared")]
        pub$(($($scope)+))? static $name: $type = $init;
    };
}

/// Declares a static of the library, in the section that a program can [share](shared) among its
/// processes. Loom makes it anew for every execution of a model. Elsewhere it is a plain
/// constant-initialised static.
#[cfg(not(all(feature = "std", target_os = "linux", not(loom))))]
#[macro_export]
macro_rules! global {
    ($(#[$meta:meta])* pub$(($($scope:tt)+))? static $name:ident: $type:ty = $init:expr;) => {
        $crate::own! {
            $(#[$meta])*
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
