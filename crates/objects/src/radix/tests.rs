//! Tests of the tree with one thread: what is found, what is shared, what is released when.

use super::*;
use crate::object::Rcu;
use fdtable_sync::bitmap::bits_of;
use fdtable_sync::fallible::OutOfMemory;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex};
use std::vec::Vec;

mod histories;

/// State of a leaf: a share of something that is counted.
#[derive(Default)]
struct Tag(Option<Arc<()>>);

impl LeafState for Tag {
    fn copy(&self) -> Self {
        Self(self.0.clone())
    }

    fn copy_first(&self) -> Self {
        self.copy()
    }
}

struct Object {
    name: usize,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Object {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, SeqCst);
    }
}

type TestTree = Tree<Rcu<Object>, Tag, ()>;

/// Makes objects and tagged leaves, and tracks their drops.
#[derive(Default)]
struct Fates {
    leaves: Arc<()>,
    released: Arc<StdMutex<Vec<usize>>>,
    dropped: Arc<AtomicUsize>,
}

impl Fates {
    fn object(&self, name: usize) -> Ref<Rcu<Object>> {
        let object = Object {
            name,
            dropped: self.dropped.clone(),
        };
        let released = self.released.clone();
        let hook = move |object: &Object, _| {
            released.lock().expect("no panic").push(object.name);
        };
        Ref::try_with_ends_rcu(object, hook).expect("there is memory")
    }

    /// Makes a tree that has these slots, each with an object of that name.
    fn tree(&self, slots: &[usize]) -> TestTree {
        let tree = TestTree::new(());
        for &slot in slots {
            self.open(&tree, slot, slot);
        }
        tree
    }

    fn make_writable(&self, tree: &TestTree, index: usize) {
        let mut writer = tree.write();
        writer.make_writable(index).expect("there is memory");
        let mut leaf = writer.lock_leaf(index).expect("it is the tree's own");
        leaf.state_mut().0 = Some(self.leaves.clone());
    }

    fn open(&self, tree: &TestTree, slot: usize, name: usize) {
        self.make_writable(tree, slot / BITS);
        let writer = tree.write();
        let mut leaf = writer.lock_leaf(slot / BITS).expect("owned above");
        leaf.open.set(slot % BITS);
        let before = leaf.exchange(slot % BITS, Some(self.object(name)));
        assert!(before.is_none(), "the slot is free");
    }

    fn close(&self, tree: &TestTree, slot: usize) {
        self.make_writable(tree, slot / BITS);
        let object = {
            let writer = tree.write();
            let mut leaf = writer.lock_leaf(slot / BITS).expect("owned above");
            leaf.open.clear(slot % BITS);
            leaf.exchange(slot % BITS, None)
        };
        assert!(object.is_some(), "the slot is taken");
    }

    /// Counts the tagged leaves that are not freed. A copy of one is one more.
    fn leaves(&self) -> usize {
        rcu::barrier().expect("outside of sections");
        Arc::strong_count(&self.leaves) - 1
    }

    fn released(&self) -> Vec<usize> {
        let mut released = self.released.lock().expect("no panic").clone();
        released.sort_unstable();
        released
    }

    /// Checks, when all trees are gone, that nothing else is left either.
    fn check(&self, objects: usize) {
        assert_eq!(self.released().len(), objects, "releases");
        assert_eq!(self.leaves(), 0, "leaves");
        assert_eq!(self.dropped.load(SeqCst), objects, "drops");
    }
}

/// Returns the slots of a tree, and the names of their objects.
fn slots(tree: &TestTree) -> BTreeMap<usize, usize> {
    let section = rcu::read_lock();
    let (mut found, mut next) = (BTreeMap::new(), 0);
    while let Some((index, leaf)) = tree.next(next, &section) {
        assert!(index >= next, "the leaves are in order");
        let same = tree.leaf(index, &section).expect("it was just found");
        assert!(ptr::eq(&raw const *same, &raw const *leaf));
        for bit in bits_of(leaf.open.bits()) {
            let object = leaf.borrow(bit).expect("an open slot");
            found.insert(index * BITS + bit, object.name);
        }
        next = index + 1;
    }
    found
}

