use super::*;
use crate::object::ReleaseReason;
use crate::percpu_list::{Access, PerCpuList, Refused};
use fdtable_sync::refcount::RefCount;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};

/// Counts how often it is dropped.
struct Probe(Arc<AtomicUsize>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_block_has_no_more_than_it_had() {
    assert_eq!(
        size_of::<Header>(),
        size_of::<rcu::Head>() + 2 * size_of::<RefCount>()
    );
    assert_eq!(size_of::<Weak<dyn Send>>(), size_of::<usize>());
}

#[test]
fn an_upgrade_succeeds_as_long_as_there_is_a_reference() {
    let object = Ref::new(7);
    let weak = Ref::downgrade(&object);
    let other = object.clone();
    drop(object);
    let found = weak.upgrade().expect("there is a reference");
    assert!(Ref::ptr_eq(&found, &other));
    assert_eq!((*found, Ref::references(&found)), (7, 2));
    drop((found, other));
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_weak_reference_keeps_neither_the_object_nor_its_block() {
    let drops = Arc::new(AtomicUsize::new(0));
    let object = Ref::new(Probe(drops.clone()));
    let weak = Ref::downgrade(&object);
    drop(object);
    rcu::barrier().expect("outside of sections");
    assert_eq!(drops.load(SeqCst), 1);
    let next = Ref::new(Probe(drops));
    assert!(weak.upgrade().is_none());
    assert!(!weak.ptr_eq(&Ref::downgrade(&next)), "even at its address");
}

#[test]
fn all_weak_references_to_an_object_are_equal_and_to_others_are_not() {
    let (object, other) = (Ref::new(1), Ref::new(1));
    let weak = Ref::downgrade(&object);
    assert!(weak.ptr_eq(&Ref::downgrade(&object)));
    assert!(weak.ptr_eq(&weak.clone()));
    assert!(!weak.ptr_eq(&Ref::downgrade(&other)));
    assert!(!weak.ptr_eq(&Weak::new()));
    assert!(Weak::<u8>::new().ptr_eq(&Weak::default()));
    let again = Ref::downgrade(&object);
    drop(object);
    assert!(weak.ptr_eq(&again), "also after the end");
    assert!(Weak::<u8>::new().upgrade().is_none());
    assert_eq!(format!("{weak:?}"), "(Weak)");
}

#[test]
fn an_identity_is_never_that_of_another_object() {
    let object = Ref::new(1);
    let asked_first = Ref::downgrade(&object).id();
    let weak = Ref::downgrade(&object);
    let id = Ref::id(&object.clone());
    assert_eq!((weak.id(), asked_first), (Some(id), Some(id)));
    drop(object);
    assert_eq!(weak.id(), Some(id), "also after the end");
    drop(weak);
    let mut ids = BTreeSet::from([id]);
    for number in 0..200 {
        assert!(ids.insert(Ref::id(&Ref::new(number))));
        rcu::barrier().expect("outside of sections");
    }
    assert_eq!(Weak::<u8>::new().id(), None);
}

/// A hook can upgrade in a revocation only, and a reference that it takes is one as any.
#[test]
fn the_hook_can_upgrade_in_a_revocation_and_not_in_a_release() {
    type Found = (ReleaseReason, Option<Ref<Knows>>);
    struct Knows {
        weak: OnceLock<Weak<Self>>,
        found: Arc<Mutex<Vec<Found>>>,
        dropped: Arc<AtomicUsize>,
    }
    impl Drop for Knows {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, SeqCst);
        }
    }
    let found = Arc::new(Mutex::new(vec![]));
    let dropped = Arc::new(AtomicUsize::new(0));
    let make = || {
        let object = Knows {
            weak: OnceLock::new(),
            found: found.clone(),
            dropped: dropped.clone(),
        };
        let hook = |object: &Knows, reason| {
            let upgraded = object.weak.get().expect("it was set").upgrade();
            let mut found = object.found.lock().expect("no panic");
            found.push((reason, upgraded));
        };
        let object = Ref::try_with_ends(object, hook).expect("there is memory");
        assert!(object.weak.set(Ref::downgrade(&object)).is_ok());
        object
    };
    let taken = || found.lock().expect("no panic").pop().expect("the hook ran");

    drop(make());
    assert!(matches!(taken(), (ReleaseReason::Released, None)));
    assert_eq!(dropped.load(SeqCst), 1);

    let object = make();
    assert!(Ref::revoke(&object));
    drop(object);
    let (reason, kept) = taken();
    assert_eq!(reason, ReleaseReason::Revoked);
    let kept = kept.expect("the call that revokes has a reference");
    assert_eq!((Ref::references(&kept), dropped.load(SeqCst)), (1, 1));
    drop(kept);
    assert_eq!(dropped.load(SeqCst), 2);
    assert!(found.lock().expect("no panic").is_empty(), "it runs once");
}

