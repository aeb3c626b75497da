//! Memory goes back: a table that was large and is small again keeps little, and tables that are
//! gone keep nothing.
//!
//! All that is allocated is counted, in the heap and in slabs, so the tests of this file run one
//! after the other.

#![cfg(not(loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicIsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use fastrand::Rng;
use fdtable::{FdFlags, FileRef, Files, RawFd, rcu};
use fdtable_slab::{self as slab, Info};

/// The system's allocator, and how many bytes it has given out.
struct Counting;

static BYTES: AtomicIsize = AtomicIsize::new(0);

fn count(bytes: usize, sign: isize) {
    // Relaxed: a sum. The reader has joined the threads that add.
    BYTES.fetch_add(bytes.cast_signed() * sign, Relaxed);
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NONE: FdFlags = FdFlags::empty();
const MANY: RawFd = 200_000;
const FEW: RawFd = 100;

/// A table may keep that much more than one that never was large: the leaves on freed-leaf lists
/// that no search has drained yet, 16 for each CPU, and the nodes above them. It had two megabytes.
const LITTLE: isize = 128 * 1024;

/// Bytes that the runner of tests may take meanwhile, and that a thread leaves for the next one.
const NOISE: isize = 4 * 1024;

/// Checks that nothing is left of what was allocated since.
fn check_back_at(before: isize) {
    let left = bytes() - before;
    assert!(left <= NOISE, "{left} bytes are left");
}

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Make now what exists once: the readers' list, the pools.
    drop(large());
    settle();
    guard
}

/// Has all that waits for readers freed.
fn settle() {
    rcu::barrier().expect("outside of sections");
}

fn bytes() -> isize {
    settle();
    let in_slabs: usize = slab::infos().iter().map(Info::bytes_in_use).sum();
    BYTES.load(Relaxed) + in_slabs.cast_signed()
}

/// One file under all these numbers.
fn with(count: RawFd) -> Files<()> {
    let files = Files::with_limit(u32::MAX);
    files
        .open(FileRef::new(()), FdFlags::CLOEXEC)
        .expect("there is room");
    for _ in 1..count {
        let file = files.get(0).expect("it is open");
        files.open(file, FdFlags::CLOEXEC).expect("there is room");
    }
    files
}

fn large() -> Files<()> {
    with(MANY)
}

/// Has `shrink` close all but a hundred, and checks what the table keeps.
fn check(shrink: impl FnOnce(&Files<()>)) {
    let _alone = alone();
    let before = bytes();
    let files = large();
    let grown = bytes() - before;
    assert!(grown > 1 << 20, "it is large: {grown} bytes");
    shrink(&files);
    assert_eq!(files.open_count(), FEW as usize);
    let kept = bytes() - before;
    drop(files);
    check_back_at(before);
    let small = with(FEW);
    let needed = bytes() - before;
    drop(small);
    assert!(
        kept <= needed + LITTLE,
        "{kept} bytes are kept, {needed} needed"
    );
}

fn close_all(files: &Files<()>, numbers: impl IntoIterator<Item = RawFd>) {
    for fd in numbers {
        drop(files.close(fd).expect("it is open"));
    }
}

#[test]
fn it_keeps_little_when_it_was_emptied_from_below() {
    check(|files| close_all(files, 0..MANY - FEW));
}

#[test]
fn it_keeps_little_when_it_was_emptied_from_above() {
    check(|files| close_all(files, (FEW..MANY).rev()));
}

#[test]
fn it_keeps_little_when_it_was_emptied_in_any_order() {
    check(|files| {
        let mut numbers: Vec<RawFd> = (FEW..MANY).collect();
        Rng::with_seed(1).shuffle(&mut numbers);
        close_all(files, numbers);
    });
}

#[test]
fn it_keeps_little_after_close_range() {
    check(|files| {
        files
            .close_range(FEW.cast_unsigned(), u32::MAX, drop)
            .expect("in order");
    });
    check(|files| {
        files
            .close_range(0, (MANY - FEW - 1).cast_unsigned(), drop)
            .expect("in order");
    });
    // In pieces that are no leaves.
    check(|files| {
        for first in (FEW..MANY).step_by(50) {
            let last = (first + 49).min(MANY - 1);
            let (first, last) = (first.cast_unsigned(), last.cast_unsigned());
            files.close_range(first, last, drop).expect("in order");
        }
    });
}

#[test]
fn it_keeps_little_after_exec() {
    check(|files| {
        for fd in 0..FEW {
            files.set_fd_flags(fd, NONE).expect("it is open");
        }
        files.close_on_exec(drop).expect("there is memory");
    });
}

#[test]
fn it_keeps_little_when_several_threads_emptied_it() {
    check(|files| {
        thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let mine = (FEW + thread..MANY).step_by(4);
                    let mut mine: Vec<RawFd> = mine.collect();
                    if thread % 2 == 0 {
                        Rng::with_seed(1).shuffle(&mut mine);
                    }
                    close_all(files, mine);
                });
            }
        });
    });
}

