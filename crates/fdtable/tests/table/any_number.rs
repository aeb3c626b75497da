//! Any free descriptor: which ones an open may return, and when none is left.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use fastrand::Rng;
use fdtable::{Error, FdFlags, FileRef, Files, RawFd};
use fdtable_sync::percpu;

const NONE: FdFlags = FdFlags::empty();

fn any(files: &Files<u32>) -> Result<RawFd, Error> {
    files.open_any(FileRef::new(0), NONE).map(RawFd::from)
}

fn lowest(files: &Files<u32>) -> Result<RawFd, Error> {
    files.open(FileRef::new(0), NONE).map(RawFd::from)
}

/// Upper bound of the descriptors while that many are taken.
fn bound(taken: usize) -> RawFd {
    let processors = percpu::copies();
    (taken + 64 * (processors + 2)) as RawFd
}

#[test]
fn the_file_is_open_under_the_number_with_its_flags() {
    let files = Files::new();
    for file in 0..200 {
        let flags = if file % 2 == 0 {
            FdFlags::CLOEXEC
        } else {
            NONE
        };
        let fd = files
            .open_any(FileRef::new(file), flags)
            .expect("there is room");
        assert_eq!(files.get(fd).as_deref(), Ok(&file));
        assert_eq!(files.fd_flags(fd), Ok(flags));
    }
    files.close_on_exec(drop).expect("there is memory");
    assert_eq!(files.open_count(), 100);
}

#[test]
fn every_number_below_the_limit_is_given_once_and_then_it_is_emfile() {
    for limit in [0, 1, 2, 63, 64, 65, 128, 129, 500, 1024] {
        let files = Files::with_limit(limit);
        let given: BTreeSet<RawFd> = (0..limit)
            .map(|_| any(&files).expect("one is free"))
            .collect();
        assert!(given.into_iter().eq(0..limit.cast_signed()));
        assert_eq!(any(&files), Err(Error::TooManyFiles));
        assert_eq!(lowest(&files), Err(Error::TooManyFiles));
        // An open finds every freed descriptor.
        for fd in (0..limit.cast_signed()).rev().step_by(7) {
            drop(files.close(fd).expect("it is open"));
            assert_eq!(any(&files), Ok(fd));
        }
        assert_eq!(any(&files), Err(Error::TooManyFiles));
    }
}

#[test]
fn a_file_that_finds_no_number_is_released_at_once() {
    static RELEASED: AtomicUsize = AtomicUsize::new(0);
    let files = Files::with_limit(0);
    let file = FileRef::builder(0)
        .on_release(|_: &u32, _| _ = RELEASED.fetch_add(1, Relaxed))
        .build();
    assert_eq!(files.open_any(file, NONE), Err(Error::TooManyFiles));
    assert_eq!(RELEASED.load(Relaxed), 1);
}

#[test]
fn reserved_numbers_are_not_given() {
    let files = Files::with_limit(200);
    let reserved = files.reserve_many(100, NONE).expect("there is room");
    for _ in 0..100 {
        assert!(any(&files).expect("one is free") >= 100);
    }
    assert_eq!(any(&files), Err(Error::TooManyFiles));
    drop(reserved);
    assert!(any(&files).expect("one is free") < 100);
}

/// Reserves any descriptor, and installs a file there.
fn reserved(files: &Files<u32>) -> Result<RawFd, Error> {
    let reserved = files.reserve_any(FdFlags::CLOEXEC)?;
    assert_eq!(files.get(reserved.fd()).err(), Some(Error::BadFd));
    Ok(reserved.install(FileRef::new(1)).raw())
}

#[test]
fn reservations_and_opens_share_a_claimed_leaf() {
    for limit in [0, 1, 64, 65, 500] {
        let files = Files::with_limit(limit);
        let given: BTreeSet<RawFd> = (0..limit)
            .map(|count| match count % 2 {
                0 => reserved(&files),
                _ => any(&files),
            })
            .map(|fd| fd.expect("one is free"))
            .collect();
        assert!(given.into_iter().eq(0..limit.cast_signed()));
        let full = files.reserve_any(NONE).map(drop);
        assert_eq!(full, Err(Error::TooManyFiles));
    }
    let files = Files::with_limit(u32::MAX);
    for taken in 0..2_000 {
        let fd = reserved(&files).expect("there is room");
        assert!(fd < bound(taken + 1), "{fd} with {taken} taken");
        assert_eq!(files.fd_flags(fd), Ok(FdFlags::CLOEXEC));
    }
    // Also where the leaf that is claimed has room.
    files.set_limit(1);
    while let Ok(fd) = reserved(&files) {
        assert_eq!(fd, 0);
    }
}

#[test]
fn a_reservation_in_a_claimed_leaf_stays_out_of_a_fork() {
    let files = Files::with_limit(1000);
    let first = any(&files).expect("there is room");
    let child = files.fork().expect("there is memory");
    let kept = files.reserve_any(NONE).expect("there is room");
    let both = files.fork().expect("there is memory");
    assert_eq!(files.open_count(), 2);
    assert_eq!((child.open_count(), both.open_count()), (1, 1));
    assert!(both.get(first).is_ok());
    let fd = kept.install(FileRef::new(7));
    assert_eq!(files.get(fd).as_deref(), Ok(&7));
    assert_eq!(child.get(fd).err(), Some(Error::BadFd));
    drop(files.reserve_any(NONE).expect("there is room"));
    assert_eq!(files.open_count(), 2);
}

