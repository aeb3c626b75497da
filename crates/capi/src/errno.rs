//! Error numbers of Linux, and the value with which a function says that it failed.

use core::ffi::c_int;
use core::ptr;

use fdtable::Error;
use fdtable_sync::fallible::OutOfMemory;

/// Error number.
#[derive(Clone, Copy)]
pub(crate) struct Errno(c_int);

impl Errno {
    #[cfg(feature = "std")]
    pub(crate) const EIO: Self = Self(5);
    #[cfg(feature = "std")]
    pub(crate) const ENOMEM: Self = Self(12);
    pub(crate) const EBADF: Self = Self(9);
    pub(crate) const EFAULT: Self = Self(14);
    pub(crate) const EINVAL: Self = Self(22);
    pub(crate) const EDEADLK: Self = Self(35);
    pub(crate) const ESTALE: Self = Self(116);

    /// Returns the number.
    pub(crate) fn number(self) -> c_int {
        self.0
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        Self(error.errno())
    }
}

impl From<OutOfMemory> for Errno {
    fn from(error: OutOfMemory) -> Self {
        Error::from(error).into()
    }
}

/// Return value of a C function. One value means "see errno".
pub(crate) trait ReturnValue {
    const FAILED: Self;
}

impl ReturnValue for c_int {
    const FAILED: Self = -1;
}

/// A private descriptor.
impl ReturnValue for u64 {
    const FAILED: Self = 0;
}

impl<T> ReturnValue for *mut T {
    const FAILED: Self = ptr::null_mut();
}
