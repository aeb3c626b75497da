use super::*;
use crate::rcu;
use core::time::Duration;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// The freezer is shared by the process: while one test freezes, another's threads would wait.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn is_silent(hear: &Receiver<()>) -> bool {
    hear.recv_timeout(Duration::from_millis(20)).is_err()
}

#[test]
fn a_newcomer_waits_for_the_thaw() {
    let _alone = alone();
    let (tell, hear) = channel();
    freeze();
    freeze();
    let newcomer = thread::spawn(move || {
        let _inside = enter();
        tell.send(()).expect("the test listens");
    });
    assert!(is_silent(&hear), "it is frozen");
    thaw();
    assert!(is_silent(&hear), "it is still frozen once");
    thaw();
    hear.recv().expect("it is thawed");
    newcomer.join().expect("the thread ends");
}

#[test]
fn a_thread_that_does_not_wait_is_refused_while_it_is_frozen_and_is_outside_then() {
    let _alone = alone();
    let ((ask, asked), (tell, hear)) = (channel(), channel());
    let other = thread::spawn(move || {
        while let Ok(()) = asked.recv() {
            tell.send(try_enter().is_some()).expect("the test listens");
        }
    });
    let is_let_in = || {
        ask.send(()).expect("the thread listens");
        hear.recv().expect("the thread answers")
    };
    for _ in 0..2 {
        freeze();
        assert!(!is_let_in());
        thaw();
    }
    assert!(is_let_in());
    freeze();
    thaw();
    drop(ask);
    other.join().expect("the thread ends");
}

#[test]
fn a_thread_that_is_inside_enters_without_waiting_while_another_freezes() {
    let _alone = alone();
    let (tell, hear) = channel();
    let other = thread::spawn(move || {
        let _inside = enter();
        tell.send(()).expect("the test listens");
        while FREEZER.word.load(Acquire) & FROZEN == 0 {
            thread::yield_now();
        }
        try_enter().is_some()
    });
    hear.recv().expect("the thread is inside");
    freeze();
    thaw();
    assert!(other.join().expect("the thread ends"));
}

#[test]
fn a_freeze_waits_for_those_inside_and_at_any_depth() {
    let _alone = alone();
    let (tell, hear) = channel();
    let inside = enter();
    let inner = enter();
    let other = thread::spawn(move || {
        freeze();
        tell.send(()).expect("the test listens");
        thaw();
    });
    assert!(is_silent(&hear), "a thread is inside");
    // A thread that is inside can enter again while a freeze waits.
    drop(enter());
    drop(inner);
    assert!(is_silent(&hear), "a thread is inside");
    drop(inside);
    hear.recv().expect("no thread is inside any more");
    other.join().expect("the thread ends");
}

#[test]
fn a_freeze_does_not_wait_for_a_blocking_section() {
    let _alone = alone();
    let _inside = enter();
    let _inner = enter();
    let out = blocking_section();
    let other = thread::spawn(|| {
        freeze();
        thaw();
    });
    other.join().expect("it does not wait");
    drop(out);
    assert!(blocking_section().before.is_some(), "it is inside again");
}

#[test]
fn stepping_out_of_nothing_does_nothing() {
    let _alone = alone();
    let out = blocking_section();
    assert!(out.before.is_none());
    drop(enter());
    drop(out);
    assert!(blocking_section().before.is_none());
}

#[test]
fn the_thread_that_freezes_goes_on_calling() {
    let _alone = alone();
    let outer = enter();
    freeze();
    freeze();
    drop(enter());
    thaw();
    drop(enter());
    thaw();
    // Without a freeze of its own.
    thaw();
    drop(outer);
    assert!(blocking_section().before.is_none(), "as deep as before");
}

/// Runs `work` on another thread, and fails if that waits forever.
fn ends(work: impl FnOnce() + Send + 'static) {
    let (tell, hear) = channel();
    thread::spawn(move || {
        work();
        tell.send(()).expect("the test listens");
    });
    let end = hear.recv_timeout(Duration::from_secs(5));
    end.expect("it does not wait for itself");
}

#[test]
fn the_thread_that_freezes_steps_out_and_in_again() {
    let _alone = alone();
    ends(|| {
        let _inside = enter();
        freeze();
        drop(blocking_section());
        thaw();
    });
    ends(|| {
        let out = blocking_section();
        freeze();
        drop(out);
        thaw();
    });
}

/// A signal handler comes when its thread has frozen and is not inside yet.
#[test]
fn a_handler_of_the_thread_that_freezes_is_let_in() {
    let _alone = alone();
    ends(|| {
        let _turn = await_turn_outside(|| {
            FREEZER.take_turn();
            drop(enter());
        });
        thaw();
    });
}

#[test]
fn two_that_fork_from_inside_do_not_wait_for_each_other() {
    let _alone = alone();
    let are_inside = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let _inside = enter();
                are_inside.wait();
                freeze();
                thaw();
            });
        }
    });
}

