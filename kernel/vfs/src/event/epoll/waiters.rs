//! The threads that wait for an epoll.

use super::host::HostWaiters;
use crate::event::{Events, WaitQueue, Wakeups};

/// State that the second lock of an epoll guards.
#[derive(Default)]
pub(super) struct Waiters {
    queue: WaitQueue,
    /// Threads that wait in the host's set instead.
    in_host: HostWaiters,
    revoked: bool,
}

impl Waiters {
    pub(super) fn queue(&mut self) -> &mut WaitQueue {
        &mut self.queue
    }

    pub(super) fn in_host(&mut self) -> &mut HostWaiters {
        &mut self.in_host
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.revoked
    }

    /// Ends the use, and collects all waiters.
    pub(super) fn revoke(&mut self) -> Wakeups {
        self.revoked = true;
        let woken = self.queue.wake_all(Events::READABLE | Events::ALWAYS);
        woken.and(self.in_host.wake_one())
    }

    /// Collects the watchers and one waiter.
    pub(super) fn wake(&mut self) -> (Wakeups, Wakeups) {
        (
            self.queue.notify_watchers(Events::READABLE),
            self.wake_one(),
        )
    }

    /// Collects one waiter, wherever it waits.
    pub(super) fn wake_one(&mut self) -> Wakeups {
        let woken = self.queue.pass_on(Events::READABLE);
        match woken.is_empty() {
            true => self.in_host.wake_one(),
            false => woken,
        }
    }
}

#[cfg(test)]
mod tests;
