//! Models of the tree. Interior nodes have two children there and leaves four slots, so that
//! the leaf of index 2 needs a second root. An error shows as a node that is read before it is
//! complete, as an object or a state that is read after it was freed or while it is written, as one
//! that is lost or released twice, or as a slot that is not found.

use super::*;
use crate::object::loom::{Fates, Object};
use crate::object::{Rcu, SlotRef};
use ::loom::cell::UnsafeCell;
use fdtable_sync::model::Preemptions::{self, Any, AtMost};
use fdtable_sync::model::{JoinHandle, explore, join, spawn};
use fdtable_sync::platform::Arc;
use fdtable_sync::platform::atomic::{AtomicBool, AtomicUsize};
use fdtable_sync::rcu::read_lock;

/// A state that the checker watches: how often its leaf was written. Its end is a write too.
#[derive(Default)]
pub(super) struct Writes(UnsafeCell<usize>);

// SAFETY: the model checker checks that accesses to the cell do not meet.
unsafe impl Sync for Writes {}
// SAFETY: as above.
unsafe impl Send for Writes {}

impl Writes {
    fn count(&self) -> usize {
        // SAFETY: the checker reports a write that meets this read.
        self.0.with(|count| unsafe { *count })
    }

    fn add(&mut self) {
        // SAFETY: the checker reports another access that meets this write.
        self.0.with_mut(|count| unsafe { *count += 1 });
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        self.0.with_mut(|_| ());
    }
}

impl LeafState for Writes {
    fn copy(&self) -> Self {
        Self(UnsafeCell::new(self.count()))
    }

    fn copy_first(&self) -> Self {
        self.copy()
    }
}

pub(super) type Sample = Tree<Rcu<Object>, Writes, ()>;

/// Makes a tree with an object under each of these slots.
pub(super) fn tree(fates: &Fates, slots: &[usize]) -> Arc<Sample> {
    let tree = Sample::new(());
    for &slot in slots {
        open(&tree, slot, fates.object());
    }
    Arc::new(tree)
}

/// Runs `act` on a thread of its own.
pub(super) fn thread<R: 'static>(
    tree: &Arc<Sample>,
    act: impl FnOnce(&Sample) -> R + 'static,
) -> JoinHandle<R> {
    let tree = tree.clone();
    spawn(move || act(&tree))
}

pub(super) fn make_writable(tree: &Sample, index: usize) {
    tree.write().make_writable(index).expect("there is memory");
}

pub(super) fn open(tree: &Sample, slot: usize, object: Ref<Rcu<Object>>) {
    let mut writer = tree.write();
    writer.make_writable(slot / BITS).expect("there is memory");
    let mut leaf = writer.lock_leaf(slot / BITS).expect("owned above");
    leaf.open.set(slot % BITS);
    let before = leaf.exchange(slot % BITS, Some(object));
    assert!(before.is_none(), "the slot is free");
}

/// Takes the object out of a slot that has one.
pub(super) fn take_out(tree: &Sample, slot: usize) -> SlotRef<Rcu<Object>> {
    let object = {
        let mut writer = tree.write();
        writer.make_writable(slot / BITS).expect("there is memory");
        let mut leaf = writer.lock_leaf(slot / BITS).expect("owned above");
        leaf.open.clear(slot % BITS);
        leaf.exchange(slot % BITS, None)
    };
    object.expect("the slot is taken")
}

pub(super) fn close(tree: &Sample, slot: usize) {
    take_out(tree, slot).look();
}

/// Gets an object that must be there, leaves the section, and reads it.
pub(super) fn find(tree: &Sample, slot: usize) {
    let object = tree.get(slot);
    object.expect("the slot is taken").look();
}

/// The same if it is there.
pub(super) fn get(tree: &Sample, slot: usize) {
    let object = tree.get(slot);
    object.inspect(|object| object.look());
}

/// Borrows an object if it is there, and reads it.
fn borrow(tree: &Sample, slot: usize) {
    let section = read_lock();
    if let Some(object) = tree.borrow(slot, &section) {
        object.look_inside_section();
    }
}

pub(super) fn share(tree: &Sample) -> Sample {
    share_keeping(tree, None)
}

fn share_keeping(tree: &Sample, kept: Option<usize>) -> Sample {
    let mut other = Sample::new(());
    let shared = tree.write().share_with(&mut other, kept.into_iter());
    shared.expect("there is memory");
    other
}

/// Removes a leaf, whatever it has.
pub(super) fn remove(tree: &Sample, index: usize) {
    let removed = tree.write().remove_if(index, |_| true);
    drop(removed.expect("there is memory"));
}

/// A borrowed object that is freed inside the section.
#[test]
fn a_borrow_meets_a_close() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let borrower = thread(&tree, |tree| borrow(tree, 0));
        close(&tree, 0);
        join(borrower);
        fates.check(1);
    });
}

/// A reference to an object that is released or freed; a count that is read after its object was
/// freed.
#[test]
fn a_get_meets_the_last_put() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let getter = thread(&tree, |tree| get(tree, 0));
        close(&tree, 0);
        join(getter);
        fates.check(1);
    });
}