fn leaf_address(tree: &TestTree, index: usize) -> Option<*const Leaf<Rcu<Object>, Tag>> {
    let section = rcu::read_lock();
    tree.leaf(index, &section).map(|leaf| &raw const *leaf)
}

fn indexes(tree: &TestTree) -> Vec<usize> {
    let section = rcu::read_lock();
    let mut next = tree.next(0, &section);
    core::iter::from_fn(|| {
        let (index, _) = next.take()?;
        next = tree.next(index + 1, &section);
        Some(index)
    })
    .collect()
}

/// Returns how many references there are to the object of a slot.
fn references(tree: &TestTree, slot: usize) -> usize {
    let object = tree.get(slot).expect("it is open");
    Ref::references(&object) - 1
}

fn share(tree: &TestTree) -> TestTree {
    share_keeping(tree, &[])
}

fn share_keeping(tree: &TestTree, kept: &[usize]) -> TestTree {
    let mut other = TestTree::new(());
    let shared = tree.write().share_with(&mut other, kept.iter().copied());
    shared.expect("there is memory");
    other
}

/// One index at each height, and the last one.
const FAR: [usize; 7] = [0, 1, 511, 512, 262_143, 262_144, INDEXES - 1];

#[test]
fn leaves_are_found_at_every_height() {
    let fates = Fates::default();
    let tree = TestTree::new(());
    for index in FAR {
        fates.make_writable(&tree, index);
    }
    assert_eq!(indexes(&tree), FAR);
    for absent in [2, 513, INDEXES - 2, INDEXES, usize::MAX] {
        assert_eq!(leaf_address(&tree, absent), None);
    }
    let section = rcu::read_lock();
    let after = |from| tree.next(from, &section).map(|(index, _)| index);
    assert_eq!(after(2), Some(511));
    assert_eq!(after(262_145), Some(INDEXES - 1));
    assert_eq!((after(INDEXES), after(usize::MAX)), (None, None));
    drop(section);
    drop(tree);
    fates.check(0);
}

#[test]
fn a_new_tree_has_the_first_leaf_alone() {
    let tree = TestTree::new(());
    assert_eq!(indexes(&tree), [0]);
    let mut writer = tree.write();
    assert!(!writer.has_nodes());
    assert_eq!(writer.next_not_full(5), 5);
    writer.mark_full(0);
    writer.mark_free(0);
    writer.make_writable(0).expect("it is there");
    assert!(!writer.has_nodes());
}

#[test]
fn an_index_past_the_last_is_refused() {
    let tree = TestTree::new(());
    for index in [INDEXES, usize::MAX] {
        assert_eq!(tree.write().make_writable(index), Err(OutOfMemory));
        let removed = tree.write().remove_if(index, |_| true);
        assert!(removed.is_ok_and(|removed| removed.is_none()));
    }
    assert!(!tree.write().has_nodes());
}

#[test]
fn a_leaf_stays_where_it_is_while_the_tree_grows() {
    let tree = TestTree::new(());
    tree.write().make_writable(1).expect("there is memory");
    let before = [leaf_address(&tree, 0), leaf_address(&tree, 1)];
    for index in [2, 600, 300_000, 1] {
        tree.write().make_writable(index).expect("there is memory");
        assert_eq!([leaf_address(&tree, 0), leaf_address(&tree, 1)], before);
    }
}

#[test]
fn a_search_passes_over_what_is_marked_full() {
    let tree = TestTree::new(());
    let mut writer = tree.write();
    for index in [1, 2, 3, 600] {
        writer.make_writable(index).expect("there is memory");
    }
    for index in [1, 3] {
        writer.mark_full(index);
    }
    assert_eq!(writer.next_not_full(1), 2);
    assert_eq!(writer.next_not_full(3), 4);
    writer.mark_free(1);
    assert_eq!(writer.next_not_full(1), 1);
}

