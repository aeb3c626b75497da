//! Models of the lglock: what holders of local locks and of the global one do must not meet.

use super::*;
use crate::model::Preemptions::Any;
use crate::model::{explore, join, spawn};
use crate::platform::Arc;
use ::loom::cell::UnsafeCell as Watched;

struct Count(Watched<usize>);

// SAFETY: that accesses to the cell do not meet is what the checker checks.
unsafe impl Send for Count {}

impl Count {
    fn add(&self) {
        // SAFETY: the checker reports it if two accesses meet.
        self.0.with_mut(|count| unsafe { *count += 1 });
    }

    fn get(&self) -> usize {
        // SAFETY: as above.
        self.0.with(|count| unsafe { *count })
    }
}

fn counts() -> Arc<LgLock<Count>> {
    Arc::new(LgLock::try_new(|_cpu| Count(Watched::new(0))).expect("memory"))
}

/// A part is used from its own CPU, from another one, and by a holder of all parts.
#[test]
fn a_local_holder_and_a_global_one_do_not_meet() {
    explore(Any, || {
        let counts = counts();
        let far = spawn({
            let counts = counts.clone();
            move || {
                counts.lock_local_of(1).add();
                counts.lock_local().add();
            }
        });
        let seen = {
            let all = counts.lock_global();
            let sum = || all.iter().map(Count::get).sum::<usize>();
            let before = sum();
            all.iter().for_each(Count::add);
            assert_eq!(sum(), before + 2, "the others wait");
            before
        };
        join(far);
        assert!(seen <= 2);
        assert_eq!(
            counts.lock_global().iter().map(Count::get).sum::<usize>(),
            4
        );
    });
}

/// Two threads want all parts, and one after the other has them.
#[test]
fn global_holders_do_not_wait_in_a_ring() {
    explore(Any, || {
        let counts = counts();
        let other = spawn({
            let counts = counts.clone();
            move || counts.lock_global().iter().for_each(Count::add)
        });
        counts.lock_global().iter().for_each(Count::add);
        join(other);
        assert!(counts.lock_global().iter().all(|count| count.get() == 2));
    });
}
