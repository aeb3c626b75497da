//! The thread that runs timely callbacks: when it exists, how soon it runs them, what it does when
//! it is idle, in the child of a fork, and at the end of the process.
//!
//! Each test runs in a process of its own, and a limit ends one that waits forever.

#![cfg(all(feature = "std", target_os = "linux", not(loom)))]

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, exit};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use fdtable_sync::host_fork;
use fdtable_sync::rcu::{self, Head};

/// Far above the bound, for machines with much other work.
const LONG: Duration = Duration::from_secs(5);

/// Seconds after which a process counts as waiting forever.
const PATIENCE: u32 = 60;

const VARIABLE: &str = "FDTABLE_TEST_ALONE";

/// The command that runs a program of this architecture, in words: an emulator, or nothing.
const RUNNER: &str = "FDTABLE_TEST_RUNNER";

/// Returns a command that runs this test binary.
fn this_program() -> Command {
    let program = env::current_exe().expect("the path of the test");
    let runner = env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else {
        return Command::new(program);
    };
    let mut command = Command::new(emulator);
    command.args(words).arg(program);
    command
}

/// Runs `body` in a process of its own. It must end with success, and print `output` if that is
/// given.
#[track_caller]
fn alone(name: &str, output: Option<&str>, body: impl FnOnce()) {
    if env::var_os(VARIABLE).is_some() {
        // SAFETY: it takes an integer.
        unsafe { libc::alarm(PATIENCE) };
        return body();
    }
    let mut command = this_program();
    let command = command.args(["--exact", name, "--nocapture"]);
    let ended = command.env(VARIABLE, "1").output().expect("a process");
    let printed = String::from_utf8_lossy(&ended.stdout);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.success(),
        "{}: {printed}{errors}",
        ended.status
    );
    if let Some(output) = output {
        assert!(printed.contains(output), "{printed}");
    } else {
        assert!(printed.contains("1 passed"), "{printed}");
    }
}

/// A closure that waits; `head` is its first field, so their addresses are the same.
#[repr(C)]
struct Timely<F> {
    head: Head,
    run: F,
}

fn call_timely<F: FnOnce() + Send + 'static>(run: F) {
    unsafe fn invoke<F: FnOnce()>(head: NonNull<Head>) {
        // SAFETY: the box was leaked below, and the callback is invoked once.
        let timely = unsafe { Box::from_raw(head.cast::<Timely<F>>().as_ptr()) };
        (timely.run)();
    }
    let head = Head::new(invoke::<F>);
    let timely = Box::leak(Box::new(Timely { head, run }));
    // SAFETY: it stays until its callback takes it back, which any thread may run.
    unsafe { rcu::call_timely(NonNull::from(timely).cast()) };
}

/// Queues a callback, and waits until it has run, without a call of the library.
fn call_and_wait() -> Duration {
    let (tell, hear) = channel();
    let start = Instant::now();
    call_timely(move || tell.send(start.elapsed()).expect("the test listens"));
    hear.recv_timeout(LONG).expect("the callback runs soon")
}

/// Returns the directories of the workers in `/proc`.
fn workers() -> Vec<PathBuf> {
    let tasks = fs::read_dir("/proc/self/task").expect("a list of threads");
    let tasks = tasks.map(|task| task.expect("a thread").path());
    let is_worker = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "fdtable-rcu")
    };
    tasks.filter(is_worker).collect()
}

