use super::chunk::CHUNK;
use super::*;
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::rcu;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, mpsc};

/// Shared by tests that free the unused memory of all caches; held alone by a test that needs the
/// empty magazines of its own.
static ALL_CACHES: RwLock<()> = RwLock::new(());

fn cache<T>(options: Options) -> Cache<T> {
    Cache::with("test", options).expect("there is memory")
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
    let cache = cache::<Probe>(Options::new());
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
    let cache = cache::<Panics>(Options::new());
    let object = insert(&cache, Panics);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(object))).is_err());
    assert_eq!(cache.info().in_use, 0);
}

#[test]
fn without_memory_the_value_is_dropped_and_nothing_else_happens() {
    let cache = cache::<Probe>(Options::new());
    let dropped = Arc::new(AtomicUsize::new(0));
    let refused = scarcity::with_chunks(0, || cache.insert(Probe(dropped.clone())).err());
    assert_eq!(refused, Some(OutOfMemory));
    assert_eq!((dropped.load(SeqCst), cache.info().slabs), (1, 0));
    drop(insert(&cache, Probe(dropped)));
}

#[test]
fn without_magazines_objects_come_from_their_slabs_and_go_back_there() {
    let cache = cache::<usize>(Options::new());
    scarcity::without_magazines(|| {
        let objects: Vec<_> = (0..1000).map(|value| insert(&cache, value)).collect();
        assert!(objects.iter().map(|object| **object).eq(0..1000));
        assert_eq!(cache.info().in_use, 1000);
        drop(objects);
    });
    let info = cache.info();
    assert_eq!((info.in_use, info.hits, info.misses), (0, 0, 1000));
}

#[test]
fn a_forgotten_object_keeps_its_slab() {
    let cache = cache::<u64>(Options::new());
    let mut object = insert(&cache, 7);
    let place = core::ptr::from_mut(&mut *object);
    core::mem::forget(object);
    drop(cache);
    rcu::barrier().expect("outside of sections");
    // SAFETY: forgotten, so no other thread has it; its slab stays.
    assert_eq!(unsafe { place.read() }, 7);
}

#[test]
fn what_the_magazines_can_hold_is_not_asked_for_again() {
    let cache = cache::<[u64; 8]>(Options::new());
    for _ in 0..10_000 {
        drop(insert(&cache, [0; 8]));
    }
    // One more for each time that the thread is moved to a CPU where it has not been.
    let info = cache.info();
    assert!(info.misses <= 64, "{info}");
    assert_eq!(info.hits + info.misses, 10_000, "{info}");
    cache.shrink();
    assert_eq!(
        cache.info().hits,
        info.hits,
        "also those of magazines that are gone"
    );
}

#[test]
fn memory_goes_back_while_the_cache_is_in_use() {
    let cache = cache::<[u64; 8]>(Options::new());
    let objects: Vec<_> = (0..100_000).map(|_| insert(&cache, [0; 8])).collect();
    let full = cache.info();
    assert_eq!(full.in_use, 100_000);
    assert!(full.bytes as f64 <= 100_000.0 * 64.0 * 1.06, "{full}");
    drop(objects);
    let empty = cache.info();
    assert_eq!(empty.in_use, 0);
    assert!(empty.bytes <= full.bytes / 4, "{empty}");
    let freed = cache.shrink();
    assert_eq!(freed, empty.bytes, "all of it");
    assert_eq!((cache.info().slabs, cache.info().bytes), (0, 0));
}

