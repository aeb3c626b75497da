//! Tests of counts by CPU with one thread, and with threads that want one count.

use super::*;
use crate::percpu::copies;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Makes a count of a slot's reference and one more, and spreads it.
fn spread_with_holder() -> (RefCount, Spread) {
    prepare();
    let (count, spread) = (RefCount::new(), Spread::new());
    assert!(spread.get(&count).is_some());
    spread.spread(&count, || true);
    assert!(spread.part_of(this_cpu).is_some(), "it is spread");
    (count, spread)
}

#[test]
fn references_are_counted_while_the_count_is_spread_and_after() {
    let (count, spread) = spread_with_holder();
    assert_eq!(spread.references(&count), Some(2));
    for _ in 0..5 {
        assert!(spread.get(&count).is_some());
    }
    assert_eq!(spread.references(&count), Some(7));
    assert!(!spread.put_of_slot(&count));
    assert!(spread.part_of(this_cpu).is_none(), "it is gathered");
    assert_eq!(spread.references(&count), Some(6));
    for _ in 0..5 {
        assert!(!spread.put(&count));
    }
    assert!(spread.put(&count), "the last one");
    assert_eq!(spread.references(&count), None);
    assert!(spread.get(&count).is_none());
}

#[test]
fn a_close_that_drops_the_last_reference_of_a_spread_count_releases() {
    let (count, spread) = spread_with_holder();
    assert!(!spread.put(&count));
    assert!(spread.put_of_slot(&count), "the last one");
}

#[test]
fn a_count_whose_slot_is_empty_does_not_stay_spread() {
    let (count, spread) = (RefCount::new(), Spread::new());
    assert!(spread.get(&count).is_some());
    spread.spread(&count, || false);
    assert!(spread.part_of(this_cpu).is_none());
    assert!(!spread.put(&count));
    assert!(spread.put(&count));
}

#[test]
fn a_reference_that_is_kept_gathers_the_count() {
    let (count, spread) = spread_with_holder();
    spread.unslot(&count);
    assert!(spread.part_of(this_cpu).is_none());
    assert!(!spread.put(&count));
    assert!(spread.put(&count), "the last one");
}

#[test]
fn a_count_that_is_gathered_can_be_spread_again() {
    let (count, spread) = spread_with_holder();
    for _ in 0..3 {
        assert!(spread.get(&count).is_some());
        assert!(!spread.put_of_slot(&count));
        spread.spread(&count, || true);
        assert!(spread.part_of(this_cpu).is_some());
        assert_eq!(spread.references(&count), Some(2));
    }
    assert!(!spread.put_of_slot(&count));
    assert!(spread.put(&count));
}

/// What breaks if this is wrong: a program runs out of numbers, and its counts stay in one word.
#[test]
fn a_number_is_free_again_when_its_count_is_dropped() {
    for _ in 0..2 * NUMBERS {
        let (count, spread) = spread_with_holder();
        assert!(!spread.put(&count));
        assert!(spread.put_of_slot(&count));
    }
}

/// What breaks if this is wrong: a part that gather does not read, since its CPU has no row.
#[test]
fn every_cpu_that_counts_has_a_row_that_is_gathered() {
    let (count, spread) = spread_with_holder();
    let home = spread.home.load(Acquire);
    let rows = (0..4 * ROWS).filter(|&cpu| PARTS.of(home, cpu).is_some());
    assert_eq!(rows.count(), copies().min(ROWS));
    assert!(!spread.put_of_slot(&count));
    assert!(spread.put(&count));
}

/// Threads take and drop references while one closes, opens and spreads: every round releases once,
/// and not beside a holder.
#[test]
fn every_object_is_released_once_among_gets_and_spreads() {
    const ROUNDS: usize = 500;
    struct Object {
        count: RefCount,
        spread: Spread,
        slot: AtomicBool,
        released: AtomicBool,
    }
    impl Object {
        fn end_if(&self, is_last: bool) {
            if is_last {
                assert!(!self.released.swap(true, SeqCst), "released twice");
            }
        }
    }
    let use_it = |object: &Object| {
        // While the slot has the object, as a lookup finds it. Two threads that went on by each
        // other's references would never end.
        while object.slot.load(SeqCst) && object.spread.get(&object.count).is_some() {
            assert!(!object.released.load(SeqCst), "released beside a holder");
            if object.slot.load(SeqCst) {
                object
                    .spread
                    .spread(&object.count, || object.slot.load(SeqCst));
            }
            object.end_if(object.spread.put(&object.count));
        }
    };
    for round in 0..ROUNDS {
        let object = Object {
            count: RefCount::new(),
            spread: Spread::new(),
            slot: AtomicBool::new(true),
            released: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            let users = [0; 2].map(|_| scope.spawn(|| use_it(&object)));
            for _ in 0..round % 4 {
                std::thread::yield_now();
            }
            object.slot.store(false, SeqCst);
            object.end_if(object.spread.put_of_slot(&object.count));
            for user in users {
                user.join().expect("no panic");
            }
        });
        assert!(object.released.load(SeqCst), "never released");
    }
}

/// What breaks if this is wrong: a thread spreads a count while another closes its slot, and
/// neither gathers it. So both begin at the same time, again and again.
#[test]
fn a_count_is_gathered_if_its_slot_is_closed_while_it_is_spread() {
    // Each batch ends before the next, and frees its numbers.
    for _batch in 0..200 {
        spread_and_close_at_once::<100>();
    }
}

fn spread_and_close_at_once<const OBJECTS: usize>() {
    struct Object {
        count: RefCount,
        spread: Spread,
        slot: AtomicBool,
    }
    let objects = [(); OBJECTS].map(|()| Object {
        count: RefCount::new(),
        spread: Spread::new(),
        slot: AtomicBool::new(true),
    });
    let (ready, released) = ([0, 0].map(AtomicUsize::new), AtomicUsize::new(0));
    let end_if = |is_last: bool| {
        released.fetch_add(usize::from(is_last), SeqCst);
    };
    let meet = |own: usize, object: usize| {
        ready[own].store(object + 1, SeqCst);
        let mut looks = 0;
        while ready[1 - own].load(SeqCst) <= object {
            looks += 1;
            match looks % 1000 {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (number, object) in objects.iter().enumerate() {
                assert!(object.spread.get(&object.count).is_some());
                meet(0, number);
                // As a lookup that has found the object: a plain load.
                let is_in_slot = || object.slot.load(Acquire);
                object.spread.spread(&object.count, is_in_slot);
                end_if(object.spread.put(&object.count));
            }
        });
        for (number, object) in objects.iter().enumerate() {
            meet(1, number);
            for _ in 0..number % 64 {
                std::hint::spin_loop();
            }
            object.slot.store(false, Release);
            end_if(object.count.put_if_last() || object.spread.put_of_slot(&object.count));
        }
    });
    assert_eq!(released.load(SeqCst), OBJECTS);
}
