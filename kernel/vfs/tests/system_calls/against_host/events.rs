//! Random histories, replayed here and on the host's own pipes, eventfds and epolls.
//!
//! Every call must return the same on both: what `epoll_wait` returns and in which order, what
//! `poll` finds, and each errno. There is one thread, and no call blocks: other tests cover the
//! interaction of threads. At most a few thousand bytes are written, because pipes of Linux fill by
//! pages, and ours by bytes. No request to an epoll has `RDNORM` without `IN`: Linux considers the
//! second spelling when it is asked, and ignores it in notifications.
//!
//! A member of an epoll is a file and its descriptor, so that it matters when a descriptor is used
//! again. Each test keeps the host's in a range of its own, where the lowest free one is the host's
//! choice as it is ours, whatever other threads open meanwhile.
//!
//! `PROPTEST_CASES=100000 cargo test -p fdtable-vfs --release --test system_calls
//! against_host::events` replays more histories than the second of an ordinary run.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use fdtable::Fd;
use fdtable_vfs::event::{
    EpollCreateFlags, EpollCtl, EpollEvent, EpollFlags, EventFdFlags, Events,
};
use fdtable_vfs::{OpenFlags, PollFd, Process};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRunner};
use rustix::event::{self, epoll};
use rustix::{io, pipe};

/// Number of histories, unless the environment sets it.
const CASES: u32 = 300;

/// Timeout zero.
const NOW: event::Timespec = event::Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Step of a history. Files are named by their index among those made so far.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pipe,
    EventFd { initial: u32, semaphore: bool },
    Epoll,
    Dup(usize),
    Close(usize),
    Write(usize, u64),
    Read(usize),
    Ctl(usize, EpollCtl, usize, EpollFlags),
    Wait(usize, usize),
    Poll(usize, Events),
}

/// File on both sides.
struct Pair {
    ours: Fd,
    host: OwnedFd,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Done(usize),
    Word(u64),
    Found(Vec<(u64, u32)>),
    Error(i32),
}

impl<E: Errno> From<E> for Answer {
    fn from(error: E) -> Self {
        Answer::Error(error.number())
    }
}

trait Errno {
    fn number(&self) -> i32;
}

impl Errno for fdtable_vfs::Errno {
    fn number(&self) -> i32 {
        self.errno()
    }
}

impl Errno for io::Errno {
    fn number(&self) -> i32 {
        self.raw_os_error()
    }
}

fn answer<T, E: Errno>(result: Result<T, E>, done: impl FnOnce(T) -> Answer) -> Answer {
    result.map_or_else(Answer::from, done)
}

struct Both {
    process: Process,
    files: Vec<Pair>,
    /// First descriptor of the host's that is of this test.
    first: i32,
}

impl Both {
    fn push(&mut self, ours: Fd, host: OwnedFd) {
        let host = io::fcntl_dupfd_cloexec(host, self.first).unwrap();
        assert_eq!(host.as_raw_fd() - self.first, ours.index() as i32);
        self.files.push(Pair { ours, host });
    }

    fn make(&mut self, step: Step) {
        match step {
            Step::Pipe => {
                let (reader, writer) = self.process.pipe2(OpenFlags::NONBLOCK).unwrap();
                let host = pipe::pipe_with(pipe::PipeFlags::NONBLOCK).unwrap();
                self.push(reader, host.0);
                self.push(writer, host.1);
            }
            Step::EventFd { initial, semaphore } => {
                let mut flags = EventFdFlags::NONBLOCK;
                flags.set(EventFdFlags::SEMAPHORE, semaphore);
                let ours = self.process.eventfd(initial.into(), flags).unwrap();
                let flags = event::EventfdFlags::from_bits_retain(flags.bits());
                self.push(ours, event::eventfd(initial, flags).unwrap());
            }
            _ => {
                let ours = self
                    .process
                    .epoll_create1(EpollCreateFlags::empty())
                    .unwrap();
                let host = epoll::create(epoll::CreateFlags::empty()).unwrap();
                self.push(ours, host);
            }
        }
    }

