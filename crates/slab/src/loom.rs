//! Models of a cache. Uses of one object by several users must not meet, nor the freeing of a slab
//! and its readers.
//!
//! A slab has two objects here, a magazine two rounds, and no empty slab is kept. The magazines of
//! the CPUs have models of their own.

use super::backing::{Backing, Choice};
use super::cache::{Callbacks, Plan, RawCache};
use super::local::with_sequences;
use super::options::Options;
use ::loom::cell::UnsafeCell;
use core::alloc::Layout;
use core::ptr::{self, NonNull};
use fdtable_sync::model::Preemptions::AtMost;
use fdtable_sync::model::{Dropped, Ends, explore, join, spawn};
use fdtable_sync::platform::Arc;
use fdtable_sync::platform::atomic::AtomicPtr;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Release};
use fdtable_sync::rcu;

/// A cache of constructed objects.
struct Model {
    raw: RawCache,
    ends: Ends,
}

/// An object that knows whether it has an owner. The model checker checks that the owners' accesses
/// do not meet.
struct Thing {
    owned: UnsafeCell<bool>,
    dropped: Dropped,
}

impl Model {
    fn new() -> Arc<Self> {
        /// # Safety
        /// As for the destructor of a constructed object.
        unsafe fn destroy(object: NonNull<u8>) {
            // SAFETY: as the caller promises.
            unsafe { object.cast::<Thing>().drop_in_place() };
        }
        let plan = Plan {
            name: "model",
            layout: Layout::new::<Thing>(),
            destroy: Some(destroy),
            callbacks: Callbacks::Leave,
        };
        let raw = RawCache::try_new(plan, Options::new()).expect("there is memory");
        let ends = Ends::default();
        Arc::new(Self { raw, ends })
    }

    fn take(&self) -> NonNull<Thing> {
        let construct = |place: NonNull<u8>| {
            let thing = Thing {
                owned: UnsafeCell::new(false),
                dropped: Dropped::new(&self.ends),
            };
            // SAFETY: the place is for a thing.
            unsafe { place.cast().write(thing) };
        };
        let thing = self.raw.alloc(&construct).expect("there is memory").cast();
        set_owned(thing, true);
        thing
    }

    fn free(&self, thing: NonNull<Thing>) {
        set_owned(thing, false);
        // SAFETY: taken from this cache, and freed once.
        unsafe { self.raw.free(thing.cast()) };
    }

    /// Drops the cache, with all constructed objects.
    fn end(this: Arc<Self>) {
        let ends = this.ends.clone();
        drop(this);
        rcu::barrier().expect("outside of sections");
        assert_eq!(ends.count() % 2, 0, "whole slabs end");
        assert!(ends.count() > 0, "all slabs end");
    }
}

fn set_owned(thing: NonNull<Thing>, now: bool) {
    // SAFETY: constructed, and in a slab that is not freed while an object is in use.
    let owned = &unsafe { thing.as_ref() }.owned;
    // SAFETY: the checker reports two accesses that meet.
    let before = owned.with_mut(|owned| unsafe { owned.replace(now) });
    assert_ne!(before, now, "two own it");
}

#[test]
fn an_object_has_one_owner_at_a_time() {
    explore(AtMost(3), || {
        let model = Model::new();
        let other = spawn({
            let model = model.clone();
            move || {
                let thing = model.take();
                model.free(thing);
            }
        });
        let (one, two) = (model.take(), model.take());
        model.free(one);
        model.free(two);
        join(other);
        assert_eq!(model.raw.info().in_use, 0);
        Model::end(model);
    });
}

#[test]
fn a_shrink_meets_one_who_takes_and_gives() {
    take_and_give_while_it_shrinks();
}

fn take_and_give_while_it_shrinks() {
    explore(AtMost(3), || {
        let model = Model::new();
        let kept = model.take();
        let other = spawn({
            let model = model.clone();
            move || {
                let thing = model.take();
                model.free(thing);
            }
        });
        model.raw.shrink();
        join(other);
        assert_eq!(model.raw.info().in_use, 1);
        model.free(kept);
        model.raw.shrink();
        assert_eq!(model.raw.info().slabs, 0);
        Model::end(model);
    });
}

#[test]
fn a_slab_is_kept_for_readers_of_its_objects() {
    explore(AtMost(3), || {
        let model = Model::new();
        let thing = model.take();
        let place = Arc::new(AtomicPtr::new(thing.as_ptr()));
        let reader = spawn({
            let place = place.clone();
            move || {
                let guard = rcu::read_lock();
                // SAFETY: null, or found inside the section.
                if let Some(thing) = unsafe { place.load(Acquire).as_ref() } {
                    thing.dropped.look();
                }
                drop(guard);
            }
        });
        place.store(ptr::null_mut(), Release);
        model.free(thing);
        model.raw.shrink();
        rcu::barrier().expect("outside of sections");
        assert_eq!(model.ends.count(), 2);
        join(reader);
        Model::end(model);
    });
}

fn look_while_it_shrinks() {
    explore(AtMost(3), || {
        let model = Model::new();
        let thing = model.take();
        model.free(thing);
        let other = spawn({
            let model = model.clone();
            move || {
                let info = model.raw.info();
                assert!(info.in_use <= info.objects);
                assert_eq!((info.hits, info.misses), (0, 1));
            }
        });
        model.raw.shrink();
        join(other);
        Model::end(model);
    });
}

#[test]
fn a_look_at_the_figures_meets_a_shrink() {
    look_while_it_shrinks();
}

#[test]
fn a_look_at_the_figures_meets_a_shrink_with_sequences() {
    with_sequences(look_while_it_shrinks);
}

#[test]
fn a_shrink_meets_one_who_takes_and_gives_with_sequences() {
    with_sequences(take_and_give_while_it_shrinks);
}

#[test]
fn all_agree_on_what_memory_comes_from() {
    explore(AtMost(3), || {
        let choice = Arc::new(Choice::open());
        let others = [Choice::settled, |choice: &Choice| {
            choice.close(Backing::GlobalHeap)
        }];
        let others = others.map(|look| {
            let choice = choice.clone();
            spawn(move || look(&choice))
        });
        let found = choice.close(Backing::Uncoloured);
        for other in others {
            assert_eq!(join(other), found);
        }
        assert_eq!(choice.settled(), found);
    });
}
