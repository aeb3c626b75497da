use std::sync::Barrier;

use fdtable::{Fd, FdFlags};
use fdtable_vfs::event::{EpollCreateFlags, EventFdFlags};
use fdtable_vfs::{
    CloneFlags, CloseRangeFlags, Errno, FileLock, FlockOperation, LockFrom, LockKind, LockOwner,
    LockWait, OpenFlags, Process,
};

use crate::call::{Call, within_time};

const OWN: LockOwner = LockOwner::Process;
const OFD: LockOwner = LockOwner::OpenFile;

fn open(process: &Process) -> Fd {
    let flags = OpenFlags::CREAT | OpenFlags::RDWR;
    process.open("db", flags).unwrap()
}

/// A process with an open file, and a child that has opened the same file separately.
fn two() -> (Process, Process, Fd) {
    let one = Process::new();
    let fd = open(&one);
    let other = one.fork().unwrap();
    other.close(fd).unwrap();
    assert_eq!(open(&other), fd);
    (one, other, fd)
}

fn lock(process: &Process, fd: Fd, kind: LockKind, start: i64, length: i64) -> Result<(), Errno> {
    let lock = FileLock::new(kind, start, length);
    process.fcntl_setlk(fd, OWN, lock, LockWait::No)
}

fn lock_waiting(process: &Process, fd: Fd, start: i64) -> Result<(), Errno> {
    let lock = FileLock::new(LockKind::Write, start, 1);
    process.fcntl_setlk(fd, OWN, lock, LockWait::Yes)
}

fn is_free(process: &Process, fd: Fd) -> bool {
    let all = FileLock::new(LockKind::Write, 0, 0);
    process.fcntl_getlk(fd, OWN, all).unwrap().kind == LockKind::Unlock
}

#[test]
fn a_record_lock_conflicts_with_overlapping_ones_of_another_process() {
    let (one, other, fd) = two();
    lock(&one, fd, LockKind::Write, 10, 10).unwrap();
    assert_eq!(lock(&other, fd, LockKind::Read, 19, 1), Err(Errno::EAGAIN));
    assert_eq!(lock(&other, fd, LockKind::Read, 20, 0), Ok(()));
    assert_eq!(lock(&one, fd, LockKind::Write, 0, 0), Err(Errno::EAGAIN));
    let found = one.fcntl_getlk(fd, OWN, FileLock::new(LockKind::Write, 0, 0));
    let expected = FileLock {
        pid: other.id(),
        ..FileLock::new(LockKind::Read, 20, 0)
    };
    assert_eq!(found, Ok(expected));
    lock(&one, fd, LockKind::Unlock, 0, 0).unwrap();
    assert_eq!(lock(&other, fd, LockKind::Write, 0, 0), Ok(()));
}

#[test]
fn getlk_without_a_conflict_returns_the_request() {
    let (one, _, fd) = two();
    let asked = FileLock {
        from: LockFrom::End,
        ..FileLock::new(LockKind::Read, 3, 4)
    };
    let free = FileLock {
        kind: LockKind::Unlock,
        ..asked
    };
    assert_eq!(one.fcntl_getlk(fd, OWN, asked), Ok(free));
}

#[test]
fn offsets_count_from_the_position_and_from_the_end() {
    let (one, other, fd) = two();
    one.write(fd, &[0; 100]).unwrap();
    one.pwrite(fd, &[0; 50], 100).unwrap();
    let from = |from| FileLock {
        from,
        ..FileLock::new(LockKind::Write, -10, 5)
    };
    one.fcntl_setlk(fd, OWN, from(LockFrom::Current), LockWait::No)
        .unwrap();
    one.fcntl_setlk(fd, OWN, from(LockFrom::End), LockWait::No)
        .unwrap();
    let first = |start| {
        let asked = FileLock::new(LockKind::Read, start, 0);
        let found = other.fcntl_getlk(fd, OWN, asked).unwrap();
        (found.start, found.length)
    };
    assert_eq!((first(0), first(95)), ((90, 5), (140, 5)));
}

#[test]
fn the_access_mode_decides_which_locks_are_allowed() {
    let process = Process::new();
    open(&process);
    let reader = process.open("db", OpenFlags::RDONLY).unwrap();
    let writer = process.open("db", OpenFlags::WRONLY).unwrap();
    assert_eq!(
        lock(&process, reader, LockKind::Write, 0, 1),
        Err(Errno::EBADF)
    );
    assert_eq!(
        lock(&process, writer, LockKind::Read, 0, 1),
        Err(Errno::EBADF)
    );
    assert_eq!(lock(&process, reader, LockKind::Unlock, 0, 1), Ok(()));
    let (pipe, _) = process.pipe2(OpenFlags::empty()).unwrap();
    assert_eq!(lock(&process, pipe, LockKind::Read, 0, 1), Ok(()));
    assert_eq!(
        lock(&process, pipe, LockKind::Write, 0, 1),
        Err(Errno::EBADF)
    );
}

