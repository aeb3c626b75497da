//! Processes that share memory: the heap, statics, locks, and deaths of owners.
//!
//! Each test runs in a process of its own, which has one thread when it begins.

use std::alloc::System;
use std::process::ExitCode;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use fdtable_shm::{Heap, Mutex, OnceCell, RwLock, begin, enter, forget_thread, leave};

#[global_allocator]
static HEAP: Heap<System> = Heap(System);

#[unsafe(link_section = "fdt_shared")]
static SHARED: AtomicU32 = AtomicU32::new(7);

static PRIVATE: AtomicU32 = AtomicU32::new(7);

/// A test by its name.
type Test = (&'static str, fn());

const TESTS: &[Test] = &[
    (
        "statics of the section are shared, others are copied",
        statics,
    ),
    (
        "what is allocated inside is shared, the rest is copied",
        heap,
    ),
    (
        "objects are freed by another process, and used again",
        frees,
    ),
    ("blocks of all sizes keep their contents", sizes),
    ("processes exclude each other", exclusion),
    ("each unlock wakes a thread that sleeps", wakeups),
    ("a cell is filled once by all processes", fillings),
    ("a cell is filled after a filler has died", dead_filler),
    ("a lock passes from a dead owner", dead_owner),
    ("a lock of a dead writer is free", dead_writer),
    ("a private lock has no other owner", threads),
];

fn main() -> ExitCode {
    let mut failed = 0;
    for (name, test) in TESTS {
        let ok = in_child(test) == 0;
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        failed += usize::from(!ok);
    }
    let (word, passed) = match failed {
        0 => ("ok", TESTS.len()),
        _ => ("FAILED", TESTS.len() - failed),
    };
    println!("\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored");
    ExitCode::from(u8::from(failed > 0))
}

/// Runs `work` in a child, and returns how that has ended: 0 for well.
fn in_child(work: impl FnOnce()) -> i32 {
    wait(start(work))
}

/// Starts `work` in a child.
fn start(work: impl FnOnce()) -> i32 {
    // SAFETY: the process has one thread, or the others hold nothing that the child needs.
    match unsafe { libc::fork() } {
        0 => {
            forget_thread();
            // A test that waits forever ends by the signal.
            // SAFETY: it takes an integer.
            unsafe { libc::alarm(60) };
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: it takes an integer.
            unsafe { libc::_exit(result.is_err().into()) }
        }
        id => id,
    }
}

fn wait(id: i32) -> i32 {
    let mut status = 0;
    // SAFETY: there is room for the status.
    assert_eq!(unsafe { libc::waitpid(id, &raw mut status, 0) }, id);
    status
}

fn share() {
    // SAFETY: the process has one thread, and there is no kernel.
    unsafe { begin() }.expect("there is memory");
}

fn statics() {
    SHARED.store(1, SeqCst);
    share();
    assert_eq!(SHARED.load(SeqCst), 1, "the contents stay");
    let in_one = in_child(|| {
        SHARED.store(2, SeqCst);
        PRIVATE.store(2, SeqCst);
    });
    assert_eq!(in_one, 0);
    assert_eq!((SHARED.load(SeqCst), PRIVATE.load(SeqCst)), (2, 7));
}

fn fillings() {
    share();
    let made = shared_counter();
    for _ in 0..20 {
        let _inside = enter();
        let cell: &'static OnceCell<u32> = Box::leak(Box::new(OnceCell::new()));
        made.store(0, SeqCst);
        // One that finds another at the filling is woken by it.
        let children = [(); 4].map(|()| {
            start(move || {
                let value = cell.get_or_init(|| {
                    std::thread::sleep(Duration::from_millis(5));
                    made.fetch_add(1, SeqCst) + 1
                });
                assert_eq!(*value, 1);
            })
        });
        assert_eq!(children.map(wait), [0; 4]);
        assert_eq!((cell.get(), made.load(SeqCst)), (Some(&1), 1));
    }
}

/// Makes a shared counter that stays.
fn shared_counter() -> &'static AtomicU32 {
    let _inside = enter();
    Box::leak(Box::new(AtomicU32::new(0)))
}

fn heap() {
    share();
    let inside = shared_counter();
    let outside: &AtomicU32 = {
        let _inside = enter();
        let _outside = leave();
        Box::leak(Box::new(AtomicU32::new(0)))
    };
    let end = in_child(|| {
        inside.store(1, SeqCst);
        outside.store(1, SeqCst);
    });
    assert_eq!(end, 0);
    assert_eq!((inside.load(SeqCst), outside.load(SeqCst)), (1, 0));
}

fn frees() {
    share();
    let boxed = {
        let _inside = enter();
        Box::into_raw(Box::new([5_u8; 200]))
    };
    let end = in_child(|| {
        // SAFETY: leaked above, and the parent does not use it any more.
        drop(unsafe { Box::from_raw(boxed) });
    });
    assert_eq!(end, 0);
    let _inside = enter();
    let again = Box::new([6_u8; 200]);
    assert!(ptr::eq(&raw const *again, boxed), "the block is free again");
}

