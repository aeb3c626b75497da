//! Traps that are not the tracer's do what they would do without it. One test, because it is about
//! the handlers of the whole process, before and after the tracer's is there.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::arch::asm;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use conflict_tracer::{CpuId, Recorder, Trace};

static CAUGHT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    CAUGHT.fetch_add(1, Relaxed);
}

fn breakpoint() {
    // SAFETY: whoever handles the trap returns, or ends the process.
    unsafe { asm!("int3") };
}

fn record(operation: fn()) -> Trace {
    let cpu = CpuId::assume(0).unwrap();
    Recorder::with_limit(1000)
        .unwrap()
        .record(&cpu, operation)
        .unwrap()
        .1
}

/// Returns how a child ends that has traced something and then calls `then`.
fn child(then: fn()) -> libc::c_int {
    // SAFETY: the child ends below, without what the parent's other threads have.
    let child = unsafe { libc::fork() };
    if child == 0 {
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
fn traps_of_others_go_where_they_would_have_gone() {
    assert_eq!(child(|| ()), 0);
    let status = child(breakpoint);
    assert!(
        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGTRAP,
        "{status:#x}"
    );

    // SAFETY: the handler adds to a number.
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
}
