//! Models of a cache. Uses of one object by several users must not meet.
//!
//! A slab has two objects here, a magazine two rounds, and no empty slab is kept. The magazines of
//! the CPUs have models of their own.

use super::backing::{Backing, Choice};
use super::cache::RawCache;
use super::local::with_sequences;
use super::shape::{Colouring, Plan};
use ::loom::cell::UnsafeCell;
use alloc::boxed::Box;
use core::alloc::Layout;
use core::ptr::{self, NonNull};
use fdtable_sync::model::Preemptions::AtMost;
use fdtable_sync::model::{explore, join, spawn};
use fdtable_sync::platform::Arc;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A cache, and a cell for each object that was taken from it. The address of the cell is in the
/// object, which keeps it while it is free.
struct Model {
    raw: RawCache,
    cells: Mutex<BTreeMap<usize, Box<Owned>>>,
}

/// True while an object has an owner. The model checker checks that accesses of owners do not meet.
type Owned = UnsafeCell<bool>;

type Object = NonNull<*const Owned>;

impl Model {
    fn new() -> Arc<Self> {
        let plan = Plan {
            name: "model",
            layout: Layout::new::<*const Owned>(),
            colouring: Colouring::On,
            is_checked: false,
        };
        let raw = RawCache::try_new(plan).expect("there is memory");
        let cells = Mutex::default();
        Arc::new(Self { raw, cells })
    }

    fn take(&self) -> Object {
        let object: Object = self.raw.alloc().expect("there is memory").cast();
        let mut cells = self.cells.lock().expect("no panic");
        let known = cells.get(&object.addr().get());
        // Else it is in a new slab. In memory that another slab had it is overwritten.
        // SAFETY: written when its cell was made.
        if !known.is_some_and(|known| ptr::eq(&raw const **known, unsafe { object.read() })) {
            let new = Box::new(UnsafeCell::new(false));
            // SAFETY: the object is this thread's.
            unsafe { object.write(&raw const *new) };
            cells.insert(object.addr().get(), new);
        }
        drop(cells);
        set_owned(object, true);
        object
    }

    fn free(&self, object: Object) {
        set_owned(object, false);
        // SAFETY: taken from this cache, and freed once.
        unsafe { self.raw.free(object.cast()) };
    }
}

fn set_owned(object: Object, now: bool) {
    // SAFETY: in a slab that is not freed while an object is in use.
    let owned = unsafe { &*object.read() };
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
                assert_eq!(info.misses, 1);
            }
        });
        model.raw.shrink();
        join(other);
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
