//! Models of counts by CPU. An error shows as an object that is released beside a holder, twice or
//! never, or whose releaser does not see what a holder did.

use super::*;
use crate::model::Preemptions::AtMost;
use crate::model::{Ends, JoinHandle, Watched, explore, join, spawn};
use crate::platform::Arc;
use crate::platform::atomic::AtomicBool;
use crate::sequence::model::move_to;

/// An object that the last put ends, with references of slots.
struct Object {
    count: RefCount,
    spread: Spread,
    /// True for each slot that has the object. A slot orders nothing by itself.
    slots: [AtomicBool; 2],
    watched: Watched,
}

impl Object {
    /// Makes an object with a reference of each of so many slots.
    fn new(ends: &Ends, slots: usize) -> Arc<Self> {
        let object = Self {
            count: RefCount::new(),
            spread: Spread::new(),
            slots: core::array::from_fn(|slot| AtomicBool::new(slot < slots)),
            watched: Watched::new(ends),
        };
        for _ in 1..slots {
            assert!(object.count.get());
        }
        Arc::new(object)
    }

    fn end_if(&self, is_last: bool) {
        if is_last {
            self.watched.end();
        }
    }

    fn put(&self) {
        self.end_if(self.spread.put(&self.count));
    }

    fn get_look_put(&self) {
        if self.spread.get(&self.count).is_some() {
            self.watched.look();
            self.put();
        }
    }

    /// Spreads the count, for a holder that has found the object in a slot. The parts may have been
    /// made by another thread at the same time.
    fn spread(&self, slot: usize) {
        prepare();
        self.spread
            .spread(&self.count, || self.slots[slot].load(Relaxed));
    }

    /// Does the same as a lookup, which has no reference of its own yet.
    fn get_spread_put(&self, slot: usize) {
        if self.spread.get(&self.count).is_some() {
            self.spread(slot);
            self.watched.look();
            self.put();
        }
    }

    fn close(&self, slot: usize) {
        self.slots[slot].store(false, Relaxed);
        self.end_if(self.count.put_if_last() || self.spread.put_of_slot(&self.count));
    }
}

fn thread(object: &Arc<Object>, cpu: usize, act: impl FnOnce(&Object) + 'static) -> JoinHandle<()> {
    let object = object.clone();
    spawn(move || {
        move_to(cpu);
        act(&object);
    })
}

/// Checks that the object has ended, and that no later get has a reference.
fn check(object: &Object, ends: &Ends) {
    assert_eq!(ends.count(), 1);
    assert!(
        object.spread.get(&object.count).is_none(),
        "the dead are not revived"
    );
}

/// A count that stays spread when its last slot is closed: the object is never released.
#[test]
fn a_spread_meets_the_close_of_the_slot() {
    explore(AtMost(4), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 1);
        let spreader = thread(&object, 1, |object| object.get_spread_put(0));
        object.close(0);
        join(spreader);
        check(&object, &ends);
    });
}

/// A reference in a part that a close does not count, or counts twice.
#[test]
fn a_get_and_a_put_meet_the_close_of_a_spread_count() {
    explore(AtMost(4), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 1);
        object.get_spread_put(0);
        let user = thread(&object, 1, Object::get_look_put);
        object.close(0);
        join(user);
        check(&object, &ends);
    });
}

/// A reference that is taken on one CPU and dropped on another.
#[test]
fn a_put_on_another_cpu_meets_the_close() {
    explore(AtMost(4), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 1);
        object.get_spread_put(0);
        assert!(object.spread.get(&object.count).is_some());
        let user = thread(&object, 1, |object| {
            object.watched.look();
            object.put();
        });
        object.close(0);
        join(user);
        check(&object, &ends);
    });
}

/// A put that finds no mark, and takes the word to its end while the parts are summed up.
#[test]
fn a_put_meets_the_close_beside_another_holder() {
    explore(AtMost(4), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 1);
        assert!(object.spread.get(&object.count).is_some());
        object.spread(0);
        assert!(object.spread.get(&object.count).is_some());
        let user = thread(&object, 1, |object| {
            object.watched.look();
            object.put();
        });
        object.close(0);
        object.watched.look();
        object.put();
        join(user);
        check(&object, &ends);
    });
}

/// Two closes that both gather, or neither.
#[test]
fn two_closes_meet_a_holder() {
    explore(AtMost(3), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 2);
        object.get_spread_put(0);
        assert!(object.spread.get(&object.count).is_some());
        let closer = thread(&object, 1, |object| object.close(1));
        object.close(0);
        object.watched.look();
        object.put();
        join(closer);
        check(&object, &ends);
    });
}

