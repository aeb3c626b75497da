//! What breaks if this is wrong: an object is freed while a reader looks at it, a grace period
//! never ends, a callback is lost or runs too early, a wait inside a section hangs.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

/// Long enough that a grace period that does not wait would have ended.
const A_WHILE: Duration = Duration::from_millis(50);

#[test]
fn a_grace_period_waits_for_a_section_under_way() {
    let (inside, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let _guard = read_lock();
        inside.send(()).expect("the test listens");
        let _ = left.recv();
    });
    entered.recv().expect("the reader enters");
    let over = Arc::new(AtomicBool::new(false));
    let updater = {
        let over = over.clone();
        thread::spawn(move || {
            synchronize().expect("outside of sections");
            over.store(true, SeqCst);
        })
    };
    thread::sleep(A_WHILE);
    assert!(!over.load(SeqCst), "the reader is still inside");
    leave.send(()).expect("the reader listens");
    updater.join().expect("the grace period ends");
    reader.join().expect("the reader ends");
}

#[test]
fn an_inner_section_does_not_end_the_outer_one() {
    let done = Arc::new(AtomicBool::new(false));
    let guard = read_lock();
    let updater = {
        let done = done.clone();
        thread::spawn(move || {
            synchronize().expect("outside of sections");
            done.store(true, SeqCst);
        })
    };
    for _ in 0..100 {
        drop(read_lock());
    }
    thread::sleep(A_WHILE);
    assert!(!done.load(SeqCst), "the outer section lasts");
    drop(guard);
    updater.join().expect("the grace period ends");
}

#[test]
fn guards_may_drop_in_any_order() {
    let outer = read_lock();
    let inner = read_lock();
    drop(outer);
    assert_eq!(
        synchronize(),
        Err(WouldDeadlock),
        "the inner guard keeps the section"
    );
    drop(inner);
    assert_eq!(synchronize(), Ok(()));
}

#[test]
fn waiting_inside_a_section_or_a_callback_is_refused() {
    let guard = read_lock();
    assert_eq!(synchronize(), Err(WouldDeadlock));
    assert_eq!(barrier(), Err(WouldDeadlock));
    drop(guard);
    let (tell, hear) = mpsc::channel();
    defer(move || tell.send(barrier()).expect("the test listens"));
    barrier().expect("outside of sections");
    assert_eq!(hear.recv(), Ok(Err(WouldDeadlock)));
}

#[test]
fn callbacks_run_once_in_order_and_before_the_barrier_returns() {
    const COUNT: usize = 5000;
    let (tell, hear) = mpsc::channel();
    // One thread on one CPU has one queue; a thread that moves has more, so look at the order
    // within the whole only as a set.
    for number in 0..COUNT {
        let tell = tell.clone();
        defer(move || tell.send(number).expect("the test listens"));
    }
    barrier().expect("outside of sections");
    let mut numbers: Vec<usize> = hear.try_iter().collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..COUNT));
}

#[test]
fn a_callback_waits_for_the_section_in_which_it_was_queued() {
    let ran = Arc::new(AtomicBool::new(false));
    let guard = read_lock();
    let waiting = {
        let ran = ran.clone();
        thread::spawn(move || {
            defer(move || ran.store(true, SeqCst));
            barrier().expect("outside of sections");
        })
    };
    thread::sleep(A_WHILE);
    assert!(!ran.load(SeqCst), "this thread is still inside");
    drop(guard);
    waiting.join().expect("the barrier ends");
    assert!(ran.load(SeqCst));
}

#[test]
fn the_barrier_waits_for_callbacks_of_other_threads() {
    let ran = Arc::new(AtomicUsize::new(0));
    let queue = || {
        let ran = ran.clone();
        thread::spawn(move || {
            for _ in 0..100 {
                let ran = ran.clone();
                defer(move || {
                    ran.fetch_add(1, SeqCst);
                });
            }
        })
    };
    let threads: Vec<_> = (0..4).map(|_| queue()).collect();
    for thread in threads {
        thread.join().expect("the thread ends");
    }
    barrier().expect("outside of sections");
    assert_eq!(ran.load(SeqCst), 400);
}

