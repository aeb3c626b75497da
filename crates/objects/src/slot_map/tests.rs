use super::*;
use crate::object::Rcu;
use fdtable_sync::rcu::read_lock;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::vec::Vec;

/// The last generation.
const LAST: u32 = u32::MAX;

fn insert<T: Send + Sync + 'static>(map: &SlotMap<Rcu<T>>, home: usize, value: T) -> Handle {
    let inserted = map.insert_at(home, Ref::new_rcu(value));
    inserted
        .map_err(|(reason, _)| reason)
        .expect("an entry is free")
}

fn refused(map: &SlotMap<Rcu<u32>>) -> InsertError {
    let refused = map.insert(Ref::new_rcu(7)).expect_err("there is no room");
    assert_eq!(**refused.1, 7, "the object comes back");
    refused.0
}

fn get<T: Clone>(map: &SlotMap<Rcu<T>>, handle: Handle) -> Option<T> {
    let guard = read_lock();
    let borrowed = map.borrow(handle, &guard).as_deref().cloned();
    assert_eq!(borrowed.is_some(), map.get(handle, &guard).is_some());
    borrowed
}

/// Makes the next opening of a free entry its last.
fn wear_out<T>(map: &SlotMap<T>, index: u32) {
    let entry = map.segments.entry(index).expect("it was made");
    assert_eq!(entry.word.load(Relaxed) % 2, 0, "it is free");
    entry.word.store(LAST - 1, Relaxed);
}

#[test]
fn a_handle_names_its_object_until_it_is_removed() {
    let map = SlotMap::new(1000);
    let handles: Vec<Handle> = (0..1000).map(|value| insert(&map, 0, value)).collect();
    assert_eq!(handles.iter().collect::<HashSet<_>>().len(), 1000);
    for (value, &handle) in (0..).zip(&handles) {
        assert_eq!(get(&map, handle), Some(value));
    }
    for (value, &handle) in (0..).zip(&handles) {
        assert_eq!(map.remove_at(0, handle).map(|it| **it), Some(value));
        assert_eq!(get(&map, handle), None);
        assert!(map.remove_at(0, handle).is_none());
    }
    assert_eq!(map.count(), 0);
}

#[test]
fn a_handle_stays_stale_when_its_entry_is_opened_again() {
    let map = SlotMap::new(1);
    let mut stale = Vec::new();
    for value in 0..100 {
        let handle = insert(&map, 0, value);
        assert_eq!(handle.index(), 0);
        for &stale in &stale {
            assert_eq!(get(&map, stale), None);
            assert!(map.remove_at(0, stale).is_none());
        }
        assert_eq!(get(&map, handle), Some(value));
        drop(map.remove_at(0, handle));
        stale.push(handle);
    }
}

#[test]
fn handles_that_were_never_assigned_name_nothing() {
    let map = SlotMap::new(100);
    let handle = insert(&map, 0, 1);
    let free = insert(&map, 0, 2);
    drop(map.remove_at(0, free));
    for index in [0, 1, 2, 31, 32, 63, 64, 1 << 20, u32::MAX] {
        for generation in [0, 1, 2, 3, 4, LAST - 1, LAST] {
            let made_up = Handle { index, generation };
            assert_eq!(Handle::from_bits(made_up.to_bits()), made_up);
            let expected = (made_up == handle).then_some(1);
            assert_eq!(get(&map, made_up), expected, "{made_up:?}");
            if made_up != handle {
                assert!(map.remove_at(0, made_up).is_none(), "{made_up:?}");
            }
        }
    }
    assert_eq!(map.count(), 1);
}

#[test]
fn an_entry_without_generations_is_retired() {
    let map = SlotMap::new(2);
    let first = insert(&map, 0, 1);
    drop(map.remove_at(0, first));
    wear_out(&map, first.index());

    let last = insert(&map, 0, 2);
    assert_eq!((last.index(), last.generation()), (first.index(), LAST));
    assert_eq!(map.remove_at(0, last).map(|it| **it), Some(2));
    assert_eq!(get(&map, last), None);
    for generation in [0, 1, LAST] {
        let index = last.index();
        assert_eq!(get(&map, Handle { index, generation }), None);
        assert!(map.remove_at(0, Handle { index, generation }).is_none());
    }

    // The limit is as before, and the entry is none of those that are opened.
    let others = [3, 4].map(|value| insert(&map, 0, value));
    assert!(others.iter().all(|other| other.index() != last.index()));
    assert_eq!(refused(&map), InsertError::Full);
    assert_eq!(map.count(), 2);
}

