//! The thread of the worker where the end of the process does not show.

use std::thread::{Builder, JoinHandle};

use super::Worker;

/// A thread that was started.
pub(super) struct Thread(JoinHandle<()>);

impl Thread {
    /// Starts the thread. Returns `None` if that fails.
    pub(super) fn spawn(worker: &'static Worker) -> Option<Self> {
        let builder = Builder::new().name("fdtable-rcu".into());
        builder.spawn(|| worker.attend()).ok().map(Self)
    }

    pub(super) fn detach(self) {
        drop(self.0);
    }
}

impl Worker {
    /// Does nothing.
    pub(super) fn run_callbacks_at_exit(&self) {}

    /// Does nothing.
    pub(super) fn follow_fork(&self) {}
}