/// Returns a field of the status of the only worker.
fn status(field: &str) -> String {
    let workers = workers();
    let [worker] = &workers[..] else {
        panic!("{} workers", workers.len());
    };
    let status = fs::read_to_string(worker.join("status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.expect("the field").trim().to_owned()
}

/// Waits until `is_so`. Returns false if that takes too long.
fn within(is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        thread::yield_now();
    }
    true
}

#[test]
fn a_timely_callback_runs_soon_and_nothing_else_is_called() {
    alone(
        "a_timely_callback_runs_soon_and_nothing_else_is_called",
        None,
        || {
            let best = (0..50).map(|_| call_and_wait()).min();
            assert!(best < Some(Duration::from_millis(50)), "{best:?}");
        },
    );
}

#[test]
fn each_of_many_threads_has_its_callbacks_run_soon() {
    alone(
        "each_of_many_threads_has_its_callbacks_run_soon",
        None,
        || {
            thread::scope(|scope| {
                for number in 0..8 {
                    scope.spawn(move || {
                        for _ in 0..30 {
                            call_and_wait();
                            thread::sleep(Duration::from_micros(700 * number));
                        }
                    });
                }
            });
            assert_eq!(workers().len(), 1);
        },
    );
}

#[test]
fn a_callback_waits_for_a_reader_and_runs_soon_after_it() {
    alone(
        "a_callback_waits_for_a_reader_and_runs_soon_after_it",
        None,
        || {
            let (tell, hear) = channel();
            let section = rcu::read_lock();
            call_timely(move || tell.send(()).expect("the test listens"));
            let while_inside = hear.recv_timeout(Duration::from_millis(100));
            assert!(while_inside.is_err(), "the reader is inside");
            drop(section);
            hear.recv_timeout(LONG).expect("the reader has left");
        },
    );
}

#[test]
fn a_callback_that_a_callback_queues_runs_soon() {
    alone("a_callback_that_a_callback_queues_runs_soon", None, || {
        let (tell, hear) = channel();
        call_timely(|| call_timely(move || tell.send(()).expect("the test listens")));
        hear.recv_timeout(LONG).expect("the inner one runs");
    });
}

/// The end of a table drops its objects, also those whose drops the worker has begun.
#[test]
fn a_barrier_that_does_not_wait_for_readers_waits_for_the_worker() {
    alone(
        "a_barrier_that_does_not_wait_for_readers_waits_for_the_worker",
        None,
        || {
            static BEGUN: AtomicUsize = AtomicUsize::new(0);
            static GONE_ON: AtomicUsize = AtomicUsize::new(0);
            let wait = |round| {
                call_timely(move || {
                    BEGUN.store(round, SeqCst);
                    while GONE_ON.load(SeqCst) < round {
                        thread::yield_now();
                    }
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(100) {}
                });
                while BEGUN.load(SeqCst) < round {
                    thread::yield_now();
                }
                GONE_ON.store(round, SeqCst);
                rcu::try_barrier().expect("outside of sections")
            };
            // Where there is other work, the worker often loses its CPU for longer than the barrier
            // waits. One that does not wait is right only when it loses its own at one instruction:
            // less than once in 1,000.
            let waited = (1..=2000).filter(|&round| wait(round)).take(50).count();
            assert_eq!(waited, 50, "of 2,000");
        },
    );
}

/// Lets the calling thread run on one CPU alone. Returns false if it may not.
fn run_on(cpu: usize) -> bool {
    // SAFETY: a set of zeroes is one of no CPU.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below that of the bits.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: it is a set of this size.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0 }
}

/// Returns the CPUs that threads may choose.
fn usable_cpus() -> Vec<usize> {
    let cpus = 0..libc::CPU_SETSIZE as usize;
    let tries = thread::spawn(move || cpus.filter(|&cpu| run_on(cpu)).collect());
    tries.join().expect("no panic")
}

#[test]
fn a_callback_that_stays_holds_up_no_other_cpu() {
    let [one, other, ..] = usable_cpus()[..] else {
        // The harness prints it also for a test that passes, unlike what a macro prints.
        let why = b"skipped: no CPU is held up, as there is one CPU with one queue\n";
        return std::io::stderr().write_all(why).expect("it is open");
    };
    alone("a_callback_that_stays_holds_up_no_other_cpu", None, || {
        // Whatever the order of the queues: one of the two is behind the other.
        for (held, free) in [(one, other), (other, one)] {
            let (release, held_until) = channel::<()>();
            let (tell, hear) = channel();
            let stays = thread::spawn(move || {
                assert!(run_on(held), "it is usable");
                rcu::defer(move || {
                    tell.send(()).expect("the test listens");
                    let _ = held_until.recv();
                });
                rcu::barrier().expect("outside of sections");
            });
            hear.recv_timeout(LONG).expect("the callback runs");
            assert!(run_on(free), "it is usable");
            call_and_wait();
            drop(release);
            stays.join().expect("no panic");
        }
    });
}

#[test]
fn a_process_without_timely_callbacks_has_no_worker() {
    alone(
        "a_process_without_timely_callbacks_has_no_worker",
        None,
        || {
            for _ in 0..10_000 {
                rcu::defer(|| ());
            }
            rcu::barrier().expect("outside of sections");
            assert!(workers().is_empty());
            call_and_wait();
            assert_eq!(workers().len(), 1);
        },
    );
}

#[test]
fn an_idle_worker_sleeps() {
    alone("an_idle_worker_sleeps", None, || {
        call_and_wait();
        // These do not keep it awake.
        rcu::defer(|| ());
        let switches = || status("voluntary_ctxt_switches:");
        let deadline = Instant::now() + LONG;
        loop {
            let before = switches();
            thread::sleep(Duration::from_millis(100));
            if before == switches() {
                break;
            }
            assert!(Instant::now() < deadline, "it wakes again and again");
        }
    });
}

#[test]
fn the_worker_blocks_signals_but_not_those_of_faults() {
    alone(
        "the_worker_blocks_signals_but_not_those_of_faults",
        None,
        || {
            call_and_wait();
            let blocked = u64::from_str_radix(&status("SigBlk:"), 16).expect("a mask");
            let is_blocked = |signal: i32| blocked >> (signal - 1) & 1 == 1;
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1, libc::SIGCHLD] {
                assert!(is_blocked(signal));
            }
            for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGSYS] {
                assert!(!is_blocked(signal));
            }
            let mine = fs::read_to_string("/proc/thread-self/status").expect("its status");
            assert!(
                mine.contains("SigBlk:\t0000000000000000"),
                "the thread that started it has its own mask: {mine}"
            );
        },
    );
}

