//! Handlers of real signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use super::*;

extern "C" fn nothing(_signal: libc::c_int) {}

/// Installs a handler that does nothing.
fn handle(signal: libc::c_int, flags: libc::c_int) {
    // SAFETY: all zeroes is a valid action, with an empty mask.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = nothing as *const () as usize;
    action.sa_flags = flags;
    // SAFETY: the action is valid, and the old one is not wanted.
    let done = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    assert_eq!(done, 0);
}

/// Sleeps on a thread, and sends it signals until the sleep ends. `None`: it was woken after 50 ms.
fn sleep_under(signal: libc::c_int, time: Option<Duration>, restart: Restart) -> Wake {
    let parker = Arc::new(std::sync::OnceLock::<Parker>::new());
    let ended = Arc::new(AtomicBool::new(false));
    let sleeper = {
        let (parker, ended) = (Arc::clone(&parker), Arc::clone(&ended));
        thread::spawn(move || {
            let parker = parker.get_or_init(Parker::new);
            let deadline = time.map(|time| Instant::now() + time);
            let wake = parker.park(deadline, restart, || ());
            ended.store(true, SeqCst);
            wake
        })
    };
    let until = Instant::now() + Duration::from_millis(50);
    while !ended.load(SeqCst) && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
        let name = std::os::unix::thread::JoinHandleExt::as_pthread_t(&sleeper);
        // SAFETY: the thread is not joined yet.
        unsafe { libc::pthread_kill(name as _, signal) };
    }
    while !ended.load(SeqCst) {
        if let Some(parker) = parker.get() {
            parker.unpark();
        }
        thread::yield_now();
    }
    sleeper.join().unwrap()
}

#[test]
fn a_handler_ends_a_sleep_unless_it_restarts_it() {
    let (ends, restarts) = (libc::SIGUSR1, libc::SIGUSR2);
    handle(ends, 0);
    handle(restarts, libc::SA_RESTART);
    let long = Some(Duration::from_secs(60));
    for time in [None, long] {
        for restart in [Restart::Allowed, Restart::Never] {
            let wake = sleep_under(ends, time, restart);
            assert!(wake.interrupted, "{time:?} {restart:?}");
        }
        assert!(sleep_under(restarts, time, Restart::Never).interrupted);
        let wake = sleep_under(restarts, time, Restart::Allowed);
        // An old kernel has no call that it restarts with a deadline.
        assert!(!wake.interrupted || time.is_some(), "{time:?}");
        assert!(wake.notified || time.is_some());
    }
}

#[test]
fn a_deadline_ends_a_sleep() {
    for restart in [Restart::Allowed, Restart::Never] {
        let deadline = Instant::now() + Duration::from_millis(20);
        let wake = Parker::new().park(Some(deadline), restart, || ());
        assert!(Instant::now() >= deadline);
        assert!(!wake.notified && !wake.interrupted);
    }
}

/// A handler that runs before the thread is in the kernel.
#[test]
fn a_handler_just_before_the_sleep_ends_it() {
    let parker = Parker::new();
    let wake = parker.park(None, Restart::Allowed, || interrupt(false));
    assert!(wake.interrupted && !wake.notified);
    interrupt(false);
    parker.unpark();
    let wake = parker.park(None, Restart::Never, || ());
    assert!(
        wake.notified && !wake.interrupted,
        "it ran between two sleeps"
    );
}
