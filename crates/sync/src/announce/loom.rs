//! The model of an announcement: its work, and what follows the wait, must not meet.

use super::*;
use crate::fence::model::without_membarrier;
use crate::model::Preemptions::Any;
use crate::model::{explore, join, spawn};
use crate::platform::Arc;
use crate::platform::atomic::AtomicBool;
use ::loom::cell::UnsafeCell;
use ::loom::thread::yield_now;

struct Place {
    is_forbidden: AtomicBool,
    value: UnsafeCell<usize>,
}

// SAFETY: that accesses to the cell do not meet is what the checker checks.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

impl Place {
    fn add(&self) {
        // SAFETY: the checker reports it if two accesses meet.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    /// Works if it may, with the fence that the record asks for. Returns how often it has.
    fn work(&self) -> usize {
        let (record, _) = Record::own_or_lent();
        // (A)
        record.words.counted.set(1);
        // (B)
        if record.words.plain.get() == FENCED {
            fence::full();
        } else {
            fence::light();
        }
        // (C)
        let may = !self.is_forbidden.load(Acquire);
        if may {
            self.add();
        }
        // (D)
        record.words.counted.set(0);
        may.into()
    }

    fn forbid(&self) {
        // (P)
        self.is_forbidden.store(true, Release);
        fence_all(|_| true);
        for record in RECORDS.iter() {
            // (R)
            while record.words.counted.seen() != 0 {
                yield_now();
            }
        }
        self.add();
    }
}

fn work_meets_a_wait() {
    explore(Any, || {
        let place = Arc::new(Place {
            is_forbidden: AtomicBool::new(false),
            value: UnsafeCell::new(0),
        });
        let other = spawn({
            let place = place.clone();
            // The second announcement hides that the first has ended.
            move || place.work() + place.work()
        });
        place.forbid();
        let worked = join(other);
        // SAFETY: the other thread has ended.
        let value = place.value.with(|value| unsafe { *value });
        assert_eq!(value, worked + 1);
    });
}

#[test]
fn a_wait_ends_after_what_was_announced() {
    work_meets_a_wait();
}

#[test]
fn a_wait_ends_after_what_was_announced_without_membarrier() {
    without_membarrier(work_meets_a_wait);
}