#[test]
fn slabs_begin_at_different_lines() {
    let first_lines = |options| {
        let cache = cache::<[u64; 64]>(options);
        let count = cache.info().objects_per_slab * 16;
        let objects: Vec<_> = (0..count).map(|_| insert(&cache, [0; 64])).collect();
        let mut lines = BTreeMap::new();
        for object in &objects {
            let place = address(&**object);
            let first = lines.entry(place / CHUNK).or_insert(usize::MAX);
            *first = (*first).min(place % CHUNK / 64);
        }
        let mut lines: Vec<usize> = lines.into_values().collect();
        lines.sort_unstable();
        lines.dedup();
        lines.len()
    };
    assert_eq!(first_lines(Options::new()), 16);
    assert_eq!(first_lines(Options::new().colouring(Colouring::Off)), 1);
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

/// Objects that count their instances.
mod constructed {
    use super::*;

    macro_rules! counted {
        ($alive:ident, $constructed:ident) => {
            static $alive: AtomicUsize = AtomicUsize::new(0);
            struct $constructed([u64; 100]);
            impl $constructed {
                fn new() -> Self {
                    $alive.fetch_add(1, SeqCst);
                    Self([7; 100])
                }
            }
            impl Drop for $constructed {
                fn drop(&mut self) {
                    $alive.fetch_sub(1, SeqCst);
                }
            }
        };
    }

    #[test]
    fn objects_stay_constructed_until_their_slab_has_no_readers() {
        counted!(ALIVE, Thing);
        let cache = ConstructedCache::new("test", Thing::new).expect("there is memory");
        let mut object = cache.take().expect("there is memory");
        let in_slab = cache.info().objects_per_slab;
        assert_eq!(ALIVE.load(SeqCst), in_slab);
        object.0[99] = 8;
        let place = core::ptr::from_ref(&*object);
        drop(object);
        let again = cache.take().expect("there is memory");
        assert_eq!((core::ptr::from_ref(&*again), again.0[99]), (place, 8));
        drop(again);
        let guard = rcu::read_lock();
        assert!(cache.shrink() >= CHUNK);
        drop(cache);
        assert_eq!(ALIVE.load(SeqCst), in_slab, "a reader may look");
        // SAFETY: found before the slab was freed, inside the section.
        assert_eq!(unsafe { &*place }.0[99], 8);
        drop(guard);
        rcu::barrier().expect("outside of sections");
        assert_eq!(ALIVE.load(SeqCst), 0);
    }

    #[test]
    fn a_constructor_that_panics_leaks_nothing() {
        counted!(ALIVE, Thing);
        static PANICS: AtomicBool = AtomicBool::new(true);
        let construct = || {
            let thing = Thing::new();
            let panics = ALIVE.load(SeqCst) == 5 && PANICS.load(SeqCst);
            assert!(!panics, "on purpose");
            thing
        };
        let cache = ConstructedCache::new("test", construct).expect("there is memory");
        assert!(catch_unwind(AssertUnwindSafe(|| drop(cache.take()))).is_err());
        assert_eq!((ALIVE.load(SeqCst), cache.info().slabs), (0, 0));
        PANICS.store(false, SeqCst);
        assert_eq!(cache.take().expect("there is memory").0[0], 7);
        drop(cache);
        rcu::barrier().expect("outside of sections");
        assert_eq!(ALIVE.load(SeqCst), 0);
    }

    /// A destructor, which is code of others, runs inside a section.
    #[test]
    fn destructors_run_outside_of_sections() {
        static INSIDE: AtomicUsize = AtomicUsize::new(0);
        std::thread_local! {
            static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
        }
        struct Object([u8; 1000]);
        impl Drop for Object {
            fn drop(&mut self) {
                INSIDE.fetch_add(usize::from(IS_INSIDE.get()), SeqCst);
            }
        }
        let cache = ConstructedCache::new("test", || Object([0; 1000])).expect("there is memory");
        for _ in 0..300 {
            let _section = rcu::read_lock();
            IS_INSIDE.set(true);
            cache.take().expect("there is memory").0[0] = 1;
            cache.shrink();
            IS_INSIDE.set(false);
        }
        rcu::barrier().expect("outside of sections");
        assert_eq!(INSIDE.load(SeqCst), 0, "destructors inside a section");
    }

    #[test]
    fn a_destructor_that_panics_leaves_the_others_theirs() {
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        struct Panics([u64; 1000]);
        impl Drop for Panics {
            fn drop(&mut self) {
                assert!(DROPPED.fetch_add(1, SeqCst) != 2, "on purpose");
            }
        }
        let cache = ConstructedCache::new("test", || Panics([0; 1000])).expect("there is memory");
        assert_eq!(cache.take().expect("there is memory").0[0], 0);
        let in_slab = cache.info().objects_per_slab;
        drop(cache);
        rcu::barrier().expect("outside of sections");
        assert_eq!(DROPPED.load(SeqCst), in_slab);
    }

    #[test]
    fn a_constructor_may_use_its_own_cache() {
        static CACHE: OnceLock<ConstructedCache<usize>> = OnceLock::new();
        static DEPTH: AtomicUsize = AtomicUsize::new(0);
        let construct = || {
            if DEPTH.fetch_add(1, SeqCst) == 0 {
                let cache = CACHE.get().expect("it is there");
                return *cache.take().expect("there is memory") + 1;
            }
            7
        };
        let cache = ConstructedCache::new("test", construct).expect("there is memory");
        let cache = CACHE.get_or_init(|| cache);
        assert!([7, 8].contains(&*cache.take().expect("there is memory")));
    }
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

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(coloured, lines, checked)| {
        let mut options = Options::new();
        if !coloured {
            options = options.colouring(Colouring::Off);
        }
        if lines {
            options = options.alignment(Alignment::Line);
        }
        if checked {
            options = options.checks(Checks::Full);
        }
        options
    })
}