/// The same with a holder, which drops the last reference: a get may revive the object before it
/// is buried, and its own put may end it before the holder has looked.
#[test]
fn a_get_meets_the_last_put_of_a_holder() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let holder = tree.get(0);
        let getter = thread(&tree, |tree| {
            get(tree, 0);
            rcu::barrier().expect("outside of sections");
        });
        close(&tree, 0);
        drop(holder);
        join(getter);
        fates.check(1);
    });
}

/// The same with two that may revive the object, one after the other or one for the other.
#[test]
fn two_gets_meet_the_last_put() {
    explore(AtMost(2), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let getters = [0; 2].map(|slot| thread(&tree, move |tree| get(tree, slot)));
        close(&tree, 0);
        getters.into_iter().for_each(join);
        fates.check(1);
    });
}

/// Gets an object in the section of the read side, as a duplicate does, and reads it after that.
fn get_in_read_side(tree: &Sample, slot: usize) -> bool {
    let object = {
        let reader = tree.read().expect("no writer excludes readers");
        reader.get(slot)
    };
    object.inspect(|object| object.look()).is_some()
}

/// A reference to an object that is released or freed, taken in the section of the read side.
#[test]
fn a_duplicate_meets_the_last_put() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let getter = thread(&tree, |tree| {
            get_in_read_side(tree, 0);
        });
        close(&tree, 0);
        join(getter);
        fates.check(1);
    });
}

/// A duplicate that finds nothing at a slot that is always open.
#[test]
fn a_duplicate_meets_a_replacement() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let getter = thread(&tree, |tree| {
            assert!(get_in_read_side(tree, 0), "the slot is taken");
        });
        let replaced = {
            let writer = tree.write();
            let mut leaf = writer.lock_leaf(0).expect("the first leaf is always owned");
            leaf.exchange(0, Some(fates.object()))
        };
        drop(replaced);
        join(getter);
        close(&tree, 0);
        fates.check(2);
    });
}

/// A leaf that is read after it was freed, below a root; its objects, which were put with it.
#[test]
fn a_duplicate_meets_the_removal_of_the_leaf() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        let getter = thread(&tree, |tree| {
            get_in_read_side(tree, 4);
        });
        remove(&tree, 1);
        join(getter);
        fates.check(1);
    });
}

fn an_open_meets_a_reader(read: fn(&Sample, usize)) {
    explore(AtMost(3), move || {
        let fates = Fates::default();
        let tree = tree(&fates, &[]);
        let reader = thread(&tree, move |tree| read(tree, 0));
        open(&tree, 0, fates.object());
        join(reader);
        close(&tree, 0);
        fates.check(1);
    });
}

/// An object of which a reader sees the pointer and not yet the rest.
#[test]
fn an_opened_object_is_complete() {
    an_open_meets_a_reader(borrow);
}

/// The same for a reader that takes a reference.
#[test]
fn an_opened_object_can_be_kept() {
    an_open_meets_a_reader(get);
}

/// A lookup that finds nothing at a slot that is always open, or an object that is not complete.
#[test]
fn a_get_meets_a_replacement() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let getter = thread(&tree, |tree| find(tree, 0));
        let replaced = {
            let writer = tree.write();
            let mut leaf = writer.lock_leaf(0).expect("the first leaf is always owned");
            leaf.exchange(0, Some(fates.object()))
        };
        drop(replaced);
        join(getter);
        close(&tree, 0);
        fates.check(2);
    });
}

/// A revocation that a reader knows to be over, of an object whose last reference goes while the
/// reader has it borrowed, and beside the end of another revoked object.
#[test]
fn a_reader_that_knows_of_a_revocation_finds_the_object_revoked() {
    explore(AtMost(2), || {
        let fates = Fates::default();
        let other = fates.object();
        Ref::revoke(&other);
        let tree = tree(&fates, &[0]);
        let over = Arc::new(AtomicBool::new(false));
        let reader = thread(&tree, {
            let over = over.clone();
            move |tree| {
                let section = read_lock();
                let found = tree.borrow(0, &section);
                if over.load(Acquire) {
                    assert!(found.is_none_or(Borrowed::is_revoked), "it was revoked");
                }
            }
        });
        drop(other);
        let object = tree.get(0).expect("it is open");
        Ref::revoke(&object);
        over.store(true, Release);
        drop(object);
        // Its hook has run, so it is not looked at.
        drop(take_out(&tree, 0));
        join(reader);
        fates.check(2);
    });
}

/// A leaf that cannot be found while a root comes above it, or through a root that is not
/// complete.
#[test]
fn a_leaf_is_found_while_roots_come_above_it() {
    explore(Any, || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        let reader = thread(&tree, |tree| {
            find(tree, 4);
            find(tree, 4);
        });
        make_writable(&tree, 2);
        join(reader);
        drop(tree);
        fates.check(1);
    });
}

/// A leaf that is found before it is complete, at any of the levels that lead there.
#[test]
fn a_new_leaf_is_complete() {
    explore(Any, || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4, 8]);
        let reader = thread(&tree, |tree| borrow(tree, 12));
        open(&tree, 12, fates.object());
        join(reader);
        drop(tree);
        fates.check(3);
    });
}

