//! Models of owned lookups of what is revoked or counted by CPU. An error shows as a count that is
//! used after it was freed, as an object that is released beside a holder, twice or never, or as a
//! revoked object that is found.

use super::super::loom::{Sample, close, get, open, remove, take_out, thread, tree};
use super::*;
use crate::object::loom::Fates;
use fdtable_sync::model::Preemptions::AtMost;
use fdtable_sync::model::{explore, join};
use fdtable_sync::sequence::model::move_to;

/// A revoked object that is opened, and found as one that is not revoked.
#[test]
fn a_lookup_meets_an_open_of_a_revoked_object() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[]);
        let getter = thread(&tree, |tree: &Sample| {
            let found = tree.get_unless_revoked(0).map(drop);
            assert!(found.is_err(), "the object was revoked before");
        });
        let object = fates.object();
        Ref::revoke(&object);
        open(&tree, 0, object);
        // Its hook has run, so it is not looked at.
        drop(take_out(&tree, 0));
        join(getter);
        fates.check(1);
    });
}

/// A part that counts for an object that has ended, or a reference in a part that is not counted.
#[test]
fn a_lookup_meets_the_close_of_a_spread_count() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        assert!(tree.spread(0));
        let getter = thread(&tree, |tree| {
            move_to(1);
            get(tree, 0);
        });
        close(&tree, 0);
        fates.join_and_check(getter, 1);
    });
}

/// An object that stays spread when the leaf of its slot is removed: the pointer stays in the leaf.
#[test]
fn a_spread_meets_the_removal_of_the_leaf() {
    explore(AtMost(2), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        let getter = thread(&tree, |tree| {
            move_to(1);
            if let Some(object) = tree.get(4) {
                tree.spread_found(4, &object);
                object.look();
            }
        });
        remove(&tree, 1);
        fates.join_and_check(getter, 1);
    });
}

/// A lookup that adds to the parts of another object, which has drawn the number since.
#[test]
fn a_lookup_meets_a_number_that_is_drawn_again() {
    explore(AtMost(2), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        assert!(tree.spread(0));
        let getter = thread(&tree, |tree| {
            move_to(1);
            get(tree, 0);
        });
        close(&tree, 0);
        rcu::barrier().expect("outside of sections");
        open(&tree, 1, fates.object());
        assert!(tree.spread(1));
        close(&tree, 1);
        fates.join_and_check(getter, 2);
    });
}