#[test]
fn a_search_leaves_a_full_subtree_for_the_next() {
    let tree = TestTree::new(());
    let mut writer = tree.write();
    for index in 1..1024 {
        writer.make_writable(index).expect("there is memory");
        writer.mark_full(index);
    }
    assert_eq!(writer.next_not_full(1), 1024);
    assert_eq!(writer.next_not_full(700), 1024);
    writer.mark_free(513);
    assert_eq!(writer.next_not_full(1), 513);
    assert_eq!(writer.next_not_full(514), 1024);
    assert_eq!(writer.next_not_full(262_144), 262_144);
}

#[test]
fn a_full_root_is_full_under_a_new_one() {
    let tree = TestTree::new(());
    let mut writer = tree.write();
    for index in 1..512 {
        writer.make_writable(index).expect("there is memory");
        writer.mark_full(index);
    }
    assert_eq!(writer.next_not_full(1), 512);
    writer.make_writable(512).expect("there is memory");
    assert_eq!(writer.next_not_full(1), 512);
    writer.mark_full(512);
    assert_eq!(writer.next_not_full(7), 513);
}

/// The place of the first leaf in the nodes counts as full, however the node above it was made.
#[test]
fn the_first_leaf_is_never_found_as_room() {
    for far in [1, 600, 300_000] {
        let tree = TestTree::new(());
        let mut writer = tree.write();
        writer.make_writable(far).expect("there is memory");
        for index in 1..512 {
            writer.make_writable(index).expect("there is memory");
            writer.mark_full(index);
        }
        assert_eq!(writer.next_not_full(1), 512);
    }
}

#[test]
fn a_leaf_of_the_tree_is_locked_and_written() {
    let fates = Fates::default();
    let tree = fates.tree(&[70]);
    let reader = tree.read().expect("readers are admitted");
    assert!(reader.lock_leaf(2).is_none());
    let object = {
        let mut leaf = reader.lock_leaf(1).expect("it is the tree's own");
        assert!(leaf.state().0.is_some());
        leaf.open.clear(6);
        leaf.exchange(6, None)
    };
    drop(reader);
    assert!(object.is_some_and(|object| object.name == 70));
    assert!(tree.get(70).is_none());
}

#[test]
fn both_trees_see_the_same_objects() {
    let fates = Fates::default();
    let all = [0, 5, 64, 65, 40_000, 20_000_000];
    let tree = fates.tree(&all);
    let other = share(&tree);
    assert_eq!(slots(&other), slots(&tree));
    assert_eq!(slots(&other).into_keys().collect::<Vec<_>>(), all);
    assert_eq!(leaf_address(&tree, 1), leaf_address(&other, 1));
    assert_ne!(leaf_address(&tree, 0), leaf_address(&other, 0));
    // A leaf that is shared holds one reference for both.
    assert_eq!((references(&tree, 5), references(&tree, 64)), (2, 1));
    drop(tree);
    assert_eq!(slots(&other).into_keys().collect::<Vec<_>>(), all);
    assert_eq!(fates.released(), []);
    drop(other);
    fates.check(all.len());
}

#[test]
fn the_only_user_of_a_tree_borrows_all_of_it() {
    let fates = Fates::default();
    let taken = FAR.map(|index| index * BITS + 63);
    let mut tree = fates.tree(&taken);
    let other = share(&tree);
    // The one below is the tree's own; those above are shared.
    fates.open(&tree, BITS + 1, 7);
    fates.close(&tree, BITS + 63);
    for tree in [&mut tree, &mut { other }] {
        let expected = slots(tree);
        let borrowed = tree.iter_mut().map(|(slot, object, _)| (slot, object.name));
        assert_eq!(borrowed.collect::<BTreeMap<_, _>>(), expected);
        for (slot, name) in expected {
            assert_eq!(tree.get_mut(slot).map(|object| object.name), Ok(name));
        }
        for vacant in [0, 2 * BITS, INDEXES * BITS, usize::MAX] {
            assert_eq!(tree.get_mut(vacant).err(), Some(NotFound::Vacant));
        }
    }
    drop(tree);
    fates.check(taken.len() + 1);
}