#[test]
fn a_callback_that_panics_takes_no_other_with_it_and_is_counted() {
    let before = crate::unwind::contained_panics();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = |ran: &Arc<AtomicUsize>| {
        let ran = ran.clone();
        defer(move || {
            ran.fetch_add(1, SeqCst);
        });
    };
    count(&ran);
    defer(|| panic!("on purpose"));
    count(&ran);
    barrier().expect("outside of sections");
    assert_eq!(ran.load(SeqCst), 2);
    // Other tests contain some meanwhile.
    assert!(crate::unwind::contained_panics() > before);
}

#[test]
fn the_backlog_is_bounded_outside_of_sections() {
    static LIVE: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    for _ in 0..200_000 {
        MOST.fetch_max(LIVE.fetch_add(1, SeqCst) + 1, SeqCst);
        defer(|| {
            LIVE.fetch_sub(1, SeqCst);
        });
    }
    barrier().expect("outside of sections");
    assert_eq!(LIVE.load(SeqCst), 0);
    let queues = thread::available_parallelism().map_or(1, usize::from);
    let most = MOST.load(SeqCst);
    assert!(
        most <= 3 * 16 * 1024 * queues,
        "{most} callbacks were waiting at once"
    );
}

#[test]
fn a_quiescent_state_reader_holds_grace_periods_up_until_it_is_quiescent() {
    let mut reader = qsbr::Reader::online();
    let over = Arc::new(AtomicBool::new(false));
    let updater = {
        let over = over.clone();
        thread::spawn(move || {
            synchronize().expect("outside of sections");
            over.store(true, SeqCst);
        })
    };
    thread::sleep(A_WHILE);
    assert!(!over.load(SeqCst), "no quiescent state yet");
    assert_eq!(
        synchronize(),
        Err(WouldDeadlock),
        "it would wait for its own reader"
    );
    // More than one may be needed: the updater waits for the grace period after the one that
    // another test may have under way.
    while !over.load(SeqCst) {
        reader.quiescent();
        thread::yield_now();
    }
    updater.join().expect("the grace period ends");
    assert_eq!(reader.synchronize(), Ok(()));
    reader.offline(|| assert_eq!(synchronize(), Ok(())));
    assert_eq!(synchronize(), Err(WouldDeadlock), "it is online again");
    drop(reader);
    assert_eq!(synchronize(), Ok(()));
}

#[test]
fn sections_work_while_a_thread_ends() {
    struct Late(mpsc::Sender<bool>);
    impl Drop for Late {
        fn drop(&mut self) {
            // The thread's own record may be gone by now.
            let guard = read_lock();
            let inner = read_lock();
            drop(guard);
            drop(inner);
            self.0
                .send(synchronize().is_ok())
                .expect("the test listens");
        }
    }
    thread_local!(static LATE: std::cell::OnceCell<Late> = const { std::cell::OnceCell::new() });
    let (tell, hear) = mpsc::channel();
    thread::spawn(move || {
        LATE.with(|late| assert!(late.set(Late(tell)).is_ok()));
        drop(read_lock());
    })
    .join()
    .expect("the thread ends");
    assert_eq!(hear.recv(), Ok(true));
}

#[test]
fn records_of_threads_that_ended_are_used_again() {
    let count = || RECORDS.iter().count();
    let visit = || {
        let visitor = thread::spawn(|| drop(read_lock()));
        visitor.join().expect("the thread ends");
    };
    visit();
    let before = count();
    for _ in 0..100 {
        visit();
    }
    // Other tests of this process may add some of their own meanwhile.
    assert!(count() < before + 50);
}