#[test]
fn a_hook_that_panics_does_not_leave_a_block_to_be_found() {
    let drops = Arc::new(AtomicUsize::new(0));
    let object = Ref::try_with_ends(Probe(drops.clone()), |_, _| panic!("on purpose"));
    let object = object.expect("there is memory");
    let weak = Ref::downgrade(&object);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(object))).is_err());
    assert!(weak.upgrade().is_none());
    rcu::barrier().expect("outside of sections");
    assert_eq!(drops.load(SeqCst), 1);
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_revoked_object_is_upgraded_until_its_last_reference_goes() {
    let reasons = Arc::new(Mutex::new(vec![]));
    let drops = Arc::new(AtomicUsize::new(0));
    let hook = {
        let reasons = reasons.clone();
        move |_: &Probe, reason| reasons.lock().expect("no panic").push(reason)
    };
    let object = Ref::try_with_ends(Probe(drops.clone()), hook).expect("there is memory");
    let early = Ref::downgrade(&object);
    assert!(Ref::revoke(&object));
    let late = Ref::downgrade(&object);
    assert!(early.ptr_eq(&late));
    assert!(Ref::is_revoked(&late.upgrade().expect("a reference")));
    drop(object);
    rcu::barrier().expect("outside of sections");
    assert!(early.upgrade().is_none() && late.upgrade().is_none());
    assert_eq!(*reasons.lock().expect("no panic"), [ReleaseReason::Revoked]);
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn a_quiet_object_that_was_revoked_has_its_node_taken() {
    for is_first in [true, false] {
        let object = Ref::new(1);
        assert!(!is_first || Ref::revoke(&object));
        let weak = Ref::downgrade(&object);
        assert!(is_first || Ref::revoke(&object));
        assert!(weak.upgrade().is_some_and(|object| *object == 1));
        drop(object);
        rcu::barrier().expect("outside of sections");
        assert!(weak.upgrade().is_none());
    }
}

#[test]
fn members_of_a_list_have_weak_references_and_leave() {
    let list: PerCpuList<dyn Send + Sync> = PerCpuList::try_new().expect("there is memory");
    let add = |access| list.add_coerced(5_u8, access, |value| value, |_, _| ());
    let member = add(Access::Write).expect("there is memory");
    let weak = Ref::downgrade(&member);
    assert_eq!((list.len(), list.writers()), (1, 1));
    drop(member);
    assert_eq!((list.len(), list.writers()), (0, 0));
    assert!(weak.upgrade().is_none());
    list.refuse_writers().expect("none is there");
    assert!(matches!(add(Access::Write), Err(Refused::ReadOnly)));
}

#[test]
fn an_object_of_an_unsized_type_is_found_by_a_weak_reference() {
    let object: Ref<dyn fmt::Display + Send + Sync> = Ref::coerced(12, |number| number);
    let weak = Ref::downgrade(&object);
    assert_eq!(weak.upgrade().expect("a reference").to_string(), "12");
}

#[test]
fn the_last_weak_reference_may_go_before_or_after_the_object() {
    for weak_goes_first in [true, false] {
        let object = Ref::new(3);
        let weak = Ref::downgrade(&object);
        if weak_goes_first {
            drop(weak);
            assert!(Ref::downgrade(&object).upgrade().is_some());
            drop(object);
        } else {
            drop(object);
            drop(weak);
        }
    }
    rcu::barrier().expect("outside of sections");
}

#[test]
fn threads_upgrade_while_the_last_reference_goes() {
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 2000 };
    for _ in 0..ROUNDS {
        let released = Arc::new(AtomicBool::new(false));
        let hook = {
            let released = released.clone();
            move |_: &u64, _| released.store(true, SeqCst)
        };
        let object = Ref::try_with_ends(0x5EED_u64, hook).expect("there is memory");
        let weak = Ref::downgrade(&object);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (weak, released) = (weak.clone(), &released);
                scope.spawn(move || {
                    while let Some(object) = weak.upgrade() {
                        assert_eq!(*object, 0x5EED);
                        assert!(!released.load(SeqCst), "released with a reference");
                    }
                });
            }
            drop(object);
        });
        assert!(weak.upgrade().is_none() && released.load(SeqCst));
    }
}
