use super::chunk::CHUNK;
use super::*;
use fdtable_sync::fallible::OutOfMemory;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};

fn cache<T>() -> Cache<T> {
    Cache::new("test").expect("there is memory")
}

fn insert<T>(cache: &Cache<T>, value: T) -> Object<'_, T> {
    cache.insert(value).expect("there is memory")
}

fn address<T>(value: &T) -> usize {
    core::ptr::from_ref(value).addr()
}

/// Counts how often it is dropped.
struct Probe(Arc<AtomicUsize>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_value_is_dropped_once_and_its_place_is_used_again() {
    let cache = cache::<Probe>();
    let dropped = Arc::new(AtomicUsize::new(0));
    let object = insert(&cache, Probe(dropped.clone()));
    let place = address(&*object);
    assert_eq!(cache.info().in_use, 1);
    drop(object);
    assert_eq!((dropped.load(SeqCst), cache.info().in_use), (1, 0));
    let again = insert(&cache, Probe(dropped.clone()));
    assert_eq!(address(&*again), place);
}

#[test]
fn a_value_that_panics_when_it_is_dropped_leaves_its_place() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let cache = cache::<Panics>();
    let object = insert(&cache, Panics);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(object))).is_err());
    assert_eq!(cache.info().in_use, 0);
}

#[test]
fn without_memory_the_value_is_dropped_and_nothing_else_happens() {
    let cache = cache::<Probe>();
    let dropped = Arc::new(AtomicUsize::new(0));
    let refused = scarcity::with_chunks(0, || cache.insert(Probe(dropped.clone())).err());
    assert_eq!(refused, Some(OutOfMemory));
    assert_eq!((dropped.load(SeqCst), cache.info().slabs), (1, 0));
    drop(insert(&cache, Probe(dropped)));
}

#[test]
fn without_magazines_objects_come_from_their_slabs_and_go_back_there() {
    let cache = cache::<usize>();
    scarcity::without_magazines(|| {
        let objects: Vec<_> = (0..1000).map(|value| insert(&cache, value)).collect();
        assert!(objects.iter().map(|object| **object).eq(0..1000));
        assert_eq!(cache.info().in_use, 1000);
        drop(objects);
    });
    let info = cache.info();
    assert_eq!((info.in_use, info.misses), (0, 1000));
}

#[test]
fn a_forgotten_object_keeps_its_slab() {
    let cache = cache::<u64>();
    let mut object = insert(&cache, 7);
    let place = core::ptr::from_mut(&mut *object);
    core::mem::forget(object);
    drop(cache);
    // SAFETY: forgotten, so no other thread has it; its slab stays.
    assert_eq!(unsafe { place.read() }, 7);
}

#[test]
fn what_the_magazines_can_hold_is_not_asked_for_again() {
    let cache = cache::<[u64; 8]>();
    for _ in 0..10_000 {
        drop(insert(&cache, [0; 8]));
    }
    // One more for each time that the thread is moved to a CPU where it has not been.
    let info = cache.info();
    assert!(info.misses <= 64, "{info:?}");
}

#[test]
fn memory_goes_back_while_the_cache_is_in_use() {
    let cache = cache::<[u64; 8]>();
    let objects: Vec<_> = (0..100_000).map(|_| insert(&cache, [0; 8])).collect();
    let full = cache.info();
    assert_eq!(full.in_use, 100_000);
    assert!(full.bytes as f64 <= 100_000.0 * 64.0 * 1.06, "{full:?}");
    drop(objects);
    let empty = cache.info();
    assert_eq!(empty.in_use, 0);
    assert!(empty.bytes <= full.bytes / 4, "{empty:?}");
    let freed = cache.shrink();
    assert_eq!(freed, empty.bytes, "all of it");
    assert_eq!((cache.info().slabs, cache.info().bytes), (0, 0));
}

#[test]
fn slabs_begin_at_different_lines() {
    // A thread that is moved to another CPU may need one slab more.
    let slabs_and_first_lines = |colouring| {
        let cache = Cache::<[u64; 64]>::with("test", colouring).expect("there is memory");
        let count = cache.info().objects_per_slab * 16;
        let objects: Vec<_> = (0..count).map(|_| insert(&cache, [0; 64])).collect();
        let mut lines = BTreeMap::new();
        for object in &objects {
            let place = address(&**object);
            let first = lines.entry(place / CHUNK).or_insert(usize::MAX);
            *first = (*first).min(place % CHUNK / 64);
        }
        let different: BTreeSet<_> = lines.values().collect();
        (lines.len(), different.len())
    };
    let (slabs, lines) = slabs_and_first_lines(Colouring::On);
    assert_eq!(lines, slabs);
    assert!(slabs >= 16);
    assert_eq!(slabs_and_first_lines(Colouring::Off).1, 1);
}

#[test]
fn all_caches_are_listed_until_they_are_dropped() {
    let cache = Cache::<u32>::new("listed").expect("there is memory");
    let other = Cache::<u64>::new("listed").expect("there is memory");
    let _object = insert(&other, 1);
    let listed = || {
        let infos = infos().into_iter().filter(|info| info.name == "listed");
        infos.map(|info| info.in_use).collect::<Vec<_>>()
    };
    assert_eq!(listed(), [1, 0]);
    drop(cache);
    assert_eq!(listed(), [1]);
}

#[test]
fn general_memory_is_listed_by_its_class() {
    let layout = core::alloc::Layout::new::<[u64; 9]>();
    let place = general::alloc(layout).expect("there is memory");
    let info = infos().into_iter().find(|info| info.name == "general-72");
    assert!(info.expect("it is there").in_use >= 1);
    // SAFETY: taken above.
    unsafe { general::free(place, layout) };
}

