//! Events inside of a window: other signals, system calls, new threads, panics, the heap.
//!
//! The trace continues, the program behaves as without it, and no state is left over.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::arch::asm;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

use conflict_tracer::{CpuId, Cpus, Error, Kind, Recorder, Remark, Trace};

/// Puts this thread on a simulated CPU.
fn claim() -> CpuId {
    // SAFETY: no code here that has sequences drains the caches of other CPUs, and no handler runs
    // it.
    unsafe { CpuId::claim() }.unwrap()
}

fn record<R>(operation: impl FnOnce() -> R) -> (R, Trace) {
    let cpu = claim();
    Recorder::new().unwrap().record(&cpu, operation).unwrap()
}

/// Returns the number of writes to these bytes.
fn writes<T>(trace: &Trace, to: &T) -> usize {
    let start = (&raw const *to) as u64;
    let bytes = start..start + size_of::<T>() as u64;
    let own = trace.accesses().iter();
    own.filter(|access| access.kind.writes() && bytes.contains(&access.address))
        .count()
}

fn is_stepped() -> bool {
    let flags: u64;
    // SAFETY: pushes and pops a word.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags) };
    flags & 0x100 != 0
}

static CAUGHT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    assert!(!is_stepped(), "a handler is not part of the operation");
    CAUGHT.fetch_add(1, Relaxed);
}

/// Installs a handler that counts `SIGUSR1`.
fn catch_signal() {
    // SAFETY: the handler increments a counter.
    unsafe {
        libc::signal(
            libc::SIGUSR1,
            count as extern "C" fn(_) as libc::sighandler_t,
        )
    };
}

fn signal_myself() {
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(libc::SIGUSR1) };
}

#[test]
fn a_signal_inside_is_handled_and_leaves_no_trace() {
    catch_signal();
    let before = CAUGHT.load(Relaxed);
    let after = AtomicU64::new(0);
    let (_, trace) = record(|| {
        signal_myself();
        after.fetch_add(1, Relaxed);
    });
    assert!(CAUGHT.load(Relaxed) > before);
    assert_eq!(
        writes(&trace, &after),
        1,
        "the trace continues after the signal"
    );
    assert_eq!(writes(&trace, &CAUGHT), 0);
}

/// Adds a thousand, in the same number of steps in every profile.
fn add_a_thousand(target: &AtomicU64) {
    // SAFETY: adds to a shared counter.
    unsafe {
        asm!(
            "2:",
            "lock inc qword ptr [{target}]",
            "dec {left:e}",
            "jnz 2b",
            target = in(reg) target.as_ptr(),
            left = inout(reg) 1000 => _,
        );
    }
}

#[test]
fn signals_that_come_all_the_time_do_not_change_a_trace() {
    catch_signal();
    let target = AtomicU64::new(0);
    // SAFETY: as for `claim`.
    let mut cpus = unsafe { Cpus::new(1) }.unwrap();
    let work = || add_a_thousand(&target);
    let quiet = cpus.trace(0, work).unwrap().1;
    assert_eq!(writes(&quiet, &target), 1000);
    // SAFETY: names the thread.
    let thread = cpus.run(0, || unsafe { libc::pthread_self() }).unwrap();
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while done.load(Relaxed) == 0 {
                // SAFETY: the thread lives as long as the CPUs, which this thread joins.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
                thread::yield_now();
            }
        });
        // The sender may not run during a single trace.
        let came = (0..100).any(|_| {
            let before = CAUGHT.load(Relaxed);
            let noisy = cpus.trace(0, work).unwrap().1;
            assert!(quiet == noisy, "{quiet:?} and {noisy:?}");
            CAUGHT.load(Relaxed) > before + 1
        });
        done.store(1, Relaxed);
        assert!(came);
    });
}

#[test]
fn a_thread_that_blocks_all_signals_is_still_stepped() {
    let target = AtomicU64::new(0);
    let mut former = 0_u64;
    let mut after = 0_u64;
    let (_, trace) = record(|| {
        let all = u64::MAX;
        former = change_mask(libc::SIG_SETMASK, Some(&all));
        target.fetch_add(1, Relaxed);
        after = change_mask(libc::SIG_SETMASK, Some(&former));
        target.fetch_add(1, Relaxed);
    });
    assert_eq!(writes(&trace, &target), 2);
    let user = 1 << (libc::SIGUSR1 - 1);
    assert_eq!(
        (former & user, after & user),
        (0, user),
        "the others are blocked as requested"
    );
    assert_eq!(change_mask(libc::SIG_BLOCK, None), former);
}

#[test]
fn a_thread_that_has_blocked_the_trap_is_stepped_and_blocks_it_again() {
    let trap = 1 << (libc::SIGTRAP - 1);
    let target = AtomicU64::new(0);
    change_mask(libc::SIG_BLOCK, Some(&trap));
    let (_, trace) = record(|| target.fetch_add(1, Relaxed));
    assert_eq!(writes(&trace, &target), 1);
    assert_ne!(change_mask(libc::SIG_UNBLOCK, Some(&trap)) & trap, 0);
}

