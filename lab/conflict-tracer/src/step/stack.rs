//! The alternate stack of the handler.
//!
//! The handler needs more than the signal stacks of the standard library's threads, and the traced
//! code may be on a small stack of its own. So the thread has another one while a window is open.

use std::io;
use std::mem::MaybeUninit;

use crate::error::Error;

/// Signal frames have up to 11 KiB of registers; decoding needs a few more.
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

    /// Makes this thread's handlers run on it until the guard is dropped.
    pub(super) fn enter(&mut self) -> Result<Entered, Error> {
        let own = libc::stack_t {
            ss_sp: self.0.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: SIZE,
        };
        let mut former = MaybeUninit::uninit();
        // SAFETY: nothing else uses the memory, which outlives the guard, as both are fields and
        // locals of one window in that order.
        if unsafe { libc::sigaltstack(&raw const own, former.as_mut_ptr()) } != 0 {
            return Err(Error::System("sigaltstack", io::Error::last_os_error()));
        }
        // SAFETY: the call succeeded and wrote it.
        let former = unsafe { former.assume_init() };
        Ok(Entered(former))
    }
}

/// Guard that restores the thread's former signal stack.
pub(super) struct Entered(libc::stack_t);

impl Drop for Entered {
    fn drop(&mut self) {
        // The kernel requires a minimal size, even to disable the stack.
        self.0.ss_size = self
            .0
            .ss_size
            .max(SIZE * usize::from(self.0.ss_sp.is_null()));
        // SAFETY: the thread had this stack before.
        unsafe { libc::sigaltstack(&raw const self.0, std::ptr::null_mut()) };
    }
}
