//! Models of the parker: no wake-up is lost, before, beside or in a sleep that handlers interrupt.

use super::*;
use ::loom::cell::UnsafeCell;
use fdtable_sync::model::Preemptions::Any;
use fdtable_sync::model::{JoinHandle, explore, join, spawn};
use fdtable_sync::platform::Arc;

/// A parker, and a value that the waking thread writes.
struct Shared {
    parker: Parker,
    value: UnsafeCell<usize>,
}

// SAFETY: that accesses to the cell do not meet is what the checker checks.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            parker: Parker::new(),
            value: UnsafeCell::new(0),
        })
    }

    /// Starts a thread that writes the value and wakes the owner.
    fn wake_later(shared: &Arc<Self>) -> JoinHandle<()> {
        let shared = shared.clone();
        spawn(move || {
            // SAFETY: the checker reports it if two accesses meet.
            shared.value.with_mut(|value| unsafe { *value = 1 });
            shared.parker.unpark();
        })
    }

    fn assert_written(&self) {
        // SAFETY: the checker reports it if a write meets this read.
        assert_eq!(self.value.with(|value| unsafe { *value }), 1);
    }
}

impl Parker {
    /// As [`park`](Self::park), without a blocking section.
    fn park_inside(&self, restart: Restart, before: impl FnOnce(&Self)) -> Wake {
        self.forget_handlers();
        before(self);
        let interrupted = self.sleep(None, restart);
        self.finish(interrupted, restart)
    }
}

#[test]
fn a_wake_up_before_or_beside_the_sleep_ends_it() {
    explore(Any, || {
        let shared = Shared::new();
        let waking = Shared::wake_later(&shared);
        // If the wake-up were lost, the thread would sleep forever.
        while !shared.parker.park_inside(Restart::Allowed, |_| ()).notified {}
        shared.assert_written();
        join(waking);
    });
}

/// The interrupted sleep reports the wake-up, or the next sleep does.
#[test]
fn an_interrupted_sleep_loses_no_wake_up() {
    explore(Any, || {
        let shared = Shared::new();
        let waking = Shared::wake_later(&shared);
        let first = (shared.parker).park_inside(Restart::Allowed, |parker| parker.interrupt(false));
        assert!(first.interrupted);
        if !first.notified {
            let next = shared.parker.park_inside(Restart::Allowed, |_| ());
            assert!(!next.interrupted, "the handler has interrupted one sleep");
            assert!(next.notified);
        }
        shared.assert_written();
        join(waking);
    });
}

/// A handler with `SA_RESTART` ends only a sleep that is never restarted.
#[test]
fn a_restarted_sleep_is_not_interrupted() {
    explore(Any, || {
        let parker = Parker::new();
        let restarted = parker.park_inside(Restart::Allowed, |parker| parker.interrupt(true));
        assert!(!restarted.interrupted);
        let ended = parker.park_inside(Restart::Never, |parker| parker.interrupt(true));
        assert!(ended.interrupted);
    });
}
