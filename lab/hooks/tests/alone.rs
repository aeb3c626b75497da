//! The library without `std` and without a platform.

#![cfg(not(any(feature = "std", feature = "platform")))]

use fdtable::rcu;

/// What breaks if this is wrong: an author of a kernel looks at a machine that stands still. One
/// test, since a wait counts how often it looks, also for the sections of other tests.
#[test]
fn a_wait_for_itself_is_reported_by_a_debug_build() {
    drop(rcu::read_lock());
    assert_eq!(rcu::synchronize(), Ok(()));
    rcu::defer(|| ());
    assert_eq!(rcu::barrier(), Ok(()));
    let section = rcu::read_lock();
    let waiting = std::panic::catch_unwind(rcu::synchronize);
    let report = waiting.expect_err("it would wait for itself");
    let report = report.downcast_ref::<&str>().expect("a text");
    assert!(report.contains("a grace period does not end"));
    drop(section);
    assert_eq!(rcu::synchronize(), Ok(()));
}
