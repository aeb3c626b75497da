//! Checks what is on the list while members come and go.

mod extremes;
mod histories;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};

use super::*;
use fdtable_sync::rcu;

fn list<T>() -> PerCpuList<T> {
    PerCpuList::try_new().expect("memory")
}

fn add<T: Send + Sync + 'static>(list: &PerCpuList<T>, value: T, access: Access) -> Ref<T> {
    list.add(value, access, |_, _| ()).expect("it may join")
}

fn values<T: Copy + Ord>(members: impl IntoIterator<Item = Ref<T>>) -> Vec<T> {
    let mut values: Vec<T> = members.into_iter().map(|member| *member).collect();
    values.sort_unstable();
    values
}

#[test]
fn members_join_when_they_are_made_and_leave_with_the_last_reference() {
    let list = list();
    let one = add(&list, 1, Access::Read);
    let two = add(&list, 2, Access::Write);
    let again = one.clone();
    assert_eq!((list.len(), list.writers()), (2, 1));
    drop(one);
    assert_eq!(values(list.snapshot().expect("memory")), [1, 2]);
    drop((again, two));
    assert_eq!((list.len(), list.writers()), (0, 0));
    assert!(list.is_empty() && list.snapshot().expect("memory").is_empty());
}

#[test]
fn a_member_is_there_while_its_hook_runs_and_cannot_be_had() {
    let list: Arc<PerCpuList<u8>> = Arc::new(list());
    let seen = Arc::new(Mutex::new(None));
    let hook = {
        let (list, seen) = (list.clone(), seen.clone());
        move |_: &u8, _| {
            let found = list.snapshot().expect("memory").len();
            *seen.lock().expect("no panic") = Some((list.len(), found));
        }
    };
    drop(list.add(1, Access::Read, hook).expect("it may join"));
    assert_eq!(*seen.lock().expect("no panic"), Some((1, 0)));
    assert!(list.is_empty());
}

#[test]
fn a_member_whose_hook_panics_leaves() {
    let list = list();
    let hook = |_: &u8, _| panic!("on purpose");
    let member = list.add(1, Access::Read, hook).expect("it may join");
    let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| drop(member)));
    assert!(outcome.is_err());
    assert!(list.is_empty());
}

#[test]
fn a_revoked_member_leaves_before_its_last_reference() {
    let list = list();
    let member = add(&list, 1, Access::Write);
    assert!(Ref::revoke(&member));
    assert_eq!((list.len(), list.writers()), (0, 0));
    drop(member);
    assert_eq!(list.statistics().left, 1);
}

#[test]
fn a_dyn_member_is_found() {
    let list: PerCpuList<dyn fmt::Display + Send + Sync> = PerCpuList::try_new().expect("memory");
    let wide = list
        .add_coerced("text", Access::Read, |text| text, |_, _| ())
        .expect("it may join");
    let found = list.snapshot().expect("memory");
    assert!(Ref::ptr_eq(&found[0], &wide));
    assert_eq!(found[0].to_string(), "text");
    let iterated: Vec<_> = list
        .iter()
        .expect("memory")
        .map(|one| one.to_string())
        .collect();
    assert_eq!(iterated, ["text"]);
}

#[test]
fn writers_are_kept_out_only_while_there_are_none() {
    let list = list();
    let writer = add(&list, 1, Access::Write);
    assert_eq!(list.refuse_writers(), Err(Refused::Busy));
    drop(add(&list, 2, Access::Write));
    drop(writer);
    assert_eq!(list.refuse_writers(), Ok(()));
    let refused = list.add(3, Access::Write, |_, _| panic!("it never was a member"));
    assert_eq!(refused.err(), Some(Refused::ReadOnly));
    drop(add(&list, 4, Access::Read));
    list.admit_writers().expect("it is not detached");
    drop(add(&list, 5, Access::Write));
}

#[test]
fn a_writer_without_membership_is_counted_meanwhile() {
    let list = list::<u8>();
    let writing = list.begin_write().expect("writers are let in");
    assert_eq!((list.len(), list.writers()), (0, 1));
    assert_eq!(list.refuse_writers(), Err(Refused::Busy));
    drop(writing);
    assert_eq!(list.refuse_writers(), Ok(()));
    assert_eq!(list.begin_write().err(), Some(Refused::ReadOnly));
}

#[test]
fn a_list_in_one_part_is_as_any() {
    let list = PerCpuList::try_whole().expect("memory");
    let one = add(&list, 1, Access::Write);
    let two = std::thread::scope(|scope| {
        let other = scope.spawn(|| add(&list, 2, Access::Read));
        other.join().expect("no panic")
    });
    assert_eq!(values(list.snapshot().expect("memory")), [1, 2]);
    assert_eq!(values(list.iter().expect("memory")), [1, 2]);
    drop((one, two));
    let statistics = list.statistics();
    // The host chooses the CPU on which each thread runs.
    assert_eq!((statistics.joined, statistics.left), (2, 2));
}

