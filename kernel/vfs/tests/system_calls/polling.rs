//! `poll` on eventfds and files.

use std::time::{Duration, Instant};

use fdtable::Fd;
use fdtable_vfs::event::{EventFdFlags, Events};
use fdtable_vfs::{Errno, OpenFlags, PollFd, Process};

use crate::call::{Call, within_time};

const NOT_LONG: Option<Duration> = Some(Duration::from_millis(20));
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

fn process_with_eventfd() -> (Process, Fd) {
    let process = Process::new();
    let fd = process.eventfd(0, EventFdFlags::empty()).unwrap();
    (process, fd)
}

fn add(process: &Process, fd: Fd, addend: u64) {
    assert_eq!(process.write(fd, &addend.to_ne_bytes()), Ok(8));
}

/// Polls one descriptor in another thread, and expects it to block.
fn polling(process: &Process, fd: Fd, events: Events) -> Call<Result<Events, Errno>> {
    let process = process.clone();
    Call::start_waiting(move || {
        let mut fds = [PollFd::new(fd, events)];
        process.poll(&mut fds, None)?;
        Ok(fds[0].revents)
    })
}

#[test]
fn events_that_were_not_requested_are_not_found() {
    let (process, fd) = process_with_eventfd();
    let mut fds = [PollFd::new(fd, Events::IN)];
    assert_eq!(process.poll(&mut fds, AT_ONCE), Ok(0));
    fds[0].events = Events::IN | Events::OUT | Events::WRNORM;
    assert_eq!(process.poll(&mut fds, AT_ONCE), Ok(1));
    assert_eq!(fds[0].revents, Events::OUT);
}

#[test]
fn a_negative_descriptor_is_ignored_and_an_unknown_one_is_reported() {
    let (process, fd) = process_with_eventfd();
    add(&process, fd, 1);
    let mut fds = [
        PollFd::new(-1, Events::IN),
        PollFd::new(99, Events::empty()),
        PollFd::new(fd, Events::IN),
    ];
    fds[0].revents = Events::IN;
    assert_eq!(process.poll(&mut fds, None), Ok(2));
    let found = fds.map(|one| one.revents);
    assert_eq!(found, [Events::empty(), Events::NVAL, Events::IN]);
}

#[test]
fn an_empty_list_waits_for_the_timeout() {
    let process = Process::new();
    let start = Instant::now();
    assert_eq!(process.poll(&mut [], NOT_LONG), Ok(0));
    let mut negative = [PollFd::new(-1, Events::IN)];
    assert_eq!(process.poll(&mut negative, NOT_LONG), Ok(0));
    assert!(start.elapsed() >= 2 * NOT_LONG.unwrap());
}

#[test]
fn a_file_is_always_ready() {
    let process = Process::new();
    let fd = process
        .open("/file", OpenFlags::CREAT | OpenFlags::RDWR)
        .unwrap();
    let mut fds = [PollFd::new(fd, Events::all())];
    assert_eq!(process.poll(&mut fds, None), Ok(1));
    assert_eq!(fds[0].revents, Events::READABLE | Events::WRITABLE);
}

#[test]
fn more_than_the_limit_is_refused() {
    let (process, fd) = process_with_eventfd();
    process.files().set_limit(4);
    let mut fds = [PollFd::new(fd, Events::OUT); 5];
    assert_eq!(process.poll(&mut fds, None), Err(Errno::EINVAL));
    assert_eq!(process.poll(&mut fds[..4], None), Ok(4));
}

#[test]
fn a_change_wakes_all_pollers() {
    let (process, fd) = process_with_eventfd();
    let calls = [(); 3].map(|()| polling(&process, fd, Events::IN));
    add(&process, fd, 1);
    for call in calls {
        assert_eq!(call.result(), Ok(Events::IN));
    }
}

#[test]
fn one_of_many_suffices() {
    let (process, fd) = process_with_eventfd();
    let other = process.eventfd(0, EventFdFlags::empty()).unwrap();
    let call = {
        let process = process.clone();
        Call::start_waiting(move || {
            let mut fds = [
                PollFd::new(fd, Events::IN),
                PollFd::new(-1, Events::IN),
                PollFd::new(other, Events::IN),
            ];
            let ready = process.poll(&mut fds, None);
            (ready, fds.map(|one| one.revents))
        })
    };
    add(&process, other, 1);
    let nothing = Events::empty();
    assert_eq!(call.result(), (Ok(1), [nothing, nothing, Events::IN]));
}

/// As on Linux: the call holds the open file, and the descriptor may refer to another one by now.
#[test]
fn a_close_does_not_wake_a_poller() {
    let (process, fd) = process_with_eventfd();
    let copy = process.dup(fd).unwrap();
    let call = polling(&process, fd, Events::IN);
    process.close(fd).unwrap();
    let other = process.eventfd(1, EventFdFlags::empty()).unwrap();
    assert_eq!(other, fd);
    call.assert_waiting();
    add(&process, copy, 1);
    assert_eq!(call.result(), Ok(Events::IN));
}

#[test]
fn a_revoked_file_has_an_error() {
    let (process, fd) = process_with_eventfd();
    let call = polling(&process, fd, Events::IN);
    let file = process.files().get(fd).unwrap();
    fdtable::FileRef::revoke(&file);
    assert_eq!(call.result().map(|e| e & Events::ALWAYS), Ok(Events::ERR));
    let mut fds = [PollFd::new(fd, Events::IN)];
    assert_eq!(process.poll(&mut fds, AT_ONCE), Ok(1));
    assert_eq!(fds[0].revents, Events::ALWAYS);
}

/// Each waits for the other: a change lost between check and sleep hangs both.
#[test]
fn two_that_take_turns_never_lose_each_other() {
    const ROUNDS: usize = 3_000;
    let body = || {
        let (process, ping) = process_with_eventfd();
        let pong = process.eventfd(0, EventFdFlags::empty()).unwrap();
        let turn = |mine: Fd, theirs: Fd| {
            for _ in 0..ROUNDS {
                let mut fds = [PollFd::new(mine, Events::IN)];
                assert_eq!(process.poll(&mut fds, None), Ok(1));
                assert_eq!(process.read(mine, &mut [0; 8]), Ok(8));
                add(&process, theirs, 1);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| turn(ping, pong));
            add(&process, ping, 1);
            turn(pong, ping);
        });
    };
    within_time(body);
}
