//! Models of the map: a reader searches while a writer changes it. A failure shows as a value that
//! was freed, as one that was not initialized, or as a key that is missing.

use std::hash::{BuildHasher, Hasher};

use super::*;
use fdtable_sync::model::Preemptions::AtMost;
use fdtable_sync::model::{Dropped, Ends, explore, join, spawn};
use fdtable_sync::platform::Arc;
use fdtable_sync::rcu::{barrier, read_lock};

/// Hashes all keys alike, so that they share a list.
#[derive(Default)]
struct Same;

impl BuildHasher for Same {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Same
    }
}

impl Hasher for Same {
    fn finish(&self) -> u64 {
        0
    }
    fn write(&mut self, _bytes: &[u8]) {}
}

/// A value whose reads and end the checker watches. Copies are objects of their own.
struct Value {
    object: Dropped,
    drops: Ends,
    number: u8,
}

impl Value {
    fn new(number: u8, drops: &Ends) -> Self {
        Value {
            object: Dropped::new(drops),
            drops: drops.clone(),
            number,
        }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        self.object.look();
        Self::new(self.number, &self.drops)
    }
}

type Map = Arc<RcuMap<u8, Value, Same>>;

/// Searches for a key in a section, and looks at what it finds. Returns the number of the value.
fn search(map: &Map, key: u8) -> Option<u8> {
    let section = read_lock();
    let value = map.get(&key, &section)?;
    value.object.look();
    Some(value.number)
}

fn insert(map: &Map, key: u8, number: u8, drops: &Ends) {
    let mut writer = map.lock();
    let prepared = writer.prepare(key, Value::new(number, drops));
    let replaced = prepared.and_then(|prepared| writer.insert(prepared));
    assert!(replaced.is_ok());
}

/// The reader finds a whole value or none, before and after it is taken out.
#[test]
fn a_search_meets_insertions_and_removals() {
    explore(AtMost(2), || {
        let (map, drops) = (Map::default(), Ends::default());
        let reader = spawn({
            let map = map.clone();
            move || {
                search(&map, 1);
            }
        });
        insert(&map, 1, 1, &drops);
        insert(&map, 2, 2, &drops);
        drop(map.lock().remove(&2));
        drop(map.lock().remove(&1));
        barrier().expect("outside of sections");
        join(reader);
    });
}

/// A key that is replaced, or copied to another table, is found throughout.
#[test]
fn a_search_finds_a_key_that_is_replaced_and_moved() {
    explore(AtMost(2), || {
        let (map, drops) = (Map::default(), Ends::default());
        insert(&map, 1, 1, &drops);
        let reader = spawn({
            let map = map.clone();
            move || {
                let first = search(&map, 1).expect("it is always there");
                let second = search(&map, 1).expect("it is always there");
                assert!(first <= second, "a search does not go back in time");
            }
        });
        insert(&map, 1, 2, &drops);
        // The table grows.
        insert(&map, 2, 2, &drops);
        barrier().expect("outside of sections");
        join(reader);
    });
}

/// A removal leads readers to the node behind the removed one, which they may not have seen yet.
#[test]
fn a_search_finds_what_is_behind_a_removed_node() {
    explore(AtMost(1), || {
        let (map, drops) = (Map::default(), Ends::default());
        for key in [1, 2, 3] {
            insert(&map, key, key, &drops);
        }
        drop(map.lock().remove(&3));
        let reader = spawn({
            let map = map.clone();
            move || {
                search(&map, 4);
            }
        });
        // The table has room for both.
        insert(&map, 4, 4, &drops);
        insert(&map, 5, 5, &drops);
        drop(map.lock().remove(&5));
        join(reader);
    });
}