#[test]
fn closing_any_descriptor_of_the_file_ends_the_locks_of_the_process() {
    type Close = fn(&mut Process, Fd);
    let closes: [Close; 5] = [
        |process, fd| process.close(fd).unwrap(),
        |process, fd| {
            let (pipe, _) = process.pipe2(OpenFlags::empty()).unwrap();
            process.dup2(pipe, fd).unwrap();
        },
        |process, fd| {
            let number = fd.raw() as u32;
            process
                .close_range(number, number, CloseRangeFlags::empty())
                .unwrap();
        },
        |process, fd| {
            process.set_flags(fd, FdFlags::CLOEXEC).unwrap();
            process.exec().unwrap();
        },
        |process, _| *process = Process::new(),
    ];
    for close in closes {
        let (mut one, other, fd) = two();
        let second = open(&one);
        lock(&one, fd, LockKind::Write, 0, 9).unwrap();
        assert!(!is_free(&other, fd));
        close(&mut one, second);
        assert!(is_free(&other, fd));
    }
}

#[test]
fn closing_in_another_process_ends_nothing() {
    let (one, other, fd) = two();
    lock(&one, fd, LockKind::Write, 0, 9).unwrap();
    let child = one.fork().unwrap();
    assert!(!is_free(&child, fd), "a child inherits no locks");
    child.close(fd).unwrap();
    drop(child);
    assert!(!is_free(&other, fd));
    let task = one.clone_with(CloneFlags::FILES).unwrap();
    assert!(is_free(&task, fd), "the locks are the table's");
    drop(one);
    assert!(!is_free(&other, fd));
    drop(task);
    assert!(is_free(&other, fd));
}

#[test]
fn a_waiting_lock_is_set_at_the_unlock() {
    let (one, other, fd) = two();
    lock(&one, fd, LockKind::Write, 0, 0).unwrap();
    let waiter = other.clone();
    let call = Call::start_waiting(move || lock_waiting(&waiter, fd, 5));
    lock(&one, fd, LockKind::Unlock, 6, 0).unwrap();
    call.assert_waiting();
    lock(&one, fd, LockKind::Unlock, 5, 1).unwrap();
    assert_eq!(call.result(), Ok(()));
    assert_eq!(lock(&one, fd, LockKind::Read, 5, 1), Err(Errno::EAGAIN));
}

#[test]
fn a_downgrade_wakes_readers() {
    let (one, other, fd) = two();
    lock(&one, fd, LockKind::Write, 0, 0).unwrap();
    let read = FileLock::new(LockKind::Read, 0, 0);
    let call = Call::start_waiting(move || other.fcntl_setlk(fd, OWN, read, LockWait::Yes));
    lock(&one, fd, LockKind::Read, 0, 0).unwrap();
    assert_eq!(call.result(), Ok(()));
}

#[test]
fn a_cycle_of_waits_is_refused_and_the_rest_goes_on() {
    let (one, two, fd) = two();
    let three = one.fork().unwrap();
    lock(&one, fd, LockKind::Write, 1, 1).unwrap();
    lock(&two, fd, LockKind::Write, 2, 1).unwrap();
    lock(&three, fd, LockKind::Write, 3, 1).unwrap();
    let (first, second) = (one.clone(), two.clone());
    let one_waits = Call::start_waiting(move || lock_waiting(&first, fd, 2));
    let two_waits = Call::start_waiting(move || lock_waiting(&second, fd, 3));
    let last = three.clone();
    let refused = Call::start(move || lock_waiting(&last, fd, 1)).result();
    assert_eq!(refused, Err(Errno::EDEADLK));
    lock(&three, fd, LockKind::Unlock, 3, 1).unwrap();
    assert_eq!(two_waits.result(), Ok(()));
    lock(&two, fd, LockKind::Unlock, 0, 0).unwrap();
    assert_eq!(one_waits.result(), Ok(()));
}

#[test]
fn a_cycle_through_two_files_is_refused() {
    let (one, other, fd) = two();
    let flags = OpenFlags::CREAT | OpenFlags::RDWR;
    let index = one.open("index", flags).unwrap();
    assert_eq!(other.open("index", flags), Ok(index));
    lock(&one, fd, LockKind::Write, 0, 1).unwrap();
    lock(&other, index, LockKind::Write, 0, 1).unwrap();
    let waiter = one.clone();
    let call = Call::start_waiting(move || lock_waiting(&waiter, index, 0));
    let last = other.clone();
    let refused = Call::start(move || lock_waiting(&last, fd, 0)).result();
    assert_eq!(refused, Err(Errno::EDEADLK));
    other.close(index).unwrap();
    assert_eq!(call.result(), Ok(()));
}