#[test]
fn the_worker_blocks_signals_of_faults_if_a_program_asks_for_it() {
    alone(
        "the_worker_blocks_signals_of_faults_if_a_program_asks_for_it",
        None,
        || {
            rcu::block_faults();
            call_and_wait();
            let blocked = u64::from_str_radix(&status("SigBlk:"), 16).expect("a mask");
            for signal in [libc::SIGSEGV, libc::SIGFPE, libc::SIGSYS, libc::SIGTERM] {
                assert!(blocked >> (signal - 1) & 1 == 1, "{signal}");
            }
        },
    );
}

#[test]
fn a_host_that_ticks_has_no_worker_and_its_callbacks_run_in_the_second_tick() {
    alone(
        "a_host_that_ticks_has_no_worker_and_its_callbacks_run_in_the_second_tick",
        None,
        || {
            static RAN: AtomicBool = AtomicBool::new(false);
            rcu::use_ticks();
            assert_eq!(rcu::tick(), Ok(false));
            call_timely(|| RAN.store(true, SeqCst));
            thread::sleep(Duration::from_millis(50));
            assert!(!RAN.load(SeqCst) && workers().is_empty());
            assert_eq!(rcu::tick(), Ok(true));
            assert!(!RAN.load(SeqCst), "it is young");
            assert_eq!(rcu::tick(), Ok(false));
            assert!(RAN.load(SeqCst));
            let section = rcu::read_lock();
            assert_eq!(rcu::tick(), Err(rcu::WouldDeadlock));
            drop(section);
        },
    );
}

#[test]
fn a_worker_that_is_there_already_ends_when_the_host_ticks() {
    alone(
        "a_worker_that_is_there_already_ends_when_the_host_ticks",
        None,
        || {
            call_and_wait();
            assert_eq!(workers().len(), 1);
            rcu::use_ticks();
            assert!(within(|| workers().is_empty()), "it ends");
        },
    );
}

#[test]
fn a_call_can_do_without_the_worker_and_its_callbacks_run_soon_after_it() {
    alone(
        "a_call_can_do_without_the_worker_and_its_callbacks_run_soon_after_it",
        None,
        || {
            rcu::without_thread(|| assert!(workers().is_empty()));
            assert!(workers().is_empty(), "there was none before");
            // A thread that was joined stays in the list for a moment.
            let has_ended = || within(|| workers().is_empty());
            for _ in 0..20 {
                call_and_wait();
                let (tell, hear) = channel();
                rcu::without_thread(|| {
                    assert!(has_ended());
                    rcu::without_thread(|| assert!(workers().is_empty()));
                    call_timely(move || tell.send(()).expect("the test listens"));
                    assert!(workers().is_empty());
                });
                hear.recv_timeout(LONG).expect("the callback runs soon");
                assert_eq!(workers().len(), 1);
            }
        },
    );
}

#[test]
fn the_child_of_a_fork_without_the_worker_starts_its_own() {
    alone(
        "the_child_of_a_fork_without_the_worker_starts_its_own",
        None,
        || {
            host_fork::register().expect("memory for the handlers");
            call_and_wait();
            rcu::without_thread(|| {
                in_child(|| {
                    call_and_wait();
                    assert_eq!(workers().len(), 1);
                });
            });
            call_and_wait();
        },
    );
}

/// Forks, runs `work` in the child, and expects it to succeed.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the library's child goes on; the work uses nothing else that a lost thread may have
    // locked, but for the allocator, which the C library prepares.
    match unsafe { libc::fork() } {
        -1 => panic!("the host forks"),
        0 => {
            // SAFETY: both take an integer.
            unsafe { libc::alarm(PATIENCE) };
            let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(end.is_err())) };
        }
        child => {
            let mut status = 0;
            // SAFETY: the status has room for the answer.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "how the child ended");
        }
    }
}

