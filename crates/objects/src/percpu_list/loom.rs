//! Models of the list: members that leave beside what is done with all of them, and the end of the
//! list beside both. The checker watches values that stand for the list and its members, apart from
//! their memory.

use super::*;
use ::loom::cell::UnsafeCell;
use fdtable_sync::model::Preemptions::{Any, AtMost};
use fdtable_sync::model::{Ends, Watched, explore, join, spawn};
use fdtable_sync::platform::Arc;
use fdtable_sync::rcu;

fn list() -> PerCpuList<usize> {
    PerCpuList::try_new().expect("memory")
}

/// The last put beside a snapshot, which has the member or not, and never half of it.
#[test]
fn a_snapshot_has_what_it_finds() {
    explore(Any, || {
        let list = Arc::new(list());
        let ends = Ends::default();
        let watched = Watched::new(&ends);
        let hook = move |_: &usize, _| watched.end();
        let member = list.add(1, Access::Write, hook).expect("it may join");
        let leaves = spawn(move || drop(member));
        let found = list.snapshot().expect("memory");
        if let Some(member) = found.first() {
            assert_eq!((**member, ends.count()), (1, 0), "it is held");
        }
        join(leaves);
        drop(found);
        assert_eq!((list.len(), list.writers(), ends.count()), (0, 0, 1));
        rcu::barrier().expect("outside of sections");
    });
}

/// A member is revoked and its last reference put at once: it ends once, and leaves once.
#[test]
fn an_object_revoked_beside_its_last_put_ends_once() {
    explore(AtMost(3), || {
        let list = Arc::new(list());
        let ends = Ends::default();
        let watched = Watched::new(&ends);
        let hook = move |_: &usize, _| watched.end();
        let member = list.add(1, Access::Read, hook).expect("it may join");
        let revokes = spawn({
            let list = list.clone();
            move || {
                for member in list.snapshot().expect("memory") {
                    Ref::revoke(&member);
                }
            }
        });
        drop(member);
        join(revokes);
        assert_eq!((list.len(), ends.count()), (0, 1));
        rcu::barrier().expect("outside of sections");
    });
}

/// A member's hook writes it, and the callback of the list's end reads it.
struct Trace(UnsafeCell<bool>);

// SAFETY: that accesses to the cell do not meet is what the checker checks.
unsafe impl Send for Trace {}
// SAFETY: as above.
unsafe impl Sync for Trace {}

impl Trace {
    fn leave(&self) {
        // SAFETY: the checker reports it if two accesses meet.
        self.0.with_mut(|left| unsafe { *left = true });
    }

    fn is_left(&self) -> bool {
        // SAFETY: as above.
        self.0.with(|left| unsafe { *left })
    }
}

/// The list is detached while two members leave. Its end is reported once, after both have left,
/// and all that they did is seen by then. Its memory is freed after all have finished with it.
#[test]
fn a_detached_list_ends_after_its_last_member() {
    explore(AtMost(2), || {
        let list = list();
        let gone = Ends::default();
        let traces = [(); 2].map(|()| Arc::new(Trace(UnsafeCell::new(false))));
        let leaves = traces.clone().map(|trace| {
            let hook = move |_: &usize, _| trace.leave();
            let member = list.add(1, Access::Read, hook).expect("it may join");
            spawn(move || drop(member))
        });
        let tell = {
            let gone = gone.clone();
            move || {
                assert!(traces.iter().all(|trace| trace.is_left()));
                gone.add();
            }
        };
        list.detach(tell).expect("it was not detached");
        drop(list);
        leaves.into_iter().for_each(join);
        assert_eq!(gone.count(), 1);
        rcu::barrier().expect("outside of sections");
    });
}

