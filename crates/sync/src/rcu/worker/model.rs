//! The thread of the worker in a model, where no process ends. The freezer has its own models.

use loom::thread::{JoinHandle, spawn};

use super::Worker;

pub(super) struct Thread(JoinHandle<()>);

impl Thread {
    pub(super) fn spawn(worker: &'static Worker) -> Option<Self> {
        Some(Self(spawn(|| worker.attend())))
    }

    #[allow(dead_code, reason = "no process ends in a model")]
    pub(super) fn join(self) {
        self.0.join().expect("the worker ends");
    }

    pub(super) fn detach(self) {
        drop(self);
    }
}

impl Worker {
    pub(super) fn run_callbacks_at_exit(&self) {}

    pub(super) fn follow_fork(&self) {}
}

pub(super) struct Inside;

pub(super) fn enter() -> Inside {
    Inside
}

pub(super) fn is_frozen_here() -> bool {
    false
}
