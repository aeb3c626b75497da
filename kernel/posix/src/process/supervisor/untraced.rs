//! Tracees of the supervisor on machines for which there is no runner: there are none.

use std::os::fd::RawFd;

use super::layout::Threads;
use super::queue::{Job, Receiver, Request, Sender};

pub(super) struct Tracees;

impl Tracees {
    pub(super) fn new(_: Threads, _: Sender<Job>) -> Self {
        Self
    }

    pub(super) fn run(
        &mut self,
        requests: &Receiver<Request>,
        _: RawFd,
        _: RawFd,
        answer: impl Fn(bool),
    ) {
        loop {
            let mut wait = libc::pollfd {
                fd: requests.eventfd,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: there is one entry.
            unsafe { libc::poll(&raw mut wait, 1, -1) };
            for request in requests.take() {
                if let Request::Begin { .. } = request {
                    answer(false);
                }
            }
        }
    }
}

/// Returns false: there are no completion processes.
#[inline(always)]
pub(crate) fn is_completion_process() -> bool {
    false
}

/// Ends the calling thread: there are no completion processes, so it is not called.
pub(crate) fn end_thread() -> ! {
    // SAFETY: it takes an integer.
    unsafe { libc::_exit(0) }
}

/// Does nothing: there are no completion processes.
#[inline(always)]
pub(crate) fn end_of_call() {}
