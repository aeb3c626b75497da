//! Lookups while the table grows: they always find an open descriptor.
//!
//! One thread opens a million descriptors, so that the tree gets its leaves, its nodes and its new
//! roots. Other threads look up the descriptors that were open before, and those that it has
//! published.

#![cfg(not(loom))]

use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

use fastrand::Rng;
use fdtable::{FdFlags, FileRef, Files, RawFd, Rcu, rcu};

const MILLION: RawFd = 1_000_000;
const NONE: FdFlags = FdFlags::empty();

/// Looks up random numbers below the count of those that are open, until all are.
fn look_up(files: &Files<Rcu<&str>>, open: &AtomicI32, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    loop {
        // Acquire: pairs with the release of the thread that opens. A descriptor that it published
        // has been opened before this lookup.
        let count = open.load(Acquire);
        for _ in 0..100 {
            // One of those that were there first, one of the newest, and any.
            for number in [0, count - 1, rng.i32(0..count)] {
                let file = files.get(number).unwrap_or_else(|error| {
                    panic!("{number} of {count} is open, and not found: {error}")
                });
                assert_eq!(**file, "one for all");
                let section = rcu::read_lock();
                assert!(
                    files.get_rcu(number, &section).is_ok(),
                    "{number} of {count}"
                );
                assert_eq!(files.fd_flags(number), Ok(NONE), "{number} of {count}");
            }
        }
        if count == MILLION {
            return;
        }
    }
}

#[test]
fn what_is_open_is_found_while_the_table_grows_to_a_million() {
    let files = Files::with_limit(u32::MAX);
    files
        .open(FileRef::new_rcu("one for all"), NONE)
        .expect("there is room");
    let open = AtomicI32::new(1);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (files, open) = (&files, &open);
            scope.spawn(move || look_up(files, open, seed));
        }
        for number in 1..MILLION {
            let fd = files.dup(0).expect("there is room");
            assert_eq!(fd.raw(), number);
            // Release: see `look_up`.
            open.store(number + 1, Release);
        }
    });
    assert_eq!(files.open_count(), MILLION as usize);
}

/// A root goes over the root at each of these, many times over.
#[test]
fn what_is_open_is_found_while_the_tree_gets_new_roots() {
    for _ in 0..300 {
        let files = Files::with_limit(u32::MAX);
        files
            .open(FileRef::new_rcu("one for all"), NONE)
            .expect("there is room");
        thread::scope(|scope| {
            scope.spawn(|| {
                for far in [63, 64, 32_767, 32_768, (1 << 24) - 1, 1 << 24, RawFd::MAX] {
                    files.dup3(0, far, NONE).expect("it is free");
                    assert!(files.get(far).is_ok());
                }
            });
            while files.get(RawFd::MAX).is_err() {
                assert!(files.get(0).is_ok(), "it was open before");
            }
        });
    }
}