#[test]
fn locks_of_open_files_end_with_the_last_descriptor() {
    let process = Process::new();
    let (one, other) = (open(&process), open(&process));
    let write = FileLock::new(LockKind::Write, 0, 0);
    let set = |fd| process.fcntl_setlk(fd, OFD, write, LockWait::No);
    set(one).unwrap();
    assert_eq!(set(other), Err(Errno::EAGAIN));
    assert_eq!(
        lock(&process, other, LockKind::Read, 7, 1),
        Err(Errno::EAGAIN)
    );
    assert_eq!(process.fcntl_getlk(other, OFD, write).unwrap().pid, -1);
    let copy = process.dup(one).unwrap();
    let child = process.fork().unwrap();
    process.close(one).unwrap();
    assert_eq!(child.fcntl_setlk(copy, OFD, write, LockWait::No), Ok(()));
    process.close(copy).unwrap();
    assert_eq!(set(other), Err(Errno::EAGAIN));
    drop(child);
    assert_eq!(set(other), Ok(()));
    let with_pid = FileLock { pid: 1, ..write };
    assert_eq!(
        process.fcntl_setlk(other, OFD, with_pid, LockWait::No),
        Err(Errno::EINVAL)
    );
}

#[test]
fn flock_locks_belong_to_open_files_and_ignore_record_locks() {
    let process = Process::new();
    let (one, other) = (open(&process), open(&process));
    let try_shared = FlockOperation::SHARED | FlockOperation::NONBLOCK;
    let try_exclusive = FlockOperation::EXCLUSIVE | FlockOperation::NONBLOCK;
    process.flock(one, FlockOperation::SHARED).unwrap();
    process.flock(other, try_shared).unwrap();
    assert_eq!(process.flock(one, try_exclusive), Err(Errno::EAGAIN));
    // The shared lock of `one` was released when it asked for more.
    assert_eq!(process.flock(other, try_exclusive), Ok(()));
    assert_eq!(lock(&process, one, LockKind::Write, 0, 0), Ok(()));
    let copy = process.dup(other).unwrap();
    process.close(other).unwrap();
    assert_eq!(process.flock(one, try_shared), Err(Errno::EAGAIN));
    process.flock(copy, FlockOperation::UNLOCK).unwrap();
    assert_eq!(process.flock(one, try_exclusive), Ok(()));
    let both = FlockOperation::SHARED | FlockOperation::EXCLUSIVE;
    assert_eq!(process.flock(one, both), Err(Errno::EINVAL));
    assert_eq!(
        process.flock(one, FlockOperation::NONBLOCK),
        Err(Errno::EINVAL)
    );
}

#[test]
fn a_directory_can_be_locked() {
    let process = Process::new();
    process.mkdir("queue").unwrap();
    let open = || process.open("queue", OpenFlags::DIRECTORY).unwrap();
    let (one, other) = (open(), open());
    process.flock(one, FlockOperation::EXCLUSIVE).unwrap();
    let shared = FlockOperation::SHARED | FlockOperation::NONBLOCK;
    assert_eq!(process.flock(other, shared), Err(Errno::EAGAIN));
}

#[test]
fn a_waiting_flock_is_set_when_the_holder_closes() {
    let process = Process::new();
    let (one, other) = (open(&process), open(&process));
    process.flock(one, FlockOperation::EXCLUSIVE).unwrap();
    let waiter = process.clone();
    let call = Call::start_waiting(move || waiter.flock(other, FlockOperation::EXCLUSIVE));
    process.close(one).unwrap();
    assert_eq!(call.result(), Ok(()));
}

#[test]
fn a_revocation_ends_locks_and_waits() {
    let (one, other, fd) = two();
    lock(&one, fd, LockKind::Write, 0, 0).unwrap();
    one.flock(fd, FlockOperation::EXCLUSIVE).unwrap();
    let (records, whole) = (other.clone(), other);
    let calls = [
        Call::start_waiting(move || lock_waiting(&records, fd, 0)),
        Call::start_waiting(move || whole.flock(fd, FlockOperation::SHARED)),
    ];
    one.revoke("db").unwrap();
    for call in calls {
        assert_eq!(call.result(), Err(Errno::EIO));
    }
    let again = open(&one);
    assert_eq!(lock(&one, again, LockKind::Write, 0, 0), Ok(()));
    assert!(is_free(&one, again));
    assert_eq!(
        one.flock(again, FlockOperation::EXCLUSIVE | FlockOperation::NONBLOCK),
        Ok(())
    );
}

