//! Uses of a descriptor, and closes that wait for them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use fdtable::{Error, FdFlags, FileRef, Files, RawFd};

use crate::rounds::rounds;

const NONE: FdFlags = FdFlags::empty();

/// The first leaf, another, and where the tree is higher.
const NUMBERS: [RawFd; 4] = [0, 63, 64, 40_000];

/// A table with one file under all descriptors, and its release count.
fn files() -> (Files<u32>, Arc<AtomicUsize>) {
    let released = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&released);
    let files = Files::with_limit(u32::MAX);
    let file = FileRef::builder(7)
        .on_release(move |_, _| _ = count.fetch_add(1, Relaxed))
        .build();
    files.open(file, NONE).expect("there is room");
    for fd in &NUMBERS[1..] {
        files.dup3(0, *fd, NONE).expect("there is room");
    }
    (files, released)
}

/// Fails if `run` does not end: a thread waits for a use that no thread has begun.
fn within_a_minute(run: impl FnOnce() + Send + 'static) {
    let (done, all_done) = channel();
    let other = thread::spawn(move || {
        run();
        done.send(()).expect("the test waits");
    });
    let outcome = all_done.recv_timeout(Duration::from_secs(60));
    assert!(
        outcome.is_ok() || other.is_finished(),
        "a thread still waits"
    );
    other.join().expect("no panic");
}

#[test]
fn a_use_has_the_number_and_the_file_also_when_it_is_closed() {
    let (files, released) = files();
    let used = files.begin_use(64).expect("it is open");
    assert_eq!((used.fd().raw(), *used.file(), *used), (64, 7, 7));
    files.close_range(0, u32::MAX, drop).expect("in order");
    assert_eq!(*used, 7);
    assert_eq!(released.load(Relaxed), 0);
    drop(used);
    assert_eq!(released.load(Relaxed), 1);
}

#[test]
fn a_number_that_is_not_open_cannot_be_used_nor_closed() {
    let (files, _) = files();
    let reservation = files.reserve(NONE).expect("there is room");
    for fd in [-1, RawFd::MIN, 5, 1000, RawFd::MAX, reservation.fd().raw()] {
        assert_eq!(files.begin_use(fd).map(drop), Err(Error::BadFd), "{fd}");
        assert_eq!(files.close_and_wait(fd), Err(Error::BadFd), "{fd}");
    }
}

#[test]
fn a_close_that_nobody_uses_is_as_any_other() {
    let (files, released) = files();
    for fd in NUMBERS {
        drop(files.begin_use(fd).expect("it is open"));
        assert_eq!(files.close_and_wait(fd), Ok(()));
        assert_eq!(files.close_and_wait(fd), Err(Error::BadFd));
        assert_eq!(files.close(fd).map(drop), Err(Error::BadFd));
    }
    assert_eq!((files.open_count(), released.load(Relaxed)), (0, 1));
    assert_eq!(files.open(FileRef::new(8), NONE).map(RawFd::from), Ok(0));
}

#[test]
fn a_close_waits_for_every_use_of_the_number() {
    for fd in NUMBERS {
        within_a_minute(move || {
            let (files, released) = files();
            NUMBERS
                .iter()
                .filter(|&&other| other != fd)
                .for_each(|&other| drop(files.close(other).expect("it is open")));
            let ended = AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..3 {
                    let used = files.begin_use(fd).expect("it is open");
                    let (files, ended, released) = (&files, &ended, &released);
                    scope.spawn(move || {
                        while files.get(fd).is_ok() {
                            thread::yield_now();
                        }
                        // The close has begun, and waits.
                        assert_eq!(files.begin_use(fd).map(drop), Err(Error::BadFd));
                        assert_eq!(files.close(fd).map(drop), Err(Error::BadFd));
                        assert_eq!(files.close_and_wait(fd), Err(Error::BadFd));
                        let other = files.open(FileRef::new(8), NONE).expect("there is room");
                        assert_ne!(other.raw(), fd);
                        assert_eq!(files.dup3(other, fd, NONE).map(drop), Err(Error::Busy));
                        assert_eq!(*used, 7);
                        assert_eq!(released.load(Relaxed), 0);
                        ended.fetch_add(1, Release);
                        drop(used);
                    });
                }
                files.close_and_wait(fd).expect("it is open");
                assert_eq!(ended.load(Acquire), 3, "it has waited for all");
                let copy = files.reserve_from(fd, NONE).expect("there is room");
                assert_eq!(copy.fd().raw(), fd, "it is free");
            });
            assert_eq!(released.load(Relaxed), 1);
        });
    }
}

