//! Models of owned lookups by sequences. An error shows as a count or a node that is used after it
//! was freed, as an object that is released beside a holder, twice or never, or as a slot that is
//! not found.

use super::super::loom::{
    Sample, close, find, get, make_writable, open, remove, share, take_out, thread, tree,
};
use super::*;
use crate::object::loom::Fates;
use fdtable_sync::model::Preemptions::{self, AtMost};
use fdtable_sync::model::{explore, join};
use fdtable_sync::rcu::read_lock;
use fdtable_sync::sequence::model::{move_to, with_sequences};

fn explore_sequences(preemptions: Preemptions, model: fn()) {
    with_sequences(|| explore(preemptions, model));
}

/// Gives the calling thread a record, on this CPU: its lookups are sequences from now on.
fn run_on(cpu: usize) {
    move_to(cpu);
    drop(read_lock());
    assert!(sequence::area().is_some(), "the thread has a record");
}

/// A count that is added to after its block was freed; a reference to an object that is released.
#[test]
fn a_sequence_meets_the_last_put() {
    explore_sequences(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let getter = thread(&tree, |tree| {
            run_on(1);
            get(tree, 0);
        });
        close(&tree, 0);
        fates.join_and_check(getter, 1);
    });
}

/// The same with a holder, which drops the last reference: it subtracts, and an add that comes
/// before it buries the object revives that.
#[test]
fn a_sequence_meets_the_last_put_of_a_holder() {
    explore_sequences(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let holder = tree.get(0);
        let getter = thread(&tree, |tree| {
            run_on(1);
            get(tree, 0);
        });
        close(&tree, 0);
        drop(holder);
        fates.join_and_check(getter, 1);
    });
}

/// The same with two, which may revive the object one after the other or one for the other, and
/// interrupt each other.
#[test]
fn two_sequences_on_one_cpu_meet_the_last_put() {
    explore_sequences(AtMost(2), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let getters = [0; 2].map(|slot| {
            thread(&tree, move |tree| {
                run_on(1);
                get(tree, slot);
            })
        });
        close(&tree, 0);
        getters.into_iter().for_each(join);
        fates.check(1);
    });
}

/// A lookup that finds nothing at a slot that is always open, or an object that is not complete.
#[test]
fn a_sequence_meets_a_replacement() {
    explore_sequences(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let getter = thread(&tree, |tree| {
            run_on(1);
            find(tree, 0);
        });
        let replaced = {
            let writer = tree.write();
            let mut leaf = writer.lock_leaf(0).expect("the first leaf is always owned");
            leaf.exchange(0, Some(fates.object()))
        };
        drop(replaced);
        fates.join_and_check(getter, 1);
        close(&tree, 0);
        fates.check(2);
    });
}

/// A leaf that is read after it was freed, below a root; its objects, which were put with it.
#[test]
fn a_sequence_meets_the_removal_of_the_leaf() {
    explore_sequences(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        let getter = thread(&tree, |tree| {
            run_on(1);
            get(tree, 4);
        });
        remove(&tree, 1);
        fates.join_and_check(getter, 1);
    });
}

/// A slot that is not found, or whose object is missing, while the path to it is copied and the
/// original is freed.
#[test]
fn a_sequence_meets_a_copy_of_its_path() {
    explore_sequences(AtMost(2), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[8]);
        drop(share(&tree));
        let getter = thread(&tree, |tree| {
            run_on(1);
            find(tree, 8);
        });
        make_writable(&tree, 2);
        rcu::barrier().expect("outside of sections");
        join(getter);
        drop(tree);
        fates.check(1);
    });
}

/// A sequence of a thread that grace periods do not look for: it has no record yet.
#[test]
fn a_first_lookup_meets_the_last_put() {
    explore_sequences(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let getter = thread(&tree, |tree| {
            move_to(1);
            get(tree, 0);
        });
        close(&tree, 0);
        fates.join_and_check(getter, 1);
    });
}

/// A revoked object that is opened, and found as one that is not revoked.
#[test]
fn a_sequence_meets_an_open_of_a_revoked_object() {
    explore_sequences(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[]);
        let getter = thread(&tree, |tree: &Sample| {
            run_on(1);
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
fn a_sequence_meets_the_close_of_a_spread_count() {
    explore_sequences(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        assert!(tree.spread(0));
        let getter = thread(&tree, |tree| {
            run_on(1);
            get(tree, 0);
        });
        close(&tree, 0);
        fates.join_and_check(getter, 1);
    });
}

/// An object that stays spread when the leaf of its slot is removed: the pointer stays in the leaf.
#[test]
fn a_spread_meets_the_removal_of_the_leaf() {
    explore_sequences(AtMost(2), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        let getter = thread(&tree, |tree| {
            run_on(1);
            if let Some(object) = tree.get(4) {
                Ref::spread(&object, |raw| tree.is_in_slot(4, raw));
                object.look();
            }
        });
        remove(&tree, 1);
        fates.join_and_check(getter, 1);
    });
}

/// A sequence that adds to the parts of another object, which has drawn the number since.
#[test]
fn a_sequence_meets_a_number_that_is_drawn_again() {
    explore_sequences(AtMost(2), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        assert!(tree.spread(0));
        let getter = thread(&tree, |tree| {
            run_on(1);
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