#[test]
fn flags_and_states_are_shared() {
    let fates = Fates::default();
    let tree = fates.tree(&[3, 70]);
    for index in [0, 1] {
        let writer = tree.write();
        let leaf = writer.lock_leaf(index).expect("it is the tree's own");
        leaf.cloexec.set(if index == 0 { 3 } else { 6 });
    }
    let other = share(&tree);
    for index in [0, 1] {
        let mut writer = other.write();
        writer.make_writable(index).expect("there is memory");
        let leaf = writer.lock_leaf(index).expect("owned above");
        let flags = if index == 0 { 1 << 3 } else { 1 << 6 };
        assert_eq!(leaf.cloexec.bits(), flags);
        assert!(leaf.state().0.is_some());
    }
}

#[test]
fn a_reservation_of_the_first_leaf_is_not_shared() {
    let fates = Fates::default();
    let tree = fates.tree(&[1]);
    {
        let writer = tree.write();
        let leaf = writer.lock_leaf(0).expect("it is there");
        leaf.open.set(2);
        leaf.cloexec.replace(0b110);
    }
    let other = share(&tree);
    let writer = other.write();
    let leaf = writer.lock_leaf(0).expect("it is there");
    assert_eq!((leaf.open.bits(), leaf.cloexec.bits()), (0b10, 0b10));
}

#[test]
fn a_shared_leaf_is_not_locked_before_it_is_copied() {
    let fates = Fates::default();
    let tree = fates.tree(&[70]);
    let other = share(&tree);
    let before = leaf_address(&tree, 1);
    for tree in [&tree, &other] {
        assert!(tree.write().lock_leaf(1).is_none());
        let reader = tree.read().expect("readers are admitted again");
        assert!(reader.lock_leaf(1).is_none());
        assert!(reader.lock_leaf(0).is_some());
    }
    tree.write().make_writable(1).expect("there is memory");
    assert!(tree.write().lock_leaf(1).is_some());
    assert!(other.write().lock_leaf(1).is_none());
    assert_ne!(leaf_address(&tree, 1), before);
    assert_eq!(leaf_address(&other, 1), before);
}

#[test]
fn writes_of_one_tree_are_not_seen_in_the_other() {
    let fates = Fates::default();
    let tree = fates.tree(&[1, 64, 65, 600_000]);
    let other = share(&tree);
    let before = slots(&tree);
    fates.close(&tree, 64);
    fates.close(&tree, 1);
    fates.open(&tree, 66, 1000);
    fates.open(&tree, 30_000_000, 1001);
    assert_eq!(slots(&other), before);
    assert_eq!(fates.released(), []);
    let after = slots(&tree);
    fates.close(&other, 64);
    fates.close(&other, 600_000);
    assert_eq!(slots(&tree), after);
    assert_eq!(fates.released(), [64]);
    drop((tree, other));
    fates.check(6);
}

#[test]
fn marks_of_one_tree_are_not_seen_in_the_other() {
    let fates = Fates::default();
    let tree = TestTree::new(());
    for index in [1, 2, 600] {
        fates.make_writable(&tree, index);
    }
    tree.write().mark_full(1);
    let other = share(&tree);
    for tree in [&tree, &other] {
        assert_eq!(tree.write().next_not_full(1), 2);
    }
    fates.make_writable(&tree, 1);
    tree.write().mark_free(1);
    fates.make_writable(&other, 2);
    other.write().mark_full(2);
    assert_eq!(tree.write().next_not_full(1), 1);
    assert_eq!(other.write().next_not_full(1), 3);
}

#[test]
fn a_leaf_that_both_had_is_cloned_and_then_moved() {
    let fates = Fates::default();
    let tree = fates.tree(&[70]);
    let other = share(&tree);
    assert_eq!(references(&tree, 70), 1);
    fates.make_writable(&tree, 1);
    assert_eq!(references(&tree, 70), 2);
    assert_eq!(fates.leaves(), 2);
    // Only the other tree has the original: its reference moves to the copy.
    fates.make_writable(&other, 1);
    assert_eq!(references(&tree, 70), 2);
    assert_eq!(fates.leaves(), 2);
    drop(tree);
    assert_eq!(references(&other, 70), 1);
    drop(other);
    fates.check(1);
}

