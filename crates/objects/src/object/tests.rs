use super::*;
use fdtable_sync::rcu;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Counts how often it is dropped.
struct Probe(Arc<AtomicUsize>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Makes an object with a hook that does not ask for the reason.
fn with_hook<T: Send + Sync + 'static>(
    value: T,
    hook: impl Fn(&T) + Send + Sync + 'static,
) -> Ref<T> {
    Ref::try_with_ends(value, move |value, _| hook(value)).expect("there is memory")
}

#[test]
fn the_hook_runs_at_the_last_put_and_drop_after_a_grace_period() {
    let (released, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let hook = {
        let released = released.clone();
        move |_: &Probe| {
            released.fetch_add(1, SeqCst);
        }
    };
    let one = with_hook(Probe(dropped.clone()), hook);
    let two = one.clone();
    assert_eq!(Ref::references(&one), 2);
    drop(one);
    assert_eq!(released.load(SeqCst), 0);
    let guard = rcu::read_lock();
    drop(two);
    assert_eq!((released.load(SeqCst), dropped.load(SeqCst)), (1, 0));
    drop(guard);
    rcu::barrier().expect("outside of sections");
    assert_eq!((released.load(SeqCst), dropped.load(SeqCst)), (1, 1));
}

#[test]
fn objects_of_any_alignment_and_size_are_where_they_should_be() {
    #[repr(align(256))]
    struct Wide([u8; 300]);
    fn check<T: Send + Sync + 'static>(value: T) {
        let object = Ref::new(value);
        assert!(
            core::ptr::from_ref(&*object)
                .addr()
                .is_multiple_of(align_of::<T>())
        );
        assert_eq!(Ref::references(&object), 1);
    }
    check(());
    check(1_u8);
    check([2_u16; 3]);
    check(3_u128);
    let wide = Ref::new(Wide([7; 300]));
    assert!(wide.0.iter().all(|&byte| byte == 7));
    check(Wide([7; 300]));
}

#[test]
fn a_dyn_object_is_found_through_its_header() {
    trait Named: Send + Sync {
        fn name(&self) -> String;
    }
    #[repr(align(64))]
    struct Aligned(u8);
    impl Named for Aligned {
        fn name(&self) -> String {
            format!("aligned {}", self.0)
        }
    }
    impl Named for u8 {
        fn name(&self) -> String {
            format!("byte {self}")
        }
    }
    let released = Arc::new(AtomicUsize::new(0));
    let hook = {
        let released = released.clone();
        move |aligned: &Aligned| {
            released.fetch_add(usize::from(aligned.0), SeqCst);
        }
    };
    let hook = move |value: &Aligned, _: ReleaseReason| hook(value);
    let one = Ref::<dyn Named>::try_coerced_with_ends(Aligned(5), |value| value, hook)
        .expect("there is memory");
    let two: Ref<dyn Named> = Ref::coerced(9_u8, |value| value);
    assert_eq!(
        (one.name(), two.name()),
        ("aligned 5".into(), "byte 9".into())
    );
    assert!(!Ref::ptr_eq(&one, &two));
    drop(one);
    assert_eq!(released.load(SeqCst), 5);
}

#[test]
fn a_hook_that_panics_leaks_nothing() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let object = with_hook(Probe(dropped.clone()), |_| panic!("on purpose"));
    let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| drop(object)));
    assert!(outcome.is_err());
    rcu::barrier().expect("outside of sections");
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_coercion_that_panics_leaks_nothing() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let probe = Probe(dropped.clone());
    let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        Ref::<dyn Send + Sync>::coerced(probe, |_| panic!("on purpose"))
    }));
    assert!(outcome.is_err());
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_revoked_object_ends_once_and_goes_with_its_last_reference() {
    let (ends, dropped) = (Arc::new(Mutex::new(vec![])), Arc::new(AtomicUsize::new(0)));
    let hook = {
        let ends = ends.clone();
        move |_: &Probe, end| ends.lock().expect("no panic").push(end)
    };
    let one = Ref::try_with_ends(Probe(dropped.clone()), hook).expect("memory");
    let two = one.clone();
    assert!(!Ref::is_revoked(&one));
    assert!(Ref::revoke(&one));
    assert!(!Ref::revoke(&two), "it has ended before");
    assert!(Ref::is_revoked(&two));
    drop((one, two));
    rcu::barrier().expect("outside of sections");
    assert_eq!(*ends.lock().expect("no panic"), [ReleaseReason::Revoked]);
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_hook_that_panics_in_a_revocation_leaks_nothing() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let object = with_hook(Probe(dropped.clone()), |_| panic!("on purpose"));
    let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| Ref::revoke(&object)));
    assert!(outcome.is_err());
    drop(object);
    rcu::barrier().expect("outside of sections");
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_drop_that_panics_does_not_keep_what_is_beside_it() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let probe = Probe(dropped.clone());
    drop(with_hook(Panics, move |_| {
        let _ = &probe;
    }));
    rcu::barrier().expect("outside of sections");
    assert_eq!(dropped.load(SeqCst), 1);
}
