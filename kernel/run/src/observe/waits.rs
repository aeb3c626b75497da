//! Calls that wait on a descriptor while another thread closes it.
//!
//! The call goes on with the old file, and the next one of the thread finds another file, or none.

use super::call::Call;
use crate::block::Block;
use crate::guarded::Guarded;
use crate::thread;

/// The calls in progress that may wait, with their threads.
static WAITS: Guarded<Vec<(i32, Call)>> = Guarded::new(Vec::new());

/// A call that may wait, until it is dropped.
pub(super) struct Wait(Option<i32>);

/// Notes that a call begins, if it may wait and there are other threads.
pub(super) fn begin(call: &Call) -> Wait {
    let may_wait = matches!(
        call.number,
        libc::SYS_read
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_connect
            | libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_flock
    );
    if !may_wait || thread::is_alone() {
        return Wait(None);
    }
    let thread = Block::current().id.get();
    WAITS.lock().push((thread, call.clone()));
    Wait(Some(thread))
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(thread) = self.0 {
            WAITS.lock().retain(|(waiting, _)| *waiting != thread);
        }
    }
}

/// Returns the calls of other threads that wait on a descriptor.
pub(super) fn on(fd: i32) -> Vec<(i32, Call)> {
    if thread::is_alone() {
        return Vec::new();
    }
    let waits = WAITS.lock();
    let on_it = waits
        .iter()
        .filter(|(_, call)| call.arguments[0] as i32 == fd);
    on_it.cloned().collect()
}

/// Forgets the calls of the parent's other threads, in the child of a fork.
pub(super) fn in_child() {
    WAITS.lock().clear();
}
