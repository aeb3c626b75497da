//! Uses of the hooks of a platform by the library.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};
use fdtable_hooks::{WANTS_TICK, entered_locks, taken_in, taken_lines};
use fdtable_sync::platform::keep_cpu;
use fdtable_sync::{fence, percpu};

const NONE: FdFlags = FdFlags::empty();

/// Runs a test on a thread of its own, after the others: callbacks of all tests are in the same
/// queues.
fn alone(test: impl FnOnce() + Send) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let of_test = || {
        test();
        assert_eq!(entered_locks(), 0, "as many locks were left as entered");
        fdtable_hooks::leave();
    };
    std::thread::scope(|scope| scope.spawn(of_test).join()).expect("the test passes");
}

/// What breaks if this is wrong: the other tests of this package test the library on `std`.
#[test]
fn the_library_is_on_the_platform() {
    alone(|| {
        drop(rcu::read_lock());
        assert!(fence::prepare());
        let kept = keep_cpu();
        assert_eq!(entered_locks(), 1);
        drop(kept);
        assert!(percpu::copies() >= std::thread::available_parallelism().map_or(1, usize::from));
    });
}

#[test]
fn a_wait_for_itself_is_refused() {
    alone(|| {
        let section = rcu::read_lock();
        assert_eq!(rcu::synchronize(), Err(rcu::WouldDeadlock));
        assert_eq!(rcu::barrier(), Err(rcu::WouldDeadlock));
        drop(section);
        assert_eq!(rcu::synchronize(), Ok(()));
        let reader = rcu::qsbr::Reader::online();
        assert_eq!(rcu::synchronize(), Err(rcu::WouldDeadlock));
        drop(reader);
        rcu::defer(|| assert_eq!(rcu::barrier(), Err(rcu::WouldDeadlock)));
        assert_eq!(rcu::barrier(), Ok(()));
    });
}

#[test]
fn a_lookup_may_be_inside_of_a_quiescent_state_reader() {
    alone(|| {
        let files: Files<Rcu<u64>> = Files::new();
        let fd = files
            .open(FileRef::new_rcu(7), NONE)
            .expect("there is room");
        let mut reader = rcu::qsbr::Reader::online();
        assert_eq!(*files.get_rcu(fd, &reader.guard()).expect("open"), 7);
        reader.quiescent();
        assert_eq!(*files.get_rcu(fd, &reader.guard()).expect("open"), 7);
    });
}

#[test]
fn the_first_open_takes_two_pages_at_most() {
    alone(|| {
        let ((files, fd), taken) = taken_in(|| {
            let files: Files<u64> = Files::new();
            let fd = files.open(FileRef::new(7), NONE).expect("there is memory");
            (files, fd)
        });
        let bytes: usize = taken.iter().map(|layout| layout.size()).sum();
        let align = taken.iter().map(|layout| layout.align()).max();
        // Of each CPU a line or two in three places.
        let per_cpu = 512 * percpu::copies();
        assert!(bytes <= 4096 + 1024 + per_cpu, "{bytes} bytes: {taken:?}");
        assert!(align <= Some(4096), "{taken:?}");
        drop((files, fd));
    });
}

/// What breaks if this is wrong: the records of ended threads add up, and each grace period reads
/// them.
#[test]
fn a_thread_that_ends_returns_its_record() {
    alone(|| {
        let many = || {
            for _ in 0..100 {
                let thread = std::thread::spawn(|| {
                    drop(rcu::read_lock());
                    fdtable_hooks::leave();
                });
                thread.join().expect("it ends");
            }
        };
        many();
        let before = taken_lines();
        many();
        assert_eq!(taken_lines(), before);
    });
}