#[test]
fn a_lower_limit_holds_also_where_numbers_are_claimed() {
    let files = Files::with_limit(1000);
    for _ in 0..300 {
        any(&files).expect("one is free");
    }
    for limit in [700, 100, 65, 64, 1] {
        files.set_limit(limit);
        while let Ok(fd) = any(&files) {
            assert!(fd < limit.cast_signed());
        }
        assert_eq!(lowest(&files), Err(Error::TooManyFiles));
    }
}

#[test]
fn numbers_are_no_sparser_than_documented() {
    let files = Files::with_limit(u32::MAX);
    for taken in 0..20_000 {
        let fd = any(&files).expect("there is room");
        assert!(fd < bound(taken + 1), "{fd} with {taken} taken");
    }
}

#[test]
fn numbers_are_below_the_bound_of_the_most_that_were_taken_at_once() {
    let files = Files::with_limit(u32::MAX);
    let mut rng = Rng::with_seed(1);
    let mut open = Vec::new();
    let mut most = 0;
    for round in 0..40_000 {
        let wanted = [500, 5000, 50][round / 1000 % 3];
        if open.len() < wanted && rng.u8(..) < 200 {
            let fd = if rng.u8(..) < 30 {
                lowest(&files)
            } else {
                any(&files)
            };
            let fd = fd.expect("there is room");
            open.push(fd);
            most = most.max(open.len());
            assert!(fd < bound(most), "{fd} with {most} taken at most");
        } else if !open.is_empty() {
            let gone = open.swap_remove(rng.usize(0..open.len()));
            drop(files.close(gone).expect("it is open"));
        }
    }
}

#[test]
fn an_open_gets_the_lowest_beside_opens_of_any() {
    let files = Files::with_limit(u32::MAX);
    let mut taken = BTreeSet::new();
    let mut rng = Rng::with_seed(2);
    for _ in 0..20_000 {
        match rng.u8(0..8) {
            0..3 => assert!(taken.insert(any(&files).expect("there is room"))),
            3..5 => {
                let fd = lowest(&files).expect("there is room");
                let free = taken.iter().zip(0..).find(|&(&fd, count)| fd != count);
                let expected = free.map_or(taken.len() as RawFd, |(_, count)| count);
                assert_eq!(fd, expected);
                taken.insert(fd);
            }
            _ => {
                let some = taken.range(rng.i32(0..2000)..).next().copied();
                if let Some(fd) = some {
                    drop(files.close(fd).expect("it is open"));
                    taken.remove(&fd);
                }
            }
        }
    }
    assert_eq!(files.open_count(), taken.len());
}

#[test]
fn a_child_gives_any_number_too() {
    let parent = Files::with_limit(400);
    for _ in 0..200 {
        any(&parent).expect("one is free");
    }
    let child = parent.fork().expect("there is memory");
    for files in [&parent, &child] {
        let given = std::iter::from_fn(|| any(files).ok()).count();
        assert_eq!(given, 200);
        assert_eq!(files.open_count(), 400);
    }
}

#[test]
fn threads_get_every_number_below_the_limit_once() {
    const LIMIT: u32 = 1000;
    for _ in 0..20 {
        let files = Files::with_limit(LIMIT);
        let mut given: Vec<RawFd> = thread::scope(|scope| {
            let take_all = || std::iter::from_fn(|| any(&files).ok()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take_all)).collect();
            let each = threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"));
            each.flatten().collect()
        });
        given.sort_unstable();
        assert!(given.into_iter().eq(0..LIMIT.cast_signed()));
    }
}

#[test]
fn nobody_is_refused_while_there_is_a_number_for_each() {
    const THREADS: usize = 4;
    const EACH: usize = 70;
    let files = Files::with_limit((THREADS * EACH) as u32);
    let owners: Vec<AtomicUsize> = (0..THREADS * EACH).map(|_| AtomicUsize::new(0)).collect();
    thread::scope(|scope| {
        for seed in 0..THREADS as u64 {
            let (files, owners) = (&files, &owners);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed);
                let mut mine = Vec::new();
                for _ in 0..20_000 {
                    if mine.len() < EACH && rng.bool() {
                        let lowest_wanted = rng.u8(..) < 40;
                        let fd = if lowest_wanted {
                            lowest(files)
                        } else {
                            any(files)
                        };
                        let fd = fd.expect("one is free for each");
                        assert_eq!(owners[fd as usize].swap(1, Relaxed), 0, "{fd}");
                        mine.push(fd);
                    } else if !mine.is_empty() {
                        let fd = mine.swap_remove(rng.usize(0..mine.len()));
                        owners[fd as usize].store(0, Relaxed);
                        drop(files.close(fd).expect("it is this thread's own"));
                    }
                }
            });
        }
    });
}
