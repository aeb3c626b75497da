//! Models of the gate: what is done inside, and what is done while it is shut, must not meet.

use super::*;
use crate::model::Preemptions::Any;
use crate::model::{explore, join, spawn};
use crate::platform::Arc;
use crate::rcu;
use ::loom::cell::UnsafeCell;

struct Place {
    gate: BrLock,
    value: UnsafeCell<usize>,
}

// SAFETY: that accesses to the cell do not meet is what the checker checks.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

impl Place {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            gate: BrLock::new(),
            value: UnsafeCell::new(0),
        })
    }

    /// Adds one inside. Only one thread of a model calls it.
    fn add_inside(&self) -> usize {
        let Some(_inside) = self.gate.enter() else {
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

fn work_inside_meets_work_while_it_is_shut() {
    work_meets_work(|place| place.add_inside() + place.add_inside());
}

fn work_inside_a_section_meets_work_while_it_is_shut() {
    work_meets_work(|place| {
        let _section = rcu::read_lock();
        place.add_inside() + place.add_inside()
    });
}

fn work_inside_many_sections_meets_work_while_it_is_shut() {
    work_meets_work(|place| {
        let _sections = [rcu::read_lock(), rcu::read_lock()];
        place.add_inside()
    });
}

fn work_meets_work(work: fn(&Place) -> usize) {
    explore(Any, move || {
        let place = Place::new();
        let other = spawn({
            let place = place.clone();
            move || work(&place)
        });
        place.gate.shut();
        place.add();
        place.gate.open();
        let inside = join(other);
        // SAFETY: the other thread has ended.
        let value = place.value.with(|value| unsafe { *value });
        assert_eq!(value, inside + 1);
    });
}

/// A thread is found inside of another gate, while its work inside of this one is not seen.
#[test]
fn who_is_inside_of_the_next_gate_has_left_the_one_before() {
    explore(Any, || {
        let place = Place::new();
        let next = Arc::new(BrLock::new());
        let other = spawn({
            let (place, next) = (place.clone(), next.clone());
            move || {
                let inside = place.add_inside();
                drop(next.enter());
                inside
            }
        });
        place.gate.shut();
        place.add();
        place.gate.open();
        let inside = join(other);
        // SAFETY: the other thread has ended.
        let value = place.value.with(|value| unsafe { *value });
        assert_eq!(value, inside + 1);
    });
}

#[test]
fn nobody_is_inside_while_it_is_shut() {
    work_inside_meets_work_while_it_is_shut();
}

#[test]
fn nobody_is_inside_while_it_is_shut_in_a_section() {
    work_inside_a_section_meets_work_while_it_is_shut();
}

#[test]
fn nobody_is_inside_while_it_is_shut_in_many_sections() {
    work_inside_many_sections_meets_work_while_it_is_shut();
}

#[test]
fn nobody_is_inside_while_it_is_shut_in_many_sections_without_membarrier() {
    crate::fence::model::without_membarrier(work_inside_many_sections_meets_work_while_it_is_shut);
}

#[test]
fn nobody_is_inside_while_it_is_shut_in_a_section_without_membarrier() {
    crate::fence::model::without_membarrier(work_inside_a_section_meets_work_while_it_is_shut);
}

#[test]
fn nobody_is_inside_while_it_is_shut_without_membarrier() {
    crate::fence::model::without_membarrier(work_inside_meets_work_while_it_is_shut);
}
