//! Threads of a kernel, with the names that `std::thread` has for them.

use super::system;

/// A thread that another one can wake.
#[derive(Clone, Copy, Debug)]
pub struct Thread(u64);

/// Returns the calling thread.
#[must_use]
pub fn current() -> Thread {
    Thread(system::thread_id())
}

/// Blocks until the thread is [woken](Thread::unpark), or has been since it blocked last. May
/// return earlier.
pub fn park() {
    system::block();
}

impl Thread {
    /// Wakes the thread, or lets its next [`park`] return at once. Does nothing if it has ended.
    pub fn unpark(&self) {
        system::wake(self.0);
    }

    /// Returns its number, which no other thread has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0
    }
}