fn sizes() {
    share();
    let _inside = enter();
    let made: Vec<Vec<u8>> = (0..22)
        .flat_map(|shift| [(1 << shift) - 1, 1 << shift, (1 << shift) + 1])
        .map(|size| vec![(size % 251) as u8; size])
        .collect();
    let mut grown: Vec<u8> = Vec::new();
    for number in 0..300_000_u32 {
        grown.push((number % 251) as u8);
    }
    let right = |bytes: &[u8]| bytes.iter().all(|&byte| byte == (bytes.len() % 251) as u8);
    let check = || {
        assert!(made.iter().all(|bytes| right(bytes)));
        assert!(
            grown
                .iter()
                .zip(0_u32..)
                .all(|(&byte, n)| u32::from(byte) == n % 251)
        );
    };
    check();
    assert_eq!(in_child(check), 0);
}

fn exclusion() {
    share();
    let count: &Mutex<(u64, u64)> = {
        let _inside = enter();
        Box::leak(Box::new(Mutex::new((0, 0))))
    };
    let work = || {
        for _ in 0..50_000 {
            let mut pair = count.lock();
            pair.0 += 1;
            pair.1 += 1;
            assert_eq!(pair.0, pair.1);
        }
    };
    let children = [start(work), start(work), start(work)];
    assert!(children.into_iter().all(|child| wait(child) == 0));
    assert_eq!(count.lock().0, 150_000);
}

/// A process holds a lock for longer than another one looks, and then until that has had it. If an
/// unlock woke none, the other one would sleep for a tenth of a second each time.
fn wakeups() {
    const ROUNDS: u32 = 100;
    share();
    let (held, taken) = (shared_counter(), shared_counter());
    let lock: &Mutex<()> = {
        let _inside = enter();
        Box::leak(Box::new(Mutex::new(())))
    };
    let await_round = |of: &AtomicU32, round| {
        while of.load(SeqCst) < round {
            std::thread::yield_now();
        }
    };
    let child = start(|| {
        for round in 1..=ROUNDS {
            await_round(held, round);
            drop(lock.lock());
            taken.store(round, SeqCst);
        }
    });
    let begin = Instant::now();
    for round in 1..=ROUNDS {
        let guard = lock.lock();
        held.store(round, SeqCst);
        std::thread::sleep(Duration::from_millis(3));
        drop(guard);
        await_round(taken, round);
    }
    assert_eq!(wait(child), 0);
    let time = begin.elapsed();
    assert!(time < Duration::from_secs(5), "{time:?}");
}

/// Kills a child when it has set the flag.
fn kill(child: i32, is_there: &AtomicU32) {
    let until = Instant::now() + Duration::from_secs(60);
    while is_there.load(SeqCst) == 0 && Instant::now() < until {
        std::thread::yield_now();
    }
    // SAFETY: it takes integers.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
}

fn dead_owner() {
    share();
    let is_there = shared_counter();
    let lock: &Mutex<u32> = {
        let _inside = enter();
        Box::leak(Box::new(Mutex::new(1)))
    };
    let child = start(|| {
        *lock.lock() = 2;
        let _held = lock.lock();
        is_there.store(1, SeqCst);
        std::thread::sleep(Duration::from_secs(100));
    });
    kill(child, is_there);
    // It is not reaped: a zombie has no lock either.
    assert_eq!(*lock.lock(), 2);
    assert_ne!(wait(child), 0);
}

fn dead_filler() {
    share();
    let is_there = shared_counter();
    let cell: &OnceCell<u32> = {
        let _inside = enter();
        Box::leak(Box::new(OnceCell::new()))
    };
    let child = start(|| {
        cell.get_or_init(|| {
            is_there.store(1, SeqCst);
            std::thread::sleep(Duration::from_secs(100));
            1
        });
    });
    kill(child, is_there);
    assert_eq!(cell.get(), None);
    assert_eq!(*cell.get_or_init(|| 2), 2);
    assert_eq!(cell.set(3), Err(3));
    assert_ne!(wait(child), 0);
}

fn dead_writer() {
    share();
    let is_there = shared_counter();
    let lock: &RwLock<u32> = {
        let _inside = enter();
        Box::leak(Box::new(RwLock::new(1)))
    };
    let child = start(|| {
        let _held = lock.write();
        is_there.store(1, SeqCst);
        std::thread::sleep(Duration::from_secs(100));
    });
    kill(child, is_there);
    assert_eq!(*lock.read(), 1);
    *lock.write() = 3;
    assert_ne!(wait(child), 0);
}

fn threads() {
    let lock = RwLock::new((0_u64, 0_u64));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    {
                        let mut pair = lock.write();
                        pair.0 += 1;
                        pair.1 += 1;
                    }
                    let pair = lock.read();
                    assert_eq!(pair.0, pair.1);
                }
            });
        }
    });
    assert_eq!(lock.read().0, 60_000);
}