#[test]
fn guards_in_a_wrong_order_are_counted_wrong_and_no_worse() {
    let _alone = alone();
    let inside = enter();
    let out = blocking_section();
    drop(inside);
    drop(out);
    let again = blocking_section();
    assert!(again.before.is_some(), "it never leaves");
    core::mem::forget(again);
}

#[test]
fn an_entry_during_a_blocking_section_that_outlives_it_ends_no_other() {
    let _alone = alone();
    let inside = enter();
    let out = blocking_section();
    let inner = enter();
    drop(out);
    drop(inner);
    assert!(blocking_section().before.is_some(), "it is still inside");
    drop(inside);
    assert!(blocking_section().before.is_none());
}

/// Another thread could claim a record that was returned, and the last guard would write there.
#[test]
fn a_borrowed_record_is_kept_until_the_last_of_all_guards() {
    static KEPT: AtomicBool = AtomicBool::new(false);
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            assert!(own_record().is_none(), "the thread is ending");
            let inside = enter();
            let out = blocking_section();
            let inner = enter();
            drop(out);
            drop(inner);
            KEPT.store(own_record().is_some(), SeqCst);
            drop(inside);
            assert!(own_record().is_none(), "it was borrowed");
        }
    }
    // It was made before the record, so it is dropped after the record is released.
    thread_local!(static LATE: std::cell::OnceCell<Late> = const { std::cell::OnceCell::new() });
    let _alone = alone();
    let thread = thread::spawn(|| {
        LATE.with(|late| assert!(late.set(Late).is_ok()));
        drop(enter());
    });
    thread.join().expect("the thread ends");
    assert!(KEPT.load(SeqCst));
}

/// A thread that ends no longer has its own record when its last destructors run.
#[test]
fn a_thread_that_is_ending_enters_and_is_waited_for() {
    static HAS_ENTERED: AtomicBool = AtomicBool::new(false);
    static INSIDE: AtomicBool = AtomicBool::new(false);
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            let inside = enter();
            let inner = enter();
            let section = rcu::read_lock();
            INSIDE.store(true, SeqCst);
            HAS_ENTERED.store(true, SeqCst);
            thread::sleep(Duration::from_millis(20));
            drop((section, inner));
            INSIDE.store(false, SeqCst);
            drop(inside);
        }
    }
    // It was made before the record, so it is dropped after the record is released.
    thread_local!(static LATE: std::cell::OnceCell<Late> = const { std::cell::OnceCell::new() });
    let _alone = alone();
    let thread = thread::spawn(|| {
        LATE.with(|late| assert!(late.set(Late).is_ok()));
        drop(enter());
    });
    // It stays set, also where this thread runs too late to find the other one inside.
    while !HAS_ENTERED.load(SeqCst) {
        thread::yield_now();
    }
    freeze();
    assert!(!INSIDE.load(SeqCst));
    thaw();
    thread.join().expect("the thread ends");
}

#[test]
fn entries_and_freezes_exclude_each_other() {
    let _alone = alone();
    let (inside, is_over) = (Mutex::new(0_u64), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    let _inside = enter();
                    // A freezing thread finds it free.
                    *inside.lock().expect("no thread panics") += 1;
                }
            });
        }
        for _ in 0..200 {
            freeze();
            let held = inside.try_lock().is_err();
            thaw();
            assert!(!held, "a thread is inside");
            thread::yield_now();
        }
        is_over.store(true, Relaxed);
    });
}

/// Work that a handler puts off runs once, when its thread is outside: before it sleeps, or when it
/// has left all levels.
#[test]
fn what_is_put_off_runs_outside() {
    use core::cell::Cell;
    std::thread_local! {
        static RUNS: Cell<usize> = const { Cell::new(0) };
    }
    on_leaving(|| {
        assert!(!put_off(), "it runs outside");
        drop(enter());
        RUNS.set(RUNS.get() + 1);
    });
    let outer = enter();
    let inner = enter();
    assert!(put_off() && put_off());
    drop(inner);
    assert_eq!(RUNS.get(), 0);
    drop(outer);
    assert_eq!(RUNS.get(), 1);
    drop(enter());
    assert_eq!(RUNS.get(), 1);
    let inside = enter();
    assert!(put_off());
    let outside = blocking_section();
    assert_eq!(RUNS.get(), 2);
    assert!(!put_off());
    drop(outside);
    assert!(put_off());
    drop(inside);
    assert_eq!(RUNS.get(), 3);
}

/// A signal handler enters, or a thread steps in after a call of the host that has failed.
#[cfg(target_os = "linux")]
#[test]
fn an_error_of_the_host_is_there_after_a_wait() {
    // SAFETY: no descriptor has this number.
    unsafe { libc::close(-1) };
    // The kernel answers `EAGAIN`.
    futex::wait(&AtomicU32::new(1), 2, None);
    let error = std::io::Error::last_os_error();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
}