/// Every object checks that it is not seen after its callback ran.
#[test]
fn readers_never_see_a_freed_object() {
    use std::sync::atomic::AtomicPtr;
    const ROUNDS: usize = 20_000;

    struct Probe(AtomicBool);

    let place = AtomicPtr::new(Box::into_raw(Box::new(Probe(AtomicBool::new(true)))));
    let stop = AtomicBool::new(false);
    let start = Barrier::new(3);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                start.wait();
                while !stop.load(SeqCst) {
                    let guard = read_lock();
                    // SAFETY: the object is freed a grace period after it left the place.
                    let probe = unsafe { &*place.load(SeqCst) };
                    assert!(probe.0.load(SeqCst), "the object was freed under a reader");
                    drop(guard);
                }
            });
        }
        start.wait();
        for _ in 0..ROUNDS {
            let new = Box::into_raw(Box::new(Probe(AtomicBool::new(true))));
            let old = place.swap(new, SeqCst) as usize;
            defer(move || {
                // SAFETY: unpublished a grace period ago, and queued once.
                let probe = unsafe { Box::from_raw(old as *mut Probe) };
                probe.0.store(false, SeqCst);
            });
        }
        stop.store(true, SeqCst);
    });
    // SAFETY: the readers are gone.
    drop(unsafe { Box::from_raw(place.into_inner()) });
    barrier().expect("outside of sections");
}

/// What breaks if this is wrong: a thread that frees while it holds a lock waits for a reader that
/// wants the lock inside its section.
#[test]
fn a_full_backlog_does_not_wait_for_ever() {
    let guard = read_lock();
    let freeing = thread::spawn(|| (0..40_000).for_each(|_| defer(|| ())));
    freeing
        .join()
        .expect("the thread ends while a section lasts");
    drop(guard);
    barrier().expect("outside of sections");
}

/// What breaks if this is wrong: a worker that is always online frees nothing, ever.
#[test]
fn a_worker_with_quiescent_states_runs_its_callbacks() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    let mut reader = qsbr::Reader::online();
    // Other tests may hold sections for a while.
    for _ in 0..1000 {
        for _ in 0..2000 {
            defer(|| {
                RAN.fetch_add(1, SeqCst);
            });
            reader.quiescent();
        }
        if RAN.load(SeqCst) > 0 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("no callback has run");
}

#[test]
fn a_panic_whose_payload_panics_too_stops_no_queue() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose, again");
        }
    }
    let (tell, hear) = mpsc::channel();
    defer(|| std::panic::panic_any(Bomb));
    defer(move || tell.send(()).expect("the test listens"));
    barrier().expect("outside of sections");
    assert_eq!(hear.recv(), Ok(()));
}

#[test]
fn waiting_is_refused_in_a_callback_that_ran_others() {
    let (tell, hear) = mpsc::channel();
    defer(move || {
        // Enough that some run here, if the thread has moved to another CPU.
        (0..3000).for_each(|_| defer(|| ()));
        tell.send(barrier()).expect("the test listens");
    });
    barrier().expect("outside of sections");
    assert_eq!(hear.recv(), Ok(Err(WouldDeadlock)));
}

#[test]
fn waiting_is_refused_in_a_section_of_a_thread_that_ends() {
    struct Late(mpsc::Sender<Result<(), WouldDeadlock>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let _guard = read_lock();
            self.0.send(synchronize()).expect("the test listens");
        }
    }
    thread_local!(static LATE: std::cell::OnceCell<Late> = const { std::cell::OnceCell::new() });
    let (tell, hear) = mpsc::channel();
    let ending = thread::spawn(move || {
        LATE.with(|late| assert!(late.set(Late(tell)).is_ok()));
        drop(read_lock());
    });
    ending.join().expect("the thread ends");
    assert_eq!(hear.recv(), Ok(Err(WouldDeadlock)));
}

#[test]
fn a_barrier_that_may_fail_runs_what_no_reader_is_in_the_way_of() {
    let ran = Arc::new(AtomicBool::new(false));
    let guard = read_lock();
    let other = {
        let ran = ran.clone();
        thread::spawn(move || {
            defer(move || ran.store(true, SeqCst));
            assert_eq!(try_barrier(), Ok(false), "a reader is inside its section");
        })
    };
    other.join().expect("the thread ends");
    assert!(!ran.load(SeqCst), "nor has its end run it");
    assert_eq!(try_barrier(), Err(WouldDeadlock));
    drop(guard);
    // Other tests have readers too.
    let mut barrier = super::Barrier::new();
    while !barrier.poll().expect("outside of sections") {
        thread::yield_now();
    }
    assert!(ran.load(SeqCst));
}
