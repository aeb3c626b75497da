//! Models of the lock: what two holders do to one cell must not meet.

use super::*;
use crate::model::Preemptions::Any;
use crate::model::{explore, join, spawn};
use crate::platform::Arc;
use ::loom::cell::UnsafeCell;

const TAG: LockTag = LockTag::of(3);

struct Guarded {
    lock: RawLock,
    value: UnsafeCell<usize>,
}

// SAFETY: that accesses to the cell do not meet is what the checker checks.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

fn add(guarded: &Guarded) {
    guarded.lock.lock(TAG);
    // SAFETY: the checker reports it if two accesses meet.
    guarded.value.with_mut(|value| unsafe { *value += 1 });
    // SAFETY: taken above.
    unsafe { guarded.lock.unlock(TAG) };
}

/// The next holder does not see what the holder before it did.
#[test]
fn a_holder_sees_what_the_one_before_did() {
    explore(Any, || {
        let guarded = Arc::new(Guarded {
            lock: RawLock::new(TAG),
            value: UnsafeCell::new(0),
        });
        let other = spawn({
            let guarded = guarded.clone();
            move || add(&guarded)
        });
        add(&guarded);
        join(other);
        // SAFETY: the other thread has ended.
        assert_eq!(guarded.value.with(|value| unsafe { *value }), 2);
    });
}
