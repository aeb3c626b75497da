//! Models of the lock: the work of a reader and the work of a writer must not meet.

use super::*;
use crate::model::Preemptions::Any;
use crate::model::{explore, join, spawn};
use crate::platform::Arc;
use crate::rcu;
use ::loom::cell::UnsafeCell;

struct Place {
    lock: BrLock,
    value: UnsafeCell<usize>,
}

// SAFETY: that accesses to the cell do not meet is what the checker checks.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

impl Place {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: BrLock::new(),
            value: UnsafeCell::new(0),
        })
    }

    /// Adds one as a reader. Only one thread of a model calls it.
    fn add_as_reader(&self) -> usize {
        let Some(_reader) = self.lock.read() else {
            return 0;
        };
        self.add();
        1
    }

    fn add(&self) {
        // SAFETY: the checker reports it if two accesses meet.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }
}

fn a_reader_meets_a_writer() {
    work_meets_work(|place| place.add_as_reader() + place.add_as_reader());
}

fn a_reader_in_a_section_meets_a_writer() {
    work_meets_work(|place| {
        let _section = rcu::read_lock();
        place.add_as_reader() + place.add_as_reader()
    });
}

fn a_reader_in_many_sections_meets_a_writer() {
    work_meets_work(|place| {
        let _sections = [rcu::read_lock(), rcu::read_lock()];
        place.add_as_reader()
    });
}

fn work_meets_work(work: fn(&Place) -> usize) {
    work_after_meets_work(|| (), work);
}

fn work_after_meets_work(prepare: fn(), work: fn(&Place) -> usize) {
    explore(Any, move || {
        prepare();
        let place = Place::new();
        let other = spawn({
            let place = place.clone();
            move || work(&place)
        });
        place.lock.exclude_readers();
        place.add();
        place.lock.admit_readers();
        let added = join(other);
        // SAFETY: the other thread has ended.
        let value = place.value.with(|value| unsafe { *value });
        assert_eq!(value, added + 1);
    });
}

/// A thread is found to read another lock, while its work as a reader of this one is not seen.
#[test]
fn a_reader_of_the_next_lock_has_left_the_one_before() {
    explore(Any, || {
        let place = Place::new();
        let next = Arc::new(BrLock::new());
        let other = spawn({
            let (place, next) = (place.clone(), next.clone());
            move || {
                let added = place.add_as_reader();
                drop(next.read());
                added
            }
        });
        place.lock.exclude_readers();
        place.add();
        place.lock.admit_readers();
        let added = join(other);
        // SAFETY: the other thread has ended.
        let value = place.value.with(|value| unsafe { *value });
        assert_eq!(value, added + 1);
    });
}

#[test]
fn no_reader_works_beside_a_writer() {
    a_reader_meets_a_writer();
}

#[test]
fn no_reader_in_a_section_works_beside_a_writer() {
    a_reader_in_a_section_meets_a_writer();
}

/// The same where it is known that heavy fences reach readers, as it is after the first sections.
#[test]
fn no_reader_in_a_later_section_works_beside_a_writer() {
    let counted = || drop([rcu::read_lock(), rcu::read_lock()]);
    work_after_meets_work(counted, |place| {
        let _section = rcu::read_lock();
        place.add_as_reader()
    });
}

#[test]
fn no_reader_in_many_sections_works_beside_a_writer() {
    a_reader_in_many_sections_meets_a_writer();
}

#[test]
fn no_reader_in_many_sections_works_beside_a_writer_without_membarrier() {
    crate::fence::model::without_membarrier(a_reader_in_many_sections_meets_a_writer);
}

#[test]
fn no_reader_in_a_section_works_beside_a_writer_without_membarrier() {
    crate::fence::model::without_membarrier(a_reader_in_a_section_meets_a_writer);
}

#[test]
fn no_reader_works_beside_a_writer_without_membarrier() {
    crate::fence::model::without_membarrier(a_reader_meets_a_writer);
}
