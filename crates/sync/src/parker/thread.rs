//! The word of a parker where there is no `futex(2)`: the standard library's.

use std::thread::{self, Thread};
use std::time::Instant;

use super::{Restart, Wake};

#[derive(Debug)]
pub(super) struct Word {
    owner: Thread,
}

/// Reports that a handler has run. Does nothing here.
pub fn interrupt(_restarts: bool) {}

impl Word {
    pub(super) fn new() -> Self {
        Self {
            owner: thread::current(),
        }
    }

    #[expect(clippy::unused_self, reason = "on Linux it is used")]
    pub(super) fn begin(&self) {}

    #[expect(clippy::unused_self, reason = "on Linux it is used")]
    pub(super) fn wait(&self, deadline: Option<Instant>, _restart: Restart) -> bool {
        match deadline {
            None => thread::park(),
            Some(deadline) => {
                thread::park_timeout(deadline.saturating_duration_since(Instant::now()));
            }
        }
        false
    }

    /// A wake-up cannot be told from a deadline.
    #[expect(clippy::unused_self, reason = "on Linux it is used")]
    pub(super) fn finish(&self, interrupted: bool, _restart: Restart) -> Wake {
        Wake {
            notified: true,
            interrupted,
        }
    }

    pub(super) fn notify(&self) {
        self.owner.unpark();
    }
}
