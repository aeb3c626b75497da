//! Models of the map. There are two lists, segments begin with 2 entries, and 2 make a batch. The
//! first handle of a map is [`FIRST`], so a model can use a handle before it is assigned, as a
//! caller that guesses it would.

use super::*;
use crate::object::Rcu;
use crate::object::loom::{Fates, Object};
use core::ptr;
use fdtable_sync::model::Preemptions::{Any, AtMost};
use fdtable_sync::model::{JoinHandle, explore, join, spawn};
use fdtable_sync::platform::Arc;
use fdtable_sync::rcu::read_lock;

/// The first handle of the first entry.
const FIRST: Handle = Handle {
    index: 0,
    generation: 1,
};

/// The second handle of the first entry.
const SECOND: Handle = Handle {
    index: 0,
    generation: 3,
};

/// Runs `act` on a thread of its own.
fn thread<R: 'static>(
    map: &Arc<SlotMap<Rcu<Object>>>,
    act: impl FnOnce(&SlotMap<Rcu<Object>>) -> R + 'static,
) -> JoinHandle<R> {
    let map = map.clone();
    spawn(move || act(&map))
}

fn insert(map: &SlotMap<Rcu<Object>>, home: usize, object: Ref<Rcu<Object>>) -> Handle {
    let inserted = map.insert_at(home, object);
    inserted
        .map_err(|(reason, _)| reason)
        .expect("an entry is free")
}

/// Removes the object and puts it. Returns true if there was one.
fn remove(map: &SlotMap<Rcu<Object>>, handle: Handle) -> bool {
    let removed = map.remove_at(0, handle);
    if let Some(object) = &removed {
        object.look();
    }
    removed.is_some()
}

/// Borrows the object and reads it.
fn borrow(map: &SlotMap<Rcu<Object>>, handle: Handle) {
    let guard = read_lock();
    if let Some(object) = map.borrow(handle, &guard) {
        object.look_inside_section();
    }
}

/// Checks that, if the handle names an object, it is this one.
fn borrow_this(map: &SlotMap<Rcu<Object>>, handle: Handle, this: &Ref<Rcu<Object>>) {
    let guard = read_lock();
    if let Some(object) = map.borrow(handle, &guard) {
        object.look_inside_section();
        let (found, this): (&Object, &Object) = (&object, this);
        assert!(ptr::eq(found, this), "another object");
    }
}

/// Gets the object, leaves the section, reads the object and puts it.
fn get(map: &SlotMap<Rcu<Object>>, handle: Handle) {
    let got = map.get(handle, &read_lock());
    if let Some(object) = got {
        object.look();
    }
}

/// A borrowed object that is freed inside the section.
#[test]
fn a_borrow_meets_a_removal() {
    explore(Any, || {
        let fates = Fates::default();
        let map = Arc::new(SlotMap::new(1));
        let handle = insert(&map, 0, fates.object());
        let borrower = thread(&map, move |map| borrow(map, handle));
        assert!(remove(&map, handle));
        join(borrower);
        fates.check(1);
    });
}

/// A reference that was taken to an object that is released or freed.
#[test]
fn a_get_meets_the_last_put() {
    explore(Any, || {
        let fates = Fates::default();
        let map = Arc::new(SlotMap::new(1));
        let handle = insert(&map, 0, fates.object());
        let getter = thread(&map, move |map| get(map, handle));
        assert!(remove(&map, handle));
        join(getter);
        fates.check(1);
    });
}

/// A stale handle that finds the next object of its entry.
#[test]
fn a_lookup_meets_a_removal_and_the_next_opening() {
    explore(Any, || {
        let fates = Fates::default();
        let map = Arc::new(SlotMap::new(1));
        let (old, new) = (fates.object(), fates.object());
        let handle = insert(&map, 0, old.clone());
        let reader = thread(&map, move |map| borrow_this(map, handle, &old));
        assert!(remove(&map, handle));
        assert_eq!(insert(&map, 0, new), SECOND);
        join(reader);
        assert!(remove(&map, SECOND));
        fates.check(2);
    });
}

/// A handle that is used before it is assigned, and finds the previous object of the entry, or an
/// incomplete one.
#[test]
fn a_lookup_meets_the_opening_that_it_guessed() {
    explore(AtMost(4), || {
        let fates = Fates::default();
        let map = Arc::new(SlotMap::new(1));
        let handle = insert(&map, 0, fates.object());
        let new = fates.object();
        let reader = {
            let new = new.clone();
            thread(&map, move |map| borrow_this(map, SECOND, &new))
        };
        assert!(remove(&map, handle));
        assert_eq!(insert(&map, 0, new), SECOND);
        join(reader);
        assert!(remove(&map, SECOND));
        fates.check(2);
    });
}

