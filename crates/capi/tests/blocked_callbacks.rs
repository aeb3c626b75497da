//! Forks while a callback of a table sleeps outside of the freezer.
//!
//! A callback can do so in another library that stands on the same one. Each scenario is a process
//! of its own: the argument names it.

use std::ffi::{c_int, c_void};
use std::io;
use std::process::{Command, ExitCode};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use fdtable::host_fork;
use fdtable_capi::*;

type Callback = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// Name of a scenario, its function, and what it prints.
type Scenario = (&'static str, fn(), &'static [&'static str]);

const SCENARIOS: &[Scenario] = &[
    (
        "barrier",
        || fork_in(wait_in_release),
        &[
            "child: 0",
            "barrier in release: 0",
            "after the tables: released 2, freed 2",
        ],
    ),
    (
        "table",
        || fork_in(free_in_release),
        &[
            "child: 0",
            "table freed in release",
            "after the tables: released 2, freed 2",
        ],
    ),
    (
        "child",
        child_handler,
        &[
            "barrier in the child: -1, EDEADLK",
            "table freed in the child",
            "child: 0",
            "after the table: released 1, freed 1",
        ],
    ),
];

static RELEASED: AtomicU32 = AtomicU32::new(0);
static FREED: AtomicU32 = AtomicU32::new(0);
static IS_ASLEEP: AtomicBool = AtomicBool::new(false);
static IS_AWAKE: AtomicBool = AtomicBool::new(false);
static WAITS: AtomicBool = AtomicBool::new(false);
/// A table that a callback or a handler frees.
static KEPT: AtomicPtr<fdt_table> = AtomicPtr::new(ptr::null_mut());

fn main() -> ExitCode {
    let asked = std::env::args().nth(1);
    let scenario = SCENARIOS
        .iter()
        .find(|(name, ..)| asked.as_deref() == Some(*name));
    if let Some((_, run, _)) = scenario {
        // A scenario that hangs ends by this signal.
        // SAFETY: the call takes no pointer.
        unsafe { libc::alarm(120) };
        run();
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, _, expected) in SCENARIOS {
        let program = std::env::current_exe().expect("this program has a path");
        let run = Command::new(program).arg(name).output();
        let run = run.expect("it can be executed");
        let said = String::from_utf8_lossy(&run.stdout);
        if !said.lines().eq(expected.iter().copied()) || !run.status.success() {
            println!("{name}: {run:?}");
            failed += 1;
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let passed = SCENARIOS.len() - failed;
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
    ExitCode::from(u8::from(failed > 0))
}

unsafe extern "C" fn on_release(_object: *mut c_void, _user: *mut c_void) {
    RELEASED.fetch_add(1, SeqCst);
}

unsafe extern "C" fn on_free(_object: *mut c_void, _user: *mut c_void) {
    FREED.fetch_add(1, SeqCst);
}

unsafe extern "C" fn sleep_in_free(_object: *mut c_void, _user: *mut c_void) {
    IS_ASLEEP.store(true, SeqCst);
    while !IS_AWAKE.load(SeqCst) {
        let _out = host_fork::blocking_section();
        thread::sleep(Duration::from_millis(1));
    }
    FREED.fetch_add(1, SeqCst);
}

unsafe extern "C" fn wait_in_release(_object: *mut c_void, _user: *mut c_void) {
    WAITS.store(true, SeqCst);
    println!("barrier in release: {}", fdt_barrier());
    RELEASED.fetch_add(1, SeqCst);
}

unsafe extern "C" fn free_in_release(_object: *mut c_void, _user: *mut c_void) {
    WAITS.store(true, SeqCst);
    free_kept();
    println!("table freed in release");
    RELEASED.fetch_add(1, SeqCst);
}

fn new_table(release: Callback, free: Callback) -> *mut fdt_table {
    fdt_table_new(8, Some(release), Some(free), ptr::null_mut())
}

fn open(table: *mut fdt_table) {
    // SAFETY: the table exists, and the object is never dereferenced.
    let fd = unsafe { fdt_table_open(table, ptr::without_provenance_mut(1), 0) };
    assert_eq!(fd, 0);
}

fn free(table: *mut fdt_table) {
    // SAFETY: this is the last use of the table.
    unsafe { fdt_table_free(table) };
}

fn free_kept() {
    free(KEPT.swap(ptr::null_mut(), SeqCst));
}

/// Starts a thread that closes the first descriptor, and then runs `last`.
fn close_on_a_thread(table: *mut fdt_table, last: fn()) -> thread::JoinHandle<()> {
    let table = AtomicPtr::new(table);
    thread::spawn(move || {
        // SAFETY: the table exists until the thread has ended.
        assert_eq!(unsafe { fdt_table_close(table.load(SeqCst), 0) }, 0);
        last();
    })
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        thread::sleep(Duration::from_micros(100));
    }
}

/// Makes a table, and a thread that sleeps in its `free`.
fn start_sleeping() -> (*mut fdt_table, thread::JoinHandle<()>) {
    let table = new_table(on_release, sleep_in_free);
    open(table);
    let thread = close_on_a_thread(table, || _ = fdt_barrier());
    wait_for(&IS_ASLEEP);
    (table, thread)
}

/// Forks, and waits for the child, which exits at once.
fn fork_and_wait() {
    // SAFETY: the child exits at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it does not return.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: there is room for the status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    println!("child: {status}");
}

fn say(when: &str) {
    let (released, freed) = (RELEASED.load(SeqCst), FREED.load(SeqCst));
    println!("{when}: released {released}, freed {freed}");
}

/// A fork while one thread sleeps in `free`, and another waits for that in `release`.
fn fork_in(release: Callback) {
    KEPT.store(new_table(on_release, on_free), SeqCst);
    let (sleeping, sleeper) = start_sleeping();
    let waiting = new_table(release, on_free);
    open(waiting);
    let waiter = close_on_a_thread(waiting, || ());
    wait_for(&WAITS);
    thread::sleep(Duration::from_millis(10));
    fork_and_wait();
    IS_AWAKE.store(true, SeqCst);
    sleeper.join().expect("it has not panicked");
    waiter.join().expect("it has not panicked");
    free(sleeping);
    free(waiting);
    say("after the tables");
}

/// A handler of a fork runs in the child before the one of the library.
extern "C" fn free_in_child() {
    let answer: c_int = fdt_barrier();
    let error = io::Error::last_os_error().raw_os_error();
    let name = if error == Some(libc::EDEADLK) {
        "EDEADLK"
    } else {
        "?"
    };
    println!("barrier in the child: {answer}, {name}");
    free_kept();
    println!("table freed in the child");
}

fn child_handler() {
    // SAFETY: the function stays valid, and is registered before the first table.
    let error = unsafe { libc::pthread_atfork(None, None, Some(free_in_child)) };
    assert_eq!(error, 0);
    let (sleeping, sleeper) = start_sleeping();
    KEPT.store(new_table(on_release, on_free), SeqCst);
    fork_and_wait();
    IS_AWAKE.store(true, SeqCst);
    sleeper.join().expect("it has not panicked");
    free(sleeping);
    free_kept();
    say("after the table");
}
