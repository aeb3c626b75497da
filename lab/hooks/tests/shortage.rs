//! A shortage of memory when the library makes the data of the CPUs.

use fdtable::rcu;
use fdtable_sync::percpu;

/// The callbacks of all CPUs are then in one queue, and in those of the CPUs later. A barrier that
/// begins in between must neither miss some nor wait for more than there are.
#[test]
fn a_barrier_ends_that_began_without_memory() {
    assert!(percpu::copies() > 1, "there are queues to be made");
    drop(rcu::read_lock());
    fdtable_hooks::refuse_data_of_cpus(true);
    for _ in 0..10 {
        rcu::defer(|| ());
    }
    let mut barrier = rcu::Barrier::new();
    let section = rcu::read_lock();
    assert_eq!(barrier.poll(), Err(rcu::WouldDeadlock));
    let other = std::thread::scope(|scope| {
        let poll = || {
            fdtable_hooks::refuse_data_of_cpus(true);
            let is_over = barrier.poll();
            fdtable_hooks::leave();
            is_over
        };
        scope.spawn(poll).join().expect("no panic")
    });
    assert_eq!(other, Ok(false), "a reader is in the way");
    fdtable_hooks::refuse_data_of_cpus(false);
    rcu::defer(|| ());
    drop(section);
    let is_over = (0..1000).any(|_| barrier.poll() == Ok(true));
    assert!(is_over, "it waits for callbacks that nobody has queued");
}
