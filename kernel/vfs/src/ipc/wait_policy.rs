//! How long a call may block.

use std::time::Instant;

use parking_lot::Mutex;

use crate::Errno;
use crate::event::{self, Events, WaitQueue};

/// How long a call may block for what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitPolicy {
    /// Not at all (`O_NONBLOCK`, `MSG_DONTWAIT`).
    NoWait,
    /// Until a deadline.
    Until(Instant),
    /// Forever.
    Forever,
}

impl WaitPolicy {
    fn deadline(self) -> Option<Instant> {
        match self {
            WaitPolicy::Until(deadline) => Some(deadline),
            WaitPolicy::NoWait | WaitPolicy::Forever => None,
        }
    }

    /// Waits like [`event::wait`], or tries once.
    ///
    /// # Errors
    /// `EAGAIN` if the time ends first; those of the attempt.
    pub(crate) fn wait<S, R>(
        self,
        state: &Mutex<S>,
        queue: impl Fn(&mut S) -> &mut WaitQueue,
        interest: Events,
        mut attempt: impl FnMut(&mut S) -> Option<Result<R, Errno>>,
    ) -> Result<R, Errno> {
        let outcome = match self {
            WaitPolicy::NoWait => attempt(&mut state.lock()),
            _ => event::wait(state, queue, interest, self.deadline(), attempt),
        };
        outcome.unwrap_or(Err(Errno::EAGAIN))
    }
}
