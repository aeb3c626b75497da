//! Models of weak references: a reference that is found too late shows as a look that meets an end,
//! and a block that is touched too late as an access to freed memory.

use fdtable_sync::model::Preemptions::AtMost;
use fdtable_sync::model::{Dropped, Ends, join, spawn};
use fdtable_sync::{model, rcu};

use super::super::loom::Fates;
use super::*;

/// Two threads make the first weak reference at once: they must have one node.
#[test]
fn two_threads_make_the_first_weak_reference() {
    model::explore(AtMost(3), || {
        let fates = Fates::default();
        let object = fates.object();
        let other = spawn({
            let object = object.clone();
            move || {
                let weak = Ref::downgrade(&object);
                weak.upgrade().expect("this thread has a reference").look();
                weak
            }
        });
        let weak = Ref::downgrade(&object);
        weak.upgrade().expect("this thread has a reference").look();
        let others = join(other);
        assert!(weak.ptr_eq(&others), "they share a node");
        drop(object);
        assert!(weak.upgrade().is_none() && others.upgrade().is_none());
        drop((weak, others));
        fates.check(1);
    });
}

/// Two threads ask for the identity of an object at once: they must find one.
#[test]
fn two_threads_draw_an_identity() {
    model::explore(AtMost(3), || {
        let object = Ref::new(7);
        let weak = Ref::downgrade(&object);
        let other = spawn(move || weak.id());
        let id = Ref::id(&object);
        assert_eq!(join(other), Some(id));
        drop(object);
        assert_eq!(rcu::barrier(), Ok(()));
    });
}

/// An upgrade beside the last put finds an object whose hook has not run, or nothing.
#[test]
fn an_upgrade_races_with_the_last_put() {
    model::explore(AtMost(3), || {
        let fates = Fates::default();
        let object = fates.object();
        let weak = Ref::downgrade(&object);
        let upgrader = spawn({
            let weak = weak.clone();
            move || {
                if let Some(object) = weak.upgrade() {
                    object.look();
                }
            }
        });
        drop(object);
        assert_eq!(rcu::barrier(), Ok(()));
        join(upgrader);
        assert!(weak.upgrade().is_none(), "no reference is left");
        drop(weak);
        fates.check(1);
    });
}

/// The same for an object whose release has nothing to do: only the node lets it notice that there
/// is one.
#[test]
fn an_upgrade_races_with_the_last_put_of_a_quiet_object() {
    model::explore(AtMost(3), || {
        let drops = Ends::default();
        let object = Ref::new_rcu(Dropped::new(&drops));
        let weak = Ref::downgrade(&object);
        let upgrader = spawn(move || {
            if let Some(object) = weak.upgrade() {
                object.look();
            }
        });
        drop(object);
        assert_eq!(rcu::barrier(), Ok(()));
        join(upgrader);
        assert_eq!(rcu::barrier(), Ok(()));
        assert_eq!(drops.count(), 1);
    });
}

/// The first weak reference is made beside another holder's last put.
#[test]
fn the_first_weak_reference_beside_another_put() {
    model::explore(AtMost(3), || {
        let drops = Ends::default();
        let object = Ref::new(Dropped::new(&drops));
        let maker = spawn({
            let object = object.clone();
            move || {
                let weak = Ref::downgrade(&object);
                drop(object);
                if let Some(object) = weak.upgrade() {
                    object.look();
                }
            }
        });
        drop(object);
        assert_eq!(rcu::barrier(), Ok(()));
        join(maker);
        assert_eq!(rcu::barrier(), Ok(()));
        assert_eq!(drops.count(), 1);
    });
}
