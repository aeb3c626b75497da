//! Signal actions: `sigaction`.
//!
//! It records the program's action, because a handler of this library is installed in its place:
//! that of [`faults`] for SIGSEGV and SIGBUS, that of [`handlers`](crate::abi::handlers) for all
//! others.

use std::ffi::c_int;

use libc::sigaction;

use crate::abi::call::with_errno;
use crate::abi::{faults, uaccess};

/// Returns and changes the action for a signal: `sigaction(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_sigaction(
    signal: c_int,
    new: *const sigaction,
    old: *mut sigaction,
) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let new = unsafe { uaccess::get_if_any(new) }?;
        let before = faults::change(signal, new.as_ref())?;
        if !old.is_null() {
            // SAFETY: as the caller promises.
            unsafe { uaccess::put(old, before) }?;
        }
        Ok(())
    })
}
