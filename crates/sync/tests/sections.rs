//! What callbacks do where each thread is inside a section whenever it queues one.
//!
//! The bounds hold for a program without other readers, so the tests run one after the other.

#![cfg(not(loom))]

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fdtable_sync::rcu::{self, Effect, Head};

/// Two batches: the most callbacks that one call invokes inside a section.
const MOST: usize = 2048;

thread_local! {
    static RAN: Cell<usize> = const { Cell::new(0) };
}

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    rcu::barrier().expect("outside of sections");
    RAN.set(0);
    guard
}

/// Queues a callback that counts itself.
fn queue(effect: Effect) {
    unsafe fn run(head: NonNull<Head>) {
        // SAFETY: the box was leaked below, and the callback is invoked once.
        drop(unsafe { Box::from_raw(head.as_ptr()) });
        RAN.set(RAN.get() + 1);
    }
    let head = NonNull::from(Box::leak(Box::new(Head::new(run))));
    // SAFETY: it stays until its callback frees it, which any thread may do.
    unsafe { rcu::call(effect, head) };
}

/// The callbacks that free memory wait for a call outside of sections, which may never come.
#[test]
fn memory_is_freed_where_each_call_is_a_section() {
    const CALLS: usize = 400_000;
    let _alone = alone();
    for call in 0..CALLS {
        let _section = rcu::read_lock();
        queue(Effect::FreesMemory);
        // On each CPU that the thread has been on: one batch that gathers and one that waits.
        let waiting = call - RAN.get().min(call);
        assert!(waiting <= 64 * MOST, "{waiting} callbacks wait");
    }
}

/// A callback that may block, or wait for readers, runs inside a section.
#[test]
fn code_of_others_runs_outside_of_sections_alone() {
    let _alone = alone();
    for _ in 0..100_000 {
        let _section = rcu::read_lock();
        queue(Effect::RunsCode);
        queue(Effect::FreesMemory);
        rcu::catch_up();
    }
    let section = rcu::read_lock();
    let ran = RAN.get();
    assert!(ran <= 100_000, "{ran} of both kinds ran");
    drop(section);
    rcu::barrier().expect("outside of sections");
    assert_eq!(RAN.get(), 200_000);
}

/// A section lasts as long as a backlog of callbacks takes.
#[test]
fn a_call_inside_a_section_runs_two_batches_at_most() {
    let _alone = alone();
    {
        let _section = rcu::read_lock();
        (0..100_000).for_each(|_| queue(Effect::FreesMemory));
    }
    let mut most = 0;
    // Of the CPU that has the backlog, if the thread stays there.
    for _ in 0..100_000 {
        let _section = rcu::read_lock();
        let before = RAN.get();
        queue(Effect::FreesMemory);
        most = most.max(RAN.get() - before);
    }
    assert!(most <= MOST, "{most} ran at once");
}
