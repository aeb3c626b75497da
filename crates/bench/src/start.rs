//! A common start for threads that are measured.

use std::thread;
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};

/// Holds all threads back until all of them stand ready.
#[derive(Default)]
pub(crate) struct Start {
    ready: Mutex<usize>,
    /// Locked until the run begins. False if some threads could not be made, and the others have
    /// to leave.
    go: RwLock<bool>,
}

impl Start {
    /// Holds the threads back until the guard goes. They run if it was set to true.
    pub(crate) fn hold(&self) -> RwLockWriteGuard<'_, bool> {
        self.go.write()
    }

    /// Waits until the run begins, and tells whether it does.
    pub(crate) fn wait(&self) -> bool {
        *self.ready.lock() += 1;
        *self.go.read()
    }

    /// Waits until `threads` threads stand ready, or are about to.
    pub(crate) fn wait_for(&self, threads: usize) {
        while *self.ready.lock() < threads {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
