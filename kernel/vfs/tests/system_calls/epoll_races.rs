//! `epoll` while several threads wait, write, and change the sets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use fdtable::{Fd, RawFd};
use fdtable_vfs::event::{
    EpollCreateFlags, EpollCtl, EpollEvent, EpollFlags, EventFdFlags, Events,
};
use fdtable_vfs::{Errno, OpenFlags, PollFd, Process};

use crate::call::within_time;

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

/// Pipes whose reading ends are members of a set, and an eventfd that ends the work.
struct Works {
    process: Process,
    set: Fd,
    end: Fd,
    pipes: Vec<(Fd, Fd)>,
    asked: EpollFlags,
    left: AtomicUsize,
}

const WRITERS: usize = 2;
const WORKERS: usize = 3;
const WRITES: usize = 4_000;

impl Works {
    fn new(asked: EpollFlags) -> Self {
        let process = Process::new();
        let set = process.epoll_create1(EpollCreateFlags::empty()).unwrap();
        let end = process.eventfd(0, EventFdFlags::empty()).unwrap();
        let pipes = (0..4).map(|_| process.pipe2(OpenFlags::NONBLOCK).unwrap());
        let works = Works {
            set,
            end,
            pipes: pipes.collect(),
            process,
            asked,
            left: AtomicUsize::new(WRITERS * WRITES),
        };
        works.ctl(EpollCtl::Add, end, EpollFlags::IN);
        for &(reader, _) in &works.pipes {
            works.ctl(EpollCtl::Add, reader, asked);
        }
        works
    }

    fn ctl(&self, operation: EpollCtl, fd: Fd, asked: EpollFlags) {
        let event = EpollEvent::new(asked, fd.index() as u64);
        self.process
            .epoll_ctl(self.set, operation, fd, Some(event))
            .unwrap();
    }

    fn write(&self, seed: u64) {
        let mut rng = Rng::with_seed(seed);
        for _ in 0..WRITES {
            let (_, writer) = self.pipes[rng.usize(..self.pipes.len())];
            while self.process.write(writer, b"x") == Err(Errno::EAGAIN) {
                thread::yield_now();
            }
            // Bursts and pauses: changes come during collections, and while all waiters sleep.
            if rng.u8(..) < 20 {
                thread::yield_now();
            }
        }
    }

    /// Reads what is reported, until everything has been read.
    fn work(&self) {
        let mut events = [EpollEvent::default(); 2];
        loop {
            let count = self
                .process
                .epoll_wait(self.set, &mut events, None)
                .unwrap();
            for event in &events[..count] {
                if event.data == self.end.index() as u64 {
                    return;
                }
                let fd = Fd::new(event.data as RawFd).unwrap();
                self.empty(fd);
                if self.asked.contains(EpollFlags::ONESHOT) {
                    self.ctl(EpollCtl::Mod, fd, self.asked);
                }
            }
        }
    }

    fn empty(&self, fd: Fd) {
        loop {
            match self.process.read(fd, &mut [0; 8]) {
                Ok(count) => {
                    if self.left.fetch_sub(count, Ordering::Relaxed) == count {
                        self.process.write(self.end, &1u64.to_ne_bytes()).unwrap();
                    }
                }
                Err(errno) => return assert_eq!(errno, Errno::EAGAIN),
            }
        }
    }
}

/// A lost change would leave bytes in a pipe, and all would sleep.
#[track_caller]
fn every_change_is_reported(asked: EpollFlags) {
    within_time(move || {
        let works = &Works::new(asked);
        thread::scope(|scope| {
            (0..WORKERS).for_each(|_| drop(scope.spawn(|| works.work())));
            (0..WRITERS).for_each(|seed| drop(scope.spawn(move || works.write(seed as u64))));
        });
        assert_eq!(works.left.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn every_level_is_reported() {
    every_change_is_reported(EpollFlags::IN);
}

#[test]
fn every_edge_is_reported() {
    every_change_is_reported(EpollFlags::IN | EpollFlags::ET);
}

#[test]
fn every_rearmed_oneshot_is_reported() {
    every_change_is_reported(EpollFlags::IN | EpollFlags::ONESHOT);
    every_change_is_reported(EpollFlags::IN | EpollFlags::ONESHOT | EpollFlags::ET);
}

/// Makes a random call on descriptors that other threads close and reuse meanwhile.
fn anything(process: &Process, rng: &mut Rng) -> Result<(), Errno> {
    const NUMBERS: RawFd = 24;
    let fd = rng.i32(..NUMBERS);
    let other = rng.i32(..NUMBERS);
    let asked = EpollFlags::from_bits_retain(rng.u32(..)) & EpollFlags::all();
    let event = Some(EpollEvent::new(asked, 0));
    let soon = Some(Duration::from_micros(rng.u64(..100)));
    match rng.u8(..15) {
        0 => process.epoll_create1(EpollCreateFlags::empty()).map(drop),
        1 => process.eventfd(1, EventFdFlags::NONBLOCK).map(drop),
        2 => process.pipe2(OpenFlags::NONBLOCK).map(drop),
        3 | 4 => process.dup2(fd, other).map(drop),
        5 | 6 => process.close(fd).map(drop),
        7 => process.write(fd, &1u64.to_ne_bytes()).map(drop),
        8 => process.read(fd, &mut [0; 8]).map(drop),
        9 | 10 => process.epoll_ctl(fd, EpollCtl::Add, other, event).map(drop),
        11 => process.epoll_ctl(fd, EpollCtl::Mod, other, event).map(drop),
        12 => process.epoll_ctl(fd, EpollCtl::Del, other, None).map(drop),
        13 => process
            .epoll_wait(fd, &mut [EpollEvent::default(); 4], soon)
            .map(drop),
        _ => {
            let mut fds = [fd, other].map(|fd| PollFd::new(fd, Events::IN | Events::OUT));
            process.poll(&mut fds, soon).map(drop)
        }
    }
}

/// Locks taken in two orders hang here. An item that is in the set twice, or in none, fails an
/// assertion or shows in what is left at the end.
#[test]
fn sets_and_members_may_come_and_go() {
    const CALLS: usize = 15_000;
    within_time(|| {
        let process = &Process::new();
        process.files().set_limit(24);
        thread::scope(|scope| {
            for seed in 0..4 {
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed);
                    for _ in 0..CALLS {
                        // Any result is fine: the descriptors may refer to anything.
                        let _ = anything(process, &mut rng);
                    }
                });
            }
        });
        // The rest can still be asked.
        for fd in 0..24 {
            let _ = process.epoll_wait(fd, &mut [EpollEvent::default(); 64], AT_ONCE);
            let _ = process.close(fd);
        }
        assert_eq!(process.files().open_count(), 0);
    });
}
