//! Reservations of many descriptors at once.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use fdtable::{Error, FdFlags, FileRef, Files, RawFd, Reservations};

use crate::rounds::rounds;

const NONE: FdFlags = FdFlags::empty();

fn numbers(reservations: &Reservations<'_, u32>) -> Vec<RawFd> {
    reservations.fds().iter().map(|fd| fd.raw()).collect()
}

/// The first 200 descriptors are open, but for some.
fn with_holes() -> Files<u32> {
    let files = Files::with_limit(300);
    for _ in 0..200 {
        files.open(FileRef::new(0), NONE).expect("there is room");
    }
    for fd in [190, 5, 64, 130] {
        drop(files.close(fd).expect("it is open"));
    }
    files
}

#[test]
fn the_lowest_numbers_are_taken_in_ascending_order() {
    let files = with_holes();
    let reservations = files.reserve_many(6, NONE).expect("there is room");
    assert_eq!(numbers(&reservations), [5, 64, 130, 190, 200, 201]);
    assert_eq!(reservations.len(), 6);
    assert_eq!(files.open_count(), 202);
    assert_eq!(
        files.iter_from(200).next().map(|(fd, ..)| fd),
        None,
        "nothing is open"
    );
    drop(reservations);
    assert_eq!(files.open_count(), 196);
}

#[test]
fn none_is_taken_where_there_are_too_few() {
    let files = with_holes();
    for count in [105, 106, 300, 301, usize::MAX] {
        let refused = files.reserve_many(count, NONE).map(drop);
        assert_eq!(refused, Err(Error::TooManyFiles), "{count}");
        assert_eq!(files.open_count(), 196);
    }
    let all = files.reserve_many(104, NONE).expect("so many are free");
    assert_eq!(
        files.reserve_many(1, NONE).map(drop),
        Err(Error::TooManyFiles)
    );
    assert_eq!(files.reserve_many(0, NONE).map(|none| none.len()), Ok(0));
    drop(all);
    assert_eq!(files.open(FileRef::new(0), NONE).map(RawFd::from), Ok(5));
}

#[test]
fn more_than_fit_in_one_step_are_all_reserved_or_none() {
    let files: Files<u32> = Files::with_limit(2000);
    for fd in 0..1000 {
        assert_eq!(files.open(FileRef::new(0), NONE).map(RawFd::from), Ok(fd));
    }
    // One free descriptor in each leaf, and room above.
    for fd in (3..1000).step_by(64) {
        drop(files.close(fd).expect("it is open"));
    }
    let free = files.limit() as usize - files.open_count();
    let refused = files.reserve_many(free + 1, NONE).map(drop);
    assert_eq!(refused, Err(Error::TooManyFiles));
    assert_eq!(files.open_count(), 2000 - free, "nothing is left behind");
    let all = files.reserve_many(free, NONE).expect("so many are free");
    let expected = (3..1000).step_by(64).chain(1000..2000);
    assert!(numbers(&all).into_iter().eq(expected));
    drop(all);
    assert_eq!(files.open(FileRef::new(0), NONE).map(RawFd::from), Ok(3));
}

#[test]
fn many_are_reserved_in_a_child_whose_leaves_are_all_shared() {
    let parent: Files<u32> = Files::with_limit(1 << 20);
    for _ in 0..64 * 300 {
        parent.open(FileRef::new(0), NONE).expect("there is room");
    }
    let holes: Vec<RawFd> = (0..300).map(|leaf| leaf * 64 + leaf % 64).collect();
    for &fd in &holes {
        drop(parent.close(fd).expect("it is open"));
    }
    let child = parent.fork().expect("there is memory");
    let both = [&parent, &child].map(|files| {
        let many = files.reserve_many(256, NONE).expect("300 are free");
        numbers(&many)
    });
    assert_eq!(both, [&holes[..256], &holes[..256]]);
}

#[test]
fn each_is_installed_or_given_back_by_itself() {
    let files = with_holes();
    let mut reservations = files
        .reserve_many(5, FdFlags::CLOEXEC)
        .expect("there is room");
    let first = reservations.next().expect("there are five");
    drop(reservations.next());
    assert_eq!(numbers(&reservations), [130, 190, 200]);
    assert_eq!(first.install(FileRef::new(7)).raw(), 5);
    assert_eq!(files.fd_flags(5), Ok(FdFlags::CLOEXEC));
    assert_eq!(files.open(FileRef::new(8), NONE).map(RawFd::from), Ok(64));
    let third = reservations.next().expect("three are left");
    drop(reservations);
    assert_eq!(files.dup3(5, 130, NONE).map(drop), Err(Error::Busy));
    assert_eq!(files.get(5).as_deref(), Ok(&7));
    third.install(FileRef::new(9));
    assert_eq!(files.open(FileRef::new(0), NONE).map(RawFd::from), Ok(190));
    assert_eq!(files.open(FileRef::new(0), NONE).map(RawFd::from), Ok(200));
}

#[test]
fn numbers_of_many_leaves_stay_through_forks() {
    let parent: Files<u32> = Files::with_limit(u32::MAX);
    let reservations = parent.reserve_many(3000, NONE).expect("there is room");
    assert!(numbers(&reservations).into_iter().eq(0..3000));
    let child = parent.fork().expect("there is memory");
    assert_eq!(child.open_count(), 0);
    let of_child = child.reserve_many(200, NONE).expect("there is room");
    let grandchild = child.fork().expect("there is memory");
    for (count, reservation) in reservations.enumerate() {
        if count % 2 == 0 {
            reservation.install(FileRef::new(1));
        }
    }
    assert_eq!((parent.open_count(), child.open_count()), (1500, 200));
    drop(of_child);
    assert_eq!((child.open_count(), grandchild.open_count()), (0, 0));
}

/// Opens and closes in two threads while `run` runs.
fn while_others_open<R>(files: &Files<u32>, run: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let fd = files.open(FileRef::new(0), NONE).expect("there is room");
                    let next = files.open(FileRef::new(0), NONE).expect("there is room");
                    drop(files.close(fd).expect("it is this thread's own"));
                    drop(files.close(next).expect("it is this thread's own"));
                }
            });
        }
        let outcome = run();
        done.store(true, Relaxed);
        outcome
    })
}

#[test]
fn the_order_is_ascending_while_others_open_and_close() {
    let files = Files::with_limit(u32::MAX);
    let disordered = while_others_open(&files, || {
        rounds(2000).find_map(|_| {
            let reservations = files.reserve_many(4, NONE).expect("there is room");
            let fds = numbers(&reservations);
            (!fds.is_sorted()).then_some(fds)
        })
    });
    assert_eq!(disordered, None);
}

#[test]
fn a_refusal_takes_nothing_from_others_not_even_for_a_moment() {
    let files = Files::with_limit(5);
    let _one = files.reserve(NONE).expect("there is room");
    // Two threads have two each at most, so there is room for them at any moment.
    while_others_open(&files, || {
        for _ in rounds(2000) {
            let refused = files.reserve_many(5, NONE).map(drop);
            assert_eq!(refused, Err(Error::TooManyFiles));
        }
    });
}

#[test]
fn nothing_is_lost_while_others_open_and_close() {
    let files = Files::with_limit(100);
    while_others_open(&files, || {
        for round in rounds(1000) {
            let mut reservations = files.reserve_many(90, NONE).expect("so many are free");
            let first = reservations.next().expect("there are 90");
            drop(reservations);
            if round % 2 == 0 {
                let fd = first.install(FileRef::new(0));
                drop(files.close(fd).expect("it is this thread's own"));
            }
        }
    });
    assert_eq!(files.open_count(), 0);
}
