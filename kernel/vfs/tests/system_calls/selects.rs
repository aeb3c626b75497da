//! `select` on eventfds, pipes and files.

use std::time::Duration;

use fdtable::{Fd, FileRef, RawFd};
use fdtable_vfs::event::EventFdFlags;
use fdtable_vfs::{Errno, FdSet, OpenFlags, Process};

use crate::call::Call;

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

fn set_of<const N: usize>(fds: [Fd; N]) -> FdSet {
    let mut set = FdSet::new();
    fds.into_iter().for_each(|fd| set.insert(fd));
    set
}

/// Requests `read` and `write`, and returns the count and the ready ones.
fn select(
    process: &Process,
    (mut read, mut write): (FdSet, FdSet),
    timeout: Option<Duration>,
) -> (Result<usize, Errno>, FdSet, FdSet) {
    let sets = (Some(&mut read), Some(&mut write));
    let count = process.select(1024, sets.0, sets.1, None, timeout);
    (count, read, write)
}

/// Sets as lists of descriptors; an empty set may have words.
fn numbers(set: &FdSet) -> Vec<RawFd> {
    (0..1024).filter(|&fd| set.contains(fd)).collect()
}

#[test]
fn each_set_keeps_what_is_ready() {
    let process = Process::new();
    let [zero, one] = [0, 1].map(|n| process.eventfd(n, EventFdFlags::empty()).unwrap());
    let both = || set_of([zero, one]);
    let (count, read, write) = select(&process, (both(), both()), None);
    assert_eq!(count, Ok(3));
    assert_eq!(numbers(&read), [one.raw()]);
    assert_eq!(numbers(&write), [zero.raw(), one.raw()]);
    let (count, read, _) = select(&process, (set_of([zero]), FdSet::new()), AT_ONCE);
    assert_eq!((count, numbers(&read)), (Ok(0), vec![]));
}

#[test]
fn descriptors_from_nfds_on_are_left_alone() {
    let process = Process::new();
    let fds = [(); 3].map(|()| process.eventfd(1, EventFdFlags::empty()).unwrap());
    let mut read = set_of(fds);
    read.insert(700);
    let below = fds[1].raw();
    let count = process.select(below, Some(&mut read), None, None, None);
    assert_eq!(count, Ok(1));
    assert_eq!(numbers(&read), [0, 1, 2, 700]);
    let negative = process.select(-1, None, None, None, AT_ONCE);
    assert_eq!(negative, Err(Errno::EINVAL));
}

#[test]
fn a_descriptor_that_is_not_open_is_refused_and_nothing_changes() {
    let process = Process::new();
    let fd = process.eventfd(1, EventFdFlags::empty()).unwrap();
    let mut both = set_of([fd]);
    both.insert(70);
    let (count, read, write) = select(&process, (both.clone(), both.clone()), None);
    assert_eq!(count, Err(Errno::EBADF));
    assert_eq!((read, write), (both.clone(), both));
}

#[test]
fn the_end_of_file_is_for_readers_and_a_broken_pipe_for_both() {
    let process = Process::new();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    let call = {
        let process = process.clone();
        Call::start_waiting(move || {
            let set = || set_of([reader]);
            let (count, read, write) = select(&process, (set(), set()), None);
            (count, numbers(&read), numbers(&write))
        })
    };
    process.close(writer).unwrap();
    assert_eq!(call.result(), (Ok(1), vec![reader.raw()], vec![]));
    // End of file alone does not make a file writable.
    let (count, ..) = select(
        &process,
        (FdSet::new(), set_of([reader])),
        Some(Duration::from_millis(5)),
    );
    assert_eq!(count, Ok(0));

    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    process.close(reader).unwrap();
    let set = || set_of([writer]);
    let (count, read, write) = select(&process, (set(), set()), None);
    let both = vec![writer.raw()];
    assert_eq!(
        (count, numbers(&read), numbers(&write)),
        (Ok(2), both.clone(), both)
    );
}

#[test]
fn a_revoked_file_is_ready_for_both() {
    let process = Process::new();
    let fd = process.eventfd(0, EventFdFlags::empty()).unwrap();
    FileRef::revoke(&process.files().get(fd).unwrap());
    let set = || set_of([fd]);
    let (count, ..) = select(&process, (set(), set()), None);
    assert_eq!(count, Ok(2));
    let mut except = set();
    let count = process.select(64, None, None, Some(&mut except), AT_ONCE);
    assert_eq!((count, numbers(&except)), (Ok(0), vec![]));
}

#[test]
fn a_set_has_no_end_and_no_negative_numbers() {
    let mut set = FdSet::new();
    set.insert(-1);
    set.insert(100_000);
    assert!(!set.contains(-1) && set.contains(100_000) && !set.contains(64));
    set.remove(1 << 20);
    set.remove(100_000);
    assert!(!set.contains(100_000));
    assert_eq!(FdSet::from_words(&[1 << 63, 1]).words(), [1 << 63, 1]);
    assert!(FdSet::from_words(&[1 << 63, 1]).contains(64));
}

/// A few random descriptors, or no set. The last descriptor may not be open.
fn random_set(random: &mut fastrand::Rng) -> Option<FdSet> {
    let mut set = FdSet::new();
    for _ in 0..random.usize(0..12) {
        set.insert(random.i32(0..150));
    }
    if random.u8(0..8) == 0 {
        set.insert(random.i32(150..300));
    }
    (random.u8(0..5) > 0).then_some(set)
}

/// A nonblocking call has its own code path, which must find the same.
#[test]
fn a_nonblocking_call_returns_the_same_as_a_blocking_one() {
    let process = Process::new();
    for fd in 0..150 {
        let fd = process.eventfd(fd % 2, EventFdFlags::empty()).unwrap();
        if fd.raw() % 30 == 0 {
            FileRef::revoke(&process.files().get(fd).unwrap());
        }
    }
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..3000 {
        let sets = [(); 3].map(|()| random_set(&mut random));
        let nfds = random.i32(-1..320);
        let [at_once, soon] = [Duration::ZERO, Duration::from_nanos(1)].map(|timeout| {
            let mut left = sets.clone();
            let [read, write, except] = left.each_mut().map(Option::as_mut);
            let count = process.select(nfds, read, write, except, Some(timeout));
            (count, left.map(|set| set.as_ref().map(numbers)))
        });
        assert_eq!(at_once, soon, "{sets:?} below {nfds}");
    }
}
