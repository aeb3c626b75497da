//! Models of the tree. Interior nodes have two children there, so that three leaves need a
//! second root. Whatever goes wrong shows as a node or a leaf that is looked at before it is
//! complete, as a leaf that is not found, or as one that is lost or dropped twice.

use super::*;
use crate::model::Preemptions::{Any, AtMost};
use crate::model::{Dropped, Ends, JoinHandle, explore, join, spawn};
use crate::sync::Arc;

/// A tree whose leaves are counted.
struct Counted {
    tree: Tree<Dropped>,
    made: Ends,
    dropped: Ends,
}

impl Counted {
    /// Makes a tree with a leaf for each index.
    fn with(indexes: &[usize]) -> Arc<Self> {
        let counted = Self {
            tree: Tree::new(),
            made: Ends::default(),
            dropped: Ends::default(),
        };
        for &index in indexes {
            counted.insert(index);
        }
        Arc::new(counted)
    }

    fn insert(&self, index: usize) -> &Dropped {
        let leaf = self.tree.get_or_insert_with(index, || {
            self.made.add();
            Dropped::new(&self.dropped)
        });
        let leaf = leaf.expect("there is memory");
        leaf.look();
        leaf
    }

    /// Looks at a leaf that must be there.
    fn find(&self, index: usize) -> &Dropped {
        let leaf = self.tree.get(index).expect("the leaf was inserted");
        leaf.look();
        leaf
    }

    /// Looks at a leaf if it is there.
    fn look(&self, index: usize) {
        self.tree.get(index).inspect(|leaf| leaf.look());
    }
}

/// Runs `act` on a thread of its own.
fn thread(tree: &Arc<Counted>, act: impl FnOnce(&Counted) + 'static) -> JoinHandle<()> {
    let tree = tree.clone();
    spawn(move || act(&tree))
}

impl Drop for Counted {
    fn drop(&mut self) {
        drop(core::mem::take(&mut self.tree));
        assert_eq!(self.dropped.count(), self.made.count(), "drops of leaves");
    }
}

/// A leaf that cannot be found while a root comes above it, or through a root that is not
/// complete.
#[test]
fn a_leaf_is_found_while_roots_come_above_it() {
    explore(Any, || {
        let tree = Counted::with(&[0]);
        let reader = thread(&tree, |tree| {
            tree.find(0);
            tree.find(0);
        });
        tree.insert(2);
        join(reader);
    });
}

/// A leaf that is found before it is complete, at any of the levels that lead there.
#[test]
fn a_new_leaf_is_complete() {
    explore(Any, || {
        let tree = Counted::with(&[0, 1]);
        let reader = thread(&tree, |tree| tree.look(3));
        tree.insert(3);
        join(reader);
    });
}

/// The same by way of the leaf that was used last.
#[test]
fn a_recent_leaf_is_complete() {
    explore(Any, || {
        let tree = Counted::with(&[]);
        let reader = thread(&tree, |tree| {
            tree.tree.get_recent(1).inspect(|leaf| leaf.look());
        });
        tree.insert(1);
        join(reader);
    });
}

/// Two leaves for one index.
#[test]
fn two_inserts_of_an_index_get_the_same_leaf() {
    explore(Any, || {
        let tree = Counted::with(&[0]);
        let other = thread(&tree, |tree| {
            assert!(ptr::eq(tree.insert(1), tree.find(1)));
        });
        let leaf = ptr::from_ref(tree.insert(1));
        join(other);
        assert!(ptr::eq(tree.find(1), leaf));
    });
}

/// The first leaf, which is the root for a while, lost to a root for a far index.
#[test]
fn the_first_leaf_meets_a_far_one() {
    explore(Any, || {
        let tree = Counted::with(&[]);
        let other = thread(&tree, |tree| {
            tree.insert(0);
            tree.find(0);
        });
        tree.insert(3);
        join(other);
        tree.find(0);
        tree.find(3);
    });
}

/// The same leaf by two threads while a third puts a root above it.
#[test]
fn two_first_leaves_meet_a_far_one() {
    explore(AtMost(3), || {
        let tree = Counted::with(&[]);
        let others = [(); 2].map(|()| {
            thread(&tree, |tree| {
                tree.insert(0);
            })
        });
        tree.insert(1);
        others.into_iter().for_each(join);
        tree.find(0);
        tree.find(1);
    });
}

/// Two roots of which one is lost, with what was put below it.
#[test]
fn two_roots_are_put_above_a_leaf() {
    explore(Any, || {
        let tree = Counted::with(&[0]);
        let other = thread(&tree, |tree| {
            tree.insert(1);
        });
        tree.insert(2);
        join(other);
        for index in 0..3 {
            tree.find(index);
        }
    });
}

/// A node that one thread makes and another goes through before it is complete, or a second one
/// in its place.
#[test]
fn two_inserts_below_a_new_node() {
    explore(AtMost(4), || {
        let tree = Counted::with(&[0, 1]);
        let other = thread(&tree, |tree| {
            tree.insert(2);
        });
        tree.insert(3);
        join(other);
        for index in 0..4 {
            tree.find(index);
        }
    });
}

/// An enumeration that looks at a node or a leaf before it is complete, or skips one that was
/// there before it began.
#[test]
fn an_enumeration_meets_an_insert() {
    explore(Any, || {
        let tree = Counted::with(&[2]);
        let reader = thread(&tree, |tree| {
            let mut found = Vec::new();
            while let Some((index, leaf)) = tree.tree.next(found.last().map_or(0, |last| last + 1))
            {
                leaf.look();
                found.push(index);
            }
            found.retain(|&index| index != 0);
            assert_eq!(found, [2]);
        });
        tree.insert(0);
        join(reader);
    });
}

/// A mark of a full leaf that goes through a node before it is complete.
#[test]
fn a_full_leaf_is_noted_in_complete_nodes() {
    noting_meets_an_insert(|tree| tree.mark_full(3));
}

/// A mark of a leaf with something free that goes through a node before it is complete.
#[test]
fn a_free_leaf_is_noted_in_complete_nodes() {
    noting_meets_an_insert(|tree| tree.mark_free(3));
}

/// A search for room that goes through a node before it is complete.
#[test]
fn room_is_searched_in_complete_nodes() {
    noting_meets_an_insert(|tree| {
        let found = tree.next_not_full(2);
        assert_eq!(found, 2);
    });
}

fn noting_meets_an_insert(note: fn(&Tree<Dropped>)) {
    explore(Any, move || {
        let tree = Counted::with(&[0, 1]);
        let other = thread(&tree, move |tree| note(&tree.tree));
        tree.insert(3);
        join(other);
    });
}