#[test]
fn a_map_of_retired_entries_continues() {
    let map = SlotMap::new(1);
    for round in 0..200 {
        let handle = insert(&map, 0, round);
        assert_eq!(handle.index(), round, "a new entry");
        drop(map.remove_at(0, handle));
        wear_out(&map, round);
        let last = insert(&map, 0, round);
        assert_eq!(last.index(), round);
        assert_eq!(refused(&map), InsertError::Full);
        drop(map.remove_at(0, last));
        assert_eq!(map.count(), 0);
    }
}

#[test]
fn as_many_are_open_as_the_limit_says() {
    for limit in [0, 1, 2, 31, 32, 33, 64, 65, 1000] {
        let map = SlotMap::new(limit);
        let handles: Vec<Handle> = (0..limit).map(|value| insert(&map, 0, value)).collect();
        assert_eq!(refused(&map), InsertError::Full);
        assert_eq!(map.count(), limit);
        if let Some(&handle) = handles.last() {
            drop(map.remove_at(0, handle));
            insert(&map, 0, 0);
            assert_eq!(refused(&map), InsertError::Full);
        }
    }
    assert_eq!(SlotMap::<u32>::new(u32::MAX).limit(), 1 << 31);
}

#[test]
fn an_entry_freed_on_one_cpu_is_found_on_another_before_the_map_grows() {
    let map = SlotMap::new(1 << 20);
    let handles: Vec<Handle> = (0..64).map(|value| insert(&map, 0, value)).collect();
    handles
        .iter()
        .for_each(|&handle| drop(map.remove_at(1, handle)));
    for value in 0..64 {
        let handle = insert(&map, value as usize % 2, value);
        assert!(handle.index() < 64, "{handle:?}");
    }
    assert_eq!(map.growth.lock().made, 64);
}

#[test]
fn a_theft_leaves_the_other_half() {
    let map = SlotMap::new(1 << 20);
    let lists = map.lists.iter().count();
    if lists < 2 {
        return;
    }
    let handles: Vec<Handle> = (0..32).map(|value| insert(&map, 0, value)).collect();
    handles
        .iter()
        .for_each(|&handle| drop(map.remove_at(0, handle)));
    insert(&map, 1, 0);
    // Of the 31 that were left, 15 were moved.
    assert_eq!(map.lists.of(0).len(), 16);
    assert_eq!(map.lists.of(1).len(), 15);
    assert_eq!(map.count(), 1);
}

#[test]
fn a_locked_list_is_passed_over() {
    let map = SlotMap::new(100);
    let handle = insert(&map, 0, 1);
    if map.lists.iter().count() > 1 {
        let stopped = map.lists.of(0).lock();
        drop(map.remove_at(0, handle));
        assert_eq!(map.lists.of(1).len(), 1);
        drop(stopped);
    }
}

#[test]
fn handles_are_enumerated_by_index() {
    let map = SlotMap::new(1000);
    assert_eq!(map.handles().next(), None);
    let handles: Vec<Handle> = (0..300).map(|value| insert(&map, 0, value)).collect();
    for handle in handles.iter().filter(|handle| handle.index() % 3 != 0) {
        drop(map.remove_at(0, *handle));
    }
    let left = handles.into_iter().filter(|handle| handle.index() % 3 == 0);
    assert!(map.handles().eq(left));
}

#[test]
fn the_end_of_the_map_is_that_of_its_objects() {
    let released = Arc::new(AtomicUsize::new(0));
    let map = SlotMap::new(1000);
    for round in 0..500 {
        let released = released.clone();
        let object = Ref::try_with_ends((), move |(), _| _ = released.fetch_add(1, Relaxed))
            .expect("there is memory");
        let handle = map.insert(object).map_err(|(reason, _)| reason);
        if round % 5 == 0 {
            drop(map.remove(handle.expect("an entry is free")));
        }
    }
    assert_eq!(released.load(Relaxed), 100);
    drop(map);
    assert_eq!(released.load(Relaxed), 500);
}

#[test]
fn threads_that_free_before_they_insert_are_never_refused() {
    const THREADS: u32 = 4;
    let map = SlotMap::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let map = &map;
            scope.spawn(move || {
                for round in 0..20_000 {
                    let home = (thread + round) as usize;
                    let handle = insert(map, home, thread);
                    assert_eq!(get(map, handle), Some(thread));
                    let removed = map.remove_at(home + round as usize % 3, handle);
                    assert_eq!(removed.map(|it| **it), Some(thread));
                }
            });
        }
    });
    assert_eq!(map.count(), 0);
    assert_eq!(map.growth.lock().made, THREADS);
}
