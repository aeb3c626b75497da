//! Thread cancellation, and signal handlers during forks.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use fdtable_posix::*;

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
}

/// Waits for a condition, with a time limit.
fn comes_true(what: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !what() {
        if begun.elapsed() > Duration::from_secs(20) {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Forks, and waits for the child, which exits at once.
fn fork() {
    // SAFETY: the child exits at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it does not return.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: there is room for the status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

/// Reads a byte, and closes the descriptor. Start function of a C thread.
extern "C" fn reads_and_closes(fd: *mut c_void) -> *mut c_void {
    let fd = fd.addr() as c_int;
    let mut byte = 0_u8;
    // SAFETY: there is room for one byte.
    let count = unsafe { fdt_read(fd, (&raw mut byte).cast(), 1) };
    fdt_close(fd);
    ptr::without_provenance_mut(count as usize)
}

#[test]
fn a_thread_is_not_cancelled_in_a_host_call() {
    let mut pipe = [-1; 2];
    // SAFETY: there is room for two.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    let fd = fdt_adopt(pipe[0]);
    let mut thread = 0;
    let argument = ptr::without_provenance_mut(fd as usize);
    // SAFETY: the function has the type of a start function.
    let started =
        unsafe { libc::pthread_create(&raw mut thread, ptr::null(), reads_and_closes, argument) };
    assert_eq!(started, 0);
    thread::sleep(Duration::from_millis(50));
    // SAFETY: the thread is not joined yet.
    assert_eq!(unsafe { pthread_cancel(thread) }, 0);
    thread::sleep(Duration::from_millis(50));
    // SAFETY: the byte is valid.
    assert_eq!(unsafe { libc::write(pipe[1], c"x".as_ptr().cast(), 1) }, 1);
    let mut answer = ptr::null_mut();
    // SAFETY: it is joined once.
    assert_eq!(unsafe { libc::pthread_join(thread, &raw mut answer) }, 0);
    assert_eq!(answer.addr(), 1, "cancelled after the calls, or not at all");
    // SAFETY: nothing else uses it.
    unsafe { libc::close(pipe[1]) };
}

static IS_HANDLED: AtomicBool = AtomicBool::new(false);
static HAS_FORKED: AtomicBool = AtomicBool::new(false);
static HAS_SEEN: AtomicBool = AtomicBool::new(false);

extern "C" fn waits_for_a_fork(_signal: c_int) {
    IS_HANDLED.store(true, SeqCst);
    HAS_SEEN.store(comes_true(|| HAS_FORKED.load(SeqCst)), SeqCst);
}

#[test]
fn a_fork_does_not_wait_for_a_handler() {
    let handler = waits_for_a_fork as extern "C" fn(c_int);
    // SAFETY: the function has the type of a signal handler.
    unsafe { libc::signal(libc::SIGPIPE, handler as libc::sighandler_t) };
    let mut pipe = [-1; 2];
    // SAFETY: there is room for two.
    assert_eq!(unsafe { fdt_pipe(pipe.as_mut_ptr()) }, 0);
    fdt_close(pipe[0]);
    let writer = thread::spawn(move || {
        // SAFETY: the byte is valid.
        unsafe { fdt_write(pipe[1], c"x".as_ptr().cast(), 1) }
    });
    assert!(comes_true(|| IS_HANDLED.load(SeqCst)));
    fork();
    HAS_FORKED.store(true, SeqCst);
    assert_eq!(writer.join().unwrap(), -1);
    assert!(HAS_SEEN.load(SeqCst), "the fork waited for the handler");
    fdt_close(pipe[1]);
}
