//! Sleep on a word, and the wake-up, on systems that have no call for it: by queues of `std`.
//!
//! A sleeper compares the word with the lock of a queue held, which a wake-up takes after the word
//! has changed. So either the sleeper finds the new value, or it is in the queue when the wake-up
//! comes. Words share a few queues: a wake-up wakes all sleepers of its queue, and those of other
//! words sleep again.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "Linux has it for its tests alone"
)]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Condvar, Mutex, PoisonError};

const COUNT: usize = 64;

/// The lock of each queue, and its sleepers.
static QUEUES: [(Mutex<()>, Condvar); COUNT] = [const { (Mutex::new(()), Condvar::new()) }; COUNT];

fn queue_of(word: &AtomicU32) -> &'static (Mutex<()>, Condvar) {
    &QUEUES[(word.as_ptr().addr() >> 6) % COUNT]
}

/// Sleeps while the word has this value, at most for a time. May return earlier. Returns 0.
pub fn wait(word: &AtomicU32, value: u32, time: Option<Duration>) -> i32 {
    let (lock, sleepers) = queue_of(word);
    // No thread panics with the lock held.
    let locked = lock.lock().unwrap_or_else(PoisonError::into_inner);
    // Relaxed: a change before the last wake-up was before its hold of the lock.
    if word.load(Relaxed) == value {
        match time {
            Some(time) => drop(sleepers.wait_timeout(locked, time)),
            None => drop(sleepers.wait(locked)),
        }
    }
    0
}

/// Wakes all threads that sleep on the word.
pub fn wake(word: &AtomicU32, _count: i32) {
    let (lock, sleepers) = queue_of(word);
    drop(lock.lock());
    sleepers.notify_all();
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_sleeper_is_woken_by_a_change_of_its_word() {
        let word = &AtomicU32::new(0);
        thread::scope(|scope| {
            for round in 0..1000 {
                let sleeper = scope.spawn(move || {
                    while word.load(Relaxed) == round {
                        wait(word, round, None);
                    }
                });
                word.store(round + 1, Relaxed);
                wake(word, 1);
                sleeper.join().expect("it is woken");
            }
        });
    }

    #[test]
    fn a_sleep_ends_at_its_time() {
        let word = AtomicU32::new(7);
        assert_eq!(wait(&word, 7, Some(Duration::from_millis(1))), 0);
        assert_eq!(wait(&word, 8, None), 0, "it has another value");
    }
}
