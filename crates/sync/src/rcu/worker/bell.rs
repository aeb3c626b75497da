//! Wakes the worker. A ring that comes while it is awake ends its next wait.

use core::time::Duration;

#[cfg(all(target_os = "linux", not(loom)))]
use crate::platform::atomic::{AtomicU32, Ordering::Relaxed};
#[cfg(any(not(target_os = "linux"), loom))]
use crate::platform::const_fn;
#[cfg(all(target_os = "linux", not(loom)))]
use crate::platform::futex;

/// On Linux it uses `futex(2)`: neither takes memory, nor leaves anything locked in the child of a
/// fork.
#[cfg(all(target_os = "linux", not(loom)))]
pub(super) struct Bell {
    /// 1 after a ring, until the worker has heard it.
    rung: AtomicU32,
}

#[cfg(all(target_os = "linux", not(loom)))]
impl Bell {
    pub(super) const fn new() -> Self {
        Self {
            rung: AtomicU32::new(0),
        }
    }

    /// Makes the calling thread the one that is woken.
    #[expect(clippy::unused_self, reason = "elsewhere it is used")]
    pub(super) fn belongs_here(&self) {}

    pub(super) fn ring(&self) {
        // Relaxed: the state of the worker says what there is to do.
        self.rung.store(1, Relaxed);
        futex::wake(&self.rung, 1);
    }

    pub(super) fn wait(&self) {
        // Relaxed: as in `ring`.
        while self.rung.swap(0, Relaxed) == 0 {
            futex::wait(&self.rung, 0, None);
        }
    }

    /// Waits for this time at most. May return earlier.
    pub(super) fn wait_for(&self, time: Duration) {
        futex::wait(&self.rung, 0, Some(time));
        // Relaxed: as in `ring`.
        self.rung.store(0, Relaxed);
    }
}

#[cfg(loom)]
use loom::thread;
#[cfg(not(any(target_os = "linux", loom)))]
use std::thread;

#[cfg(any(not(target_os = "linux"), loom))]
pub(super) struct Bell {
    thread: crate::platform::Mutex<Option<thread::Thread>>,
}

#[cfg(any(not(target_os = "linux"), loom))]
impl Bell {
    const_fn! {
        pub(super) fn new() -> Self {
            Self {
                thread: crate::platform::Mutex::new(None),
            }
        }
    }

    /// Makes the calling thread the one that is woken.
    pub(super) fn belongs_here(&self) {
        *self.thread.lock() = Some(thread::current());
    }

    pub(super) fn ring(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }

    #[expect(clippy::unused_self, reason = "elsewhere it is used")]
    pub(super) fn wait(&self) {
        thread::park();
    }

    /// Waits for this time at most. May return earlier.
    #[expect(clippy::unused_self, reason = "elsewhere it is used")]
    pub(super) fn wait_for(&self, _time: Duration) {
        #[cfg(not(loom))]
        thread::park_timeout(_time);
        // Time is not part of what is modelled.
        #[cfg(loom)]
        thread::yield_now();
    }
}
