//! Models of slots with counted objects in them.

use super::*;
use crate::object::loom::{Fates, Object};
use fdtable_sync::model::Preemptions::{Any, AtMost};
use fdtable_sync::model::{JoinHandle, explore, join, spawn};
use fdtable_sync::platform::Arc;
use fdtable_sync::platform::atomic::AtomicBool;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Release};
use fdtable_sync::rcu::read_lock;

fn holding(object: Ref<Object>) -> Arc<Slot<Object>> {
    let slot = Arc::new(Slot::new());
    install(&slot, object);
    slot
}

/// Runs `act` on a thread of its own.
fn thread(slot: &Arc<Slot<Object>>, act: impl FnOnce(&Slot<Object>) + 'static) -> JoinHandle<()> {
    let slot = slot.clone();
    spawn(move || act(&slot))
}

fn install(slot: &Slot<Object>, object: Ref<Object>) {
    assert!(slot.install(object).is_ok(), "the slot is empty");
}

/// Takes the object out and puts it.
fn remove(slot: &Slot<Object>) {
    drop(slot.replace(None));
}

/// Borrows the object and reads it.
fn borrow(slot: &Slot<Object>) {
    let guard = read_lock();
    if let Some(object) = slot.borrow(&guard) {
        object.look_inside_section();
    }
}

/// Gets the object, leaves the section, reads the object and puts it.
fn get(slot: &Slot<Object>) {
    let got = slot.get(&read_lock());
    if let Some(object) = got {
        object.look();
    }
}

/// A borrowed object that is freed inside the section.
#[test]
fn a_borrow_meets_a_removal() {
    explore(Any, || {
        let fates = Fates::default();
        let slot = holding(fates.object());
        let borrower = thread(&slot, borrow);
        remove(&slot);
        join(borrower);
        fates.check(1);
    });
}

/// A reference to an object that is released or freed; a count that is read after its object was
/// freed.
#[test]
fn a_get_meets_the_last_put() {
    explore(Any, || {
        let fates = Fates::default();
        let slot = holding(fates.object());
        let getter = thread(&slot, get);
        remove(&slot);
        join(getter);
        fates.check(1);
    });
}

/// The same with two that may revive the object, one after the other or one for the other.
#[test]
fn two_gets_meet_the_last_put() {
    explore(AtMost(3), || {
        let fates = Fates::default();
        let slot = holding(fates.object());
        let getters = [thread(&slot, get), thread(&slot, get)];
        remove(&slot);
        getters.into_iter().for_each(join);
        fates.check(1);
    });
}

/// An object of which a reader sees the pointer and not yet the rest.
#[test]
fn an_installed_object_is_complete() {
    explore(Any, || {
        let fates = Fates::default();
        let slot = Arc::new(Slot::new());
        let borrower = thread(&slot, borrow);
        install(&slot, fates.object());
        join(borrower);
        remove(&slot);
        fates.check(1);
    });
}

/// The same where a lock keeps other writers away.
#[test]
fn an_exchanged_object_is_complete() {
    explore(Any, || {
        let fates = Fates::default();
        let slot = Arc::new(Slot::new());
        let borrower = thread(&slot, borrow);
        // SAFETY: no other thread writes the slot.
        let before = unsafe { slot.exchange(Some(fates.object())) };
        assert!(before.is_none());
        join(borrower);
        remove(&slot);
        fates.check(1);
    });
}

/// The same for a reader that takes a reference.
#[test]
fn an_installed_object_can_be_had() {
    explore(AtMost(5), || {
        let fates = Fates::default();
        let slot = Arc::new(Slot::new());
        let getter = thread(&slot, get);
        install(&slot, fates.object());
        remove(&slot);
        join(getter);
        fates.check(1);
    });
}

/// A lookup that finds nothing in a slot which is never empty, or an object that is not complete.
#[test]
fn a_get_meets_a_replacement() {
    explore(AtMost(5), || {
        let fates = Fates::default();
        let slot = holding(fates.object());
        let getter = thread(&slot, |slot| {
            let got = slot.get(&read_lock());
            got.expect("the slot is never empty").look();
        });
        drop(slot.replace(Some(fates.object())));
        join(getter);
        remove(&slot);
        fates.check(2);
    });
}

/// An incomplete object that the thread that removes it finds.
#[test]
fn a_removed_object_is_complete() {
    explore(Any, || {
        let fates = Fates::default();
        let slot = Arc::new(Slot::new());
        let installer = {
            let fates = fates.clone();
            thread(&slot, move |slot| install(slot, fates.object()))
        };
        if let Some(object) = slot.replace(None) {
            object.look();
        }
        join(installer);
        remove(&slot);
        fates.check(1);
    });
}

/// A reference of the slot that two removals both got.
#[test]
fn one_of_two_removals_has_the_object() {
    explore(Any, || {
        let fates = Fates::default();
        let slot = holding(fates.object());
        let other = thread(&slot, remove);
        remove(&slot);
        join(other);
        fates.check(1);
    });
}

/// An object that is lost because two installed theirs.
#[test]
fn one_of_two_installs_has_the_slot() {
    explore(Any, || {
        let fates = Fates::default();
        let slot = Arc::new(Slot::new());
        let other = {
            let fates = fates.clone();
            thread(&slot, move |slot| drop(slot.install(fates.object())))
        };
        drop(slot.install(fates.object()));
        join(other);
        assert!(!slot.is_empty());
        remove(&slot);
        fates.check(2);
    });
}

/// A revocation that a reader knows to be over, of an object whose last reference goes while the
/// reader has it borrowed, and beside the end of another revoked object.
#[test]
fn who_knows_of_a_revocation_is_told_so_inside_a_section() {
    explore(AtMost(2), || {
        let fates = Fates::default();
        let other = fates.object();
        Ref::revoke(&other);
        let slot = holding(fates.object());
        let over = Arc::new(AtomicBool::new(false));
        let reader = thread(&slot, {
            let over = over.clone();
            move |slot| {
                let guard = read_lock();
                let found = slot.borrow(&guard);
                if over.load(Acquire) {
                    assert!(found.is_none_or(Borrowed::is_revoked), "it was revoked");
                }
            }
        });
        drop(other);
        let object = slot.get(&read_lock()).expect("nobody removes it");
        Ref::revoke(&object);
        over.store(true, Release);
        drop(object);
        remove(&slot);
        join(reader);
        fates.check(2);
    });
}
