//! Waiting for a free descriptor.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use fdtable::{Error, FdFlags, FileRef, Files, RawFd};

const NONE: FdFlags = FdFlags::empty();

/// The count of wake-ups.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Count {
    fn poll(self: &Arc<Self>, files: &Files<u32>) -> Poll<Result<(), Error>> {
        let waker = Waker::from(Arc::clone(self));
        files.poll_until_free(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Fails if `run` does not end: a waiter was not woken.
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

/// Wakes a thread that is parked.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks the calling thread until a descriptor is free.
pub(crate) fn wait_until_free<T: Send + Sync>(files: &Files<T>) -> Result<(), Error> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match files.poll_until_free(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

fn open(files: &Files<u32>) -> Result<RawFd, Error> {
    files.open(FileRef::new(0), NONE).map(RawFd::from)
}

/// Every descriptor below the limit is open.
fn full(limit: u32) -> Files<u32> {
    let files = Files::with_limit(limit);
    for _ in 0..limit {
        open(&files).expect("there is room");
    }
    files
}

#[test]
fn it_is_ready_while_a_number_is_free() {
    for limit in [1, 64, 65, 200] {
        let files = full(limit);
        let count = Arc::new(Count::default());
        drop(files.close(limit.cast_signed() - 1).expect("it is open"));
        assert_eq!(count.poll(&files), Poll::Ready(Ok(())));
        wait_until_free(&files).expect("one is free");
        open(&files).expect("one is free");
        assert!(count.poll(&files).is_pending());
        assert_eq!(count.woken(), 0);
    }
}

type Frees = fn(&Files<u32>);

/// The calls that free a descriptor of a full table: 0 to 199 are open, those from 100 on are
/// closed on exec.
const FREES: &[(&str, Frees)] = &[
    ("close", |files| drop(files.close(70).expect("it is open"))),
    ("take", |files| drop(files.close(3).expect("it is open"))),
    ("close_range", |files| {
        files.close_range(70, 75, drop).expect("in order");
    }),
    ("close_range of a leaf", |files| {
        files.close_range(64, 127, drop).expect("in order");
    }),
    ("close_range of the first leaf", |files| {
        files.close_range(0, 63, drop).expect("in order");
    }),
    ("exec", |files| {
        files.close_on_exec(drop).expect("there is memory");
    }),
    ("set_limit", |files| {
        files.set_limit(201);
    }),
];

fn full_with_flags() -> Files<u32> {
    let files = full(200);
    files.set_cloexec_range(100, u32::MAX).expect("in order");
    files
}

#[test]
fn a_change_that_frees_a_descriptor_wakes_all_waiters() {
    for (name, free) in FREES {
        let parent = full_with_flags();
        let child = parent.fork().expect("there is memory");
        for files in [&parent, &child] {
            let waiters: [Arc<Count>; 3] = Default::default();
            for waiter in &waiters {
                assert!(waiter.poll(files).is_pending(), "{name}");
                assert_eq!(waiter.woken(), 0, "{name}");
            }
            free(files);
            for waiter in &waiters {
                assert_eq!(waiter.woken(), 1, "{name} wakes all");
                assert_eq!(waiter.poll(files), Poll::Ready(Ok(())), "{name}");
            }
        }
    }
}

#[test]
fn a_reservation_that_is_dropped_wakes_waiters_and_one_that_is_installed_frees_nothing() {
    let files: Files<u32> = Files::with_limit(3);
    let first = files.reserve(NONE).expect("there is room");
    let mut both = files.reserve_many(2, NONE).expect("there is room");
    let count = Arc::new(Count::default());
    assert!(count.poll(&files).is_pending());
    first.install(FileRef::new(0));
    assert!(count.poll(&files).is_pending());
    let before = count.woken();
    drop(both.next());
    assert!(count.woken() > before);
    assert!(count.poll(&files).is_ready());
    let one = files.reserve(NONE).expect("one is free");
    assert!(count.poll(&files).is_pending());
    let before = count.woken();
    drop(both);
    assert!(count.woken() > before);
    assert!(count.poll(&files).is_ready());
    drop(one);
}

#[test]
fn a_reservation_that_is_dropped_wakes_waiters() {
    let files: Files<u32> = Files::with_limit(1);
    let reserved = files.reserve(NONE).expect("there is room");
    let count = Arc::new(Count::default());
    assert!(count.poll(&files).is_pending());
    drop(reserved);
    assert_eq!(count.woken(), 1);
}

#[test]
fn what_frees_no_number_below_the_limit_leaves_them_waiting() {
    let files = full_with_flags();
    files.set_limit(100);
    let count = Arc::new(Count::default());
    assert!(count.poll(&files).is_pending());
    drop(files.close(150).expect("it is open"));
    files.dup3(0, 7, NONE).expect("it is open");
    files.set_fd_flags(7, FdFlags::CLOEXEC).expect("it is open");
    files.close_range(190, u32::MAX, drop).expect("in order");
    assert_eq!(files.close(500).map(drop), Err(Error::BadFd));
    drop(files.fork().expect("there is memory"));
    assert!(count.poll(&files).is_pending());
    let before = count.woken();
    drop(files.close(99).expect("it is open"));
    assert!(count.woken() > before);
    assert!(count.poll(&files).is_ready());
}

#[test]
fn a_limit_of_0_has_them_wait_for_another() {
    let files: Files<u32> = Files::with_limit(0);
    let count = Arc::new(Count::default());
    assert!(count.poll(&files).is_pending());
    files.set_limit(1);
    assert_eq!(count.woken(), 1);
    assert!(count.poll(&files).is_ready());
}

#[test]
fn a_woken_waiter_is_not_woken_again_before_it_polls() {
    let files = full(3);
    let count = Arc::new(Count::default());
    assert!(count.poll(&files).is_pending());
    drop(files.close(0).expect("it is open"));
    drop(files.close(1).expect("it is open"));
    assert_eq!(count.woken(), 1);
}

#[test]
fn a_waker_may_use_the_table() {
    struct User(Arc<Files<u32>>);
    impl Wake for User {
        fn wake(self: Arc<Self>) {
            assert_eq!(open(&self.0), Ok(0));
            assert_eq!(self.0.close(0).map(drop), Ok(()));
        }
    }
    within_a_minute(|| {
        let files = Arc::new(full(1));
        let waker = Waker::from(Arc::new(User(Arc::clone(&files))));
        let polled = files.poll_until_free(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop(files.close(0).expect("it is open"));
        assert_eq!(files.open_count(), 0);
    });
}

#[test]
fn a_table_may_end_while_a_task_waits() {
    let files = full(1);
    let count = Arc::new(Count::default());
    assert!(count.poll(&files).is_pending());
    drop(files);
    assert_eq!(Arc::strong_count(&count), 1, "nothing is left behind");
}

#[test]
fn a_child_has_none_of_the_waiters() {
    let files = full(1);
    let count = Arc::new(Count::default());
    assert!(count.poll(&files).is_pending());
    let child = files.fork().expect("there is memory");
    drop(child.close(0).expect("it is open"));
    assert_eq!(count.woken(), 0);
    assert_eq!(open(&child), Ok(0));
}

#[test]
fn whatever_frees_a_number_ends_the_wait_of_a_thread() {
    for (_, free) in FREES {
        for _ in 0..20 {
            within_a_minute(move || {
                let files = full_with_flags();
                thread::scope(|scope| {
                    let waiters = [(); 2].map(|()| scope.spawn(|| wait_until_free(&files)));
                    free(&files);
                    for waiter in waiters {
                        assert_eq!(waiter.join().expect("no panic"), Ok(()));
                    }
                });
            });
        }
    }
}

#[test]
fn no_thread_waits_for_ever_where_there_are_few_numbers() {
    within_a_minute(|| {
        let files: Files<u32> = Files::with_limit(3);
        thread::scope(|scope| {
            for thread in 0..6 {
                let files = &files;
                scope.spawn(move || {
                    let mut opened = 0;
                    while opened < 3000 {
                        let taken = if thread % 2 == 0 {
                            open(files)
                        } else {
                            files.open_any(FileRef::new(0), NONE).map(RawFd::from)
                        };
                        match taken {
                            Ok(fd) => {
                                opened += 1;
                                if opened % 4 == 0 {
                                    thread::yield_now();
                                }
                                drop(files.close(fd).expect("it is this thread's own"));
                            }
                            Err(Error::TooManyFiles) => wait_until_free(files).expect("memory"),
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        assert_eq!(files.open_count(), 0);
    });
}

#[test]
fn no_task_waits_for_ever_where_there_are_few_numbers() {
    within_a_minute(|| {
        let files: Files<u32> = Files::with_limit(2);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let waker = Waker::from(Arc::new(Unpark(thread::current())));
                    let mut context = Context::from_waker(&waker);
                    for _ in 0..3000 {
                        let reservation = loop {
                            if let Ok(reservation) = files.reserve(NONE) {
                                break reservation;
                            }
                            while files.poll_until_free(&mut context).is_pending() {
                                thread::park();
                            }
                        };
                        drop(reservation);
                    }
                });
            }
        });
        assert_eq!(files.open_count(), 0);
    });
}

/// Calls `change` until it does not find a descriptor reserved.
pub(crate) fn patiently<R>(mut change: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
    loop {
        match change() {
            Err(Error::Busy) => thread::yield_now(),
            done => return done,
        }
    }
}

#[test]
fn a_dup3_that_is_tried_again_ends_where_many_reserve_the_same_number() {
    within_a_minute(|| {
        let files: Files<u32> = Files::with_limit(u32::MAX);
        files.open(FileRef::new(7), NONE).expect("there is room");
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..3000 {
                        let reservation = files.reserve(NONE).expect("there is room");
                        reservation.install(FileRef::new(8));
                        _ = files.close(1);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        patiently(|| files.dup3(0, 1, NONE)).expect("it is not busy");
                    }
                });
            }
        });
    });
}

/// The search for a free descriptor removes a leaf, and with it the descriptor that it has found.
#[test]
fn it_is_ready_when_the_free_leaf_is_the_one_that_was_idle_for_longest() {
    const LEAF: RawFd = 64;
    let files = Files::with_limit(1 << 20);
    for _ in 0..13 * LEAF {
        open(&files).expect("there is room");
    }
    let close = |fds: std::ops::Range<RawFd>| {
        fds.for_each(|fd| drop(files.close(fd).expect("it is open")));
    };
    // The hint has leaf 1, which is full, and 11, which is empty.
    close(LEAF..LEAF + 1);
    close(11 * LEAF..11 * LEAF + 1);
    assert_eq!(open(&files), Ok(LEAF));
    close(11 * LEAF + 1..12 * LEAF);
    // Leaf 3 has room, and 2 and 4 to 10 are empty; that of 2 is reported last.
    close(3 * LEAF..3 * LEAF + 1);
    close(4 * LEAF..11 * LEAF);
    close(2 * LEAF..3 * LEAF);
    assert_eq!(Arc::new(Count::default()).poll(&files), Poll::Ready(Ok(())));
}
