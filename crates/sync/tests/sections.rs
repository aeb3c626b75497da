//! Callbacks of threads that are inside a section whenever they queue one.
//!
//! The bounds hold for a program without other readers, so the tests run one after the other.

#![cfg(not(loom))]

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fdtable_sync::rcu::{self, Effect, Head};
use fdtable_sync::unwind::contained_panics;

/// Two batches: the most callbacks that one call invokes inside a section.
const MOST: usize = 2048;

/// How many callbacks of this file have run, on any thread: one that ends runs what is queued.
static RAN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// True if the thread is inside a section of its own.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The thread of the test before runs what is queued as it ends.
    thread::sleep(Duration::from_millis(50));
    rcu::barrier().expect("outside of sections");
    RAN.store(0, SeqCst);
    guard
}

/// Queues a callback that counts itself.
fn queue(effect: Effect) {
    unsafe fn run(head: NonNull<Head>) {
        // SAFETY: the box was leaked below, and the callback is invoked once.
        drop(unsafe { Box::from_raw(head.as_ptr()) });
        RAN.fetch_add(1, SeqCst);
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
        let waiting = call - RAN.load(SeqCst).min(call);
        assert!(waiting <= 64 * MOST, "{waiting} callbacks wait");
    }
}

/// Calls inside of sections take the mark of those outside: no callback runs, and memory grows.
#[test]
fn code_runs_where_some_calls_are_outside_of_sections() {
    const CALLS: usize = 100_000;
    for catches_up in [false, true] {
        let _alone = alone();
        for call in 0..CALLS {
            {
                let _section = rcu::read_lock();
                queue(Effect::RunsCode);
            }
            match catches_up {
                true => rcu::catch_up(),
                false => queue(Effect::RunsCode),
            }
            let waiting = call - RAN.load(SeqCst).min(call);
            assert!(waiting <= 16 * MOST, "{waiting} wait, {catches_up}");
        }
    }
}

/// Runs `work` inside a section.
fn inside<R>(work: impl FnOnce() -> R) -> R {
    let _section = rcu::read_lock();
    IS_INSIDE.set(true);
    let answer = work();
    IS_INSIDE.set(false);
    answer
}

/// Code of others, which may block.
fn run_code() {
    assert!(!IS_INSIDE.get(), "code runs inside a section");
}

/// A callback that may block, or wait for readers, runs inside a section.
#[test]
fn code_of_others_runs_outside_of_sections_alone() {
    unsafe fn run(head: NonNull<Head>) {
        // SAFETY: the box was leaked below, and the callback is invoked once.
        drop(unsafe { Box::from_raw(head.as_ptr()) });
        run_code();
    }
    let _alone = alone();
    let before = contained_panics();
    for _ in 0..100_000 {
        inside(|| {
            rcu::defer(run_code);
            queue(Effect::FreesMemory);
            let head = NonNull::from(Box::leak(Box::new(Head::new(run))));
            // SAFETY: it stays until its callback frees it, which any thread may do.
            unsafe { rcu::call_later(Effect::RunsCode, 1, head) };
            rcu::catch_up();
        });
    }
    rcu::barrier().expect("outside of sections");
    assert_eq!(RAN.load(SeqCst), 100_000);
    assert_eq!(contained_panics(), before, "code ran inside a section");
}

/// A callback that no other of its kind follows is left behind by those that free memory.
#[test]
fn one_callback_that_runs_code_runs_among_many_that_free_memory() {
    static RAN_ONE: AtomicBool = AtomicBool::new(false);
    let _alone = alone();
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
    // A thread that moves to another CPU may queue more than it has looked at there.
    assert!((0..20).any(|_| answer_beside_a_later_reader()));
}

fn answer_beside_a_later_reader() -> bool {
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
    answer.expect("outside of sections")
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
        let before = RAN.load(SeqCst);
        queue(Effect::FreesMemory);
        most = most.max(RAN.load(SeqCst) - before);
    }
    assert!(most <= MOST, "{most} ran at once");
}
