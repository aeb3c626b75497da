//! Models of a counted box: uses of the value must not meet its drop, and it is dropped once.

use super::*;
use fdtable_sync::model::Preemptions::Any;
use fdtable_sync::model::{Dropped, Ends, explore, join, spawn};

/// The last user of a value, while another thread may become one.
#[test]
fn an_upgrade_meets_the_last_users() {
    explore(Any, || {
        let ends = Ends::default();
        let one = SlabArc::new(Dropped::new(&ends));
        let weak = SlabArc::downgrade(&one);
        let other = spawn(move || {
            if let Some(value) = weak.upgrade() {
                value.look();
            }
        });
        one.look();
        drop(one);
        join(other);
        assert_eq!(ends.count(), 1);
    });
}

/// Two users, and a keeper that keeps the memory longer than both or not.
#[test]
fn the_last_of_two_users_ends_it() {
    explore(Any, || {
        let ends = Ends::default();
        let one = SlabArc::new(Dropped::new(&ends));
        let weak = SlabArc::downgrade(&one);
        let two = one.clone();
        let user = |value: SlabArc<Dropped>| {
            spawn(move || {
                value.look();
                drop(value);
            })
        };
        let (one, two) = (user(one), user(two));
        drop(weak);
        join(one);
        join(two);
        assert_eq!(ends.count(), 1);
    });
}
