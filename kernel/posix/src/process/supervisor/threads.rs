//! Facts about the threads of a runner.

use std::ffi::c_int;

/// Facts about the threads of a runner that the supervisor needs.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// Offset, from the base of `gs`, of the base of `fs` that a thread has in the runner. A thread
    /// whose base of `gs` is 0 has that base of `fs` always.
    pub fs_at: usize,
    /// Offset of the id of the thread, from the base of `gs`.
    pub id_at: usize,
    /// Offset, from the base of `gs`, of a byte that is not 0 if the thread is in the runner.
    pub inside_at: usize,
    /// The handler of signals.
    pub handler: unsafe extern "C" fn(),
    /// The code to which the handler returns.
    pub restorer: unsafe extern "C" fn(),
    /// The signal, and its code, that reports to a thread that its process is killed.
    pub killed: (c_int, c_int),
}