#[test]
fn a_lock_that_is_set_after_the_close_is_released_again() {
    let (one, other, fd) = two();
    let third = one.fork().unwrap();
    lock(&one, fd, LockKind::Write, 0, 1).unwrap();
    let waiter = other.clone();
    let call = Call::start_waiting(move || lock_waiting(&waiter, fd, 0));
    other.close(fd).unwrap();
    call.assert_waiting();
    lock(&one, fd, LockKind::Unlock, 0, 1).unwrap();
    assert_eq!(call.result(), Err(Errno::EBADF));
    assert!(is_free(&third, fd));
}

#[test]
fn no_lock_outlives_the_close_that_it_races_with() {
    within_time(|| {
        for _ in 0..300 {
            let (one, other, fd) = two();
            let locker = one.clone();
            let locking = std::thread::spawn(move || lock(&locker, fd, LockKind::Write, 0, 0));
            one.close(fd).unwrap();
            let _either = locking.join().unwrap();
            assert!(is_free(&other, fd));
        }
    });
}

#[test]
fn many_lockers_of_the_same_bytes_take_turns() {
    within_time(|| {
        let first = Process::new();
        let fd = open(&first);
        first.write(fd, &[0]).unwrap();
        let count = |process: Process| {
            let fd = open(&process);
            for _ in 0..100 {
                lock_waiting(&process, fd, 7).unwrap();
                let mut byte = [0];
                process.pread(fd, &mut byte, 0).unwrap();
                process.pwrite(fd, &[byte[0].wrapping_add(1)], 0).unwrap();
                lock(&process, fd, LockKind::Unlock, 7, 1).unwrap();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let process = first.fork().unwrap();
                scope.spawn(move || count(process));
            }
        });
        let mut byte = [0];
        first.pread(fd, &mut byte, 0).unwrap();
        assert_eq!(byte[0], (400 % 256) as u8);
    });
}

#[test]
fn no_mixture_of_waits_closes_and_cycles_hangs() {
    within_time(|| {
        let first = Process::new();
        let fd = open(&first);
        let begin = Barrier::new(4);
        let work = |process: Process, seed: u64| {
            let mut random = fastrand::Rng::with_seed(seed);
            begin.wait();
            for _ in 0..400 {
                let start = random.i64(0..6);
                let kind = random.choice([LockKind::Read, LockKind::Write]).unwrap();
                let wanted = FileLock::new(kind, start, random.i64(1..3));
                match process.fcntl_setlk(fd, OWN, wanted, LockWait::Yes) {
                    Ok(()) if random.u8(..) < 200 => {}
                    Ok(()) => lock(&process, fd, LockKind::Unlock, start, 2).unwrap(),
                    Err(Errno::EDEADLK) => {
                        let other = process.open("db", OpenFlags::RDWR).unwrap();
                        process.close(other).unwrap();
                    }
                    Err(errno) => panic!("{errno}"),
                }
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let process = first.fork().unwrap();
                scope.spawn(move || work(process, seed));
            }
        });
        assert!(is_free(&first, fd));
    });
}

#[test]
fn files_without_a_name_have_locks() {
    let process = Process::new();
    let exclusive = FlockOperation::EXCLUSIVE | FlockOperation::NONBLOCK;
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    assert_eq!(process.flock(reader, exclusive), Ok(()));
    assert_eq!(process.flock(writer, exclusive), Err(Errno::EAGAIN));
    process.close(reader).unwrap();
    assert_eq!(process.flock(writer, exclusive), Ok(()));
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    for socket in [near, far] {
        assert_eq!(process.flock(socket, exclusive), Ok(()));
    }
    let at_end = FileLock {
        from: LockFrom::End,
        ..FileLock::new(LockKind::Write, 0, 0)
    };
    let from_position = FileLock {
        from: LockFrom::Current,
        ..at_end
    };
    for lock in [at_end, from_position] {
        assert_eq!(process.fcntl_setlk(near, OFD, lock, LockWait::No), Ok(()));
    }
}

#[test]
fn events_timers_and_epolls_share_their_locks() {
    let process = Process::new();
    let event = process.eventfd(0, EventFdFlags::empty()).unwrap();
    let epoll = process.epoll_create1(EpollCreateFlags::empty()).unwrap();
    let lock = FileLock::new(LockKind::Write, 1 << 40, 1);
    let set = |fd| process.fcntl_setlk(fd, OFD, lock, LockWait::No);
    assert_eq!(set(event), Ok(()));
    assert_eq!(set(epoll), Err(Errno::EAGAIN));
    process.close(event).unwrap();
    assert_eq!(set(epoll), Ok(()));
}
