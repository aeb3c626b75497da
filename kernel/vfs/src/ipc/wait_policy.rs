//! How long a call may block.

use std::time::Instant;

use fdtable_shm::Mutex;

use crate::Errno;
use crate::event::{self, Events, Limit, Restart, WaitQueue};

/// How long a call may block for what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitPolicy {
    /// Not at all (`O_NONBLOCK`, `MSG_DONTWAIT`).
    NoWait,
    /// Until a deadline.
    Until(Instant),
    /// Forever.
    Forever,
    /// Forever, but every signal handler ends it.
    UntilHandler,
}

impl WaitPolicy {
    /// As on Linux, a wait with a deadline is never restarted.
    fn limit(self) -> Limit {
        match self {
            WaitPolicy::Until(deadline) => Limit::new(Some(deadline), Restart::Never),
            WaitPolicy::NoWait | WaitPolicy::Forever => Limit::FOREVER,
            WaitPolicy::UntilHandler => Limit::new(None, Restart::Never),
        }
    }

    /// Returns the policy of the rest of a transfer, after some bytes: a handler ends it, and the
    /// result is the count of these bytes.
    pub(crate) fn of_rest(self) -> Self {
        match self {
            WaitPolicy::Forever => WaitPolicy::UntilHandler,
            other => other,
        }
    }

    /// Waits like [`event::wait`], or tries once.
    ///
    /// # Errors
    /// `EAGAIN` if the time ends first; `EINTR` if a signal handler runs first; those of the
    /// attempt.
    pub(crate) fn wait<S, R>(
        self,
        state: &Mutex<S>,
        queue: impl Fn(&mut S) -> &mut WaitQueue,
        interest: Events,
        mut attempt: impl FnMut(&mut S) -> Option<Result<R, Errno>>,
    ) -> Result<R, Errno> {
        match self {
            WaitPolicy::NoWait => attempt(&mut state.lock()).unwrap_or(Err(Errno::EAGAIN)),
            _ => event::wait(state, queue, interest, self.limit(), attempt)?,
        }
    }
}