/// A spread beside the closes of two slots, of which it looks at one.
#[test]
fn a_spread_meets_two_closes() {
    explore(AtMost(3), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 2);
        let spreader = thread(&object, 1, |object| object.get_spread_put(0));
        object.close(1);
        object.close(0);
        join(spreader);
        check(&object, &ends);
    });
}

/// Two threads that spread one count at the same time.
#[test]
fn two_spreads_meet_the_close() {
    explore(AtMost(2), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 1);
        let spreaders = [0, 1].map(|cpu| thread(&object, cpu, |object| object.get_spread_put(0)));
        object.close(0);
        spreaders.into_iter().for_each(join);
        check(&object, &ends);
    });
}

/// A get or a put that is late, and meets the part of the next time.
#[test]
fn a_user_meets_a_count_that_is_gathered_and_spread_again() {
    explore(AtMost(3), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 2);
        object.get_spread_put(0);
        let user = thread(&object, 1, Object::get_look_put);
        object.close(1);
        object.get_spread_put(0);
        object.close(0);
        join(user);
        check(&object, &ends);
    });
}

/// A reference that leaves its slot and is kept, beside holders of a spread count.
#[test]
fn a_reference_that_leaves_its_slot_meets_a_put() {
    explore(AtMost(4), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 1);
        let user = thread(&object, 1, |object| object.get_spread_put(0));
        object.slots[0].store(false, Relaxed);
        object.spread.unslot(&object.count);
        object.watched.look();
        object.put();
        join(user);
        check(&object, &ends);
    });
}

/// The same where the count was spread before.
#[test]
fn a_reference_that_leaves_its_slot_gathers() {
    explore(AtMost(4), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 1);
        object.get_spread_put(0);
        assert!(object.spread.get(&object.count).is_some());
        let user = thread(&object, 1, |object| {
            object.watched.look();
            object.put();
        });
        object.slots[0].store(false, Relaxed);
        object.spread.unslot(&object.count);
        object.put();
        join(user);
        check(&object, &ends);
    });
}

/// A count at one moment that misses references which a thread holds all the time.
#[test]
fn a_count_at_one_moment_meets_a_close() {
    explore(AtMost(2), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 2);
        assert!(object.spread.get(&object.count).is_some());
        object.spread(0);
        assert!(object.spread.get(&object.count).is_some());
        let watcher = thread(&object, 1, |object| {
            if let Some(count) = object.count.all_references() {
                // One of a slot, and two of the other thread.
                assert_eq!(count, 3);
            }
        });
        object.close(1);
        join(watcher);
        assert_eq!(object.count.all_references(), Some(3));
        object.put();
        object.put();
        object.close(0);
        check(&object, &ends);
    });
}

/// An object that is revived, put into another slot and spread while its burier still leaves.
#[test]
fn a_burier_meets_a_spread_of_what_was_revived() {
    explore(AtMost(3), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 1);
        let reviver = thread(&object, 1, |object| {
            if object.spread.get(&object.count).is_some() {
                // The reference of the slot.
                assert!(object.spread.get(&object.count).is_some());
                object.slots[1].store(true, Relaxed);
                object.spread(1);
                object.watched.look();
                object.put();
                object.close(1);
            }
        });
        object.slots[0].store(false, Relaxed);
        object.end_if(object.count.put());
        join(reviver);
        check(&object, &ends);
    });
}

/// A number that is drawn again while its former parts are still used.
#[test]
fn a_number_is_drawn_again() {
    explore(AtMost(3), || {
        let ends = [Ends::default(), Ends::default()];
        let [first, second] = ends.each_ref().map(|ends| Object::new(ends, 1));
        let spread_and_end = |object: Arc<Object>| {
            object.get_spread_put(0);
            object.close(0);
        };
        let other = spawn(move || {
            move_to(1);
            spread_and_end(first);
        });
        spread_and_end(second);
        join(other);
        ends.iter().for_each(|ends| assert_eq!(ends.count(), 1));
    });
}

/// A count that is spread without parts loses references: there was no memory to make them.
#[test]
fn a_count_without_parts_stays_in_its_word() {
    explore(AtMost(4), || {
        let ends = Ends::default();
        let object = Object::new(&ends, 1);
        let user = thread(&object, 1, |object| {
            if object.spread.get(&object.count).is_some() {
                object.spread.spread(&object.count, || true);
                assert_eq!(object.spread.home.load(Relaxed), 0);
                object.watched.look();
                object.put();
            }
        });
        object.close(0);
        join(user);
        check(&object, &ends);
    });
}