/// Writers are refused while one joins: it was there before, or it is refused.
#[test]
fn a_writer_joins_before_writers_are_refused_or_not_at_all() {
    explore(Any, || {
        let list = Arc::new(list());
        let joins = spawn({
            let list = list.clone();
            move || list.add(1, Access::Write, |_, _| ())
        });
        let refused = list.refuse_writers();
        let joined = join(joins);
        match (&joined, refused) {
            (Ok(_), Err(Refused::Busy)) | (Err(Refused::ReadOnly), Ok(())) => {}
            (outcome, refused) => panic!("{:?} beside {refused:?}", outcome.is_ok()),
        }
        drop(joined);
        rcu::barrier().expect("outside of sections");
    });
}

/// An iteration passes members that leave.
#[test]
fn a_mark_stays_on_the_list_while_its_neighbours_leave() {
    explore(AtMost(3), || {
        let list = Arc::new(list());
        let members = [1, 2].map(|value| {
            list.add(value, Access::Read, |_, _| ())
                .expect("it may join")
        });
        let leaves = spawn(move || drop(members));
        let mut before = 3;
        for member in list.iter().expect("memory") {
            assert!(*member < before, "the youngest comes first, and each once");
            before = *member;
        }
        join(leaves);
        assert!(list.is_empty());
        rcu::barrier().expect("outside of sections");
    });
}

/// A last put beside a snapshot, whose references are dropped beside an end of the list.
#[test]
fn a_member_put_as_last_beside_a_snapshot_and_the_end_of_the_list() {
    explore(AtMost(3), || {
        let list = list();
        let ends = Ends::default();
        let gone = Ends::default();
        let watched = Watched::new(&ends);
        let hook = move |_: &usize, _| watched.end();
        let member = list.add(1, Access::Write, hook).expect("it may join");
        let leaves = spawn(move || Ref::put_as_last(member));
        let found = list.snapshot().expect("memory");
        let tell = gone.clone();
        list.detach(move || tell.add())
            .expect("it was not detached");
        drop(list);
        found.into_iter().for_each(Ref::put_as_last);
        join(leaves);
        assert_eq!((ends.count(), gone.count()), (1, 1));
        rcu::barrier().expect("outside of sections");
    });
}

/// Two threads revoke a member, while a third detaches and drops the list.
#[test]
fn a_revocation_beside_a_detach_and_the_drop_of_the_list() {
    explore(AtMost(3), || {
        let list = list();
        let (ends, gone) = (Ends::default(), Ends::default());
        let watched = Watched::new(&ends);
        let hook = move |_: &usize, _| watched.end();
        let member = list.add(1, Access::Read, hook).expect("it may join");
        let other = member.clone();
        let revokes = spawn(move || {
            Ref::revoke(&other);
        });
        let tell = gone.clone();
        match list.detach_if_empty() {
            Ok(()) => tell.add(),
            Err(_) => list
                .detach(move || tell.add())
                .expect("it was not detached"),
        }
        drop(list);
        Ref::revoke(&member);
        drop(member);
        join(revokes);
        assert_eq!((ends.count(), gone.count()), (1, 1));
        rcu::barrier().expect("outside of sections");
    });
}

/// An iterator is dropped in the middle, beside members that leave on both sides of its mark.
#[test]
fn a_mark_is_taken_off_while_both_neighbours_leave() {
    explore(AtMost(2), || {
        let list = Arc::new(list());
        let mut members: [Option<Ref<usize>>; 3] = [1, 2, 3].map(|value| {
            Some(
                list.add(value, Access::Read, |_, _| ())
                    .expect("it may join"),
            )
        });
        let [mut first, mut second, last] = core::mem::take(&mut members);
        let mut iter = list.iter().expect("memory");
        let front = iter.next();
        let (one, two) = (
            spawn(move || drop(second.take())),
            spawn(move || drop(last)),
        );
        drop(front);
        drop(iter);
        drop(first.take());
        join(one);
        join(two);
        assert!(list.is_empty());
        assert_eq!(list.iter().expect("memory").count(), 0);
        rcu::barrier().expect("outside of sections");
    });
}
