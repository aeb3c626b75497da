//! A lock among all tests on this machine, those of other checkouts too.
//!
//! The host has one inode for all its eventfds, timers and epolls, and one for each device. So a
//! lock of such a file is seen by every process, and programs that take some run one at a time.

use std::fs::File;

/// Directory whose lock is the queue, and the one whose lock is held. Nothing in them changes, and
/// every user can open them.
const PLACES: [&str; 2] = ["/", "/usr"];

/// Held while a program on the host may lock files that it shares with other processes.
pub(crate) struct HostLock {
    /// Closing it releases the lock.
    _held: File,
}

impl HostLock {
    /// Waits for the lock. A thread that releases it and takes it again comes after those that
    /// wait: the first of them holds the queue.
    pub(crate) fn take() -> Self {
        let [queue, held] = PLACES.map(|place| File::open(place).unwrap());
        queue.lock().unwrap();
        held.lock().unwrap();
        Self { _held: held }
    }
}
