//! Services of the model checker. There is one CPU: models are harder on shared copies.

pub(crate) use crate::fence::model::{heavy as heavy_fence, register as has_heavy_fence, restart};
pub(crate) use crate::sequence::model::are_there as can_restart;

/// Returns the only CPU.
pub fn cpu() -> usize {
    0
}

/// Returns the CPU on which the thread runs sequences.
pub fn try_cpu() -> Option<usize> {
    Some(crate::sequence::model::cpu())
}

/// Returns the only node.
pub fn node() -> u16 {
    0
}

/// Does nothing.
pub fn know_node(_cpu: usize) {}

/// Returns the only node.
pub fn known_node(_cpu: usize) -> u16 {
    0
}

pub(crate) fn cpus() -> usize {
    1
}

#[inline(always)]
pub(crate) fn enter_lock() {}

pub(crate) unsafe fn leave_lock() {}

/// A busy-wait step.
pub fn relax(attempts: u32) {
    // Repeated waiting for a thread that is never run shows a model nothing new.
    if attempts >= 3 {
        loom::skip_branch();
    }
    loom::thread::yield_now();
}

pub(crate) fn nanoseconds() -> u64 {
    0
}

pub mod futex {
    //! Sleep on a word, and the wake-up. The kernel compares the word under the lock of a queue,
    //! which a wake-up takes too. Here all words have one queue.

    use core::time::Duration;

    use loom::sync::{Condvar, Mutex};

    use crate::platform::atomic::{AtomicU32, Ordering::Relaxed};

    struct Queue {
        lock: Mutex<()>,
        sleepers: Condvar,
    }

    loom::lazy_static! {
        static ref QUEUE: Queue = Queue {
            lock: Mutex::new(()),
            sleepers: Condvar::new(),
        };
    }

    /// Sleeps while the word has this value. Time is not part of what is modelled.
    pub fn wait(word: &AtomicU32, value: u32, time: Option<Duration>) -> i32 {
        if time.is_some() {
            loom::thread::yield_now();
            return 0;
        }
        let locked = QUEUE.lock.lock().expect("no thread panics in it");
        // Relaxed: a wake-up before it was under the lock.
        if word.load(Relaxed) == value {
            drop(QUEUE.sleepers.wait(locked));
        }
        0
    }

    /// Wakes all threads that sleep. A thread that sleeps on another word sleeps again.
    pub fn wake(_word: &AtomicU32, _count: i32) {
        drop(QUEUE.lock.lock());
        QUEUE.sleepers.notify_all();
    }
}