/// What breaks if this is wrong: the record of the handler stays claimed forever.
#[test]
fn a_handler_that_interrupts_the_first_section_leaves_one_record() {
    fn handler() {
        drop(rcu::read_lock());
    }
    alone(|| {
        let many = |first_use: fn()| {
            for _ in 0..50 {
                let thread = std::thread::spawn(move || {
                    fdtable_hooks::interrupt(handler);
                    first_use();
                    fdtable_hooks::leave();
                });
                thread.join().expect("it ends");
            }
        };
        let section = || drop(rcu::read_lock());
        let reader = || drop(rcu::qsbr::Reader::online());
        let both = || {
            many(section);
            many(reader);
        };
        both();
        let before = taken_lines();
        both();
        assert_eq!(taken_lines(), before);
    });
}

#[test]
fn a_tick_is_asked_for_once_until_it_comes() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, SeqCst);
        }
    }
    alone(|| {
        let files: Files<Rcu<Counted>> = Files::new();
        while rcu::tick().expect("outside of sections") {}
        WANTS_TICK.store(false, SeqCst);
        let close_one = || {
            let fd = files
                .open(FileRef::new_rcu(Counted), NONE)
                .expect("there is room");
            drop(files.close(fd).expect("open"));
        };
        close_one();
        assert!(WANTS_TICK.swap(false, SeqCst));
        close_one();
        assert!(
            !WANTS_TICK.load(SeqCst),
            "the first one was not answered yet"
        );
        while rcu::tick().expect("outside of sections") {}
        assert_eq!(DROPPED.load(SeqCst), 2);
        WANTS_TICK.store(false, SeqCst);
        close_one();
        assert!(WANTS_TICK.load(SeqCst));
    });
}

/// Wakes a thread that is parked.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_thread_that_waits_for_a_descriptor_is_woken() {
    alone(|| {
        let files: Files<u64> = Files::with_limit(1);
        for round in 0..100 {
            let fd = files.open(FileRef::new(round), NONE).expect("it is free");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
                    let mut context = Context::from_waker(&waker);
                    while files.poll_until_free(&mut context).is_pending() {
                        std::thread::park();
                    }
                    fdtable_hooks::leave();
                });
                if round % 2 == 0 {
                    std::thread::yield_now();
                }
                drop(files.close(fd).expect("open"));
            });
        }
    });
}

/// What breaks if this is wrong: a callback that uses the table waits for the fork that runs it.
#[test]
fn a_fork_runs_no_callbacks_with_the_lock_of_the_parent() {
    static ENTERED: AtomicUsize = AtomicUsize::new(0);
    alone(|| {
        let files: Files<u64> = Files::new();
        for number in 0..64 {
            files
                .open(FileRef::new(number), NONE)
                .expect("there is room");
        }
        let reserved = files.reserve(NONE).expect("there is room");
        drop(files.fork().expect("there is memory"));
        // Callbacks run when 64 have gathered, and a fork frees some nodes.
        for before in 40..64 {
            rcu::barrier().expect("outside of sections");
            for _ in 0..before {
                rcu::defer(|| _ = ENTERED.fetch_max(entered_locks(), SeqCst));
            }
            drop(files.fork().expect("there is memory"));
        }
        drop(reserved);
        rcu::barrier().expect("outside of sections");
        assert_eq!(ENTERED.load(SeqCst), 0, "a lock was held in a callback");
    });
}

/// What breaks if this is wrong: a slab is a page in a kernel, which large objects do not fit into.
#[test]
fn objects_of_all_sizes_are_made() {
    fn of<const SIZE: usize>() {
        let files: Files<[u8; SIZE]> = Files::new();
        let fds: Vec<_> = (0..200_u8)
            .map(|byte| {
                files
                    .open(FileRef::new([byte; SIZE]), NONE)
                    .expect("there is memory")
            })
            .collect();
        for (byte, fd) in (0..).zip(fds) {
            let file = files.get(fd).expect("open");
            assert!(file.iter().all(|&there| there == byte));
            drop(files.close(fd).expect("open"));
        }
    }
    alone(|| {
        of::<0>();
        of::<1>();
        of::<200>();
        of::<1000>();
        of::<1900>();
        of::<2048>();
        of::<2500>();
        of::<3900>();
        of::<4096>();
        of::<10_000>();
    });
}