#[test]
fn a_child_of_a_fork_starts_its_own_worker() {
    alone("a_child_of_a_fork_starts_its_own_worker", None, || {
        host_fork::register().expect("memory");
        // While the worker is absent, awake, and asleep.
        for pause in [0, 0, 1, 100] {
            in_child(|| {
                assert!(workers().is_empty());
                call_and_wait();
                call_and_wait();
                assert_eq!(workers().len(), 1);
                in_child(|| {
                    call_and_wait();
                });
            });
            call_and_wait();
            thread::sleep(Duration::from_millis(pause));
        }
        assert_eq!(workers().len(), 1, "the parent has kept its own");
    });
}

#[test]
fn forks_and_the_worker_do_not_wait_for_each_other() {
    alone(
        "forks_and_the_worker_do_not_wait_for_each_other",
        None,
        || {
            host_fork::register().expect("memory");
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(SeqCst) {
                        let _inside = host_fork::enter();
                        (0..10).for_each(|_| call_timely(|| ()));
                        thread::sleep(Duration::from_micros(300));
                    }
                });
                for _ in 0..300 {
                    in_child(|| rcu::barrier().expect("outside of sections"));
                }
                is_over.store(true, SeqCst);
            });
            call_and_wait();
        },
    );
}

/// Between the handlers of a fork no thread is started, and none waits for the worker.
#[test]
fn a_call_in_a_frozen_freezer_starts_no_worker() {
    alone("a_call_in_a_frozen_freezer_starts_no_worker", None, || {
        host_fork::freeze();
        call_timely(|| ());
        assert!(workers().is_empty());
        host_fork::thaw();
        call_and_wait();
        host_fork::freeze();
        call_timely(|| ());
        thread::sleep(Duration::from_millis(50));
        host_fork::thaw();
        call_and_wait();
    });
}

const QUEUED: usize = 100;

/// Queues callbacks on a thread that stays. The last one prints that all have run.
fn queue_on_a_thread_that_stays() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    let (arrive, arrived) = channel();
    thread::spawn(move || {
        for _ in 0..QUEUED {
            call_timely(|| {
                if RAN.fetch_add(1, SeqCst) + 1 == QUEUED {
                    println!("all have run");
                }
            });
        }
        arrive.send(()).expect("the test listens");
        loop {
            thread::park();
        }
    });
    arrived.recv().expect("the thread arrives");
}

#[test]
fn what_is_queued_runs_when_the_process_exits() {
    let all = Some("all have run");
    alone("what_is_queued_runs_when_the_process_exits", all, || {
        queue_on_a_thread_that_stays();
        exit(0);
    });
}

#[test]
fn what_is_queued_runs_when_the_process_exits_while_the_worker_is_awake() {
    let all = Some("all have run");
    let name = "what_is_queued_runs_when_the_process_exits_while_the_worker_is_awake";
    alone(name, all, || {
        call_and_wait();
        queue_on_a_thread_that_stays();
        thread::sleep(Duration::from_micros(2900));
        exit(0);
    });
}

#[test]
fn an_exit_does_not_wait_for_a_reader_that_stays() {
    alone(
        "an_exit_does_not_wait_for_a_reader_that_stays",
        Some("exits"),
        || {
            let (arrive, arrived) = channel();
            thread::spawn(move || {
                let _section = rcu::read_lock();
                call_timely(|| println!("a reader is inside"));
                arrive.send(()).expect("the test listens");
                loop {
                    thread::park();
                }
            });
            arrived.recv().expect("the thread arrives");
            println!("exits");
            exit(0);
        },
    );
}

#[test]
fn an_exit_does_not_wait_for_a_callback_that_stays() {
    alone(
        "an_exit_does_not_wait_for_a_callback_that_stays",
        Some("exits"),
        || {
            let (arrive, arrived) = channel();
            call_timely(move || {
                arrive.send(()).expect("the test listens");
                loop {
                    thread::park();
                }
            });
            arrived.recv_timeout(LONG).expect("the callback runs");
            println!("exits");
            exit(0);
        },
    );
}

#[test]
fn a_callback_may_exit_the_process() {
    alone("a_callback_may_exit_the_process", Some("exits"), || {
        call_timely(|| {
            println!("exits");
            exit(0);
        });
        thread::sleep(LONG);
        exit(1);
    });
}

/// Without the handlers of a fork, locks may be held forever in the child: its end takes none.
#[test]
fn a_child_of_an_unknown_fork_exits() {
    alone(
        "a_child_of_an_unknown_fork_exits",
        Some("parent exits"),
        || {
            queue_on_a_thread_that_stays();
            // SAFETY: the child only exits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                exit(0);
            }
            let mut status = 0;
            // SAFETY: the status has room for the answer.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "how the child ended");
            println!("parent exits");
            exit(0);
        },
    );
}
