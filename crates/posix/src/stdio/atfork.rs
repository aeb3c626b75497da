//! A fork of the host beside threads that use streams.
//!
//! The C library's `fork` takes the lock of its list of streams, after it has run the handlers that
//! freeze this library. A thread that has the lock (`fflush(NULL)` has it while it writes) and calls a
//! function of a stream of ours would then wait for the thaw, and the fork for the lock, for ever. So the
//! lock is taken before the freeze: nobody who waits for the thaw has it. For the same reason nobody
//! takes it inside the freezer.

use fdtable_vfs::Errno;

unsafe extern "C" {
    fn _IO_list_lock();
    fn _IO_list_unlock();
    fn _IO_list_resetlock();
}

/// Has forks take the lock first. To be called after the freezer's handlers were registered, which
/// therefore run after these.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn register() -> Result<(), Errno> {
    // SAFETY: the functions are for these places, and stay for the life of the process.
    let answer = unsafe {
        libc::pthread_atfork(
            Some(_IO_list_lock),
            Some(_IO_list_unlock),
            Some(_IO_list_resetlock),
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw(answer))
    }
}
