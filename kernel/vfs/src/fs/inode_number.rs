//! Inode numbers, unique in the host process and handed out without a shared cache line.
//!
//! A thread takes a thousand numbers at a time (Linux `get_next_ino`). The numbers that the thread
//! does not use are lost: 64 bits are enough.

use std::cell::Cell;

use fdtable::host_fork;
use fdtable_shm::Mutex;

/// Numbers that a thread takes at a time.
const BATCH: u64 = 1024;

fdtable_sync::global! {
    /// First number that no thread has taken. Zero is never used.
    pub(super) static FREE: Mutex<u64> = Mutex::new(1);
}

thread_local! {
    /// Next number of this thread, the end of its batch, and the fork generation of the process
    /// that took it.
    static MINE: Cell<(u64, u64, u32)> = const { Cell::new((0, 0, 0)) };
}

/// Returns a number that is unique in this host process, at least 1.
pub fn fresh() -> u64 {
    let (next, end, taken) = MINE.get();
    let generation = host_fork::generation();
    let (next, end) = if next < end && taken == generation {
        (next, end)
    } else {
        batch()
    };
    MINE.set((next + 1, end, generation));
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