    /// Runs a step on both, and returns the two answers.
    fn run(&mut self, step: Step) -> (Answer, Answer) {
        let count = self.files.len();
        let index = |at: usize| at % count;
        match step {
            Step::Pipe | Step::EventFd { .. } | Step::Epoll => {
                self.make(step);
                (Answer::Done(0), Answer::Done(0))
            }
            _ if count == 0 => (Answer::Done(0), Answer::Done(0)),
            Step::Dup(at) => {
                let pair = &self.files[index(at)];
                let ours = self.process.dup(pair.ours).unwrap();
                let host = io::dup(&pair.host).unwrap();
                self.push(ours, host);
                (Answer::Done(0), Answer::Done(0))
            }
            Step::Close(at) => {
                let pair = self.files.remove(index(at));
                self.process.close(pair.ours).unwrap();
                (Answer::Done(0), Answer::Done(0))
            }
            Step::Write(at, word) => {
                let pair = &self.files[index(at)];
                let word = word.to_ne_bytes();
                let ours = self.process.write(pair.ours, &word);
                let host = io::write(&pair.host, &word);
                (answer(ours, Answer::Done), answer(host, Answer::Done))
            }
            Step::Read(at) => {
                let pair = &self.files[index(at)];
                let (mut ours, mut host) = ([0; 8], [0; 8]);
                let ours_count = self.process.read(pair.ours, &mut ours);
                let host_count = io::read(&pair.host, &mut host);
                let word = |count: usize, bytes| match count {
                    8 => Answer::Word(u64::from_ne_bytes(bytes)),
                    count => Answer::Done(count),
                };
                (
                    answer(ours_count, |count| word(count, ours)),
                    answer(host_count, |count| word(count, host)),
                )
            }
            Step::Ctl(set, operation, at, asked) => {
                let (set, member) = (&self.files[index(set)], &self.files[index(at)]);
                // Both have the same user data for a member, because their descriptors differ.
                let data = member.ours.index() as u64;
                let event = EpollEvent::new(asked, data);
                let ours = self
                    .process
                    .epoll_ctl(set.ours, operation, member.ours, Some(event));
                let asked = epoll::EventFlags::from_bits_retain(asked.bits());
                let data = epoll::EventData::new_u64(data);
                let (set, member) = (&set.host, &member.host);
                let host = match operation {
                    EpollCtl::Add => epoll::add(set, member, data, asked),
                    EpollCtl::Del => epoll::delete(set, member),
                    EpollCtl::Mod => epoll::modify(set, member, data, asked),
                };
                let done = |()| Answer::Done(0);
                (answer(ours, done), answer(host, done))
            }
            Step::Wait(set, max) => {
                let set = &self.files[index(set)];
                let mut ours = vec![EpollEvent::default(); max];
                let none = epoll::Event {
                    flags: epoll::EventFlags::empty(),
                    data: epoll::EventData::new_u64(0),
                };
                let mut host = vec![none; max];
                let ours_count = self
                    .process
                    .epoll_wait(set.ours, &mut ours, Some(Duration::ZERO));
                let host_count = epoll::wait(&set.host, &mut host[..], Some(&NOW));
                let ours = ours.iter().map(|one| (one.data, one.events.bits()));
                let host = host.iter().map(|one| {
                    let epoll::Event { flags, data } = *one;
                    (data.u64(), flags.bits())
                });
                (
                    answer(ours_count, |count| {
                        Answer::Found(ours.take(count).collect())
                    }),
                    answer(host_count, |count| {
                        Answer::Found(host.take(count).collect())
                    }),
                )
            }
            Step::Poll(from, asked) => {
                let from = index(from);
                let some = &self.files[from..(from + 3).min(count)];
                let mut ours: Vec<_> = (some.iter().map(|p| PollFd::new(p.ours, asked))).collect();
                let asked = event::PollFlags::from_bits_retain(asked.bits() as _);
                let host = some.iter().map(|p| event::PollFd::new(&p.host, asked));
                let mut host: Vec<_> = host.collect();
                self.process.poll(&mut ours, Some(Duration::ZERO)).unwrap();
                event::poll(&mut host, Some(&NOW)).unwrap();
                let ours = ours.iter().map(|one| one.revents.bits());
                let host = host.iter().map(|one| one.revents().bits() as u32);
                (
                    Answer::Found(ours.map(|events| (0, events)).collect()),
                    Answer::Found(host.map(|events| (0, events)).collect()),
                )
            }
        }
    }
}

/// Requests, mostly with the events and modes that are common in practice.
fn asked() -> impl Strategy<Value = EpollFlags> {
    let events = select(vec![
        EpollFlags::IN,
        EpollFlags::IN,
        EpollFlags::OUT,
        EpollFlags::IN | EpollFlags::OUT,
        EpollFlags::IN | EpollFlags::RDNORM | EpollFlags::RDHUP,
        EpollFlags::PRI,
        EpollFlags::empty(),
    ]);
    let modes = select(vec![
        EpollFlags::empty(),
        EpollFlags::empty(),
        EpollFlags::ET,
        EpollFlags::ONESHOT,
        EpollFlags::ET | EpollFlags::ONESHOT,
        EpollFlags::EXCLUSIVE,
        EpollFlags::EXCLUSIVE | EpollFlags::ET,
    ]);
    (events, modes).prop_map(|(events, modes)| events | modes)
}