/// An enumeration that reads a node or a leaf before it is complete, or skips one that was there
/// before it began.
#[test]
fn an_enumeration_meets_a_new_leaf() {
    explore(Any, || {
        let fates = Fates::default();
        let tree = tree(&fates, &[8]);
        let reader = thread(&tree, |tree| {
            let section = read_lock();
            let mut next = tree.next(1, &section);
            let mut last = 0;
            while let Some((index, leaf)) = next {
                if let Some(object) = leaf.borrow(0) {
                    object.look_inside_section();
                }
                last = index;
                next = tree.next(index + 1, &section);
            }
            assert!(last >= 2, "it was there before");
        });
        open(&tree, 4, fates.object());
        join(reader);
        drop(tree);
        fates.check(2);
    });
}

/// A slot that is not found, or whose object is missing, while the path to it is copied.
fn a_copy_meets_a_reader(is_sole: bool) {
    explore(AtMost(3), move || {
        let fates = Fates::default();
        let tree = tree(&fates, &[8]);
        let other = share(&tree);
        let other = (!is_sole).then_some(other);
        let reader = thread(&tree, |tree| find(tree, 8));
        make_writable(&tree, 2);
        join(reader);
        drop(other);
        drop(tree);
        fates.check(1);
    });
}

#[test]
fn what_is_cloned_is_found() {
    a_copy_meets_a_reader(false);
}

#[test]
fn what_is_moved_is_found() {
    a_copy_meets_a_reader(true);
}

/// An object that is read after it was freed, through a leaf that was released with its pointers.
fn a_close_meets_a_reader(is_sole: bool, read: fn(&Sample, usize)) {
    explore(AtMost(3), move || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        let other = share(&tree);
        let other = (!is_sole).then_some(other);
        let reader = thread(&tree, move |tree| read(tree, 4));
        close(&tree, 4);
        drop(other);
        join(reader);
        drop(tree);
        fates.check(1);
    });
}

#[test]
fn a_get_meets_a_close_in_a_clone() {
    a_close_meets_a_reader(false, get);
}

#[test]
fn a_get_meets_a_close_of_what_was_moved() {
    a_close_meets_a_reader(true, get);
}

#[test]
fn a_borrow_meets_a_close_in_a_clone() {
    a_close_meets_a_reader(false, borrow);
}

#[test]
fn a_borrow_meets_a_close_of_what_was_moved() {
    a_close_meets_a_reader(true, borrow);
}

/// A leaf that is freed while the other tree copies it; counts that get lost between the two.
#[test]
fn two_trees_copy_the_same_leaf() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        let other = Arc::new(share(&tree));
        let copier = thread(&other, |other| make_writable(other, 1));
        make_writable(&tree, 1);
        join(copier);
        find(&tree, 4);
        find(&other, 4);
        drop((tree, other));
        fates.check(1);
    });
}

/// The same with an interior node above, and with a close in each.
#[test]
fn two_trees_close_the_same_slot() {
    explore(AtMost(2), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[8]);
        let other = Arc::new(share(&tree));
        let closer = thread(&other, |other| close(other, 8));
        close(&tree, 8);
        join(closer);
        drop((tree, other));
        fates.check(1);
    });
}

/// A leaf that one tree frees under a reader that came from the other tree: both had it.
#[test]
fn a_tree_goes_while_a_reader_of_another_is_in_its_leaf() {
    explore(AtMost(2), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        let other = Arc::new(share(&tree));
        let reader = thread(&other, |other| {
            let section = read_lock();
            let leaf = other.leaf(1, &section).expect("it is there");
            // A freed leaf has no owner ID.
            leaf.head.owner();
            leaf.borrow(0).expect("open").look_inside_section();
        });
        make_writable(&other, 1);
        let third = share_keeping(&tree, Some(1));
        drop(tree);
        join(reader);
        drop((other, third));
        fates.check(1);
    });
}

/// A tree that is dropped while the other one copies the shared nodes.
#[test]
fn one_tree_goes_while_the_other_copies() {
    explore(AtMost(4), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        let other = share(&tree);
        let dropper = spawn(move || drop(other));
        close(&tree, 4);
        join(dropper);
        drop(tree);
        fates.check(1);
    });
}

/// Two trees that go at once.
#[test]
fn both_trees_go() {
    explore(Any, || {
        let fates = Fates::default();
        let tree = Arc::new(share(&tree(&fates, &[4])));
        let other = share(&tree);
        let dropper = spawn(move || drop(other));
        drop(tree);
        join(dropper);
        fates.check(1);
    });
}

/// Notes one more write in a locked leaf.
fn note(mut leaf: LeafGuard<'_, Rcu<Object>, Writes>) {
    let count = leaf.state().count();
    leaf.open.set(count);
    leaf.state_mut().add();
}

/// Writes in a leaf by the fast path, or else by the slow path.
fn write(tree: &Sample, index: usize) {
    {
        let reader = tree.read();
        if let Some(leaf) = reader.as_ref().and_then(|reader| reader.lock_leaf(index)) {
            return note(leaf);
        }
    }
    let mut writer = tree.write();
    writer.make_writable(index).expect("there is memory");
    note(writer.lock_leaf(index).expect("owned above"));
}

/// Tells how often a leaf was written.
fn writes(tree: &Sample, index: usize) -> usize {
    let mut writer = tree.write();
    writer.make_writable(index).expect("there is memory");
    let leaf = writer.lock_leaf(index).expect("owned above");
    let count = leaf.state().count();
    assert_eq!(
        leaf.open.bits().count_ones() as usize,
        count,
        "half a write"
    );
    count
}