#[test]
fn the_last_of_both_to_close_releases_at_once() {
    let fates = Fates::default();
    let tree = fates.tree(&[1, 70, 71, 600_000]);
    let other = share(&tree);
    for (slot, (first, last)) in [
        (1, (&tree, &other)),
        (70, (&other, &tree)),
        (71, (&tree, &other)),
        (600_000, (&other, &tree)),
    ] {
        let before = fates.released();
        fates.close(first, slot);
        assert_eq!(fates.released(), before);
        fates.close(last, slot);
        assert_eq!(fates.released().len(), before.len() + 1);
    }
}

#[test]
fn the_last_of_both_to_go_releases_at_once() {
    let fates = Fates::default();
    let tree = fates.tree(&[1, 70, 600_000]);
    let other = share(&tree);
    fates.close(&tree, 70);
    drop(other);
    assert_eq!(fates.released(), [70]);
    drop(tree);
    assert_eq!(fates.released(), [1, 70, 600_000]);
    fates.check(3);
}

#[test]
fn a_leaf_is_removed_with_its_objects_if_it_may() {
    let fates = Fates::default();
    let tree = fates.tree(&[70, 71, 600_000]);
    let refused = tree.write().remove_if(1, |leaf| leaf.open.bits() == 0);
    assert!(refused.is_ok_and(|refused| refused.is_none()));
    assert_eq!(slots(&tree).len(), 3);
    let removed = tree.write().remove_if(1, |leaf| leaf.open.bits() != 0);
    assert_eq!(slots(&tree).into_keys().collect::<Vec<_>>(), [600_000]);
    assert_eq!(fates.released(), []);
    drop(removed);
    assert_eq!(fates.released(), [70, 71]);
    assert_eq!(fates.leaves(), 1);
    // The first one stays, and one that is not there is not removed.
    for index in [0, 1, 5] {
        let removed = tree.write().remove_if(index, |_| unreachable!("not asked"));
        assert!(removed.is_ok_and(|removed| removed.is_none()));
    }
    drop(tree);
    fates.check(3);
}

#[test]
fn a_shared_leaf_is_removed_from_one_tree_alone() {
    let fates = Fates::default();
    let tree = fates.tree(&[70, 600_000]);
    let other = share(&tree);
    let before = leaf_address(&other, 1);
    let removed = tree.write().remove_if(1, |_| unreachable!("it is shared"));
    assert!(removed.is_ok_and(|removed| removed.is_some()));
    assert_eq!(slots(&tree).into_keys().collect::<Vec<_>>(), [600_000]);
    assert_eq!(leaf_address(&other, 1), before);
    assert_eq!(slots(&other).into_keys().collect::<Vec<_>>(), [70, 600_000]);
    assert_eq!((fates.leaves(), fates.released()), (2, Vec::new()));
    let removed = other.write().remove_if(1, |_| unreachable!("it is shared"));
    assert!(removed.is_ok_and(|removed| removed.is_some()));
    assert_eq!((fates.leaves(), fates.released()), (1, Vec::from([70])));
}

#[test]
fn a_removed_leaf_is_room_again() {
    let fates = Fates::default();
    let tree = TestTree::new(());
    for index in 1..512 {
        fates.make_writable(&tree, index);
        tree.write().mark_full(index);
    }
    fates.make_writable(&tree, 512);
    drop(tree.write().remove_if(7, |_| true));
    assert_eq!(tree.write().next_not_full(1), 7);
}

#[test]
fn nodes_that_lead_nowhere_are_given_back() {
    let fates = Fates::default();
    let tree = TestTree::new(());
    for index in [1, 600, 300_000] {
        fates.make_writable(&tree, index);
    }
    drop(tree.write().remove_if(600, |_| true));
    assert_eq!(indexes(&tree), [0, 1, 300_000]);
    // The root has 262,144 indexes below each child, and one of its two children has gone.
    drop(tree.write().remove_if(300_000, |_| true));
    let root = tree.root();
    // SAFETY: the root of a tree of three levels, which no thread changes.
    let node = unsafe { node::interior(root.node) };
    assert_eq!(root.height, 3);
    assert!(node.child(300_000, 3).load(Acquire).is_null());
    assert!(!node.child(1, 3).load(Acquire).is_null());
    drop(tree.write().remove_if(1, |_| true));
    assert!(!tree.write().has_nodes());
    assert_eq!(fates.leaves(), 0);
    // And a tree grows again from nothing.
    fates.make_writable(&tree, 2);
    assert_eq!(indexes(&tree), [0, 2]);
    assert_eq!(tree.root().height, 1);
}

