//! Services of a kernel: the hooks of the registered [`Platform`](super::kernel::Platform), or the
//! defaults.

#[cfg(not(feature = "platform"))]
use super::kernel::{Defaults, Platform};
pub use super::plain::*;

/// Declares the functions that [`set_platform!`](crate::set_platform) defines, and for each of them
/// one with the name of the hook.
macro_rules! hooks {
    ($(
        [$($unsafe:tt)?]
        $symbol:ident: $hook:ident($($argument:ident: $type:ty),*) -> $answer:ty,
    )*) => {
        #[cfg(feature = "platform")]
        unsafe extern "Rust" {
            $(fn $symbol($($argument: $type),*) -> $answer;)*
        }
        $(
            #[inline(always)]
            #[doc = concat!("Calls [`Platform::", stringify!($hook), "`](super::kernel::Platform).")]
            ///
            /// # Safety
            /// As for that, if it is unsafe.
            #[allow(dead_code, unreachable_pub, unused_unsafe, reason = "most are safe or private")]
            pub $($unsafe)? fn $hook($($argument: $type),*) -> $answer {
                // SAFETY: `set_platform!` defines it so; and as the caller promises.
                #[cfg(feature = "platform")]
                return unsafe { $symbol($($argument),*) };
                // SAFETY: as the caller promises.
                #[cfg(not(feature = "platform"))]
                return unsafe { Defaults::$hook($($argument),*) };
            }
        )*
    };
}
crate::platform_hooks!(hooks!);
