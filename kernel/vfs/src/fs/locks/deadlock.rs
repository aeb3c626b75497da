//! Deadlock detection: a wait that would close a cycle is refused.
//!
//! It considers only POSIX record locks, as on Linux: an open file may be shared by many processes,
//! of which one can go on. A table that threads share counts as one waiter, so a cycle may be
//! reported that one of its threads would have broken (`fcntl(2)`).
//!
//! The list of waits is global, because cycles span files. It is short: only current waits. A wait
//! is added under the same lock as its check, so of two waits that would close a cycle together,
//! the second finds it.

use std::sync::Arc;

use fdtable_shm::Mutex;

use super::Owner;
use crate::Errno;
use crate::event::{Sleeper, Watcher};

fdtable_sync::global! {
    pub(super) static WAITS: Mutex<Vec<Wait>> = Mutex::new(Vec::new());
}

struct Wait {
    waiter: u64,
    /// Owner of one conflicting lock.
    blocker: u64,
    /// Set of that lock.
    set: usize,
    sleeper: Arc<Sleeper>,
}

/// Records that the calling thread will sleep until `blocker` releases a lock in `set`. The thread
/// sleeps on behalf of `waiter`.
///
/// # Errors
/// `EDEADLK` if the blocker waits for the waiter, directly or not.
pub(super) fn begin_wait(waiter: Owner, blocker: Owner, set: usize) -> Result<(), Errno> {
    let (Owner::Table(waiter), Owner::Table(blocker)) = (waiter, blocker) else {
        return Ok(());
    };
    let mut waits = WAITS.lock();
    // A thread that did not survive a fork of the host process waits for no lock.
    waits.retain(|wait| wait.sleeper.is_alive());
    if leads_to(&waits, blocker, waiter) {
        return Err(Errno::EDEADLK);
    }
    waits.push(Wait {
        waiter,
        blocker,
        set,
        sleeper: Sleeper::current(),
    });
    Ok(())
}

/// Records that the calling thread is awake.
pub(super) fn end_wait() {
    let mut waits = WAITS.lock();
    if !waits.is_empty() {
        let me = Sleeper::current();
        waits.retain(|wait| !Arc::ptr_eq(&wait.sleeper, &me));
    }
}

/// Records that all waiters of a set will try again.
pub(super) fn end_waits_at(set: usize) {
    WAITS.lock().retain(|wait| wait.set != set);
}

/// Returns true if `from` waits for `to`, directly or not.
fn leads_to(waits: &[Wait], from: u64, to: u64) -> bool {
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(&owner) = reached.get(next) {
        if owner == to {
            return true;
        }
        for wait in waits.iter().filter(|wait| wait.waiter == owner) {
            if !reached.contains(&wait.blocker) {
                reached.push(wait.blocker);
            }
        }
        next += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FileId;

    #[test]
    fn a_cycle_is_found_until_one_of_its_waiters_is_awake() {
        // Owners and sets that no other test uses.
        let [a, b, c] = [1, 2, 3].map(|number| Owner::Table(u64::MAX - number));
        begin_wait(a, b, 1).unwrap();
        begin_wait(b, c, 2).unwrap();
        assert_eq!(begin_wait(c, a, 3), Err(Errno::EDEADLK));
        assert_eq!(begin_wait(b, a, 1), Err(Errno::EDEADLK));
        end_waits_at(1);
        begin_wait(c, a, 3).unwrap();
        assert_eq!(begin_wait(a, b, 1), Err(Errno::EDEADLK));
        end_wait();
        begin_wait(a, b, 1).unwrap();
        end_wait();
    }

    #[test]
    fn open_files_are_in_no_cycle() {
        let table = Owner::Table(u64::MAX);
        let file = Owner::File(FileId::of(&table));
        begin_wait(table, file, 4).unwrap();
        begin_wait(file, table, 4).unwrap();
    }
}