/// The system call, without the C library's filter.
fn change_mask(how: libc::c_int, set: Option<&u64>) -> u64 {
    let mut former = 0_u64;
    let set = set.map_or(std::ptr::null(), |set| &raw const *set);
    // SAFETY: both are words of this thread.
    let answer = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, set, &raw mut former, 8) };
    assert_eq!(answer, 0);
    former
}

#[test]
fn system_calls_are_remarks_and_the_trace_continues() {
    let target = AtomicU64::new(0);
    let (parent, trace) = record(|| {
        // SAFETY: returns a number.
        let parent = unsafe { libc::getppid() };
        target.fetch_add(1, Relaxed);
        parent
    });
    // SAFETY: as above.
    assert_eq!(parent, unsafe { libc::getppid() });
    let calls: Vec<_> = trace.remarks().iter().map(|(_, remark)| *remark).collect();
    assert_eq!(calls, [Remark::SystemCall(libc::SYS_getppid as u64)]);
    assert!(!trace.is_whole());
    assert_eq!(writes(&trace, &target), 1);
}

#[test]
fn a_thread_that_is_started_inside_is_not_stepped() {
    let (stepped, trace) = record(|| {
        let stepped = thread::spawn(is_stepped).join().unwrap();
        (stepped, is_stepped())
    });
    assert_eq!(stepped, (false, true));
    let remarks = trace.remarks().iter().map(|(_, remark)| *remark);
    assert!(
        remarks
            .clone()
            .any(|remark| remark == Remark::SkippedInstruction)
    );
    assert!(!remarks.clone().any(|remark| remark == Remark::SteppingLost));
}

#[test]
fn a_panic_continues_outside_and_the_thread_is_no_longer_stepped() {
    let cpu = claim();
    let mut recorder = Recorder::with_limit(10_000).unwrap();
    let target = AtomicU64::new(0);
    let panics = || {
        recorder.record(&cpu, || {
            target.fetch_add(1, Relaxed);
            std::panic::resume_unwind(Box::new("as expected"));
        })
    };
    let panic = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"as expected"));
    assert!(!is_stepped());
    let (_, trace) = recorder
        .record(&cpu, || target.fetch_add(1, Relaxed))
        .unwrap();
    assert_eq!(writes(&trace, &target), 1, "the recorder is as good as new");
}

#[test]
fn a_panic_on_a_simulated_cpu_reaches_the_requesting_thread() {
    let recorder = Recorder::with_limit(10_000).unwrap();
    // SAFETY: as for `claim`.
    let mut cpus = unsafe { Cpus::with_recorder(2, recorder) }.unwrap();
    for traced in [false, true] {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let operation = || std::panic::resume_unwind(Box::new(7_u8));
            if traced {
                cpus.trace(1, operation).map(|((), _)| ())
            } else {
                cpus.run(1, operation)
            }
        }));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&7_u8));
        assert!(!cpus.run(1, is_stepped).unwrap());
    }
    assert!(cpus.trace(1, is_stepped).unwrap().0);
}

#[test]
fn an_operation_past_the_limit_is_cut_off_and_finishes() {
    let cpu = claim();
    let target = AtomicU64::new(0);
    let mut recorder = Recorder::with_limit(100).unwrap();
    let (stepped, trace) = recorder
        .record(&cpu, || {
            for _ in 0..1000 {
                target.fetch_add(1, Relaxed);
            }
            is_stepped()
        })
        .unwrap();
    assert_eq!((stepped, target.load(Relaxed)), (false, 1000));
    assert_eq!(trace.instructions(), 100);
    let remarks: Vec<_> = trace.remarks().iter().map(|(_, remark)| *remark).collect();
    assert_eq!(remarks, [Remark::CutOff]);
}

#[test]
fn an_operation_past_the_limit_may_block_all_signals() {
    let cpu = claim();
    let mut former = 0;
    let (_, trace) = Recorder::with_limit(1)
        .unwrap()
        .record(&cpu, || {
            former = change_mask(libc::SIG_SETMASK, Some(&u64::MAX));
        })
        .unwrap();
    change_mask(libc::SIG_SETMASK, Some(&former));
    assert!(!trace.is_whole());
}

/// Virtual machines have been seen to raise one in a million steps without its mark. The kernel
/// then reports it as a breakpoint.
#[test]
fn an_unmarked_step_counts_as_a_step() {
    let target = AtomicU64::new(0);
    // SAFETY: all zeroes is a value of this type.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    info.si_code = 1; // TRAP_BRKPT
    let process = std::process::id();
    // SAFETY: returns a number.
    let thread = unsafe { libc::gettid() };
    let call = libc::SYS_rt_tgsigqueueinfo;
    let (_, trace) = record(|| {
        // SAFETY: sends a signal to this thread.
        unsafe { libc::syscall(call, process, thread, libc::SIGTRAP, &raw const info) };
        target.fetch_add(1, Relaxed);
    });
    assert_eq!(writes(&trace, &target), 1);
}

