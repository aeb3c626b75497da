//! What callbacks do where each thread is inside a section whenever it queues one.
//!
//! The bounds hold for a program without other readers, so the tests run one after the other.

#![cfg(not(loom))]

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

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

/// A callback that no other of its kind follows is left behind by those that free memory.
#[test]
fn one_callback_that_runs_code_runs_among_many_that_free_memory() {
    static RAN_ONE: AtomicBool = AtomicBool::new(false);
    let _alone = alone();
    // The thread of the test before runs what is queued as it ends.
    thread::sleep(Duration::from_millis(50));
    rcu::defer(|| RAN_ONE.store(true, SeqCst));
    // A thread that moves to another CPU comes back.
    let among = (0..1_000_000).find(|_| {
        queue(Effect::FreesMemory);
        RAN_ONE.load(SeqCst)
    });
    assert!(among.is_some(), "it did not run");
}

/// A reader that came after the callbacks which a call has run makes its answer false.
#[test]
fn a_barrier_that_may_fail_answers_for_what_was_queued_before() {
    let _alone = alone();
    let [begin, begun, end] = [(); 3].map(|()| Arc::new(Barrier::new(2)));
    let reader = {
        let [begin, begun, end] = [&begin, &begun, &end].map(Arc::clone);
        thread::spawn(move || {
            begin.wait();
            let _section = rcu::read_lock();
            begun.wait();
            end.wait();
        })
    };
    rcu::defer(move || {
        begin.wait();
        begun.wait();
        rcu::defer(|| ());
    });
    let answer = rcu::try_barrier();
    end.wait();
    reader.join().expect("it ends");
    assert_eq!(answer, Ok(true));
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
