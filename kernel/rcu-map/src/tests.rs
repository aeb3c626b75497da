//! Tests of the map against the standard library's, and under threads.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::sync::Arc;
use std::thread;

use proptest::prelude::*;

use super::RcuMap;
use fdtable_sync::rcu;

type Map<V> = RcuMap<u16, V, RandomState>;

fn insert<V: Clone + Send + 'static>(map: &Map<V>, key: u16, value: V) -> Option<V> {
    let mut writer = map.lock();
    let prepared = writer.prepare(key, value).unwrap();
    writer.insert(prepared).unwrap()
}

#[derive(Clone, Debug)]
enum Change {
    Insert(u16, u32),
    Remove(u16),
    Clear,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (0..200_u16, any::<u32>()).prop_map(|(key, value)| Change::Insert(key, value)),
        5 => (0..200_u16).prop_map(Change::Remove),
        1 => Just(Change::Clear),
    ]
}

proptest! {
    #[test]
    fn it_holds_what_a_hash_map_holds(changes in prop::collection::vec(change(), 0..400)) {
        let (map, mut expected) = (Map::default(), HashMap::new());
        for change in changes {
            match change {
                Change::Insert(key, value) => {
                    let replaced = insert(&map, key, value);
                    prop_assert_eq!(replaced, expected.insert(key, value));
                }
                Change::Remove(key) => {
                    prop_assert_eq!(map.lock().remove(&key), expected.remove(&key));
                }
                Change::Clear => {
                    map.lock().clear();
                    expected.clear();
                }
            }
            let writer = map.lock();
            prop_assert_eq!(writer.len(), expected.len());
            let all: HashMap<u16, u32> = writer.iter().map(|(&key, &value)| (key, value)).collect();
            prop_assert_eq!(&all, &expected);
            let section = rcu::read_lock();
            for key in 0..200 {
                prop_assert_eq!(map.get(&key, &section), expected.get(&key));
            }
        }
    }
}

#[test]
fn a_removed_value_is_freed_a_grace_period_later_and_once() {
    let map = Map::default();
    let value = Arc::new(());
    insert(&map, 1, Arc::clone(&value));
    insert(&map, 1, Arc::clone(&value));
    let section = rcu::read_lock();
    let found = map.get(&1, &section);
    drop(map.lock().remove(&1));
    assert!(found.is_some() && map.get(&1, &section).is_none());
    assert!(Arc::strong_count(&value) > 1, "a reader can see it");
    drop(section);
    rcu::barrier().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_dropped_map_frees_its_values() {
    let value = Arc::new(());
    let map = Map::default();
    for key in 0..100 {
        insert(&map, key, Arc::clone(&value));
    }
    drop(map);
    rcu::barrier().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_table_grows_and_shrinks_with_its_keys() {
    let map = Map::default();
    for key in 0..1000 {
        insert(&map, key, 0);
    }
    assert!(map.lock().buckets() >= 1000);
    for key in 0..1000 {
        map.lock().remove(&key);
    }
    assert!(map.lock().buckets() <= 32);
}

/// A key that stays is found at any moment, whatever else is inserted, replaced and removed.
#[test]
fn readers_find_a_key_that_stays_while_others_come_and_go() {
    let map = Map::default();
    insert(&map, 0, Arc::new(0));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let section = rcu::read_lock();
                        assert!(map.get(&0, &section).is_some());
                        for key in 1..8 {
                            if let Some(found) = map.get(&key, &section) {
                                assert_eq!(**found, key);
                            }
                        }
                    }
                })
            })
            .collect();
        let mut round = 0;
        while readers.iter().any(|reader| !reader.is_finished()) {
            round += 1;
            for key in 0..64 {
                insert(&map, key, Arc::new(key));
            }
            for key in 1..64 {
                map.lock().remove(&key);
            }
            if round % 8 == 0 {
                thread::yield_now();
            }
        }
    });
}

/// Otherwise the memory of an unmounted file system would wait for other callbacks.
#[test]
fn a_removed_value_is_freed_soon_also_if_nothing_follows() {
    let map = Map::default();
    let value = Arc::new(());
    insert(&map, 1, Arc::clone(&value));
    drop(map.lock().remove(&1));
    let began = std::time::Instant::now();
    while Arc::strong_count(&value) > 1 {
        assert!(began.elapsed().as_secs() < 20, "it waits for others");
        thread::yield_now();
    }
}

#[test]
fn what_was_prepared_for_another_map_is_found() {
    let (one, other) = (Map::default(), Map::default());
    for key in 0..50 {
        let prepared = one.lock().prepare(key, key).unwrap();
        other.lock().insert(prepared).unwrap();
    }
    let section = rcu::read_lock();
    for key in 0..50 {
        assert_eq!(other.get(&key, &section), Some(&key));
    }
}