#[test]
fn what_is_refused_is_dropped_at_once() {
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Probe(Arc<AtomicUsize>);
    impl Drop for Probe {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let list = list();
    list.detach(|| ()).expect("it was not detached");
    let refused = list.add(Probe(dropped.clone()), Access::Read, |_, _| ());
    assert_eq!(refused.err(), Some(Refused::Detached));
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_detached_list_tells_when_the_last_member_leaves() {
    let list = list();
    let (one, two) = (add(&list, 1, Access::Read), add(&list, 2, Access::Read));
    assert_eq!(list.detach_if_empty(), Err(Refused::Busy));
    let gone = Arc::new(AtomicBool::new(false));
    let tell = {
        let gone = gone.clone();
        move || gone.store(true, SeqCst)
    };
    list.detach(tell).expect("it was not detached");
    assert!(list.is_detached());
    assert!(list.detach(|| ()).is_err(), "it is detached");
    drop(one);
    assert!(!gone.load(SeqCst));
    std::thread::spawn(move || drop(two))
        .join()
        .expect("no panic");
    assert!(gone.load(SeqCst));
    assert_eq!(list.detach_if_empty(), Ok(()));
}

#[test]
fn a_detached_list_without_members_tells_at_once() {
    let list = list::<u8>();
    let (tell, hear) = mpsc::channel();
    list.detach(move || tell.send(()).expect("the test listens"))
        .expect("it was not detached");
    hear.try_recv()
        .expect("it was told before the call returned");
}

#[test]
fn members_outlive_the_list() {
    let list = list();
    let members: Vec<_> = (0..10)
        .map(|value| add(&list, value, Access::Read))
        .collect();
    drop(list);
    assert_eq!(values(members), (0..10).collect::<Vec<_>>());
    rcu::barrier().expect("outside of sections");
}

#[test]
fn members_that_stay_come_once_while_others_come_and_go() {
    let list = list();
    let staying: Vec<_> = (0..100)
        .map(|value| add(&list, value, Access::Read))
        .collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 1..=2 {
            let (list, stop) = (&list, &stop);
            scope.spawn(move || {
                let mut held = std::collections::VecDeque::new();
                while !stop.load(SeqCst) {
                    held.push_back(add(list, thread * 1000, Access::Write));
                    if held.len() > 20 {
                        held.pop_front();
                    }
                }
            });
        }
        for _ in 0..200 {
            for members in [
                list.iter().expect("memory").collect::<Vec<_>>(),
                list.snapshot().expect("memory"),
            ] {
                let mut found = values(members);
                found.retain(|&value| value < 1000);
                assert_eq!(found, (0..100).collect::<Vec<_>>());
            }
        }
        stop.store(true, SeqCst);
    });
    assert_eq!((list.len(), list.writers()), (staying.len(), 0));
}

#[test]
fn iterations_do_not_see_each_others_marks() {
    let list = list();
    let _members: Vec<_> = (0..5)
        .map(|value| add(&list, value, Access::Read))
        .collect();
    let mut one = list.iter().expect("memory");
    let mut two = list.iter().expect("memory");
    let mut found = vec![];
    for member in one.by_ref() {
        found.push(*member);
        two.next();
    }
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3, 4]);
    assert!(two.next().is_none());
    let mut dropped = list.iter().expect("memory");
    dropped.next();
    drop(dropped);
    assert_eq!(list.iter().expect("memory").count(), 5);
}

#[test]
fn a_leave_on_the_cpu_of_the_join_is_counted_as_such() {
    let list = list();
    for value in 0..1000 {
        drop(add(&list, value, Access::Read));
    }
    let statistics = list.statistics();
    assert_eq!((statistics.joined, statistics.left), (1000, 1000));
    // The thread may be moved now and then.
    assert!(statistics.left_same_cpu > 900, "{statistics:?}");
    assert!(statistics.left_same_node >= statistics.left_same_cpu);
}

#[test]
fn all_who_revoke_iterate_snapshot_and_drop_at_once_lose_nothing() {
    for round in 0..50 {
        let list = list();
        let ends = Arc::new(AtomicUsize::new(0));
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for value in 0..200 {
                        let ends = ends.clone();
                        let hook = move |_: &usize, _| {
                            ends.fetch_add(1, SeqCst);
                        };
                        if let Ok(member) = list.add(value, Access::Write, hook) {
                            made.fetch_add(1, SeqCst);
                            drop(member);
                        }
                    }
                });
            }
            scope.spawn(|| {
                for member in list.iter().expect("memory") {
                    Ref::revoke(&member);
                }
            });
            scope.spawn(|| {
                for _ in 0..20 {
                    for member in list.snapshot().expect("memory") {
                        Ref::revoke(&member);
                    }
                }
                if round % 2 == 0 {
                    list.detach(|| ()).expect("it was not detached");
                }
            });
        });
        assert_eq!(ends.load(SeqCst), made.load(SeqCst));
        assert!(list.is_empty());
        assert_eq!(list.statistics().joined, list.statistics().left);
    }
}