#[test]
fn a_kept_leaf_stays_where_it_is() {
    let fates = Fates::default();
    let tree = fates.tree(&[1, 70, 600, 40_000]);
    let before = [leaf_address(&tree, 1), leaf_address(&tree, 9)];
    let other = share_keeping(&tree, &[0, 1]);
    assert_eq!(
        [leaf_address(&tree, 1), leaf_address(&tree, 9)],
        before,
        "nothing moves"
    );
    assert_eq!(slots(&other), slots(&tree));
    // Both can write the kept one at once. The other leaf is shared.
    for tree in [&tree, &other] {
        assert!(tree.write().lock_leaf(1).is_some());
        assert!(tree.write().lock_leaf(9).is_none());
    }
    assert_eq!(leaf_address(&other, 9), before[1]);
    assert_ne!(leaf_address(&other, 1), before[0]);
    assert_eq!((references(&tree, 70), references(&tree, 600)), (2, 1));
    fates.close(&tree, 70);
    assert_eq!(slots(&other).len(), 4);
    drop(tree);
    assert_eq!(fates.released(), []);
    drop(other);
    fates.check(4);
}

/// A leaf that was shared with one tree, made the tree's own again, and kept from the next one.
#[test]
fn leaves_are_kept_and_shared_by_turns() {
    let fates = Fates::default();
    let tree = fates.tree(&[70, 40_000]);
    let first = share(&tree);
    fates.make_writable(&tree, 1);
    let second = share_keeping(&tree, &[1]);
    let third = share_keeping(&tree, &[1]);
    let fourth = share(&second);
    let all = [&tree, &first, &second, &third, &fourth];
    for tree in all {
        assert_eq!(slots(tree).len(), 2);
    }
    fates.close(&tree, 70);
    for tree in &all[1..] {
        assert_eq!(slots(tree).len(), 2);
    }
    drop((second, first, tree, fourth));
    assert_eq!(fates.released(), []);
    drop(third);
    fates.check(2);
}

/// A reader that came by another tree may be in a leaf that is the tree's alone by now.
#[test]
fn a_leaf_that_another_tree_led_to_is_not_freed_under_its_reader() {
    let fates = Fates::default();
    let tree = fates.tree(&[70]);
    let other = share(&tree);
    let section = rcu::read_lock();
    let found = other.leaf(1, &section).expect("it is shared");
    fates.make_writable(&other, 1);
    let third = share_keeping(&tree, &[1]);
    drop(tree);
    let tags = Arc::strong_count(&fates.leaves) - 1;
    assert_eq!(tags, 3, "that of the leaf, and of each copy");
    assert_eq!(found.borrow(6).expect("it was open").name, 70);
    drop(section);
    assert_eq!(fates.leaves(), 2);
    drop((other, third));
    fates.check(1);
}

#[test]
fn what_was_shared_before_is_kept_only_once_it_is_copied() {
    let fates = Fates::default();
    let tree = fates.tree(&[70]);
    let other = share(&tree);
    // The tree is left alone with the leaf, and with the node above it.
    fates.make_writable(&other, 1);
    let third = share_keeping(&tree, &[1]);
    assert!(tree.write().lock_leaf(1).is_none());
    fates.make_writable(&tree, 1);
    let before = leaf_address(&tree, 1);
    let fourth = share_keeping(&tree, &[1, 1]);
    assert!(tree.write().lock_leaf(1).is_some());
    assert_eq!(leaf_address(&tree, 1), before);
    drop((tree, other, third, fourth));
    fates.check(1);
}