extern "C" fn skip(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes it to this handler, for its own use.
    let thread = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    thread.uc_mcontext.gregs[libc::REG_RIP as usize] += 2;
}

#[test]
fn an_instruction_run_by_a_signal_handler_is_recorded_as_missing() {
    // SAFETY: all zeroes is a value of this type.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_flags = libc::SA_SIGINFO;
    action.sa_sigaction = skip as extern "C" fn(_, _, _) as libc::sighandler_t;
    // SAFETY: no other thread runs an invalid instruction.
    unsafe { libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()) };
    let target = AtomicU64::new(0);
    let (_, trace) = record(|| {
        // SAFETY: the handler skips the first; the second stores to a shared counter.
        unsafe { asm!("ud2", "mov qword ptr [{}], 7", in(reg) target.as_ptr()) };
    });
    assert_eq!(target.load(Relaxed), 7);
    let remarks: Vec<_> = trace.remarks().iter().map(|(_, remark)| *remark).collect();
    assert_eq!(remarks, [Remark::SkippedInstruction]);
}

#[test]
fn a_process_without_handlers_starts_and_the_rest_is_recorded_as_missing() {
    #[repr(C)]
    struct Arguments([u64; 8]);
    const FLAGS: u64 = 1 << 32; // CLONE_CLEAR_SIGHAND
    let arguments = Arguments([FLAGS, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0]);
    let target = AtomicU64::new(0);
    let (child, trace) = record(|| {
        // SAFETY: a fork, whose child ends at once.
        let child = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, 64) };
        if child == 0 {
            // SAFETY: ends the process.
            unsafe { libc::_exit(3) };
        }
        target.fetch_add(1, Relaxed);
        child
    });
    let mut status = 0;
    // SAFETY: waits for the child.
    unsafe { libc::waitpid(child as libc::pid_t, &raw mut status, 0) };
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 3,
        "{status:#x}"
    );
    assert_eq!((target.load(Relaxed), writes(&trace, &target)), (1, 0));
    let last = trace.remarks().last().map(|(_, remark)| *remark);
    assert_eq!(last, Some(Remark::SteppingLost));
}

#[test]
fn a_system_call_is_no_caller() {
    let target = AtomicU64::new(0);
    let (_, trace) = record(|| {
        target.fetch_add(1, Relaxed);
        // SAFETY: returns a number.
        unsafe { libc::getppid() };
        target.fetch_add(1, Relaxed);
    });
    let accesses = trace.accesses().iter();
    let adds = accesses.filter(|access| access.address == target.as_ptr() as u64);
    let callers: Vec<_> = adds
        .map(|access| trace.location(access).frames().len())
        .collect();
    assert_eq!(callers, [callers[0]; 2]);
}

#[test]
fn a_recording_inside_of_a_recording_is_an_error() {
    let mut inner = Recorder::with_limit(100).unwrap();
    let cpu = claim();
    let (answer, _) = Recorder::new()
        .unwrap()
        .record(&cpu, || {
            inner
                .record(&cpu, || unreachable!("must not be called"))
                .err()
        })
        .unwrap();
    assert!(matches!(answer, Some(Error::AlreadyTracing)), "{answer:?}");
}

#[test]
fn a_copy_by_the_c_library_is_traced_to_the_last_byte() {
    let from: Vec<u8> = (0..255).collect();
    let mut to = vec![0_u8; 255];
    let start = to.as_mut_ptr() as u64;
    let (_, trace) = record(|| black_box(&mut to[..]).copy_from_slice(black_box(&from)));
    assert_eq!(to, from);
    let written = |at: u64| {
        trace.accesses().iter().any(|access| {
            access.kind == Kind::Store
                && (access.address..access.address + u64::from(access.size)).contains(&at)
        })
    };
    assert!((start..start + 255).all(written));
    assert!(!written(start + 255));
}

#[test]
fn the_heap_is_seen_and_steady_once_it_is_warm() {
    let cpu = claim();
    let mut recorder = Recorder::new().unwrap();
    let mut allocate = || {
        let allocate = || drop(black_box(Box::new([1_u64; 16])));
        recorder.record(&cpu, allocate).unwrap().1
    };
    allocate();
    let (first, second) = (allocate(), allocate());
    assert!(first.is_whole());
    assert!(first == second);
}

#[test]
fn traces_on_several_threads_at_a_time_do_not_mix() {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let target = AtomicU64::new(0);
                for round in 1..=8 {
                    let (_, trace) = record(|| {
                        for _ in 0..round {
                            target.fetch_add(1, Relaxed);
                        }
                    });
                    assert_eq!(writes(&trace, &target), round);
                }
            });
        }
    });
}
