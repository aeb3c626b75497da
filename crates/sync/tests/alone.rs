//! Frees of the only thread that reads. In a process of its own, so that there is no other one.

#![cfg(not(loom))]

use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::thread;

use fdtable_sync::fence;
use fdtable_sync::rcu::{self, Effect, Head, read_lock};

/// How many callbacks have run.
static RAN: AtomicUsize = AtomicUsize::new(0);

/// Returns how many callbacks run inside of a call that queues one.
fn ran_by_call() -> usize {
    unsafe fn run(head: NonNull<Head>) {
        // SAFETY: the box was leaked below, and the callback is invoked once.
        drop(unsafe { Box::from_raw(head.as_ptr()) });
        RAN.fetch_add(1, SeqCst);
    }
    let head = NonNull::from(Box::leak(Box::new(Head::new(run))));
    let before = RAN.load(SeqCst);
    // SAFETY: it stays until its callback frees it, which any thread may do.
    unsafe { rcu::call(Effect::FreesMemory, head) };
    RAN.load(SeqCst) - before
}

/// Memory stays queued that was freed beside a reader which has left, or the reader's thread is
/// counted for good.
#[test]
fn memory_is_freed_at_once_without_other_readers() {
    if !fence::prepare() {
        // Readers take full fences, and no thread knows that it is alone.
        return;
    }
    drop(read_lock());
    assert_eq!(ran_by_call(), 1);

    let outer = read_lock();
    assert_eq!(ran_by_call(), 0, "inside of a section");
    let inner = read_lock();
    drop(outer);
    assert_eq!(
        ran_by_call(),
        0,
        "inside of a section that another began in"
    );
    drop(inner);
    assert_eq!(ran_by_call(), 1);

    let reader = rcu::qsbr::Reader::online();
    assert_eq!(ran_by_call(), 0, "beside a quiescent-state reader");
    drop(reader);
    assert_eq!(ran_by_call(), 1);

    let (tell, hear) = mpsc::channel();
    let (end, wait) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        drop(read_lock());
        tell.send(()).expect("the test hears");
        let _ = wait.recv();
    });
    hear.recv().expect("the thread tells");
    assert_eq!(ran_by_call(), 0, "beside another reader");
    drop(end);
    other.join().expect("it ends");
    assert_eq!(ran_by_call(), 1);
    rcu::barrier().expect("outside of sections");
    assert_eq!(RAN.load(SeqCst), 8);

    const QUEUED: usize = 30_000;
    let reader = rcu::qsbr::Reader::online();
    let beside: usize = (0..QUEUED).map(|_| ran_by_call()).sum();
    assert_eq!(beside, 0);
    drop(reader);
    let ran: usize = (0..20 * QUEUED).map(|_| ran_by_call()).sum();
    // A few that are queued last may stay.
    assert!(ran > 20 * QUEUED + QUEUED / 2, "{ran} ran");
}