#[test]
fn no_use_has_the_file_when_the_close_has_returned() {
    for _ in rounds(500) {
        let (files, released) = files();
        files.close_range(1, u32::MAX, drop).expect("in order");
        let used = files.begin_use(0).expect("it is open");
        thread::scope(|scope| {
            scope.spawn(move || drop(used));
            files.close_and_wait(0).expect("it is open");
            assert_eq!(released.load(Relaxed), 1);
        });
    }
}

#[test]
fn a_close_waits_for_uses_of_the_number_alone() {
    within_a_minute(|| {
        let (files, _) = files();
        let child = files.fork().expect("there is memory");
        // The same file under another descriptor, by reference, and in another table.
        let _other = files.begin_use(63).expect("it is open");
        let _owned = files.get(0).expect("it is open");
        let _of_child = child.begin_use(0).expect("it is open");
        files.close_and_wait(0).expect("it is open");
        assert!(child.get(0).is_ok());
    });
}

#[test]
fn other_closes_do_not_wait() {
    let (files, _) = files();
    let _uses = NUMBERS.map(|fd| files.begin_use(fd).expect("it is open"));
    drop(files.close(0).expect("it is open"));
    drop(files.close(63).expect("it is open"));
    files.close_range(64, u32::MAX, drop).expect("in order");
    assert_eq!(files.open_count(), 0);
}

#[test]
fn a_use_is_one_of_the_number_also_when_its_file_was_replaced() {
    within_a_minute(|| {
        let (files, _) = files();
        let used = files.begin_use(64).expect("it is open");
        let new = files.open(FileRef::new(8), NONE).expect("there is room");
        files.dup3(new, 64, NONE).expect("both are open");
        assert_eq!((*used, *files.get(64).expect("it is open")), (7, 8));
        let ended = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while files.get(64).is_ok() {
                    thread::yield_now();
                }
                ended.store(1, Release);
                drop(used);
            });
            files.close_and_wait(64).expect("it is open");
            assert_eq!(ended.load(Acquire), 1);
        });
    });
}

#[test]
fn dup_to_waiting_waits_for_the_close() {
    within_a_minute(|| {
        let (files, _) = files();
        let used = files.begin_use(64).expect("it is open");
        thread::scope(|scope| {
            let closer = scope.spawn(|| files.close_and_wait(64));
            while files.get(64).is_ok() {
                thread::yield_now();
            }
            let copier = scope.spawn(|| files.dup3_waiting(0, 64, NONE));
            drop(used);
            assert_eq!(closer.join().expect("no panic"), Ok(()));
            let copied = copier.join().expect("no panic").map(drop);
            assert_eq!(copied, Ok(()));
        });
        assert!(files.get(64).is_ok());
    });
}

#[test]
fn a_child_that_is_forked_meanwhile_has_the_number_free() {
    within_a_minute(|| {
        let (files, _) = files();
        let used = files.begin_use(64).expect("it is open");
        thread::scope(|scope| {
            let closer = scope.spawn(|| files.close_and_wait(64));
            while files.get(64).is_ok() {
                thread::yield_now();
            }
            let child = files.fork().expect("there is memory");
            assert_eq!(child.open_count(), NUMBERS.len() - 1);
            child.dup3(0, 64, NONE).expect("it is free");
            drop(used);
            assert_eq!(closer.join().expect("no panic"), Ok(()));
            assert!(child.get(64).is_ok());
        });
    });
}

#[test]
fn nobody_uses_a_number_after_its_close_has_returned() {
    for _ in rounds(5) {
        within_a_minute(|| {
            const SHARED: RawFd = 70;
            let (files, _) = files();
            let users = AtomicUsize::new(0);
            thread::scope(|scope| {
                let closing = AtomicUsize::new(1);
                let closing = Arc::new(closing);
                for _ in 0..3 {
                    let (files, users) = (&files, &users);
                    let closing = Arc::clone(&closing);
                    scope.spawn(move || {
                        while closing.load(Relaxed) == 1 {
                            if let Ok(used) = files.begin_use(SHARED) {
                                // One use after another, each of its own opening.
                                users.fetch_add(1, Relaxed);
                                thread::yield_now();
                                users.fetch_sub(1, Release);
                                drop(used);
                            }
                        }
                    });
                }
                for _ in 0..100 {
                    files.dup3(0, SHARED, NONE).expect("it is free");
                    thread::yield_now();
                    files.close_and_wait(SHARED).expect("it is open");
                    assert_eq!(users.load(Acquire), 0, "all uses have ended");
                }
                closing.store(0, Relaxed);
            });
        });
    }
}
