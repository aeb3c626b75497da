//! The ends of threads and of the process: `_exit(2)` and `exit_group(2)`.

use fdtable_posix::runner;

use crate::abi::{process_id, thread_id};
use crate::entry::fdtable_run_stop;
use crate::{ending, observe, thread, vfork};

/// Returns true if the id of the calling thread is that of the process.
pub(crate) fn is_leader() -> bool {
    thread_id() == process_id()
}

/// Ends the calling thread: `_exit(2)` of one thread.
pub(crate) fn end_thread(code: i32) -> i64 {
    runner::end_completion();
    if ending::was_killed() && ending::claim() {
        ending::end_others();
        ending::leave_tree();
        // SAFETY: it takes an integer. It does not return.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    if thread::uncount() {
        // If all threads end one by one, the status is that of the last one.
        end(code);
    }
    // SAFETY: the thread runs in `fdtable_run_start`, and nothing of the call is needed any more.
    unsafe { fdtable_run_stop() }
}

/// Ends the process: `exit_group(2)`.
pub(crate) fn end_process(code: i32) -> i64 {
    if ending::is_claimed() {
        // Another thread has been first, and ends this one.
        return end_thread(code);
    }
    end(code)
}

/// Ends the process.
pub(crate) fn end(code: i32) -> ! {
    observe::at_end();
    ending::leave_tree();
    vfork::report_to_parent();
    // SAFETY: it takes an integer.
    unsafe { libc::_exit(observe::exit_code(code)) }
}