/// Steps that use files among the first `count`, most often the first `sets` as epolls.
fn use_of(count: usize, sets: usize) -> impl Strategy<Value = Step> {
    let at = move || 0..count;
    let set = move || prop_oneof![5 => 0..sets, 1 => 0..count];
    let word = select(vec![0, 1, 1, 1, 2, 2, 7, 7, u64::MAX - 8, u64::MAX]);
    let ctl = select(vec![
        EpollCtl::Add,
        EpollCtl::Add,
        EpollCtl::Mod,
        EpollCtl::Del,
    ]);
    let poll = select(vec![Events::all() - Events::NVAL, Events::IN, Events::OUT]);
    prop_oneof![
        6 => (at(), word).prop_map(|(at, word)| Step::Write(at, word)),
        4 => at().prop_map(Step::Read),
        10 => (set(), ctl, at(), asked())
            .prop_map(|(set, how, at, asked)| Step::Ctl(set, how, at, asked)),
        10 => (set(), 1..5usize).prop_map(|(set, max)| Step::Wait(set, max)),
        2 => (at(), poll).prop_map(|(from, asked)| Step::Poll(from, asked)),
    ]
}

/// Steps that make and close files too.
fn any_step() -> impl Strategy<Value = Step> {
    let count = 12;
    let eventfd = (0..3u32, any::<bool>());
    prop_oneof![
        2 => Just(Step::Pipe),
        2 => eventfd.prop_map(|(initial, semaphore)| Step::EventFd { initial, semaphore }),
        2 => Just(Step::Epoll),
        1 => (0..count).prop_map(Step::Dup),
        2 => (0..count).prop_map(Step::Close),
        32 => use_of(count, 1),
    ]
}

/// First steps of a history, so that the next ones find files.
const BEGINNING: [Step; 5] = [
    Step::Epoll,
    Step::EventFd {
        initial: 0,
        semaphore: false,
    },
    Step::Pipe,
    Step::Epoll,
    Step::Pipe,
];

fn replay(first: i32, beginning: &[Step], steps: &[Step]) -> Result<(), TestCaseError> {
    let mut both = Both {
        process: Process::new(),
        files: Vec::new(),
        first,
    };
    for &step in beginning.iter().chain(steps) {
        let (ours, host) = both.run(step);
        prop_assert_eq!(ours, host, "{:?}", step);
    }
    Ok(())
}

fn judge(first: i32, beginning: &[Step], steps: impl Strategy<Value = Step>) {
    let asked = std::env::var("PROPTEST_CASES").ok();
    let config = Config {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(CASES),
        // Without optimisation, the default source takes three quarters of the time.
        rng_algorithm: RngAlgorithm::XorShift,
        failure_persistence: None,
        // Ten seconds, in ms: a shorter failing history is not worth a longer wait.
        max_shrink_time: 10_000,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&vec(steps, 1..80), |steps| replay(first, beginning, &steps))
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn events_of_many_files_are_those_of_the_host() {
    judge(200, &BEGINNING, any_step());
}

/// The first member requests more after the second was added, and is still notified after it.
#[test]
fn a_changed_request_keeps_the_order_of_notifications() {
    let (read, more) = (EpollFlags::IN, EpollFlags::IN | EpollFlags::OUT);
    let steps = [
        Step::Dup(2),
        Step::Ctl(0, EpollCtl::Add, 2, read),
        Step::Ctl(0, EpollCtl::Add, 7, read),
        Step::Ctl(0, EpollCtl::Mod, 2, more),
        Step::Write(3, 0),
        Step::Wait(0, 1),
    ];
    replay(800, &BEGINNING, &steps).unwrap_or_else(|error| panic!("{error}"));
}

/// The last `Mod` finds the member in the ready list of its set, and notifies no watcher of that.
#[test]
fn a_request_for_a_listed_member_is_no_change() {
    let read = EpollFlags::IN;
    let steps = [
        Step::Ctl(4, EpollCtl::Add, 1, read),
        Step::Ctl(0, EpollCtl::Add, 4, read | EpollFlags::ET),
        Step::Write(1, 1),
        Step::Wait(0, 1),
        Step::Ctl(4, EpollCtl::Mod, 1, read),
        Step::Wait(0, 1),
    ];
    replay(820, &BEGINNING, &steps).unwrap_or_else(|error| panic!("{error}"));
}

/// A member is gone before its release wakes anybody.
#[test]
fn the_release_of_a_member_is_no_change_of_its_set() {
    let (read, write) = (EpollFlags::IN, EpollFlags::OUT);
    let steps = [
        Step::Ctl(4, EpollCtl::Add, 1, write),
        Step::Ctl(4, EpollCtl::Add, 5, read),
        Step::Ctl(0, EpollCtl::Add, 4, read | EpollFlags::ET),
        Step::Wait(0, 1),
        Step::Close(5),
        Step::Wait(0, 1),
    ];
    replay(840, &BEGINNING, &steps).unwrap_or_else(|error| panic!("{error}"));
}

/// Few enough to meet the same file again and again.
#[test]
fn events_of_few_files_are_those_of_the_host() {
    judge(400, &BEGINNING, use_of(4, 1));
}

#[test]
fn sets_of_sets_are_those_of_the_host() {
    let mut beginning = [Step::Epoll; 8];
    beginning[7] = BEGINNING[1];
    judge(600, &beginning, use_of(8, 7));
}