/// Plays a history of objects of `SIZE` bytes: no two overlap, each is aligned and keeps its
/// contents, and the figures are right.
fn play<const SIZE: usize>(options: Options, steps: Vec<Step>) {
    let cache = cache::<[u8; SIZE]>(options);
    let mut objects: Vec<(u8, Object<'_, [u8; SIZE]>)> = Vec::new();
    let mut places = BTreeMap::new();
    let insert_one = |value: u8, objects: &mut Vec<_>, places: &mut BTreeMap<usize, ()>| {
        let object = insert(&cache, [value; SIZE]);
        let place = address(&*object);
        if options.alignment == Alignment::Line {
            assert!(place.is_multiple_of(64));
        }
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
    fn histories_of_small_objects(options in options(), steps in prop::collection::vec(step(), 1..60)) {
        play::<24>(options, steps);
    }

    #[test]
    fn histories_of_large_objects(options in options(), steps in prop::collection::vec(step(), 1..30)) {
        play::<3000>(options, steps);
    }
}

/// Objects that are taken by some threads and freed by others, while a third shrinks: each has one
/// owner at a time.
#[test]
fn every_object_has_one_owner_at_a_time() {
    const ROUNDS: usize = 300;
    let cache = ConstructedCache::new("test", || AtomicUsize::new(0)).expect("there is memory");
    let (cache, done) = (&cache, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=3)
            .map(|me| {
                let (send, receive) = mpsc::sync_channel::<Vec<Constructed<'_, AtomicUsize>>>(4);
                scope.spawn(move || {
                    for object in receive.into_iter().flatten() {
                        assert_eq!(object.swap(0, SeqCst), me);
                    }
                });
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for round in 0..ROUNDS {
                        let count = (round * 37 + me * 11) % 200;
                        let mut objects = Vec::new();
                        for _ in 0..count {
                            let object = cache.take().expect("there is memory");
                            assert_eq!(object.swap(me, SeqCst), 0, "it had an owner");
                            objects.push(object);
                        }
                        if round % 3 == 0 {
                            send.send(objects).expect("it is read");
                        } else {
                            kept.append(&mut objects);
                        }
                        for object in kept.drain(kept.len() / 2..) {
                            assert_eq!(object.swap(0, SeqCst), me, "another owned it");
                        }
                    }
                    for object in kept {
                        assert_eq!(object.swap(0, SeqCst), me);
                    }
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
fn a_callback_that_runs_in_shrink_may_look_at_the_cache() {
    static CACHE: OnceLock<Cache<[u8; 32 * 1024]>> = OnceLock::new();
    let (send, done) = mpsc::channel();
    std::thread::spawn(move || {
        let cache = CACHE.get_or_init(|| cache(Options::new()));
        let objects: Vec<_> = (0..200).map(|_| insert(cache, [1; 32 * 1024])).collect();
        drop(objects);
        rcu::defer(|| drop(CACHE.get().map(|cache| (cache.info(), infos()))));
        cache.shrink();
        let all = ALL_CACHES.read().unwrap_or_else(PoisonError::into_inner);
        shrink();
        drop(all);
        rcu::barrier().expect("outside of sections");
        send.send(()).expect("the test listens");
    });
    let soon = core::time::Duration::from_secs(20);
    done.recv_timeout(soon)
        .expect("it does not wait for itself");
}

#[test]
fn a_constructor_that_panics_frees_no_magazine_that_was_in_use() {
    static PANICS: AtomicBool = AtomicBool::new(false);
    fn construct() -> [u64; 1000] {
        assert!(!PANICS.load(SeqCst), "on purpose");
        [0; 1000]
    }
    let _all = ALL_CACHES.write().unwrap_or_else(PoisonError::into_inner);
    let cache = ConstructedCache::new("test", construct).expect("there is memory");
    let take = || cache.take().expect("there is memory");
    // Empty magazines circulate: from the CPU to the depot and back.
    let mut kept: Vec<_> = (0..80).map(|_| take()).collect();
    let before = cache.info();
    PANICS.store(true, SeqCst);
    while let Ok(object) = catch_unwind(AssertUnwindSafe(take)) {
        kept.push(object);
    }
    let after = cache.info();
    assert_eq!((after.bytes, after.slabs), (before.bytes, before.slabs));
}

#[test]
fn every_object_is_destroyed_though_destructors_panic() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static DESTROYED: AtomicUsize = AtomicUsize::new(0);
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            DESTROYED.fetch_add(1, SeqCst);
            panic!("on purpose");
        }
    }
    let construct = || {
        // The first slab is not finished.
        assert!(MADE.load(SeqCst) != 3 || DESTROYED.load(SeqCst) == 3);
        MADE.fetch_add(1, SeqCst);
        Loud
    };
    let cache = ConstructedCache::new("loud", construct).expect("there is memory");
    let taken = catch_unwind(AssertUnwindSafe(|| drop(cache.take())));
    assert!(taken.is_err() && DESTROYED.load(SeqCst) == 3);
    drop(cache.take().expect("there is memory"));
    drop(cache);
    rcu::barrier().expect("outside of sections");
    assert!(MADE.load(SeqCst) > 10);
    assert_eq!(DESTROYED.load(SeqCst), MADE.load(SeqCst));
}

#[test]
fn all_caches_free_what_is_unused_in_any_order() {
    let cache: Cache<[u8; 1000]> = cache(Options::new());
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
    let all = ALL_CACHES.read().unwrap_or_else(PoisonError::into_inner);
    assert!(shrink() > 0);
    drop(all);
    rcu::barrier().expect("outside of sections");
    assert_eq!(cache.info().slabs, 0);
}