#[test]
fn it_keeps_little_when_it_was_emptied_while_others_opened() {
    check(|files| {
        thread::scope(|scope| {
            scope.spawn(|| close_all(files, (FEW..MANY).rev()));
            scope.spawn(|| {
                for _ in 0..1000 {
                    let file = files.get(0).expect("it is open");
                    let fd = files.open_any(file, NONE).expect("there is room");
                    drop(files.close(fd).expect("it is open"));
                }
            });
        });
    });
}

#[test]
fn it_keeps_little_when_its_numbers_were_any() {
    let _alone = alone();
    let before = bytes();
    let files = with(1);
    let numbers: Vec<RawFd> = (1..MANY)
        .map(|_| {
            let file = files.get(0).expect("it is open");
            files.open_any(file, NONE).expect("there is room").raw()
        })
        .collect();
    close_all(&files, numbers.iter().copied());
    drop(numbers);
    let kept = bytes() - before;
    assert!(kept <= LITTLE, "{kept} bytes are kept");
    drop(files);
    check_back_at(before);
}

#[test]
fn it_keeps_little_when_reservations_were_dropped() {
    let _alone = alone();
    let before = bytes();
    let files = with(1);
    drop(files.reserve_many(5000, NONE).expect("there is room"));
    let kept = bytes() - before;
    assert!(kept <= LITTLE, "{kept} bytes are kept");
    drop(files);
    check_back_at(before);
}

/// Opens so many, and closes them, but for the first.
fn burst(files: &Files<()>) {
    let file = files.get(0).expect("it is open");
    for _ in 0..300 {
        files.open(file.clone(), NONE).expect("there is room");
    }
    close_all(files, 1..=300);
    // The next search drains the lists.
    let fd = files.open(file, NONE).expect("there is room");
    drop(files.close(fd).expect("it is open"));
}

#[test]
fn the_leaves_of_a_burst_are_there_for_the_next() {
    let _alone = alone();
    let files = with(1);
    burst(&files);
    let before = bytes();
    for _ in 0..300 {
        let file = files.get(0).expect("it is open");
        files.open(file, NONE).expect("there is room");
    }
    let made = bytes() - before;
    assert!(made < 1024, "{made} bytes are made anew");
}

#[test]
fn a_child_does_not_get_the_leaves_of_a_burst() {
    let _alone = alone();
    let files = with(1);
    let before = bytes();
    burst(&files);
    let kept = bytes() - before;
    let child = files.fork().expect("there is memory");
    let left = bytes() - before;
    drop(child);
    assert!(
        left < kept - 1024,
        "{kept} bytes were kept, and {left} are left"
    );
}

#[test]
fn a_fork_takes_little_until_one_of_the_tables_is_written() {
    let _alone = alone();
    let parent = large();
    let before = bytes();
    let child = parent.fork().expect("there is memory");
    let taken = bytes() - before;
    assert!(taken <= 16 * 1024, "{taken} bytes are taken");
    child.close_range(0, u32::MAX, drop).expect("in order");
    let left = bytes() - before;
    assert!(
        left <= 16 * 1024,
        "{left} bytes are taken by what is closed"
    );
    drop(child);
    check_back_at(before);
}

#[test]
fn generations_that_are_gone_keep_nothing() {
    let _alone = alone();
    let before = bytes();
    // More often than noise could hide a leaf of each round.
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let mut family = vec![with(1000)];
        for generation in 1..12 {
            let parent = &family[rng.usize(0..generation)];
            let child = parent.fork().expect("there is memory");
            for files in [parent, &child] {
                for _ in 0..50 {
                    _ = files.close(rng.i32(1..1000));
                }
            }
            drop(parent.reserve_from(900, NONE).expect("there is room"));
            if generation % 3 == 0 {
                child.close_range(100, 800, drop).expect("in order");
            }
            family.push(child);
        }
        while !family.is_empty() {
            drop(family.swap_remove(rng.usize(0..family.len())));
        }
    }
    check_back_at(before);
}

#[test]
fn words_waiters_and_quarantine_keep_nothing() {
    let _alone = alone();
    let before = bytes();
    let files = with(500);
    for fd in 0..500 {
        files.set_word(fd, 9).expect("it is open");
    }
    let child = files.fork().expect("there is memory");
    child.set_quarantine(100).expect("there is memory");
    child.close_range(0, u32::MAX, drop).expect("in order");
    let waker = std::task::Waker::noop();
    child.set_limit(0);
    let waits = child.poll_until_free(&mut std::task::Context::from_waker(waker));
    assert!(waits.is_pending());
    drop(files);
    drop(child);
    check_back_at(before);
}

