use super::*;
use crate::object::Weak;
use crate::percpu_list::{Access, PerCpuList};
use core::any::Any;
use core::fmt::Display;
use core::mem::ManuallyDrop;
use fdtable_sync::rcu;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

type AnyRef = Ref<dyn Any + Send + Sync>;

/// Counts how often it is dropped.
#[derive(Debug)]
struct Probe(Arc<AtomicUsize>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn downcast<S: Any>(any: AnyRef) -> Result<Ref<S>, AnyRef> {
    Ref::downcast_by(any, |any| any.downcast_ref())
}

#[test]
fn a_value_of_any_shape_is_found_again() {
    #[repr(align(128))]
    #[derive(Debug, PartialEq)]
    struct Aligned(u8);
    fn check<S: PartialEq + core::fmt::Debug + Send + Sync + Clone + 'static>(value: &S) {
        let any: AnyRef = Ref::coerced(value.clone(), |value| value);
        let again = any.clone();
        let any = downcast::<Box<u8>>(any).expect_err("of another type");
        let found = downcast::<S>(any).expect("of this type");
        assert_eq!(*found, *value);
        assert_eq!(Ref::as_ptr(&found), Ref::as_ptr(&again).cast());
        assert!(Ref::as_ptr(&found).is_aligned());
        assert_eq!(Ref::references(&found), 2);
    }
    impl Clone for Aligned {
        fn clone(&self) -> Self {
            Self(self.0)
        }
    }
    check(&7_u8);
    check(&7_u128);
    check(&[3_u64; 40]);
    check(&Aligned(4));
    check(&());
    check(&"text".to_string());
}

#[test]
fn a_downcast_reference_ends_the_object_as_it_was_made() {
    let drops = Arc::new(AtomicUsize::new(0));
    let ends = Arc::new(AtomicUsize::new(0));
    let hook = {
        let ends = ends.clone();
        move |_: &Probe, _| _ = ends.fetch_add(1, SeqCst)
    };
    let any = AnyRef::try_coerced_with_ends(Probe(drops.clone()), |value| value, hook);
    let any = any.expect("there is memory");
    let weak = Ref::downgrade(&any);
    let probe = downcast::<Probe>(any).expect("of this type");
    let upgraded = weak.upgrade().expect("a reference is left");
    assert!(upgraded.is::<Probe>());
    let same: Weak<Probe> = Ref::downgrade(&probe);
    drop(upgraded);
    assert_eq!(ends.load(SeqCst), 0);
    drop(probe);
    assert_eq!(ends.load(SeqCst), 1);
    assert!(same.upgrade().is_none() && weak.upgrade().is_none());
    rcu::barrier().expect("outside of sections");
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn a_member_of_a_list_is_downcast_and_leaves_it() {
    let list: PerCpuList<dyn Any + Send + Sync> = PerCpuList::try_new().expect("there is memory");
    let any = list.add_coerced(9_u16, Access::Write, |value| value, |_, _| ());
    let number = downcast::<u16>(any.expect("there is memory")).expect("of this type");
    assert_eq!((*number, list.len(), list.writers()), (9, 1, 1));
    drop(number);
    assert_eq!((list.len(), list.writers()), (0, 0));
}

#[test]
fn the_first_field_is_found_and_others_are_not() {
    #[repr(C)]
    struct Pair(u32, u32);
    let drops = Arc::new(AtomicUsize::new(0));
    #[repr(C)]
    struct Owner(Pair, Probe);
    let owner = Ref::new(Owner(Pair(1, 2), Probe(drops.clone())));
    let owner = Ref::downcast_by(owner, |owner| Some(&owner.1)).expect_err("not at the address");
    let owner = Ref::downcast_by(owner, |owner| Some(&owner.0.1)).expect_err("not at the address");
    let pair = Ref::downcast_by(owner, |owner| Some(&owner.0)).ok();
    let pair = pair.expect("at the address");
    let first = Ref::downcast_by(pair, |pair| Some(&pair.0)).ok();
    let first = first.expect("at the address");
    assert_eq!(*first, 1);
    drop(first);
    rcu::barrier().expect("outside of sections");
    assert_eq!(drops.load(SeqCst), 1, "the whole is dropped");
}

#[test]
fn an_object_elsewhere_is_not_found() {
    static ELSEWHERE: u32 = 5;
    let boxed: AnyRef = Ref::coerced(Box::new(5_u32), |boxed| &**boxed);
    let boxed = downcast::<u32>(boxed).expect_err("it is in the box");
    assert!(Ref::downcast_by(boxed, |_| Some(&ELSEWHERE)).is_err());
    let arc = AnyRef::from(Arc::new(5_u32) as Arc<dyn Any + Send + Sync>);
    assert!(downcast::<u32>(arc).is_err());
    let outer: AnyRef = Ref::into_dyn(Ref::new(5_u32), |number| number);
    assert!(downcast::<u32>(outer).is_err());
}

#[test]
fn a_value_without_a_size_is_downcast_to_what_has_none() {
    struct Empty;
    let any: AnyRef = Ref::coerced(Empty, |empty| empty);
    let empty = downcast::<Empty>(any).expect("of this type");
    assert!(!empty.header().state.has(State::HAS_BYTES));
    assert!(empty.has_value_at(&*empty));
    // The hook, which has a size, is at the address of the value, which has none.
    let number = 7_u64;
    let hollow = Ref::try_with_ends((), move |(), _| assert_eq!(number, 7));
    let hollow = hollow.expect("there is memory");
    // SAFETY: the block has the number there, as the only thing that the hook captures.
    let number = unsafe { hollow.raw.cast::<u64>().as_ref() };
    assert_eq!(*number, 7);
    assert!(!hollow.has_value_at(number), "it is not the value");
    let sized = Ref::new(1_u8);
    assert!(sized.header().state.has(State::HAS_BYTES));
}

#[test]
fn a_cell_that_is_set_once_is_a_place_for_a_value() {
    let cell = Ref::new(OnceLock::<u64>::new());
    let cell = Ref::downcast_by(cell, OnceLock::get).expect_err("it is empty");
    cell.set(8).expect("it was empty");
    // It is unknown whether the number is the first field.
    match Ref::downcast_by(cell, OnceLock::get) {
        Ok(number) => assert_eq!(*number, 8),
        Err(cell) => assert_eq!(cell.get(), Some(&8)),
    }
}

#[test]
fn an_object_that_holds_a_reference_has_ends_of_its_own() {
    let ends = Arc::new(AtomicUsize::new(0));
    let hook = {
        let ends = ends.clone();
        move |_: &u32, _| _ = ends.fetch_add(1, SeqCst)
    };
    let inner = Ref::try_with_ends(41, hook).expect("there is memory");
    let outer: Ref<dyn Display + Send + Sync> = Ref::into_dyn(inner.clone(), |number| number);
    let outermost: Ref<dyn Display> = Ref::into_dyn(outer.clone(), |shown| shown);
    assert_eq!(
        (outer.to_string(), outermost.to_string()),
        ("41".into(), "41".into())
    );
    assert_eq!((Ref::references(&inner), Ref::references(&outer)), (2, 2));
    assert!(Ref::revoke(&outer));
    assert!(!Ref::is_revoked(&inner));
    drop((outer, inner));
    rcu::barrier().expect("outside of sections");
    assert_eq!(ends.load(SeqCst), 0);
    drop(outermost);
    // The one holds the other, which holds the third.
    for _ in 0..3 {
        rcu::barrier().expect("outside of sections");
    }
    assert_eq!(ends.load(SeqCst), 1);
}

#[test]
fn a_coercion_that_panics_drops_the_reference() {
    let drops = Arc::new(AtomicUsize::new(0));
    let inner = Ref::new(Probe(drops.clone()));
    let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        Ref::<dyn Send + Sync>::references(&Ref::into_dyn(inner, |_| panic!("on purpose")))
    }));
    assert!(outcome.is_err());
    rcu::barrier().expect("outside of sections");
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn an_arc_is_kept_by_the_object_made_of_it() {
    let arc: Arc<dyn Display + Send + Sync> = Arc::new(6);
    let (one, two) = (Ref::from(arc.clone()), Ref::from(arc.clone()));
    assert_eq!((one.to_string(), Arc::strong_count(&arc)), ("6".into(), 3));
    assert!(ptr::addr_eq(Ref::as_ptr(&one), Ref::as_ptr(&two)));
    assert!(!Ref::ptr_eq(&one, &two));
    drop((one, two));
    rcu::barrier().expect("outside of sections");
    assert_eq!(Arc::strong_count(&arc), 1);
}