/// A write that a tree has half of, or that it sees after it was shared.
fn a_write_meets_a_share(index: usize, kept: Option<usize>) {
    explore(AtMost(3), move || {
        let tree = Arc::new(Sample::new(()));
        make_writable(&tree, index);
        let writer = thread(&tree, move |tree| write(tree, index));
        let other = share_keeping(&tree, kept);
        let before = writes(&other, index);
        join(writer);
        assert_eq!(writes(&other, index), before);
        assert_eq!(writes(&tree, index), 1);
        drop((tree, other));
        rcu::barrier().expect("outside of sections");
    });
}

#[test]
fn a_write_in_the_first_leaf_meets_a_share() {
    // There are no nodes: the leaf's lock alone keeps the two apart.
    a_write_meets_a_share_of_the_first(|_| ());
    a_write_meets_a_share_of_the_first(|tree| make_writable(tree, 1));
}

fn a_write_meets_a_share_of_the_first(prepare: fn(&Sample)) {
    explore(AtMost(3), move || {
        let tree = Arc::new(Sample::new(()));
        prepare(&tree);
        let writer = thread(&tree, |tree| write(tree, 0));
        let other = share(&tree);
        // Reservations are not shared, but the number of writes is.
        let count = |tree: &Sample| {
            let writer = tree.write();
            let leaf = writer.lock_leaf(0).expect("it is there");
            leaf.state().count()
        };
        let before = count(&other);
        join(writer);
        assert_eq!((count(&other), count(&tree)), (before, 1));
        drop((tree, other));
        rcu::barrier().expect("outside of sections");
    });
}

/// A write in the first leaf alone while readers are excluded.
#[test]
fn a_write_in_the_first_leaf_alone_meets_an_exclusion() {
    explore(AtMost(3), || {
        let tree = Arc::new(Sample::new(()));
        let writer = thread(&tree, |tree| {
            if let Some(first) = tree.try_lock_near(0, 0) {
                note(first.leaf);
            }
        });
        // Without the lock of the leaf.
        let bits = || tree.first.open.bits();
        let mut excluding = tree.write();
        excluding.exclude_readers();
        let before = bits();
        ::loom::thread::yield_now();
        assert_eq!(bits(), before);
        excluding.admit_readers();
        drop(excluding);
        join(writer);
        assert!(writes(&tree, 0) <= 1);
    });
}

#[test]
fn a_write_meets_a_share_of_its_leaf() {
    a_write_meets_a_share(1, None);
}

#[test]
fn a_write_meets_a_share_that_keeps_its_leaf() {
    a_write_meets_a_share(1, Some(1));
}

/// Two writers of a leaf that is shared: one makes the copy, and no write is lost.
#[test]
fn two_write_a_shared_leaf() {
    explore(AtMost(2), || {
        let tree = Arc::new(Sample::new(()));
        make_writable(&tree, 1);
        let other = share(&tree);
        let writer = thread(&tree, |tree| write(tree, 1));
        write(&tree, 1);
        join(writer);
        assert_eq!((writes(&tree, 1), writes(&other, 1)), (2, 0));
        drop((tree, other));
        rcu::barrier().expect("outside of sections");
    });
}

/// A write in a leaf that was taken out of the tree meanwhile: it is lost.
fn a_removal_meets_a_write(preemptions: Preemptions, write: fn(&Sample, usize)) {
    explore(preemptions, move || {
        let tree = Arc::new(Sample::new(()));
        make_writable(&tree, 1);
        let writer = thread(&tree, move |tree| write(tree, 1));
        let removed = tree.write().remove_if(1, |leaf| leaf.open.bits() == 0);
        drop(removed.expect("there is memory"));
        join(writer);
        assert_eq!(writes(&tree, 1), 1);
        drop(tree);
        rcu::barrier().expect("outside of sections");
    });
}

#[test]
fn a_write_meets_a_removal() {
    a_removal_meets_a_write(AtMost(4), write);
}

/// Writes in a leaf that is found before it is locked, or else as [`write`].
fn write_found(tree: &Sample, index: usize) {
    {
        let reader = tree.read();
        let reader = reader.as_ref();
        if let Some(leaf) = reader.and_then(|reader| reader.try_lock_by_walk(index, |_| true)) {
            return note(leaf);
        }
    }
    write(tree, index);
}

#[test]
fn a_write_in_a_leaf_that_was_found_meets_a_removal() {
    a_removal_meets_a_write(AtMost(3), write_found);
}

/// A leaf, or a node above it, that is freed below a reader.
fn a_removal_meets_a_reader(read: fn(&Sample, usize)) {
    explore(AtMost(3), move || {
        let fates = Fates::default();
        let tree = tree(&fates, &[8]);
        let reader = thread(&tree, move |tree| read(tree, 8));
        remove(&tree, 2);
        join(reader);
        drop(tree);
        fates.check(1);
    });
}

#[test]
fn a_get_meets_a_removal() {
    a_removal_meets_a_reader(get);
}

#[test]
fn a_borrow_meets_a_removal() {
    a_removal_meets_a_reader(borrow);
}

