//! What breaks if this is wrong: one failed start leaves the process without a worker, or each call
//! pays for another attempt. A child of a fork waits forever as it exits.

use super::*;
use core::cell::Cell;

fn new_worker() -> &'static Worker {
    Box::leak(Box::new(Worker {
        state: CachePadded::new(AtomicU32::new(ABSENT)),
        thread: Mutex::new(Start {
            thread: None,
            skips: 0,
        }),
        has_left: AtomicU32::new(0),
        process: AtomicU32::new(0),
    }))
}

#[test]
fn a_start_that_fails_is_tried_again_by_a_later_call_but_not_by_each() {
    let worker = new_worker();
    let starts = Cell::new(0);
    let call = || {
        worker.start(|_| {
            starts.set(starts.get() + 1);
            None
        });
        worker.state.load(Relaxed)
    };
    assert_eq!(call(), ABSENT);
    assert_eq!(starts.get(), 1);
    for _ in 0..RETRY {
        assert_eq!(call(), ABSENT);
    }
    assert_eq!(starts.get(), 1);
    assert_eq!(call(), ABSENT);
    assert_eq!(starts.get(), 2);
}

#[cfg(unix)]
#[test]
fn the_exit_of_a_child_that_never_had_the_worker_takes_no_lock() {
    let worker = new_worker();
    // As it is in such a child: a thread of the parent was starting the worker.
    worker.process.store(std::process::id() + 1, Relaxed);
    let held = worker.thread.lock();
    let (tell, hear) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        worker.end();
        tell.send(()).expect("the test listens");
    });
    let ended = hear.recv_timeout(Duration::from_secs(5));
    drop(held);
    ended.expect("it waits for nothing");
}

#[cfg(unix)]
#[test]
fn the_exit_counts_the_time_of_its_checks() {
    let start = std::time::Instant::now();
    let is_over = thread::wait_until(|| {
        std::thread::sleep(Duration::from_millis(5));
        false
    });
    assert!(!is_over);
    // A hundred checks took half a second.
    assert!(start.elapsed() < Duration::from_millis(300));
}
