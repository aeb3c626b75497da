//! Extremes: sizes and alignments of values and hooks, panics, counts, iterators left behind.

use super::*;
use crate::object::{Late, Prompt};
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

#[repr(align(4096))]
struct PageOfNothing;

#[repr(align(128))]
struct Wide([u8; 128]);

trait Place: Send + Sync {
    fn place(&self) -> usize;
}

impl Place for PageOfNothing {
    fn place(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}

#[test]
fn values_and_hooks_of_any_size_and_alignment() {
    let list: PerCpuList<dyn Place> = PerCpuList::try_new().expect("memory");
    let hook_place = Arc::new(AtomicUsize::new(1));
    for large in [0, 1] {
        let seen = hook_place.clone();
        let (wide, huge) = (Wide([7; 128]), [9_u8; 9000]);
        let hook = move |_: &PageOfNothing, _| {
            assert!(wide.0.iter().all(|&byte| byte == 7) && huge.iter().all(|&byte| byte == 9));
            seen.store(core::ptr::from_ref(&wide).addr(), SeqCst);
        };
        let member = list
            .add_coerced(PageOfNothing, Access::Write, |page| page, hook)
            .expect("it may join");
        assert_eq!(member.place() % 4096, 0);
        let found = list.snapshot().expect("memory");
        assert_eq!(found[0].place(), member.place());
        drop(found);
        if large == 1 {
            Ref::revoke(&member);
        }
        drop(member);
        assert_eq!(hook_place.load(SeqCst) % 128, 0);
    }
    let refused: PerCpuList<dyn Place> = PerCpuList::try_new().expect("memory");
    refused.detach(|| ()).expect("once");
    assert!(
        refused
            .add_coerced(PageOfNothing, Access::Read, |page| page, |_, _| ())
            .is_err()
    );
    rcu::barrier().expect("outside");
}

/// Counts its drops, and panics in each.
struct Loud(Arc<AtomicUsize>);

impl Drop for Loud {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        panic!("on purpose");
    }
}

fn panics_leave_nothing_behind<K: Kind>() {
    let drops = Arc::new(AtomicUsize::new(0));
    let list: PerCpuList<K::Object<Loud>> = PerCpuList::try_new().expect("memory");
    let hook = |_: &Loud, _| panic!("on purpose");
    let member = list.try_add::<K, Loud, _>(Loud(drops.clone()), Access::Write, hook);
    let member = member.expect("it may join");
    assert!(catch_unwind(AssertUnwindSafe(|| Ref::revoke(&member))).is_err());
    assert!(list.is_empty());
    let detached = catch_unwind(AssertUnwindSafe(|| list.detach(|| panic!("on purpose"))));
    assert!(detached.is_err() && list.is_detached());
    let dropped = catch_unwind(AssertUnwindSafe(|| drop((member, list))));
    assert_eq!(dropped.is_ok(), K::IS_LATE);
    rcu::barrier().expect("outside");
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn panics_of_hook_gone_coerce_and_drop_leave_nothing_behind() {
    panics_leave_nothing_behind::<Prompt>();
    panics_leave_nothing_behind::<Late>();
}

#[test]
fn an_iterator_that_is_forgotten_leaves_a_mark_that_harms_nobody() {
    let members: Vec<_>;
    {
        let list = list();
        members = (0..10)
            .map(|value| add(&list, value, Access::Read))
            .collect();
        let mut iter = list.iter().expect("memory");
        iter.next();
        core::mem::forget(iter);
        assert_eq!(list.iter().expect("memory").count(), 10);
        assert_eq!(list.snapshot().expect("memory").len(), 10);
    }
    drop(members);
    rcu::barrier().expect("outside");
}