/// The same for a leaf that another tree shares and also drops.
#[test]
fn a_borrow_meets_the_removal_of_a_shared_leaf() {
    explore(AtMost(1), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        let other = Arc::new(share(&tree));
        let reader = thread(&tree, |tree| borrow(tree, 4));
        let remover = thread(&other, |other| remove(other, 1));
        remove(&tree, 1);
        join(reader);
        join(remover);
        drop((tree, other));
        fates.check(1);
    });
}

/// Caches leaves.
fn cache(tree: &Sample, indexes: [usize; CACHED_LEAVES]) {
    tree.write().cache_leaves(indexes);
}

/// Makes a tree with a leaf of index 1 that is cached.
fn cached() -> Arc<Sample> {
    let tree = Arc::new(Sample::new(()));
    make_writable(&tree, 1);
    cache(&tree, [1, 0]);
    tree
}

/// Writes in the leaf of index 1 if it is cached, and returns how often: once or not at all.
fn write_cached(tree: &Sample) -> usize {
    let near = tree.try_lock_near(0, 1);
    near.map(|near| note(near.leaf)).map_or(0, |()| 1)
}

/// A cached leaf that a writer finds before it is complete.
#[test]
fn a_cached_leaf_is_complete() {
    explore(Any, || {
        let tree = Arc::new(Sample::new(()));
        let writer = thread(&tree, write_cached);
        make_writable(&tree, 1);
        cache(&tree, [1, 0]);
        let written = join(writer);
        assert_eq!(writes(&tree, 1), written);
        drop(tree);
        rcu::barrier().expect("outside of sections");
    });
}

/// A leaf that has two locks: half a write, or one that is lost.
#[test]
fn a_write_in_a_cached_leaf_meets_one_by_a_walk() {
    explore(AtMost(2), || {
        let tree = Arc::new(Sample::new(()));
        make_writable(&tree, 1);
        let walker = thread(&tree, |tree| write_found(tree, 1));
        cache(&tree, [1, 0]);
        let near = write_cached(&tree);
        cache(&tree, [0, 0]);
        join(walker);
        assert_eq!(writes(&tree, 1), near + 1);
        drop(tree);
        rcu::barrier().expect("outside of sections");
    });
}

/// The same where the leaf is no longer cached when it is walked to.
#[test]
fn a_write_in_a_cached_leaf_meets_one_after_it() {
    explore(AtMost(2), || {
        let tree = cached();
        let near = thread(&tree, write_cached);
        cache(&tree, [0, 0]);
        write_found(&tree, 1);
        let written = join(near);
        assert_eq!(writes(&tree, 1), written + 1);
        drop(tree);
        rcu::barrier().expect("outside of sections");
    });
}

/// A write in a leaf that is freed, or that is lost.
#[test]
fn a_write_in_a_cached_leaf_meets_its_removal() {
    explore(AtMost(3), || {
        let tree = cached();
        let writer = thread(&tree, write_cached);
        let removed = tree.write().remove_if(1, |leaf| leaf.open.bits() == 0);
        drop(removed.expect("there is memory"));
        rcu::barrier().expect("outside of sections");
        let written = join(writer);
        assert_eq!(writes(&tree, 1), written);
        drop(tree);
        rcu::barrier().expect("outside of sections");
    });
}

/// A write that both trees see, or the other one half of.
#[test]
fn a_write_in_a_cached_leaf_meets_a_share() {
    explore(AtMost(2), || {
        let tree = cached();
        let writer = thread(&tree, write_cached);
        let other = share(&tree);
        let before = writes(&other, 1);
        let written = join(writer);
        assert_eq!(writes(&other, 1), before);
        assert_eq!(writes(&tree, 1), written);
        drop((tree, other));
        rcu::barrier().expect("outside of sections");
    });
}

/// A write in a cached leaf while readers are excluded.
#[test]
fn a_write_in_a_cached_leaf_meets_an_exclusion() {
    explore(AtMost(3), || {
        let tree = cached();
        let writer = thread(&tree, write_cached);
        let mut excluding = tree.write();
        excluding.exclude_readers();
        // Without the lock of the leaf.
        let bits = || excluding.leaf(1).expect("it is there").open.bits();
        let before = bits();
        ::loom::thread::yield_now();
        assert_eq!(bits(), before);
        excluding.cache_leaves([1, 0]);
        assert_eq!(excluding.cached(), [0; CACHED_LEAVES]);
        excluding.admit_readers();
        drop(excluding);
        let written = join(writer);
        assert_eq!(writes(&tree, 1), written);
        drop(tree);
        rcu::barrier().expect("outside of sections");
    });
}

/// A leaf that is found full by a thread that finds one of its slots empty.
#[test]
fn a_look_at_a_cached_leaf_meets_a_close() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        {
            let writer = tree.write();
            let mut leaf = writer.lock_leaf(1).expect("owned above");
            (1..BITS).for_each(|bit| leaf.take(bit));
        }
        cache(&tree, [1, 0]);
        let looker = thread(&tree, |tree| {
            let section = read_lock();
            let is_vacant = tree.leaf(1, &section).expect("it stays").is_vacant(0);
            assert!(!is_vacant || !tree.is_near_full(0, 1), "it has room");
        });
        {
            let mut near = tree.try_lock_near(0, 1).expect("it is cached");
            near.leaf.free(0);
            drop(near.leaf.remove(0));
        }
        join(looker);
        drop(tree);
        fates.check(1);
    });
}

