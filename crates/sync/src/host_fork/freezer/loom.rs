//! Models of the freezer: what is done inside, and what is done while it is frozen, must not meet.

use super::*;
use crate::fence::model::without_membarrier;
use crate::model::Preemptions::AtMost;
use crate::model::{explore, join, spawn};
use crate::platform::Arc;
use ::loom::cell::UnsafeCell;

/// A value that the checker watches.
struct Place(UnsafeCell<usize>);

// SAFETY: that accesses to the cell do not meet is what the checker checks.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

impl Place {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn add(&self) {
        // SAFETY: the checker reports it if two accesses meet.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }

    fn add_inside(&self) {
        let _inside = enter();
        self.add();
    }

    /// Returns true if it was let in.
    fn add_inside_without_waiting(&self) -> bool {
        let inside = try_enter();
        if inside.is_some() {
            self.add();
        }
        inside.is_some()
    }

    fn add_frozen(&self) {
        freeze();
        self.add();
        thaw();
    }

    fn value(&self) -> usize {
        // SAFETY: the checker reports it if a write meets this read.
        self.0.with(|value| unsafe { *value })
    }
}

/// Lets `one` and `other` add to a place, on two threads; they add `sum` in all.
///
/// A thread has entered before, so they pass without a full fence where `membarrier(2)` works.
fn work_meets_work(one: fn(&Place), other: fn(&Place), sum: usize) {
    explore_from(|| drop(enter()), one, other, sum);
}

fn explore_from(start: fn(), one: fn(&Place), other: fn(&Place), sum: usize) {
    explore(AtMost(4), move || {
        start();
        let place = Place::new();
        let thread = spawn({
            let place = place.clone();
            move || one(&place)
        });
        other(&place);
        join(thread);
        assert_eq!(place.value(), sum);
    });
}

fn work_inside_meets_a_freeze() {
    work_meets_work(Place::add_inside, Place::add_frozen, 2);
}

#[test]
fn no_thread_is_inside_while_it_is_frozen() {
    work_inside_meets_a_freeze();
}

#[test]
fn no_thread_is_inside_while_it_is_frozen_at_the_first_entry() {
    explore_from(|| (), Place::add_inside, Place::add_frozen, 2);
}

#[test]
fn no_thread_is_inside_while_it_is_frozen_without_membarrier() {
    without_membarrier(work_inside_meets_a_freeze);
}

/// A thread that leaves again at once hides that it left before.
#[test]
fn a_thread_that_finds_it_frozen_has_left_before() {
    let twice = |place: &Place| {
        place.add_inside();
        drop(enter());
    };
    work_meets_work(twice, Place::add_frozen, 2);
}

/// The same for a thread that does not wait.
#[test]
fn a_refused_entry_does_not_hide_that_the_thread_has_left() {
    let twice = |place: &Place| {
        place.add_inside();
        drop(try_enter());
    };
    work_meets_work(twice, Place::add_frozen, 2);
}

/// An inner entry must not end the outer one, or wait for the freeze that waits for it.
#[test]
fn an_inner_entry_ends_nothing() {
    let nested = |place: &Place| {
        let _inside = enter();
        drop(enter());
        place.add();
    };
    work_meets_work(nested, Place::add_frozen, 2);
}

/// A freeze does not wait for a thread in a blocking section, which ends only after the thaw.
#[test]
fn a_blocking_section_ends_after_the_thaw() {
    let sleeper = |place: &Place| {
        let _inside = enter();
        place.add();
        drop(blocking_section());
        place.add();
    };
    work_meets_work(sleeper, Place::add_frozen, 3);
}

/// A signal handler comes between a thread's word and its look, and is let in or not.
#[test]
fn a_handler_of_a_thread_that_was_not_let_in_looks_itself() {
    let interrupted = |place: &Place| interrupt_entry(|| place.add_inside(), || place.add());
    work_meets_work(interrupted, Place::add_frozen, 3);
}

/// A thread that is ending no longer has its own record: it borrows one for one entry.
#[test]
fn a_thread_that_is_ending_has_left_before_a_freeze_goes_on() {
    let ending = |place: &Place| enter_freezer_lent(|| place.add());
    work_meets_work(ending, Place::add_frozen, 2);
}

#[test]
fn two_freeze_one_after_the_other() {
    work_meets_work(Place::add_frozen, Place::add_frozen, 2);
}

/// A thaw clears "frozen" before it releases the turn, and does not clear what the next one has
/// set.
#[test]
fn a_thaw_ends_no_other_freeze() {
    let twice = |place: &Place| {
        place.add_frozen();
        place.add_inside();
    };
    work_meets_work(twice, Place::add_frozen, 3);
}

/// Both are inside of a call that forks: neither waits for the other.
#[test]
fn two_freeze_from_inside() {
    let inside = |place: &Place| {
        let _inside = enter();
        place.add_frozen();
    };
    explore(AtMost(3), move || {
        let place = Place::new();
        let thread = spawn({
            let place = place.clone();
            move || inside(&place)
        });
        inside(&place);
        join(thread);
        assert_eq!(place.value(), 2);
    });
}

#[test]
fn a_thread_that_does_not_wait_is_not_let_in_while_it_is_frozen() {
    explore(AtMost(4), || {
        let place = Place::new();
        let thread = spawn({
            let place = place.clone();
            move || place.add_inside_without_waiting()
        });
        place.add_frozen();
        let added = usize::from(join(thread));
        assert_eq!(place.value(), 1 + added);
    });
}

/// Enters the freezer and runs `work` inside. Runs `handler` where a signal handler could come:
/// after the thread has announced that it is inside, and before it looks.
fn interrupt_entry(handler: impl FnOnce(), work: impl FnOnce()) {
    let (record, _) = own_or_lent_record();
    // As the first half of `try_inside`.
    record.freezer().set(LEVEL);
    handler();
    record.enter_again(LEVEL);
    work();
    record.leave_freezer();
}

/// Enters the freezer as a thread that is ending does, with a borrowed record, and runs `work`
/// inside.
fn enter_freezer_lent(work: impl FnOnce()) {
    let record = Record::lent();
    record.enter_again(LEVEL | LENT);
    work();
    record.leave_freezer();
}