/// Chains and stars of trees, dropped in every order: objects stay until the last tree is dropped.
#[test]
fn trees_that_share_are_dropped_in_every_order() {
    for order in permutations(&[0, 1, 2, 3]) {
        for is_chain in [true, false] {
            let fates = Fates::default();
            let mut trees = Vec::from([Some(fates.tree(&[1, 70, 600_000]))]);
            for child in 1..4 {
                let parent = trees[if is_chain { child - 1 } else { 0 }].as_ref();
                let tree = share(parent.expect("it is there"));
                fates.open(&tree, 71 + child, 1000 + child);
                trees.push(Some(tree));
            }
            for (step, &place) in order.iter().enumerate() {
                let released = fates.released();
                let shared = [1, 70, 600_000];
                assert!(shared.iter().all(|name| !released.contains(name)));
                assert_eq!(trees.iter().flatten().count(), 4 - step);
                trees[place] = None;
                for tree in trees.iter().flatten() {
                    assert!(slots(tree).contains_key(&600_000));
                }
            }
            fates.check(6);
        }
    }
}

fn permutations(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return Vec::from([Vec::new()]);
    }
    let mut all = Vec::new();
    for (place, &first) in of.iter().enumerate() {
        let rest = [&of[..place], &of[place + 1..]].concat();
        for mut order in permutations(&rest) {
            order.insert(0, first);
            all.push(order);
        }
    }
    all
}

/// A tree that is shared again and again while it is written, like a shell that starts program
/// after program: the memory does not grow with the number of times.
#[test]
fn a_tree_that_is_shared_many_times_does_not_grow() {
    let fates = Fates::default();
    let tree = fates.tree(&[1, 70, 600_000]);
    for round in 0..100 {
        let child = share(&tree);
        fates.open(&child, 72, 1000 + round);
        fates.close(&child, 70);
        if round % 2 == 0 {
            fates.make_writable(&tree, 1);
        }
        drop(child);
        assert_eq!(fates.leaves(), 3);
    }
    assert_eq!((references(&tree, 70), references(&tree, 1)), (1, 1));
    drop(tree);
    fates.check(103);
}

/// A chain of trees in which each one is dropped as soon as it has a child.
#[test]
fn a_chain_of_children_has_what_the_first_one_had() {
    let fates = Fates::default();
    let mut tree = fates.tree(&[1, 70, 600_000]);
    for round in 0..100 {
        tree = share(&tree);
        if round % 3 == 0 {
            fates.make_writable(&tree, 1);
        }
        assert_eq!(slots(&tree).len(), 3);
        assert_eq!(fates.leaves(), 3);
    }
    drop(tree);
    fates.check(3);
}

#[test]
fn a_tree_with_nodes_is_shared_with_an_empty_one_alone() {
    let fates = Fates::default();
    let (tree, mut other) = (fates.tree(&[70]), fates.tree(&[600]));
    let shared = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        tree.write().share_with(&mut other, core::iter::empty())
    }));
    assert!(shared.is_err());
}

mod slot_data {
    use super::*;
    use crate::radix::leaf::{NeedsLock, NewTable, SlotData};

    const ONE: SlotData = SlotData { flags: 1, word: 11 };
    const TWO: SlotData = SlotData {
        flags: 0x7ffe,
        word: u64::MAX,
    };

    fn table() -> Option<NewTable> {
        Some(NewTable::try_new().expect("there is memory"))
    }

    /// Opens a slot with data.
    fn open(tree: &TestTree, slot: usize, object: Ref<Rcu<Object>>, data: SlotData) {
        let mut writer = tree.write();
        writer.make_writable(slot / BITS).expect("there is memory");
        let mut leaf = writer.lock_leaf(slot / BITS).expect("owned above");
        leaf.add_table(&mut table());
        leaf.open.set(slot % BITS);
        leaf.set_data(slot % BITS, data);
        leaf.put(slot % BITS, object);
    }

    /// Reads the name and the data of a slot in both ways.
    fn read(tree: &TestTree, slot: usize) -> Option<(usize, SlotData)> {
        let section = rcu::read_lock();
        let leaf = tree.leaf(slot / BITS, &section)?;
        let locked = tree.borrow_with_data_locked(&leaf, slot / BITS, slot % BITS);
        let name = |found: Option<(Borrowed<'_, Rcu<Object>>, SlotData)>| {
            found.map(|(object, data)| (object.name, data))
        };
        let locked = name(locked);
        match leaf.borrow_with_data(slot % BITS) {
            Ok(found) => assert_eq!(name(found), locked),
            Err(NeedsLock) => assert!(!leaf.has_table(), "nothing is being changed"),
        }
        locked
    }