/// A leaf that is full again does not show what was before.
#[test]
fn a_full_cached_leaf_shows_what_came_before() {
    explore(AtMost(3), || {
        let tree = cached();
        let told = Told::new();
        let taker = {
            let told = told.clone();
            thread(&tree, move |tree| {
                told.tell();
                let mut near = tree.try_lock_near(0, 1).expect("it is cached");
                (0..BITS).for_each(|bit| near.leaf.take(bit));
            })
        };
        assert!(!tree.is_near_full(0, 1) || told.is_told());
        join(taker);
        assert!(tree.is_near_full(0, 1));
        drop(tree);
        rcu::barrier().expect("outside of sections");
    });
}

/// A flag that orders nothing.
#[derive(Clone)]
struct Told(Arc<AtomicUsize>);

impl Told {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    fn tell(&self) {
        // Relaxed: the model checks another ordering.
        self.0.store(1, Relaxed);
    }

    fn is_told(&self) -> bool {
        // Relaxed: as above.
        self.0.load(Relaxed) == 1
    }
}

/// Stores or removes the object of a slot by the fast path, and does something before.
fn change(tree: &Sample, slot: usize, object: Option<Ref<Rcu<Object>>>, first: impl FnOnce()) {
    let before = {
        let reader = tree.read().expect("readers are admitted");
        let leaf = reader.lock_leaf(slot / BITS);
        let mut leaf = leaf.expect("it is there, and the tree's own");
        match object {
            Some(_) => leaf.open.set(slot % BITS),
            None => leaf.open.clear(slot % BITS),
        }
        first();
        leaf.exchange(slot % BITS, object)
    };
    drop(before);
}

/// A thread that finds a slot vacant without seeing an earlier write of its closer: a report that
/// the slot is free.
#[test]
fn a_reader_of_a_vacant_slot_sees_what_its_closer_left() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[0]);
        let told = Told::new();
        let closer = thread(&tree, {
            let told = told.clone();
            move |tree| change(tree, 0, None, || told.tell())
        });
        if tree.is_vacant(0, &read_lock()) {
            assert!(told.is_told(), "it was reported before");
        }
        join(closer);
        assert!(tree.is_vacant(0, &read_lock()));
        drop(tree);
        fates.check(1);
    });
}

/// The same for a leaf that is removed as a whole, after the report.
#[test]
fn a_reader_that_finds_a_leaf_gone_sees_what_came_before() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let tree = tree(&fates, &[4]);
        let told = Told::new();
        let remover = thread(&tree, {
            let told = told.clone();
            move |tree| {
                told.tell();
                remove(tree, 1);
            }
        });
        if tree.is_vacant(4, &read_lock()) {
            assert!(told.is_told(), "it was reported before");
        }
        join(remover);
        assert!(tree.is_vacant(4, &read_lock()));
        drop(tree);
        fates.check(1);
    });
}

/// Two that open a slot each and find the other's not open: each would have come before the
/// other.
#[test]
fn two_do_not_both_find_the_others_slot_vacant() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        // A leaf that both find.
        let tree = tree(&fates, &[5]);
        let found = Told::new();
        let opener = thread(&tree, {
            let (object, found) = (fates.object(), found.clone());
            move |tree| {
                change(tree, 4, Some(object), || ());
                if tree.is_vacant(0, &read_lock()) {
                    found.tell();
                }
            }
        });
        change(&tree, 0, Some(fates.object()), || ());
        let is_vacant = tree.is_vacant(4, &read_lock());
        join(opener);
        assert!(!(is_vacant && found.is_told()), "one of the two was first");
        drop(tree);
        fates.check(3);
    });
}

/// Reads of an object with the data of its slot.
mod slot_data {
    use super::*;
    use crate::radix::leaf::{NewTable, SlotData};

    /// The data of the object that was opened first, second and so on. Every part is another.
    fn data(of: u16) -> SlotData {
        SlotData {
            flags: of << 1,
            word: u64::from(of) + 100,
        }
    }

    /// Makes a tree with a table of data in the first leaf, and an object there with data.
    fn with_data(fates: &Fates, of: u16) -> Arc<Sample> {
        let tree = tree(fates, &[]);
        change(&tree, |leaf| {
            leaf.add_table(&mut Some(NewTable::try_new().expect("there is memory")));
            leaf.open.set(0);
            leaf.set_data(0, data(of));
            leaf.put(0, fates.object());
        });
        tree
    }

