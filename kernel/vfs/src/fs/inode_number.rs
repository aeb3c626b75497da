//! Inode numbers, unique in the host process and handed out without a shared cache line.
//!
//! A thread takes a thousand numbers at a time (Linux `get_next_ino`). Those that it does not use
//! are lost: 64 bits last.

use std::cell::Cell;

use parking_lot::Mutex;

/// Numbers that a thread takes at a time.
const BATCH: u64 = 1024;

/// First number that no thread has taken. Zero is never used.
static FREE: Mutex<u64> = Mutex::new(1);

thread_local! {
    /// Next number of this thread, and the end of its batch.
    static MINE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Returns a number that is unique in this host process, at least 1.
pub fn fresh() -> u64 {
    let (next, end) = MINE.get();
    let (next, end) = if next < end { (next, end) } else { batch() };
    MINE.set((next + 1, end));
    next
}

fn batch() -> (u64, u64) {
    let mut free = FREE.lock();
    let first = *free;
    *free += BATCH;
    (first, *free)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    #[test]
    fn no_two_threads_get_the_same_number() {
        let take = || (0..3000).map(|_| fresh()).collect::<Vec<_>>();
        let all = thread::scope(|scope| {
            let takers = [scope.spawn(take), scope.spawn(take)];
            takers.map(|taker| taker.join().unwrap()).concat()
        });
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 6000);
        assert!(!all.contains(&0));
    }
}
