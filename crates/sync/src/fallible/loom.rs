//! Models of a box that is made once: every reader of the value must see it whole.

use super::*;
use crate::model::Preemptions::Any;
use crate::model::{Dropped, Ends, explore, join, spawn};
use crate::platform::Arc;

fn make(place: &OnceBox<Dropped>, ends: &Ends) {
    let made = place.get_or_try_init(|| Ok(Dropped::new(ends)));
    made.expect("there is memory").look();
}

/// A value that is found before it is complete.
#[test]
fn a_value_that_is_found_is_complete() {
    explore(Any, || {
        let (place, ends) = (Arc::new(OnceBox::new()), Ends::default());
        let reader = spawn({
            let place = place.clone();
            move || {
                place.get().inspect(|value: &&Dropped| value.look());
            }
        });
        make(&place, &ends);
        join(reader);
        drop(place);
        assert_eq!(ends.count(), 1);
    });
}

/// The same for a thread that makes one too late; and a value that is lost.
#[test]
fn two_make_a_value() {
    explore(Any, || {
        let (place, ends) = (Arc::new(OnceBox::new()), Ends::default());
        let other = spawn({
            let (place, ends) = (place.clone(), ends.clone());
            move || make(&place, &ends)
        });
        make(&place, &ends);
        let lost = ends.count();
        assert!(lost <= 1);
        join(other);
        place.get().expect("it was made").look();
        let lost = ends.count();
        drop(place);
        assert_eq!(ends.count(), lost + 1);
    });
}
