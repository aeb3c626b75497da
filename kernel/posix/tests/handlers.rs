//! Signal handlers that `fdt_sigaction` installs: they end or restart a call that sleeps, and may
//! make calls on the files that the interrupted call uses.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use std::{mem, ptr};

use fdtable_posix::*;

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn pipe() -> [c_int; 2] {
    let mut ends = [-1; 2];
    // SAFETY: there is room for two.
    assert_eq!(unsafe { fdt_pipe(ends.as_mut_ptr()) }, 0);
    ends
}

fn close(ends: [c_int; 2]) {
    for fd in ends {
        fdt_close(fd);
    }
}

fn write_byte(fd: c_int) -> isize {
    // SAFETY: the byte is valid.
    unsafe { fdt_write(fd, c"x".as_ptr().cast(), 1) }
}

fn read_byte(fd: c_int) -> isize {
    let mut byte = 0_u8;
    // SAFETY: there is room for one byte.
    unsafe { fdt_read(fd, (&raw mut byte).cast(), 1) }
}

/// Installs a handler. Returns the one before.
fn install(signal: c_int, handler: extern "C" fn(c_int), flags: c_int) -> usize {
    // SAFETY: all zeroes is a valid action.
    let mut new: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: as above.
    let mut old: libc::sigaction = unsafe { mem::zeroed() };
    new.sa_sigaction = handler as *const () as usize;
    new.sa_flags = flags;
    // SAFETY: the new action is valid, and there is room for the old one.
    let answer = unsafe { fdt_sigaction(signal, &raw const new, &raw mut old) };
    assert_eq!(answer, 0);
    old.sa_sigaction
}

/// Sends signals to a thread until it reports the end of its call.
fn signal_until_it_ends(thread: libc::pthread_t, signal: c_int, ends: &mpsc::Receiver<()>) {
    let begun = Instant::now();
    while ends.recv_timeout(Duration::from_millis(5)).is_err() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the call never ends"
        );
        // SAFETY: the thread is not joined yet.
        unsafe { libc::pthread_kill(thread, signal) };
    }
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_signal: c_int) {
    HANDLED.fetch_add(1, SeqCst);
}

/// Makes a call on a thread of its own, and interrupts it by signals.
fn interrupted(
    signal: c_int,
    call: impl FnOnce() -> (isize, c_int) + Send + 'static,
) -> (isize, c_int) {
    let (begins, begun) = mpsc::channel();
    let (ends, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        // SAFETY: it takes nothing.
        begins.send(unsafe { libc::pthread_self() }).unwrap();
        let result = call();
        ends.send(()).unwrap();
        result
    });
    signal_until_it_ends(begun.recv().unwrap(), signal, &ended);
    thread.join().unwrap()
}

#[test]
fn a_handler_ends_a_call_that_sleeps() {
    let ends = pipe();
    install(libc::SIGUSR1, count, 0);
    let result = interrupted(libc::SIGUSR1, move || (read_byte(ends[0]), errno()));
    assert_eq!(result, (-1, libc::EINTR));
    assert!(HANDLED.load(SeqCst) > 0);
    let before = install(libc::SIGUSR1, count, 0);
    assert_eq!(before, count as *const () as usize, "not the program's own");
    close(ends);
}

static WRITES_TO: AtomicI32 = AtomicI32::new(-1);

/// Ends a read that is restarted: it finds the byte.
extern "C" fn write_there(_signal: c_int) {
    let fd = WRITES_TO.swap(-1, SeqCst);
    if fd >= 0 {
        write_byte(fd);
    }
}

#[test]
fn a_handler_with_sa_restart_continues_the_call_and_may_use_its_file() {
    let ends = pipe();
    WRITES_TO.store(ends[1], SeqCst);
    install(libc::SIGUSR2, write_there, libc::SA_RESTART);
    let result = interrupted(libc::SIGUSR2, move || (read_byte(ends[0]), 0));
    assert_eq!(result, (1, 0));
    close(ends);
}

#[test]
fn the_mask_of_ppoll_lets_a_blocked_signal_in() {
    let ends = pipe();
    install(libc::SIGALRM, count, libc::SA_RESTART);
    let result = interrupted(libc::SIGALRM, move || {
        // SAFETY: all zeroes is a valid set.
        let mut set: libc::sigset_t = unsafe { mem::zeroed() };
        let none = set;
        // SAFETY: the set is valid.
        unsafe { libc::sigaddset(&raw mut set, libc::SIGALRM) };
        // SAFETY: as above.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        let mut asked = libc::pollfd {
            fd: ends[0],
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the entry and the mask are valid.
        let result = unsafe { fdt_ppoll(&raw mut asked, 1, ptr::null(), &raw const none) };
        (result as isize, errno())
    });
    assert_eq!(result, (-1, libc::EINTR));
    close(ends);
}

static SHARED: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];
static FAILED: AtomicUsize = AtomicUsize::new(0);

/// The calls that a handler may make, on files that the interrupted call may be using.
fn call_all() {
    let [reads, writes] = [0, 1].map(|end: usize| SHARED[end].load(SeqCst));
    let duplicate = fdt_dup(reads);
    let is_whole = duplicate >= 0
        && fdt_close(duplicate) == 0
        && write_byte(writes) == 1
        && read_byte(reads) == 1;
    FAILED.fetch_add(usize::from(!is_whole), SeqCst);
}

extern "C" fn call_in_handler(_signal: c_int) {
    // SAFETY: it takes nothing.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: each thread has an errno, for as long as it runs.
    let before = unsafe { errno.read() };
    call_all();
    HANDLED.fetch_add(1, SeqCst);
    // SAFETY: as above.
    unsafe { errno.write(before) };
}

/// A handler that waited for what the interrupted call holds would wait forever.
#[test]
fn calls_in_handlers_do_not_wait_for_the_interrupted_call() {
    let ends = pipe();
    SHARED[0].store(ends[0], SeqCst);
    SHARED[1].store(ends[1], SeqCst);
    install(libc::SIGWINCH, call_in_handler, libc::SA_RESTART);
    let result = interrupted(libc::SIGWINCH, || {
        let first = HANDLED.load(SeqCst);
        while HANDLED.load(SeqCst) < first + 20 {
            call_all();
        }
        (0, 0)
    });
    assert_eq!((result, FAILED.load(SeqCst)), ((0, 0), 0));
    close(ends);
}

/// The action of a signal of faults is recorded too.
#[test]
fn the_action_for_bad_memory_is_the_programs_own() {
    install(libc::SIGBUS, count, 0);
    let before = install(libc::SIGBUS, count, 0);
    assert_eq!(before, count as *const () as usize);
    // SAFETY: a null pointer means no change.
    let unknown = unsafe { fdt_sigaction(0, ptr::null(), ptr::null_mut::<c_void>().cast()) };
    assert_eq!((unknown, errno()), (-1, libc::EINVAL));
}