/// An incomplete object that a guessed handle finds or removes, in an entry that the guesser did
/// not see being made.
#[test]
fn a_new_entry_is_complete() {
    explore(AtMost(4), || {
        let fates = Fates::default();
        let map = Arc::new(SlotMap::new(1));
        let guesser = thread(&map, |map| {
            borrow(map, FIRST);
            remove(map, FIRST)
        });
        assert_eq!(insert(&map, 0, fates.object()), FIRST);
        let removed = remove(&map, FIRST);
        assert!(join(guesser) != removed, "one of them has the object");
        fates.check(1);
    });
}

/// A reference of the map that two removals both got, or an entry that both freed.
#[test]
fn one_of_two_removals_has_the_object() {
    explore(Any, || {
        let fates = Fates::default();
        let map = Arc::new(SlotMap::new(2));
        let handle = insert(&map, 0, fates.object());
        let other = thread(&map, move |map| remove(map, handle));
        let removed = remove(&map, handle);
        assert!(join(other) != removed);
        fates.check(1);
        let handles = [fates.object(), fates.object()].map(|object| insert(&map, 0, object));
        assert_ne!(handles[0].index(), handles[1].index());
        drop(handles.map(|handle| map.remove_at(0, handle)));
        fates.check(3);
    });
}

/// A stale handle that removes the next object of its entry.
#[test]
fn a_removal_meets_another_and_the_next_opening() {
    explore(Any, || {
        let fates = Fates::default();
        let map = Arc::new(SlotMap::new(1));
        let handle = insert(&map, 0, fates.object());
        let late = thread(&map, move |map| remove(map, handle));
        if remove(&map, handle) {
            assert_eq!(insert(&map, 0, fates.object()), SECOND);
            assert!(remove(&map, SECOND), "no other thread may have removed it");
            assert!(!join(late));
            fates.check(2);
        } else {
            assert!(join(late));
            fates.check(1);
        }
    });
}

/// An entry that is opened again after its last generation, or freed by both.
#[test]
fn one_of_two_removals_retires_the_entry() {
    explore(Any, || {
        let fates = Fates::default();
        let map = Arc::new(SlotMap::new(1));
        drop(map.remove_at(0, insert(&map, 0, fates.object())));
        let entry = map.segments.entry(0).expect("it was made");
        entry.word.store(u32::MAX - 1, Relaxed);
        let handle = insert(&map, 0, fates.object());
        assert_eq!(handle.generation(), u32::MAX);
        let other = thread(&map, move |map| remove(map, handle));
        let removed = remove(&map, handle);
        assert!(join(other) != removed);
        assert_eq!(insert(&map, 0, fates.object()).index(), 1);
        assert!(
            map.insert_at(0, fates.object()).is_err(),
            "one is the limit"
        );
        drop(map);
        fates.check(4);
    });
}

/// An entry that two threads take: one from its list, the other one steals it, with the entries
/// below it.
#[test]
fn a_theft_meets_the_owner_of_the_list() {
    explore(Any, || {
        let fates = Fates::default();
        let map = Arc::new(SlotMap::new(2));
        let handles = [fates.object(), fates.object()].map(|object| insert(&map, 0, object));
        drop(handles.map(|handle| map.remove_at(0, handle)));
        let object = fates.object();
        let thief = thread(&map, move |map| insert(map, 1, object));
        let own = insert(&map, 0, fates.object());
        let stolen = join(thief);
        assert_ne!(own.index(), stolen.index());
        assert!(remove(&map, own));
        assert!(remove(&map, stolen));
        fates.check(4);
    });
}

/// An entry that is lost, or assigned twice, while one thread takes and another frees.
#[test]
fn a_theft_meets_a_removal() {
    explore(Any, || {
        let fates = Fates::default();
        let map = Arc::new(SlotMap::new(2));
        let first = insert(&map, 0, fates.object());
        let object = fates.object();
        let thief = thread(&map, move |map| insert(map, 1, object));
        assert!(remove(&map, first));
        let stolen = join(thief);
        let own = insert(&map, 0, fates.object());
        assert_ne!(own.index(), stolen.index());
        assert_eq!(map.count(), 2);
        drop(map);
        fates.check(3);
    });
}

/// A full map that is reported although one entry was free all the time, on different lists.
#[test]
fn an_insertion_fails_only_if_the_map_was_full() {
    explore(AtMost(5), || {
        let fates = Fates::default();
        let map = Arc::new(SlotMap::new(2));
        let handles = [fates.object(), fates.object()].map(|object| insert(&map, 0, object));
        drop(map.remove_at(1, handles[0]));
        let objects = [fates.object(), fates.object(), fates.object()];
        let mover = thread(&map, move |map| {
            let mut handle = handles[1];
            for (from, object) in objects.into_iter().enumerate() {
                // One entry is free before this, and after the next step again.
                drop(map.remove_at(from, handle));
                match map.insert_at(from + 1, object) {
                    Ok(inserted) => handle = inserted,
                    Err(_) => panic!("it freed one before"),
                }
            }
        });
        insert(&map, 0, fates.object());
        join(mover);
        assert_eq!(map.count(), 2);
        drop(map);
        fates.check(6);
    });
}
