//! Models of counted objects, and the object for the models of slots. A holder of a reference looks
//! at the part that the release hook ends; a reader that only borrowed looks at the part that
//! `Drop` ends. A failure shows as a look that meets an end, or as an end that comes twice or
//! never.

use super::*;
use fdtable_sync::model::Preemptions::{Any, AtMost};
use fdtable_sync::model::{Dropped, Ends, Watched, explore, join, spawn};
use fdtable_sync::rcu;

/// An object of two parts: one ends at the release, one at the drop.
pub(crate) struct Object {
    held: Watched,
    found: Dropped,
}

/// What became of the objects of a model.
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
}

impl Fates {
    pub(crate) fn object(&self) -> Ref<Object> {
        let object = Object {
            held: Watched::new(&self.releases),
            found: Dropped::new(&self.drops),
        };
        Ref::try_with_ends(object, |object, _| object.held.end()).expect("there is memory")
    }

    /// Checks that there were `objects` of them, and that all have ended. No thread may use them.
    pub(crate) fn check(&self, objects: usize) {
        rcu::barrier().expect("outside of sections");
        assert_eq!(self.releases.count(), objects, "releases");
        assert_eq!(self.drops.count(), objects, "drops");
    }
}

/// A release beside what another holder does, or two releases, or none.
#[test]
fn the_last_of_three_holders_releases() {
    explore(Any, || {
        let fates = Fates::default();
        let object = fates.object();
        let hold = |object: Ref<Object>| {
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
