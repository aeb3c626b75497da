//! `timerfd` under `poll` and `epoll`, which have to wake at the expiration by themselves.

use std::time::{Duration, Instant};

use fdtable::Fd;
use fdtable_vfs::event::{
    Clock, EpollCreateFlags, EpollCtl, EpollEvent, EpollFlags, EventFdFlags, Events, ITimerSpec,
    TimerFdFlags, TimerFlags,
};
use fdtable_vfs::{Errno, PollFd, Process};

use crate::call::Call;

const SOON: Duration = Duration::from_millis(20);
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

fn process_with_timer() -> (Process, Fd) {
    let process = Process::new();
    let fd = process
        .timerfd_create(Clock::Monotonic, TimerFdFlags::NONBLOCK)
        .unwrap();
    (process, fd)
}

fn set(process: &Process, fd: Fd, value: Duration, interval: Duration) {
    let spec = ITimerSpec { interval, value };
    process
        .timerfd_settime(fd, TimerFlags::empty(), spec)
        .unwrap();
}

fn set_once(process: &Process, fd: Fd, value: Duration) {
    set(process, fd, value, Duration::ZERO);
}

fn set_with(process: &Process, members: &[Fd], asked: EpollFlags) -> Fd {
    let set = process.epoll_create1(EpollCreateFlags::empty()).unwrap();
    for &fd in members {
        let event = EpollEvent::new(asked, fd.index() as u64);
        process
            .epoll_ctl(set, EpollCtl::Add, fd, Some(event))
            .unwrap();
    }
    set
}

fn wait(process: &Process, set: Fd, timeout: Option<Duration>) -> usize {
    let mut events = [EpollEvent::default(); 8];
    process.epoll_wait(set, &mut events, timeout).unwrap()
}

#[test]
fn a_file_that_is_not_a_timer_is_refused() {
    let (process, fd) = process_with_timer();
    let other = process.eventfd(0, EventFdFlags::empty()).unwrap();
    let spec = ITimerSpec::default();
    let flags = TimerFlags::empty();
    let answer = process.timerfd_settime(other, flags, spec);
    assert_eq!(answer, Err(Errno::EINVAL));
    assert_eq!(process.timerfd_gettime(other), Err(Errno::EINVAL));
    assert_eq!(process.timerfd_gettime(99), Err(Errno::EBADF));
    let unknown = TimerFlags::from_bits_retain(4);
    let answer = process.timerfd_settime(fd, unknown, spec);
    assert_eq!(answer, Err(Errno::EINVAL));
    assert_eq!(process.write(fd, &[0; 8]), Err(Errno::EINVAL));
    assert_eq!(process.read(fd, &mut [0; 8]), Err(Errno::EAGAIN));
    assert_eq!(process.read(fd, &mut [0; 7]), Err(Errno::EINVAL));
    let unknown = TimerFdFlags::from_bits_retain(1);
    let answer = process.timerfd_create(Clock::Realtime, unknown);
    assert_eq!(answer, Err(Errno::EINVAL));
}

#[test]
fn poll_sleeps_until_the_expiration() {
    let (process, fd) = process_with_timer();
    let start = Instant::now();
    set_once(&process, fd, SOON);
    let mut fds = [PollFd::new(fd, Events::IN)];
    assert_eq!(process.poll(&mut fds, AT_ONCE), Ok(0));
    assert_eq!(process.poll(&mut fds, None), Ok(1));
    assert!(start.elapsed() >= SOON);
    assert_eq!(fds[0].revents, Events::IN);
}

#[test]
fn poll_wakes_for_a_timer_that_is_set_meanwhile() {
    let (process, fd) = process_with_timer();
    let polling = process.clone();
    let call = Call::start_waiting(move || polling.poll(&mut [PollFd::new(fd, Events::IN)], None));
    set_once(&process, fd, SOON);
    assert_eq!(call.result(), Ok(1));
}

#[test]
fn epoll_sleeps_until_the_expiration() {
    let (process, fd) = process_with_timer();
    let set = set_with(&process, &[fd], EpollFlags::IN);
    let start = Instant::now();
    set_once(&process, fd, SOON);
    assert_eq!(wait(&process, set, AT_ONCE), 0);
    assert_eq!(wait(&process, set, None), 1);
    assert!(start.elapsed() >= SOON);
    // A level lasts until it is read.
    assert_eq!(wait(&process, set, AT_ONCE), 1);
    process.read(fd, &mut [0; 8]).unwrap();
    assert_eq!(wait(&process, set, AT_ONCE), 0);
}

#[test]
fn epoll_wakes_for_a_timer_that_is_set_meanwhile() {
    let (process, fd) = process_with_timer();
    let set = set_with(&process, &[fd], EpollFlags::IN);
    let waiting = process.clone();
    let call = Call::start_waiting(move || wait(&waiting, set, None));
    set_once(&process, fd, SOON);
    assert_eq!(call.result(), 1);
}

#[test]
fn each_expiration_is_an_edge() {
    let (process, fd) = process_with_timer();
    let edges = set_with(&process, &[fd], EpollFlags::IN | EpollFlags::ET);
    set(&process, fd, SOON, SOON);
    for _ in 0..3 {
        assert_eq!(wait(&process, edges, None), 1);
    }
    set_once(&process, fd, SOON);
    assert_eq!(wait(&process, edges, None), 1);
    assert_eq!(wait(&process, edges, Some(2 * SOON)), 0);
}

#[test]
fn the_earliest_of_many_wakes_first() {
    let (process, late) = process_with_timer();
    let early = process
        .timerfd_create(Clock::Boottime, TimerFdFlags::empty())
        .unwrap();
    let set = set_with(&process, &[late, early], EpollFlags::IN);
    set_once(&process, late, Duration::from_secs(1000));
    set_once(&process, early, SOON);
    let mut events = [EpollEvent::default(); 8];
    assert_eq!(process.epoll_wait(set, &mut events, None), Ok(1));
    assert_eq!(events[0].data, early.index() as u64);
}

#[test]
fn a_set_of_sets_wakes_for_a_timer() {
    let (process, fd) = process_with_timer();
    let inner = set_with(&process, &[fd], EpollFlags::IN);
    let outer = set_with(&process, &[inner], EpollFlags::IN | EpollFlags::ET);
    set_once(&process, fd, SOON);
    assert_eq!(wait(&process, outer, None), 1);
    assert_eq!(wait(&process, outer, AT_ONCE), 0);
    set_once(&process, fd, SOON);
    let mut fds = [PollFd::new(outer, Events::IN)];
    assert_eq!(process.poll(&mut fds, None), Ok(1));
    assert_eq!(wait(&process, outer, AT_ONCE), 1);
}

#[test]
fn all_waiters_for_one_timer_see_its_level() {
    let (process, fd) = process_with_timer();
    let sets = [(); 2].map(|()| set_with(&process, &[fd], EpollFlags::IN));
    let calls = sets.map(|set| {
        let process = process.clone();
        Call::start_waiting(move || wait(&process, set, None))
    });
    set_once(&process, fd, SOON);
    assert_eq!(calls.map(Call::result), [1, 1]);
}
