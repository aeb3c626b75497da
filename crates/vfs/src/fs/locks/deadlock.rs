//! Who waits for whom: a wait that would close a circle is refused.
//!
//! Only POSIX record locks are looked at, as on Linux: an open file may be in the hands of many, of
//! whom one can go on. A table that threads share is taken for one waiter all the same, so a circle
//! may be found that one of the threads would have opened (`fcntl(2)`).
//!
//! The list is one for all files, since circles go through several. It is short: those that sleep
//! at this moment. A wait is on it from the check on, under the same lock, so of two that would
//! close a circle together the second one finds it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Owner;
use crate::Errno;
use crate::event::{Sleeper, Watcher};

static WAITS: Mutex<Vec<Wait>> = Mutex::new(Vec::new());

struct Wait {
    waiter: u64,
    /// The owner of one lock that is in the way.
    blocker: u64,
    /// The set that has this lock.
    set: usize,
    sleeper: Arc<Sleeper>,
}

/// Notes that the calling thread will sleep, for `waiter`, until `blocker` gives up a lock in `set`.
///
/// # Errors
/// `EDEADLK` if the blocker waits for the waiter, or for one who does.
pub(super) fn begin_wait(waiter: Owner, blocker: Owner, set: usize) -> Result<(), Errno> {
    let (Owner::Table(waiter), Owner::Table(blocker)) = (waiter, blocker) else {
        return Ok(());
    };
    let mut waits = WAITS.lock();
    // A thread that stayed behind at a fork of the host process waits for nobody.
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

/// Notes that the calling thread is awake.
pub(super) fn end_wait() {
    let mut waits = WAITS.lock();
    if !waits.is_empty() {
        let me = Sleeper::current();
        waits.retain(|wait| !Arc::ptr_eq(&wait.sleeper, &me));
    }
}

/// Notes that all who wait at a set will look again.
pub(super) fn end_waits_at(set: usize) {
    WAITS.lock().retain(|wait| wait.set != set);
}

/// Returns true if `from` waits for `to`, or for one who does.
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
    fn a_circle_is_found_until_one_of_it_is_awake() {
        // Numbers and places that no other test has.
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
    fn open_files_are_in_no_circle() {
        let table = Owner::Table(u64::MAX);
        let file = Owner::File(FileId::of(&table));
        begin_wait(table, file, 4).unwrap();
        begin_wait(file, table, 4).unwrap();
    }
}
