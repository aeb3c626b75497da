//! Host forks in programs whose threads use streams.
//!
//! The C library's `fork` locks its list of streams after it has run the handlers that freeze this
//! library. Assume that a thread holds this lock, for example in `fflush(NULL)` while it writes,
//! and calls a function of a stream of ours. It would wait for the thaw, and the fork would wait
//! for the lock: a deadlock. So the handler here takes the lock before the freeze, and no thread
//! that waits for the thaw holds it. For the same reason no thread takes it inside the freezer: but
//! for a runner's thread that forks, which has frozen it before. There no other thread takes it, as
//! the program has a C library of its own.

use fdtable_vfs::Errno;

unsafe extern "C" {
    fn _IO_list_lock();
    fn _IO_list_unlock();
    fn _IO_list_resetlock();
}

/// Registers fork handlers that take the lock first. Must be called after the handlers of the
/// freezer are registered: handlers run in reverse order.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn register() -> Result<(), Errno> {
    // SAFETY: the functions have the right types, and are valid for the life of the process.
    let result = unsafe {
        libc::pthread_atfork(
            Some(_IO_list_lock),
            Some(_IO_list_unlock),
            Some(_IO_list_resetlock),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw(result))
    }
}
