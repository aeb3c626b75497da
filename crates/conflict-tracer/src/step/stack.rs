//! The stack that the handler runs on.
//!
//! It needs more than the threads of the standard library keep for signals, and the traced code may
//! be on a small stack of its own. So the thread has another one while a window is open.

use std::io;
use std::mem::MaybeUninit;

use crate::error::Error;

/// Frames of signals have up to 11 KiB of registers; decoding takes a few more.
const SIZE: usize = 128 << 10;

/// Memory for a stack.
pub(super) struct Stack(Vec<u8>);

impl Stack {
    /// Allocates one.
    pub(super) fn new() -> Result<Self, Error> {
        let mut memory = Vec::new();
        memory
            .try_reserve_exact(SIZE)
            .map_err(|_| Error::OutOfMemory)?;
        Ok(Self(memory))
    }

    /// Has this thread's handlers run on it until the guard is dropped.
    pub(super) fn enter(&mut self) -> Result<Entered, Error> {
        let own = libc::stack_t {
            ss_sp: self.0.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: SIZE,
        };
        let mut former = MaybeUninit::uninit();
        // SAFETY: the memory is nobody else's and outlives the guard, as both are fields and locals
        // of one window in that order.
        if unsafe { libc::sigaltstack(&raw const own, former.as_mut_ptr()) } != 0 {
            return Err(Error::System("sigaltstack", io::Error::last_os_error()));
        }
        // SAFETY: the call succeeded and wrote it.
        let former = unsafe { former.assume_init() };
        Ok(Entered(former))
    }
}

/// Guard that gives the thread its former stack for signals back.
pub(super) struct Entered(libc::stack_t);

impl Drop for Entered {
    fn drop(&mut self) {
        // The kernel asks for a size that is not too small, also where there is no stack.
        self.0.ss_size = self
            .0
            .ss_size
            .max(SIZE * usize::from(self.0.ss_sp.is_null()));
        // SAFETY: the thread had this stack before.
        unsafe { libc::sigaltstack(&raw const self.0, std::ptr::null_mut()) };
    }
}
