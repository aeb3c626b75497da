//! The entry and exit of every C function: the process, and errno.

use std::ffi::{c_int, c_long, c_void};

use fdtable::Fd;
use fdtable_vfs::Errno;

use crate::abi::boot::system;
use crate::abi::guard::guarded;
use crate::abi::system::System;
use crate::host;

/// Value that a call returns on success.
pub(crate) trait ReturnValue {
    /// Type of the value that the C function returns.
    type Word;
    /// Means "see errno".
    const FAILED: Self::Word;

    fn word(self) -> Self::Word;
}

macro_rules! return_values {
    ($($value:ty => $word:ty: $success:pat => $result:expr;)*) => {$(
        impl ReturnValue for $value {
            type Word = $word;
            const FAILED: $word = -1;

            #[inline(always)]
            fn word(self) -> $word {
                let $success = self;
                $result
            }
        }
    )*};
}

return_values! {
    () => c_int: () => 0;
    Fd => c_int: fd => fd.raw();
    usize => isize: count => count.cast_signed();
    c_int => c_int: word => word;
    c_long => c_long: word => word;
}

/// Address of a mapping.
impl ReturnValue for *mut c_void {
    type Word = Self;
    const FAILED: Self = libc::MAP_FAILED;

    fn word(self) -> Self {
        self
    }
}

/// Runs the body of a POSIX call. An error is stored in errno.
#[inline(always)]
pub(crate) fn call<R: ReturnValue>(
    body: impl FnOnce(&'static System) -> Result<R, Errno>,
) -> R::Word {
    with_errno(|| body(system()))
}

/// Runs the body of a call that does not use the process. An error is stored in errno.
#[inline(always)]
pub(crate) fn with_errno<R: ReturnValue>(body: impl FnOnce() -> Result<R, Errno>) -> R::Word {
    match guarded(body) {
        Ok(result) => result.word(),
        Err(errno) => {
            host::set_errno(errno);
            R::FAILED
        }
    }
}