    fn change<R>(
        tree: &Sample,
        change: impl FnOnce(&mut LeafGuard<'_, Rcu<Object>, Writes>) -> R,
    ) -> R {
        let writer = tree.write();
        let mut leaf = writer.lock_leaf(0).expect("it is always there");
        change(&mut leaf)
    }

    /// Reads the identity of the object, and the data, if the reader need not wait.
    fn read(tree: &Sample) -> Option<(*const Object, SlotData)> {
        let section = read_lock();
        let leaf = tree.leaf(0, &section).expect("it is always there");
        let found = leaf.borrow_with_data(0).ok()??;
        Some((ptr::from_ref(found.0.object()), found.1))
    }

    fn address(object: &Ref<Rcu<Object>>) -> *const Object {
        ptr::from_ref(&***object)
    }

    #[test]
    fn a_reader_finds_an_object_with_its_own_data_across_a_close_and_an_open() {
        explore(AtMost(3), || {
            let fates = Fates::default();
            let tree = with_data(&fates, 1);
            let first = change(&tree, |leaf| leaf.get(0)).expect("it is open");
            let (first, second) = (address(&first), fates.object());
            let next = address(&second);
            let writer = thread(&tree, move |tree| {
                let closed = change(tree, |leaf| {
                    leaf.open.clear(0);
                    leaf.remove(0)
                });
                change(tree, |leaf| {
                    leaf.open.set(0);
                    leaf.set_data(0, data(2));
                    leaf.put(0, second);
                });
                drop(closed);
            });
            let found = read(&tree);
            assert!(
                [None, Some((first, data(1))), Some((next, data(2)))].contains(&found),
                "{found:?}"
            );
            join(writer);
        });
    }

    #[test]
    fn a_reader_finds_an_object_with_its_own_data_across_an_exchange() {
        explore(AtMost(3), || {
            let fates = Fates::default();
            let tree = with_data(&fates, 1);
            let first = change(&tree, |leaf| leaf.get(0)).expect("it is open");
            let (first, second) = (address(&first), fates.object());
            let next = address(&second);
            let writer = thread(&tree, move |tree| {
                let displaced = change(tree, |leaf| leaf.replace(0, second, data(2)));
                drop(displaced);
            });
            let found = read(&tree);
            assert!(
                [None, Some((first, data(1))), Some((next, data(2)))].contains(&found),
                "{found:?}"
            );
            join(writer);
            assert_eq!(read(&tree), Some((next, data(2))));
        });
    }

    /// Runs a writer beside a reader, one of them on the thread that begins. If that is the reader,
    /// the checker hardly tries to interrupt it before its first load. If it is the writer, the
    /// checker tries every value that each load of the reader may find.
    fn in_both_orders(
        tree: &Arc<Sample>,
        reader_begins: bool,
        check: impl FnOnce(&Sample) + 'static,
        write: impl FnOnce(&Sample) + 'static,
    ) {
        if reader_begins {
            let writer = thread(tree, write);
            check(tree);
            join(writer);
        } else {
            let reader = thread(tree, check);
            write(tree);
            join(reader);
        }
    }

    /// Runs a writer beside a reader. The reader finds nothing, or the first or the next object
    /// with data that is allowed for it. `write` gets the next object.
    fn beside_a_reader(
        before: SlotData,
        write: impl Fn(&Sample, Ref<Rcu<Object>>) + Copy + Send + Sync + 'static,
        first_with: &'static [SlotData],
        next_with: &'static [SlotData],
    ) {
        for reader_begins in [true, false] {
            explore(AtMost(3), move || {
                let fates = Fates::default();
                let tree = with_data(&fates, 0);
                change(&tree, |leaf| {
                    leaf.set_flags(0, before.flags);
                    leaf.exchange_word(0, before.word);
                });
                let first = change(&tree, |leaf| leaf.get(0)).expect("it is open");
                let (first_is_at, second) = (address(&first), fates.object());
                let next_is_at = address(&second);
                let check = move |tree: &Sample| {
                    let Some((found, data)) = read(tree) else {
                        return;
                    };
                    let allowed = if found == first_is_at {
                        first_with
                    } else {
                        assert_eq!(found, next_is_at);
                        next_with
                    };
                    assert!(allowed.contains(&data), "{data:?}");
                };
                let write = move |tree: &Sample| write(tree, second);
                in_both_orders(&tree, reader_begins, check, write);
                drop(first);
            });
        }
    }

    const ONE: SlotData = SlotData { flags: 2, word: 1 };
    /// The same flags, so that only the version tells the two apart.
    const TWO: SlotData = SlotData { flags: 2, word: 2 };
    const THREE: SlotData = SlotData { flags: 4, word: 3 };
    const PLAIN: SlotData = SlotData { flags: 0, word: 0 };

    fn close_and_open(tree: &Sample, next: Ref<Rcu<Object>>, data: SlotData) {
        let closed = change(tree, |leaf| leaf.remove(0));
        change(tree, |leaf| {
            leaf.set_data(0, data);
            leaf.put(0, next);
        });
        drop(closed);
    }

    #[test]
    fn a_reader_tells_two_uses_with_the_same_flags_apart() {
        let write = |tree: &Sample, next| close_and_open(tree, next, TWO);
        beside_a_reader(ONE, write, &[ONE], &[TWO]);
    }

    #[test]
    fn a_reader_tells_two_uses_with_other_flags_apart() {
        let write = |tree: &Sample, next| close_and_open(tree, next, THREE);
        beside_a_reader(ONE, write, &[ONE], &[THREE]);
    }

    #[test]
    fn a_reader_tells_a_use_from_a_plain_one() {
        let write = |tree: &Sample, next| {
            let closed = change(tree, |leaf| leaf.remove(0));
            change(tree, |leaf| leaf.put(0, next));
            drop(closed);
        };
        beside_a_reader(ONE, write, &[ONE], &[PLAIN]);
    }

    #[test]
    fn a_reader_tells_two_objects_with_the_same_flags_apart() {
        let write = |tree: &Sample, next| {
            drop(change(tree, |leaf| leaf.replace(0, next, TWO)));
        };
        beside_a_reader(ONE, write, &[ONE], &[TWO]);
    }

    #[test]
    fn a_reader_tells_two_objects_with_other_flags_apart() {
        let write = |tree: &Sample, next| {
            drop(change(tree, |leaf| leaf.replace(0, next, THREE)));
        };
        beside_a_reader(ONE, write, &[ONE], &[THREE]);
    }

    #[test]
    fn a_reader_finds_flags_with_a_word_that_was_set_before() {
        let write = |tree: &Sample, next: Ref<Rcu<Object>>| {
            change(tree, |leaf| _ = leaf.exchange_word(0, THREE.word));
            change(tree, |leaf| leaf.set_flags(0, THREE.flags));
            drop(next);
        };
        const BETWEEN: SlotData = SlotData {
            word: THREE.word,
            ..ONE
        };
        beside_a_reader(ONE, write, &[ONE, BETWEEN, THREE], &[]);
    }

    #[test]
    fn a_reader_finds_an_open_with_its_flags_and_its_word() {
        // The slot is emptied before the reader begins.
        for reader_begins in [true, false] {
            explore(AtMost(3), move || {
                let fates = Fates::default();
                let tree = with_data(&fates, 0);
                drop(change(&tree, |leaf| leaf.remove(0)));
                let next = fates.object();
                let write = move |tree: &Sample| {
                    change(tree, |leaf| {
                        leaf.set_data(0, THREE);
                        leaf.put(0, next);
                    });
                };
                let check = |tree: &Sample| {
                    let found = read(tree).map(|(_, data)| data);
                    assert!(found.is_none_or(|data| data == THREE), "{found:?}");
                };
                in_both_orders(&tree, reader_begins, check, write);
            });
        }
    }

    #[test]
    fn a_reader_finds_a_new_table_with_the_flags_that_are_there() {
        for reader_begins in [true, false] {
            explore(AtMost(3), move || {
                let fates = Fates::default();
                let tree = tree(&fates, &[0]);
                change(&tree, |leaf| leaf.cloexec.set(0));
                let write = |tree: &Sample| {
                    let mut new = Some(NewTable::try_new().expect("there is memory"));
                    change(tree, |leaf| leaf.add_table(&mut new));
                };
                let check = |tree: &Sample| {
                    let flags = read(tree).map(|(_, data)| data.flags);
                    assert!(flags.is_none_or(|flags| flags == 1), "{flags:?}");
                };
                in_both_orders(&tree, reader_begins, check, write);
            });
        }
    }

    #[test]
    fn a_reader_finds_a_plain_open_without_the_data_of_the_close_before() {
        explore(AtMost(3), || {
            let fates = Fates::default();
            let tree = with_data(&fates, 1);
            let first = change(&tree, |leaf| leaf.get(0)).expect("it is open");
            // The same object again, without data.
            let (address, again) = (address(&first), first.clone());
            drop(first);
            let writer = thread(&tree, move |tree| {
                let closed = change(tree, |leaf| leaf.remove(0));
                change(tree, |leaf| leaf.put(0, again));
                drop(closed);
            });
            let found = read(&tree);
            let plain = SlotData::default();
            assert!(
                [None, Some((address, data(1))), Some((address, plain))].contains(&found),
                "{found:?}"
            );
            join(writer);
        });
    }

    #[test]
    fn a_reader_finds_a_word_and_flags_in_the_order_in_which_they_were_set() {
        explore(AtMost(3), || {
            let fates = Fates::default();
            let tree = with_data(&fates, 0);
            let writer = thread(&tree, |tree| {
                change(tree, |leaf| leaf.set_flags(0, 2));
                change(tree, |leaf| _ = leaf.exchange_word(0, 7));
                change(tree, |leaf| leaf.set_flags(0, 4));
            });
            let found = read(&tree).map(|(_, data)| (data.flags, data.word));
            let states = [(0, 100), (2, 100), (2, 7), (4, 7)];
            assert!(
                found.is_none_or(|found| states.contains(&found)),
                "{found:?}"
            );
            join(writer);
        });
    }

    #[test]
    fn a_reader_that_takes_the_lock_finds_one_moment_too() {
        for reader_begins in [true, false] {
            explore(AtMost(3), move || {
                let fates = Fates::default();
                let tree = tree(&fates, &[0]);
                let write = |tree: &Sample| {
                    let mut new = Some(NewTable::try_new().expect("there is memory"));
                    change(tree, |leaf| {
                        leaf.add_table(&mut new);
                        leaf.set_flags(0, 2);
                        leaf.exchange_word(0, 7);
                    });
                };
                let check = |tree: &Sample| {
                    let section = read_lock();
                    let leaf = tree.leaf(0, &section).expect("it is always there");
                    let found = tree
                        .borrow_with_data_locked(&leaf, 0, 0)
                        .expect("it is open")
                        .1;
                    assert!(
                        [(0, 0), (2, 7)].contains(&(found.flags, found.word)),
                        "{found:?}"
                    );
                };
                in_both_orders(&tree, reader_begins, check, write);
            });
        }
    }
}