#[test]
fn the_address_of_an_object_is_a_key() {
    let name = Ref::new("motd".to_string());
    let key = Ref::as_ptr(&name);
    let seen = HashMap::from([(key, 1)]);
    assert_eq!(seen.get(&Ref::as_ptr(&name.clone())), Some(&1));
}

/// A view of a number that another owner has: it may be looked at and not moved out.
struct View(ManuallyDrop<Probe>);

impl View {
    fn get(&self) -> &Probe {
        &self.0
    }
}

#[test]
fn a_part_as_large_as_the_value_is_not_moved_out() {
    let drops = Arc::new(AtomicUsize::new(0));
    let view = || View(ManuallyDrop::new(Probe(drops.clone())));
    let part = Ref::downcast_by(Ref::new(view()), |view| Some(view.get())).ok();
    let part = part.expect("it is at the address, and as large");
    let part = Ref::try_unwrap(part).expect_err("it is a part");
    assert!(Ref::into_inner(part).is_none());
    // The same by way of a `dyn`, which a downcast to the value itself may follow.
    let any: AnyRef = Ref::coerced(view(), |view| view);
    let part = Ref::downcast_by(any, |any| any.downcast_ref().map(View::get)).ok();
    let part = part.expect("it is at the address, and as large");
    assert!(Ref::into_inner(part).is_none());
    let any: AnyRef = Ref::coerced(view(), |view| view);
    let Ok(value) = downcast::<View>(any) else {
        panic!("it is of this type");
    };
    assert!(Ref::try_unwrap(value).is_ok());
    assert_eq!(drops.load(SeqCst), 0);
}

#[test]
fn a_hook_and_a_drop_that_both_panic_do_not_end_the_process() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the drop, on purpose");
        }
    }
    let end = |act: fn(Ref<Bomb>)| {
        let hook = |_: &Bomb, _| panic!("the hook, on purpose");
        let object = Ref::try_with_ends(Bomb, hook).expect("there is memory");
        let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| act(object)));
        assert!(outcome.is_err());
    };
    end(drop);
    end(|object| core::mem::forget(Ref::into_inner(object)));
}
