//! Traps that are not the tracer's have the same effect as without it.
//!
//! One test, because it is about the handlers of the whole process, before and after the tracer's
//! is installed.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::arch::asm;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use conflict_tracer::{CpuId, Recorder, Trace};

/// Puts this thread on a simulated CPU.
fn claim() -> CpuId {
    // SAFETY: no code here that has sequences drains the caches of other CPUs, and no handler runs
    // it.
    unsafe { CpuId::claim() }.unwrap()
}

static CAUGHT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    CAUGHT.fetch_add(1, Relaxed);
}

fn breakpoint() {
    // SAFETY: the handler of the trap returns, or ends the process.
    unsafe { asm!("int3") };
}

fn send() {
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(libc::SIGTRAP) };
}

fn record(operation: impl FnOnce()) -> Trace {
    let cpu = claim();
    Recorder::with_limit(1000)
        .unwrap()
        .record(&cpu, operation)
        .unwrap()
        .1
}

/// Returns the status of a child that has traced something and then calls `then`. Its previous
/// handler of `SIGTRAP` is `former`.
fn child(former: libc::sighandler_t, then: fn()) -> libc::c_int {
    // SAFETY: the child ends below, and uses nothing of the parent's other threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: `former` is the default, or to ignore it.
        unsafe { libc::signal(libc::SIGTRAP, former) };
        record(|| ());
        then();
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status
}

#[test]
fn foreign_traps_reach_their_own_handlers() {
    assert_eq!(child(libc::SIG_DFL, || ()), 0);
    assert_eq!(child(libc::SIG_IGN, send), 0);
    let ends = [
        child(libc::SIG_DFL, breakpoint),
        child(libc::SIG_IGN, breakpoint),
        child(libc::SIG_DFL, send),
    ];
    for status in ends {
        assert!(
            libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGTRAP,
            "{ends:x?}"
        );
    }

    // SAFETY: the handler increments a counter.
    unsafe {
        libc::signal(
            libc::SIGTRAP,
            count as extern "C" fn(_) as libc::sighandler_t,
        )
    };
    assert!(record(breakpoint).is_whole());
    assert_eq!(CAUGHT.load(Relaxed), 1, "inside of a window");
    breakpoint();
    assert_eq!(CAUGHT.load(Relaxed), 2, "outside");

    the_instruction_after_a_breakpoint_is_traced();
    foreign_traps_sent_all_the_time_hide_nothing();
    a_window_without_a_handler_is_not_an_empty_trace();
}

/// Returns the number of writes to the word.
fn writes(trace: &Trace, word: &AtomicU64) -> usize {
    let accesses = trace.accesses().iter();
    accesses
        .filter(|access| access.kind.writes() && access.address == word.as_ptr() as u64)
        .count()
}

fn the_instruction_after_a_breakpoint_is_traced() {
    static WORD: AtomicU64 = AtomicU64::new(0);
    let trace = record(|| {
        // SAFETY: the handler increments a counter; stores to a shared word.
        unsafe { asm!("int3", "mov qword ptr [{}], 7", in(reg) WORD.as_ptr()) };
    });
    assert_eq!(WORD.load(Relaxed), 7);
    assert_eq!(writes(&trace, &WORD), 1);
}

/// While a `SIGTRAP` is pending, the kernel drops that of a step.
fn foreign_traps_sent_all_the_time_hide_nothing() {
    static WORD: AtomicU64 = AtomicU64::new(0);
    const ADDITIONS: usize = 250;
    // SAFETY: names this thread.
    let thread = unsafe { libc::pthread_self() };
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                // SAFETY: the thread waits for the end of this one.
                unsafe { libc::pthread_kill(thread, libc::SIGTRAP) };
                std::thread::yield_now();
            }
        });
        let came = (0..200).any(|_| {
            let before = CAUGHT.load(Relaxed);
            let trace = record(|| {
                // SAFETY: adds to a shared word.
                unsafe {
                    asm!(
                        "2:",
                        "lock inc qword ptr [{word}]",
                        "dec {left:e}",
                        "jnz 2b",
                        word = in(reg) WORD.as_ptr(),
                        left = inout(reg) ADDITIONS => _,
                    );
                }
            });
            let seen = writes(&trace, &WORD);
            // The breakpoint that opens the window may be dropped as well.
            assert!(seen == ADDITIONS || !trace.is_whole(), "{seen}");
            seen == ADDITIONS && CAUGHT.load(Relaxed) > before + 1
        });
        is_done.store(true, Relaxed);
        assert!(came);
    });
}

fn a_window_without_a_handler_is_not_an_empty_trace() {
    static WORD: AtomicU64 = AtomicU64::new(0);
    let add = || {
        WORD.fetch_add(1, Relaxed);
    };
    let cpu = claim();
    let mut recorder = Recorder::with_limit(1000).unwrap();
    // SAFETY: the handler increments a counter.
    let handle = || unsafe {
        libc::signal(
            libc::SIGTRAP,
            count as extern "C" fn(_) as libc::sighandler_t,
        )
    };
    let own = handle();
    let (_, trace) = recorder.record(&cpu, add).unwrap();
    assert_eq!((WORD.load(Relaxed), writes(&trace, &WORD)), (1, 0));
    assert!(!trace.is_whole());
    // SAFETY: `own` is the tracer's handler; only its flags are lost.
    unsafe { libc::signal(libc::SIGTRAP, own) };
}