    fn object(name: usize) -> Ref<Rcu<Object>> {
        Ref::new_rcu(Object {
            name,
            dropped: Arc::default(),
        })
    }

    #[test]
    fn a_slot_has_the_data_of_its_object_alone() {
        let tree = TestTree::new(());
        for slot in [3, 64 + 3, 5000] {
            open(&tree, slot, object(1), ONE);
            assert_eq!(read(&tree, slot), Some((1, ONE)));
            assert_eq!(read(&tree, slot ^ 1), None);
            let mut writer = tree.write();
            writer.make_writable(slot / BITS).expect("there is memory");
            let mut leaf = writer.lock_leaf(slot / BITS).expect("owned above");
            drop(leaf.replace(slot % BITS, object(2), TWO));
            drop(leaf);
            assert_eq!(read(&tree, slot), Some((2, TWO)));
            let mut leaf = writer.lock_leaf(slot / BITS).expect("owned above");
            drop(leaf.remove(slot % BITS));
            assert_eq!(leaf.data(slot % BITS), SlotData::default());
            leaf.put(slot % BITS, object(3));
            drop(leaf);
            drop(writer);
            assert_eq!(read(&tree, slot), Some((3, SlotData::default())));
        }
    }

    #[test]
    fn a_table_that_comes_later_has_the_close_on_exec_flags_that_are_there() {
        let tree = TestTree::new(());
        let writer = tree.write();
        let mut leaf = writer.lock_leaf(0).expect("it is always there");
        for bit in [3, 4] {
            leaf.open.set(bit);
            leaf.put(bit, object(bit));
        }
        // That of 5 is left from an earlier use.
        leaf.cloexec.replace(0b11_0000);
        drop(leaf);
        let flags = |tree: &TestTree, slot| read(tree, slot).map(|(_, data)| data.flags);
        assert_eq!((flags(&tree, 3), flags(&tree, 4)), (Some(0), Some(1)));
        let mut leaf = writer.lock_leaf(0).expect("it is always there");
        leaf.add_table(&mut table());
        assert_eq!(leaf.data(5).flags, 0);
        leaf.open.set(5);
        leaf.put(5, object(5));
        drop(leaf);
        assert_eq!((flags(&tree, 3), flags(&tree, 4)), (Some(0), Some(1)));
        assert_eq!(flags(&tree, 5), Some(0));
    }

    #[test]
    fn another_tree_gets_the_data_with_the_objects() {
        let tree = TestTree::new(());
        for slot in [3, 64 + 3] {
            open(&tree, slot, object(slot), ONE);
        }
        let mut other = TestTree::new(());
        tree.write()
            .share_with(&mut other, std::iter::empty())
            .expect("there is memory");
        for slot in [3, 64 + 3] {
            assert_eq!(read(&other, slot), Some((slot, ONE)));
            let mut writer = other.write();
            writer.make_writable(slot / BITS).expect("there is memory");
            let mut leaf = writer.lock_leaf(slot / BITS).expect("owned above");
            leaf.exchange_word(slot % BITS, 7);
            leaf.set_flags(slot % BITS, 2);
            drop(leaf);
            drop(writer);
            assert_eq!(
                read(&other, slot),
                Some((slot, SlotData { flags: 2, word: 7 }))
            );
            assert_eq!(read(&tree, slot), Some((slot, ONE)));
        }
    }
}

/// A lock keeps its CPU in a kernel, and the thread that took it releases it. The
/// compiler checks that no guard is `Send`: if one were, two implementations would give `answer`.
#[test]
fn guards_stay_on_their_thread() {
    trait Sent<Which> {
        fn answer() {}
    }
    impl<T> Sent<()> for T {}
    impl<T: Send> Sent<u8> for T {}
    <ReadGuard<'_, (), Tag, ()> as Sent<_>>::answer();
    <WriteGuard<'_, (), Tag, ()> as Sent<_>>::answer();
    <LeafGuard<'_, (), Tag> as Sent<_>>::answer();
}
