//! Models of counted objects, and the object for the models of slots. A holder of a reference looks
//! at the part that the release hook ends; a reader that only borrowed looks at the part that
//! `Drop` ends. A failure shows as a look that meets an end, or as an end that comes twice or
//! never.

use super::*;
use core::ptr;
use fdtable_sync::model::Preemptions::{Any, AtMost};
use fdtable_sync::model::{Dropped, Ends, JoinHandle, Watched, explore, join, spawn};
use fdtable_sync::platform::Arc;
use fdtable_sync::platform::atomic::AtomicPtr;
use fdtable_sync::platform::atomic::Ordering::Acquire;
use fdtable_sync::rcu;

/// An object of two parts: one ends at the release, one at the drop.
pub(crate) struct Object {
    held: Watched,
    found: Dropped,
}

/// Fates of the objects of a model.
#[derive(Clone, Default)]
pub(crate) struct Fates {
    releases: Ends,
    drops: Ends,
}

impl Object {
    /// Looks, without a reference, inside a section.
    pub(crate) fn look_inside_section(&self) {
        self.found.look();
    }

    /// Looks with a reference.
    pub(crate) fn look(&self) {
        self.held.look();
        self.found.look();
    }

    fn release(&self, _reason: ReleaseReason) {
        self.held.end();
    }
}

/// A place for an object, with a reference of its own, as a slot of a leaf is one.
struct Place(AtomicPtr<RawObject>);

impl Place {
    fn new(object: Ref<Object>) -> Arc<Self> {
        Arc::new(Self(AtomicPtr::new(object.into_raw().as_ptr())))
    }

    /// Takes a reference in a section, and looks at the object after it.
    fn get(&self) {
        let object = {
            let _section = rcu::read_lock();
            // Acquire: the object is complete.
            let raw = NonNull::new(self.0.load(Acquire));
            // SAFETY: it was in its place inside the section.
            raw.and_then(|raw| unsafe { Ref::<Object>::try_from_raw(raw) })
        };
        object.inspect(|object| object.look());
    }

    /// Takes the object out.
    fn take(&self) -> Ref<Object> {
        // Acquire: as above.
        let raw = self.0.swap(ptr::null_mut(), Acquire);
        // SAFETY: the reference of the place, which is taken once.
        unsafe { Ref::from_raw(NonNull::new(raw).expect("it was not taken before")) }
    }
}

/// The last put drops the object at once, and not beside a thread that has just taken a reference;
/// the count stays for a thread that comes too late.
#[test]
fn the_last_put_of_a_prompt_object_meets_a_get() {
    explore(Any, || {
        let fates = Fates::default();
        let place = Place::new(fates.prompt());
        let getter = spawn({
            let place = place.clone();
            move || place.get()
        });
        drop(place.take());
        join(getter);
        fates.check_ends(1, 1);
        rcu::barrier().expect("outside of sections");
        fates.check_ends(1, 1);
    });
}

/// The same with the put that expects to be the last, and with two that take references.
#[test]
fn the_last_put_of_a_prompt_object_meets_two_gets() {
    explore(AtMost(2), || {
        let fates = Fates::default();
        let place = Place::new(fates.prompt());
        let getters = [(); 2].map(|()| {
            let place = place.clone();
            spawn(move || place.get())
        });
        Ref::put_as_last(place.take());
        getters.into_iter().for_each(join);
        fates.check_ends(1, 1);
        rcu::barrier().expect("outside of sections");
        fates.check_ends(1, 1);
    });
}

/// A revocation, whose hook runs beside a holder that puts its reference: the drop comes after it.
#[test]
fn the_last_put_of_a_prompt_object_meets_its_revocation() {
    explore(Any, || {
        let fates = Fates::default();
        let object = fates.prompt();
        let other = spawn({
            let object = object.clone();
            move || {
                Ref::revoke(&object);
            }
        });
        drop(object);
        join(other);
        fates.check_ends(1, 1);
        rcu::barrier().expect("outside of sections");
        fates.check_ends(1, 1);
    });
}

impl Fates {
    /// Makes an object that readers can borrow.
    pub(crate) fn object(&self) -> Ref<Rcu<Object>> {
        Ref::try_with_ends_rcu(self.value(), Object::release).expect("there is memory")
    }

    /// Makes an object that is dropped by the last put.
    pub(crate) fn prompt(&self) -> Ref<Object> {
        Ref::try_with_ends(self.value(), Object::release).expect("there is memory")
    }

    fn value(&self) -> Object {
        Object {
            held: Watched::new(&self.releases),
            found: Dropped::new(&self.drops),
        }
    }

    /// Checks that as many objects were released, and as many dropped.
    fn check_ends(&self, releases: usize, drops: usize) {
        assert_eq!(self.releases.count(), releases, "releases");
        assert_eq!(self.drops.count(), drops, "drops");
    }

    /// Checks that there were `objects` of them, and that all have ended. No thread may use them.
    pub(crate) fn check(&self, objects: usize) {
        rcu::barrier().expect("outside of sections");
        self.check_ends(objects, objects);
    }

    /// Waits for a grace period while the thread may be in a lookup, and then for the thread; and
    /// checks that so many objects have ended.
    pub(crate) fn join_and_check(&self, thread: JoinHandle<()>, objects: usize) {
        rcu::barrier().expect("outside of sections");
        join(thread);
        self.check(objects);
    }
}

/// A release beside what another holder does, or two releases, or none.
#[test]
fn the_last_of_three_holders_releases() {
    explore(Any, || {
        let fates = Fates::default();
        let object = fates.object();
        let hold = |object: Ref<Rcu<Object>>| {
            spawn(move || {
                object.look();
                drop(object);
            })
        };
        let (one, two) = (hold(object.clone()), hold(object.clone()));
        drop(object);
        join(one);
        join(two);
        fates.check(1);
    });
}

/// A revocation is known to be over, and is not seen.
#[test]
fn the_second_to_revoke_sees_that_it_was_revoked() {
    explore(Any, || {
        let fates = Fates::default();
        let object = fates.object();
        let other = spawn({
            let object = object.clone();
            move || {
                Ref::revoke(&object);
            }
        });
        if !Ref::revoke(&object) {
            assert!(Ref::is_revoked(&object), "another thread has revoked it");
        }
        join(other);
        drop(object);
        fates.check(1);
    });
}

/// A revocation is seen, and then not seen again.
#[test]
fn a_reader_that_sees_a_revocation_sees_it_again() {
    explore(AtMost(2), || {
        let fates = Fates::default();
        let (object, ended) = (fates.object(), fates.object());
        Ref::revoke(&ended);
        let other = spawn({
            let object = object.clone();
            move || {
                Ref::revoke(&object);
            }
        });
        let was = Ref::is_revoked(&object);
        drop(ended);
        rcu::barrier().expect("outside of sections");
        if was {
            assert!(Ref::is_revoked(&object), "it was revoked before");
        }
        join(other);
        drop(object);
        fates.check(2);
    });
}
