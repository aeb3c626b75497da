use super::*;
use crate::slot_map::SlotMap;
use fdtable_sync::rcu;
use fdtable_sync::unwind;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Counts how often it is dropped.
struct Probe(Arc<AtomicUsize>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Probe {
    /// Makes a probe and what it counts in.
    fn new() -> (Self, Arc<AtomicUsize>) {
        let drops = Arc::new(AtomicUsize::new(0));
        (Self(drops.clone()), drops)
    }

    /// Checks that it was not dropped.
    fn look(&self) {
        assert_eq!(self.0.load(SeqCst), 0);
    }
}

/// Panics when it is dropped.
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

/// Makes an object with a hook that does not ask for the reason.
fn with_hook<T: Send + Sync + 'static>(
    value: T,
    hook: impl Fn(&T) + Send + Sync + 'static,
) -> Ref<T> {
    Ref::try_with_ends(value, move |value, _| hook(value)).expect("there is memory")
}

/// Returns true if `work` panics.
fn panics(work: impl FnOnce()) -> bool {
    std::panic::catch_unwind(core::panic::AssertUnwindSafe(work)).is_err()
}

#[test]
fn a_prompt_object_is_dropped_after_its_hook_by_the_thread_that_puts_the_last_reference() {
    struct Tells(Arc<Mutex<Vec<(&'static str, std::thread::ThreadId)>>>);
    impl Tells {
        fn tell(&self, what: &'static str) {
            let line = (what, std::thread::current().id());
            self.0.lock().expect("no panic").push(line);
        }
    }
    impl Drop for Tells {
        fn drop(&mut self) {
            self.tell("drop");
        }
    }
    let told = Arc::new(Mutex::new(vec![]));
    let one = with_hook(Tells(told.clone()), |tells| tells.tell("hook"));
    let two = one.clone();
    let section = rcu::read_lock();
    drop(one);
    assert!(told.lock().expect("no panic").is_empty());
    let other = std::thread::spawn(|| {
        drop(two);
        std::thread::current().id()
    });
    let other = other.join().expect("no panic");
    let expected = [("hook", other), ("drop", other)];
    assert_eq!(*told.lock().expect("no panic"), expected);
    drop(section);
    rcu::barrier().expect("outside of sections");
    assert_eq!(*told.lock().expect("no panic"), expected, "once");
}

#[test]
fn a_prompt_object_and_its_hook_are_dropped_at_the_last_put() {
    trait Any: Send + Sync {}
    impl<T: Send + Sync> Any for T {}
    let section = rcu::read_lock();
    let check = |object: &dyn Fn(Probe, Probe) -> Ref<dyn Any>, is_revoked: bool| {
        let ((value, value_drops), (hooks, hook_drops)) = (Probe::new(), Probe::new());
        let one = object(value, hooks);
        let drops = || (value_drops.load(SeqCst), hook_drops.load(SeqCst));
        let two = one.clone();
        if is_revoked {
            assert!(Ref::revoke(&one));
        }
        drop(one);
        assert_eq!(drops(), (0, 0));
        Ref::put_as_last(two);
        assert_eq!(drops(), (1, 1));
    };
    for is_revoked in [false, true] {
        check(
            &|value, hooks| Ref::coerced((value, hooks), |it| it),
            is_revoked,
        );
        check(
            &|value, hooks| {
                let hook = move |_: &Probe, _| hooks.look();
                Ref::<dyn Any>::try_coerced_with_ends(value, |it| it, hook).expect("memory")
            },
            is_revoked,
        );
    }
    drop(section);
}

#[test]
fn a_value_without_drop_has_its_hook_dropped_at_the_last_put() {
    let (probe, drops) = Probe::new();
    let _section = rcu::read_lock();
    drop(with_hook(7, move |_| probe.look()));
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn a_late_object_that_leads_to_another_by_a_prompt_one_can_be_borrowed() {
    type Look = dyn Fn() -> usize + Send + Sync;
    struct Holder(Ref<Rcu<Look>>);
    let (probe, drops) = Probe::new();
    let late: Ref<Rcu<Look>> = Ref::coerced_rcu(move || probe.0.load(SeqCst), |it| it);
    let map: SlotMap<Rcu<Look>> = SlotMap::new(1);
    let inserted = map.insert(Ref::coerced(Holder(late), |holder| &*holder.0));
    let handle = inserted.map_err(|(why, _)| why).expect("there is room");
    let section = rcu::read_lock();
    let found = map.borrow(handle, &section).expect("it is in the map");
    drop(map.remove(handle));
    assert_eq!(found.object()(), 0, "a reader may look at it");
    drop(section);
    rcu::barrier().expect("outside of sections");
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn the_hook_of_a_late_object_runs_at_the_last_put_and_drop_after_a_grace_period() {
    let (released, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let hook = {
        let released = released.clone();
        move |_: &Probe, _| {
            released.fetch_add(1, SeqCst);
        }
    };
    let one = Ref::try_with_ends_rcu(Probe(dropped.clone()), hook).expect("memory");
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
    assert!(panics(|| drop(object)));
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn the_hook_of_a_late_object_that_panics_leaks_nothing() {
    let (probe, dropped) = Probe::new();
    let hook = |_: &Probe, _| panic!("on purpose");
    let object = Ref::try_with_ends_rcu(probe, hook).expect("memory");
    assert!(panics(|| drop(object)));
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
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_drop_that_panics_does_not_keep_what_is_beside_it() {
    let (probe, dropped) = Probe::new();
    let object = with_hook(Panics, move |_| probe.look());
    assert!(panics(|| drop(object)), "the panic of a prompt object");
    assert_eq!(dropped.load(SeqCst), 1);
    rcu::barrier().expect("the block is freed too");

    let (probe, dropped) = Probe::new();
    let hook = move |_: &Panics, _| probe.look();
    drop(Ref::try_with_ends_rcu(Panics, hook).expect("memory"));
    rcu::barrier().expect("outside of sections");
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_hook_and_a_drop_that_both_panic_keep_nothing() {
    let (probe, dropped) = Probe::new();
    let object = with_hook((probe, Panics), |_| panic!("on purpose"));
    let before = unwind::contained_panics();
    assert!(panics(|| drop(object)));
    assert_eq!(dropped.load(SeqCst), 1);
    // Other tests contain some meanwhile.
    assert!(unwind::contained_panics() > before);
}

#[test]
fn a_drop_that_panics_while_the_thread_unwinds_is_contained() {
    let before = unwind::contained_panics();
    assert!(panics(|| {
        let _object = Ref::new(Panics);
        panic!("on purpose");
    }));
    // Other tests contain some meanwhile.
    assert!(unwind::contained_panics() > before);
}

/// A reference of a crate above.
struct Holder<T: ?Sized>(Ref<T>);

impl<T: ?Sized> From<Ref<T>> for Holder<T> {
    fn from(object: Ref<T>) -> Self {
        Self(object)
    }
}

impl<T: ?Sized> FromRaw for Holder<T> {
    type Object = T;
}

/// Converted back with its count: of a sized type and a `dyn` one, of both kinds, and with a value
/// that is wider aligned than the header.
#[test]
fn an_address_keeps_the_object_until_it_is_converted_back() {
    #[repr(align(64))]
    struct Wide(Probe);
    impl AsRef<Probe> for Wide {
        fn as_ref(&self) -> &Probe {
            &self.0
        }
    }
    fn round_trip<T: ?Sized>(
        align: usize,
        make: impl FnOnce(Probe) -> Ref<T>,
        probe_of: impl Fn(&T) -> &Probe,
    ) {
        let (probe, dropped) = Probe::new();
        let object = make(probe);
        let other = object.clone();
        let address = Ref::into_address(object);
        assert!(address.addr().get().is_multiple_of(align));
        assert_eq!(Ref::all_references(&other), Some(2), "one is the address");
        assert_eq!(address, Ref::into_address(other), "it is that of all");
        // SAFETY: a reference of this type was made the address.
        let object: Holder<T> = unsafe { FromRaw::from_raw(address) };
        // SAFETY: and another one.
        drop(unsafe { Holder::<T>::from_raw(address) });
        assert_eq!(Ref::all_references(&object.0), Some(1));
        probe_of(&object.0).look();
        drop(object);
        rcu::barrier().expect("outside of sections");
        assert_eq!(dropped.load(SeqCst), 1);
    }
    round_trip(8, Ref::new, |probe| probe);
    round_trip(8, Ref::new_rcu, |probe| probe);
    round_trip(64, |probe| Ref::new(Wide(probe)), |wide| &wide.0);
    let unsized_one = |probe| Ref::<dyn AsRef<Probe>>::coerced(Wide(probe), |wide| wide);
    round_trip(64, unsized_one, |object| object.as_ref());

    let number = Ref::new(7_u64);
    let at = Ref::as_ptr(&number);
    let address = Ref::into_address(number);
    assert_eq!(address.as_ptr().cast_const().cast(), at);
    // SAFETY: made of a reference of this type above.
    drop(unsafe { Holder::<u64>::from_raw(address) });
}