/// An operation of a random history.
#[derive(Clone, Debug)]
enum Step {
    Insert(u8),
    /// Several at once, so that magazines and slabs fill up.
    InsertMany(u16),
    Remove(prop::sample::Index),
    RemoveMany(prop::sample::Index, u16),
    Shrink,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u8>().prop_map(Step::Insert),
        2 => (1..400_u16).prop_map(Step::InsertMany),
        4 => any::<prop::sample::Index>().prop_map(Step::Remove),
        2 => (any::<prop::sample::Index>(), 1..500_u16)
            .prop_map(|(index, count)| Step::RemoveMany(index, count)),
        1 => Just(Step::Shrink),
    ]
}

fn colouring() -> impl Strategy<Value = Colouring> {
    prop_oneof![Just(Colouring::On), Just(Colouring::Off)]
}

/// Plays a history of objects of `SIZE` bytes: no two overlap, each keeps its contents, and the
/// figures are right.
fn play<const SIZE: usize>(colouring: Colouring, is_checked: bool, steps: Vec<Step>) {
    let cache = Cache::<[u8; SIZE]>::of_kind("test", colouring, is_checked);
    let cache = cache.expect("there is memory");
    let mut objects: Vec<(u8, Object<'_, [u8; SIZE]>)> = Vec::new();
    let mut places = BTreeMap::new();
    let insert_one = |value: u8, objects: &mut Vec<_>, places: &mut BTreeMap<usize, ()>| {
        let object = insert(&cache, [value; SIZE]);
        let place = address(&*object);
        if let Some((before, ())) = places.range(..=place).next_back() {
            assert!(before + SIZE <= place, "objects overlap");
        }
        if let Some((after, ())) = places.range(place..).next() {
            assert!(place + SIZE <= *after, "objects overlap");
        }
        places.insert(place, ());
        objects.push((value, object));
    };
    let remove_one = |index: usize, objects: &mut Vec<_>, places: &mut BTreeMap<usize, ()>| {
        let (value, object): (u8, Object<'_, [u8; SIZE]>) = objects.swap_remove(index);
        assert_eq!(*object, [value; SIZE]);
        places.remove(&address(&*object));
    };
    for step in steps {
        match step {
            Step::Insert(value) => insert_one(value, &mut objects, &mut places),
            Step::InsertMany(count) => {
                (0..count).for_each(|value| insert_one(value as u8, &mut objects, &mut places));
            }
            Step::Remove(index) if !objects.is_empty() => {
                remove_one(index.index(objects.len()), &mut objects, &mut places);
            }
            Step::RemoveMany(index, count) => {
                for _ in 0..usize::from(count).min(objects.len()) {
                    remove_one(index.index(objects.len()), &mut objects, &mut places);
                }
            }
            Step::Remove(_) => {}
            Step::Shrink => {
                cache.shrink();
            }
        }
        assert_eq!(cache.info().in_use, objects.len());
    }
    drop(objects);
    cache.shrink();
    assert_eq!(cache.info().slabs, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn histories_of_small_objects(
        colouring in colouring(),
        is_checked: bool,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        play::<24>(colouring, is_checked, steps);
    }

    #[test]
    fn histories_of_large_objects(
        colouring in colouring(),
        is_checked: bool,
        steps in prop::collection::vec(step(), 1..30),
    ) {
        play::<3000>(colouring, is_checked, steps);
    }
}

/// Objects that are taken by some threads and freed by others, while a third shrinks: each has one
/// owner at a time, whose value stays in it.
#[test]
fn every_object_has_one_owner_at_a_time() {
    const ROUNDS: usize = 300;
    fn free(objects: impl IntoIterator<Item = (usize, Object<'static, AtomicUsize>)>) {
        for (owner, object) in objects {
            assert_eq!(object.swap(0, SeqCst), owner, "another owned it");
        }
    }
    let cache: &'static Cache<AtomicUsize> = Box::leak(Box::new(cache()));
    let done = &AtomicBool::new(false);
    let owners = &AtomicUsize::new(1);
    let take = || {
        let owner = owners.fetch_add(1, SeqCst);
        (owner, insert(cache, AtomicUsize::new(owner)))
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=3)
            .map(|me| {
                let (send, receive) = mpsc::sync_channel::<Vec<_>>(4);
                scope.spawn(move || free(receive.into_iter().flatten()));
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for round in 0..ROUNDS {
                        let count = (round * 37 + me * 11) % 200;
                        let mut objects: Vec<_> = (0..count).map(|_| take()).collect();
                        if round % 3 == 0 {
                            send.send(objects).expect("it is read");
                        } else {
                            kept.append(&mut objects);
                        }
                        free(kept.drain(kept.len() / 2..));
                    }
                    free(kept);
                })
            })
            .collect();
        scope.spawn(move || {
            while !done.load(SeqCst) {
                cache.shrink();
                assert!(cache.info().in_use <= cache.info().objects + 1000);
                std::thread::yield_now();
            }
        });
        for worker in workers {
            worker.join().expect("a worker ends well");
        }
        done.store(true, SeqCst);
    });
    assert_eq!(cache.info().in_use, 0);
    cache.shrink();
    assert_eq!(cache.info().slabs, 0);
}

#[test]
fn all_caches_free_what_is_unused_in_any_order() {
    let cache: Cache<[u8; 1000]> = cache();
    let mut objects: Vec<_> = (0..5000).map(|_| Some(insert(&cache, [1; 1000]))).collect();
    // Every seventh, and again, so that the kept objects are spread over all slabs.
    for first in 0..7 {
        objects
            .iter_mut()
            .skip(first)
            .step_by(7)
            .for_each(|object| *object = None);
    }
    assert!(cache.info().slabs > 1);
    assert!(shrink() > 0);
    assert_eq!(cache.info().slabs, 0);
}
