//! The hooks as the rest of the library calls them: those of the registered
//! [`Platform`](super::kernel::Platform), or the defaults.

use core::ptr::NonNull;

#[cfg(not(feature = "platform"))]
use super::kernel::{Defaults, Platform};

/// Declares the functions that [`set_platform!`](crate::set_platform) defines, and a safe one for
/// each.
macro_rules! hooks {
    ($($symbol:ident: $hook:ident($($argument:ident: $type:ty),*) -> $answer:ty,)*) => {
        #[cfg(feature = "platform")]
        unsafe extern "Rust" {
            $(fn $symbol($($argument: $type),*) -> $answer;)*
        }
        $(
            #[inline(always)]
            #[doc = concat!("Calls [`Platform::", stringify!($hook), "`](super::kernel::Platform).")]
            #[allow(dead_code, reason = "some machines have no sequences")]
            pub(crate) fn $hook($($argument: $type),*) -> $answer {
                #[cfg(feature = "platform")]
                // SAFETY: `set_platform!` defines it with this signature, by a safe function.
                return unsafe { $symbol($($argument),*) };
                #[cfg(not(feature = "platform"))]
                Defaults::$hook($($argument),*)
            }
        )*
    };
}

hooks! {
    fdtable_cpus: cpus() -> usize,
    fdtable_cpu: cpu() -> usize,
    fdtable_node: node() -> u16,
    fdtable_thread_word: thread_word() -> *mut (),
    fdtable_enter_lock: enter_lock() -> (),
    fdtable_relax: relax(attempts: u32) -> (),
    fdtable_has_heavy_fence: has_heavy_fence() -> bool,
    fdtable_heavy_fence: heavy_fence() -> (),
    fdtable_sequence_area: sequence_area() -> Option<isize>,
    fdtable_allocate_page: allocate_page(node: u16) -> Option<NonNull<u8>>,
    fdtable_nanoseconds: nanoseconds() -> u64,
    fdtable_want_tick: want_tick() -> (),
}

/// As `hooks`, for those that are unsafe.
macro_rules! unsafe_hooks {
    ($($symbol:ident: $hook:ident($($argument:ident: $type:ty),*),)*) => {
        #[cfg(feature = "platform")]
        unsafe extern "Rust" {
            $(fn $symbol($($argument: $type),*);)*
        }
        $(
            #[inline(always)]
            #[doc = concat!("Calls [`Platform::", stringify!($hook), "`](super::kernel::Platform).")]
            ///
            /// # Safety
            /// As for that.
            pub(crate) unsafe fn $hook($($argument: $type),*) {
                #[cfg(feature = "platform")]
                // SAFETY: as the caller promises; `set_platform!` defines it with this signature.
                return unsafe { $symbol($($argument),*) };
                #[cfg(not(feature = "platform"))]
                // SAFETY: as the caller promises.
                return unsafe { Defaults::$hook($($argument),*) };
            }
        )*
    };
}

unsafe_hooks! {
    fdtable_set_thread_word: set_thread_word(word: *mut ()),
    fdtable_leave_lock: leave_lock(),
    fdtable_free_page: free_page(page: NonNull<u8>),
}
