//! A common start for measured threads.

use std::thread;
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};

/// Blocks all threads until all of them are ready.
#[derive(Default)]
pub(crate) struct Start {
    ready: Mutex<usize>,
    /// Locked until the run begins. False if some threads could not be created, and the others must
    /// end.
    go: RwLock<bool>,
}

impl Start {
    /// Blocks the threads until the guard is dropped. They run if it was set to true.
    pub(crate) fn hold(&self) -> RwLockWriteGuard<'_, bool> {
        self.go.write()
    }

    /// Waits until the run begins. Returns false if it was called off.
    pub(crate) fn wait(&self) -> bool {
        *self.ready.lock() += 1;
        *self.go.read()
    }

    /// Waits until `threads` threads are ready, or about to be.
    pub(crate) fn wait_for(&self, threads: usize) {
        while *self.ready.lock() < threads {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