/// Checks that closes of all descriptors free most leaves while quarantine is on, whose numbers are
/// at most 1,024.
fn check_that_most_leaves_go(close: impl FnOnce(&Files<()>, RawFd)) {
    const LEAVES: RawFd = 400;
    let _alone = alone();
    let files = with(LEAVES * 64);
    let full = bytes();
    files.set_quarantine(1_000_000).expect("there is memory");
    close(&files, LEAVES * 64);
    rcu::barrier().expect("outside of sections");
    // 16 leaves have numbers that wait; 16 empty ones for each CPU, and some that are idle, stay.
    let freed = full - bytes();
    let leaf = 600;
    assert!(
        freed > LEAVES as isize / 2 * leaf,
        "{freed} bytes are freed"
    );
}

#[test]
fn closes_beyond_a_full_quarantine_give_memory_back() {
    check_that_most_leaves_go(|files, end| close_all(files, 0..end));
}

#[test]
fn a_close_range_beyond_a_full_quarantine_gives_memory_back() {
    check_that_most_leaves_go(|files, _| {
        files
            .close_range(0, u32::MAX, drop)
            .expect("there is memory");
    });
}

#[test]
fn a_child_does_not_get_leaves_that_are_on_freed_leaf_lists() {
    let _alone = alone();
    let files = with(1);
    let before = bytes();
    for _ in 0..300 {
        let file = files.get(0).expect("it is open");
        files.open(file, NONE).expect("there is room");
    }
    close_all(&files, 1..=300);
    drop(files.fork().expect("there is memory"));
    // The next search drains the lists, and finds no leaf that is not the table's own.
    let file = files.get(0).expect("it is open");
    let fd = files.open(file, NONE).expect("there is room");
    drop(files.close(fd).expect("it is open"));
    drop(files.fork().expect("there is memory"));
    let left = bytes() - before;
    assert!(left < 4096 + 4096 + 1024, "{left} bytes are left");
}

/// The memory of closes inside sections, which slabs give back to the system.
#[cfg(all(target_os = "linux", feature = "slab"))]
mod closed_inside_sections {
    use super::{FdFlags, FileRef, Files, NONE, Relaxed, alone, rcu};
    use fdtable::Rcu;
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;

    /// Memory that may wait for a grace period: some batches.
    const SOME_BATCHES: usize = 4 << 20;

    /// Bytes of memory that the process has.
    fn resident() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("it is mounted");
        let resident = pages.split(' ').nth(1).expect("the second figure");
        resident.parse::<usize>().expect("a number") * 4096
    }

    /// Opens and closes many files, each pair in a section of its own, as a kernel does in which
    /// each call is a section. Checks that the process does not grow.
    fn check_churn() {
        let files = Files::new();
        let before = resident();
        for _ in 0..200_000 {
            let _section = rcu::read_lock();
            let fd = files.open(FileRef::new([0; 16]), NONE);
            drop(files.close(fd.expect("there is room")).expect("it is open"));
        }
        let grown = resident().saturating_sub(before);
        assert!(grown <= SOME_BATCHES, "{grown} bytes");
    }

    /// The memory grows without bound.
    #[test]
    fn files_are_freed() {
        let _alone = alone();
        check_churn();
    }

    /// A callback that may run outside of sections alone keeps back the memory queued behind it.
    #[test]
    fn a_callback_that_runs_code_keeps_nothing_back() {
        let _alone = alone();
        rcu::defer(|| ());
        check_churn();
    }

    /// `Drop` of an object runs inside a section, where it must not block.
    #[test]
    fn objects_are_dropped_outside_of_sections() {
        static INSIDE: AtomicUsize = AtomicUsize::new(0);
        std::thread_local! {
            static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
        }
        struct Object;
        impl Drop for Object {
            fn drop(&mut self) {
                INSIDE.fetch_add(usize::from(IS_INSIDE.get()), Relaxed);
            }
        }
        let _alone = alone();
        let files: Files<Rcu<Object>> = Files::new();
        for _ in 0..50_000 {
            let _section = rcu::read_lock();
            IS_INSIDE.set(true);
            let fd = files.open(FileRef::new_rcu(Object), NONE);
            drop(files.close(fd.expect("there is room")).expect("it is open"));
            IS_INSIDE.set(false);
        }
        assert_eq!(INSIDE.load(Relaxed), 0, "drops inside a section");
    }

    /// The objects are free after a barrier, but the slabs that they were in are not.
    #[test]
    fn one_barrier_frees_slabs_too() {
        let _alone = alone();
        let files = Files::with_limit(u32::MAX);
        let before = resident();
        let section = rcu::read_lock();
        for _ in 0..300_000 {
            let file = FileRef::new([0; 16]);
            files.open(file, FdFlags::CLOEXEC).expect("there is room");
        }
        files.close_range(0, u32::MAX, drop).expect("in order");
        let grown = resident() - before;
        assert!(grown > 4 * SOME_BATCHES, "{grown} bytes for all of them");
        drop(section);
        rcu::barrier().expect("outside of sections");
        let left = resident().saturating_sub(before);
        assert!(left <= SOME_BATCHES, "{left} bytes are left");
    }
}
