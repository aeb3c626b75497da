//! Random histories of connected sockets, replayed here and on the host's own.
//!
//! Every call must return the same on both: how many bytes, which byte comes first, how many files,
//! the events, and each errno. There is one thread, and no call blocks. Little is sent, because the
//! host counts its own overhead as bytes, and we do not. Files that a peek returns are not
//! compared: a peek of the host at a stream shows files that no read of as many bytes would reach.
//!
//! `PROPTEST_CASES=100000 cargo test -p fdtable-vfs --release --test system_calls
//! against_host::sockets` replays more histories than the second of an ordinary run.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use fdtable::Fd;
use fdtable_vfs::event::Events;
use fdtable_vfs::socket::{self, OptionValue, SendMessage, SocketOption, SocketType};
use fdtable_vfs::{OpenFlags, Process};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket as host;
use nix::unistd;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRunner};

/// Number of histories, unless the environment sets it.
const CASES: u32 = 250;

/// Step of a history. Sockets are named by their index among those that are open.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pair(SocketType),
    Send {
        at: usize,
        bytes: usize,
        files: usize,
    },
    Receive {
        at: usize,
        bytes: usize,
        flags: socket::MsgFlags,
    },
    Shutdown(usize, socket::Shutdown),
    Close(usize),
    Poll(usize),
    Error(usize),
}

struct Both {
    process: Process,
    sockets: Vec<(Fd, OwnedFd)>,
    /// Value of the bytes of the next message.
    next: u8,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Done(usize),
    Received {
        count: usize,
        first: u8,
        files: usize,
        flags: u32,
    },
    Errno(i32),
}

fn answer(result: Result<Answer, i32>) -> Answer {
    result.unwrap_or_else(Answer::Errno)
}

fn ours<T>(result: Result<T, fdtable_vfs::Errno>, done: impl FnOnce(T) -> Answer) -> Answer {
    answer(result.map(done).map_err(|errno| errno.errno()))
}

fn theirs<T>(result: nix::Result<T>, done: impl FnOnce(T) -> Answer) -> Answer {
    answer(result.map(done).map_err(|errno| errno as i32))
}

impl Both {
    fn new() -> Self {
        Both {
            process: Process::new(),
            sockets: Vec::new(),
            next: 0,
        }
    }

    fn run(&mut self, step: Step) -> (Answer, Answer) {
        let nothing = (Answer::Done(0), Answer::Done(0));
        let count = self.sockets.len();
        let index = |at: usize| at % count;
        match step {
            Step::Pair(kind) => {
                self.pair(kind);
                nothing
            }
            _ if count == 0 => nothing,
            Step::Send { at, bytes, files } => self.send(index(at), bytes, files),
            Step::Receive { at, bytes, flags } => self.receive(index(at), bytes, flags),
            Step::Shutdown(at, how) => {
                let (fd, socket) = &self.sockets[index(at)];
                let hosts = match how {
                    socket::Shutdown::Read => host::Shutdown::Read,
                    socket::Shutdown::Write => host::Shutdown::Write,
                    socket::Shutdown::Both => host::Shutdown::Both,
                };
                let done = |()| Answer::Done(0);
                (
                    ours(self.process.shutdown(*fd, how), done),
                    theirs(host::shutdown(socket.as_raw_fd(), hosts), done),
                )
            }
            Step::Close(at) => {
                let (fd, _socket) = self.sockets.remove(index(at));
                self.process.close(fd).unwrap();
                nothing
            }
            Step::Poll(at) => self.poll(index(at)),
            Step::Error(at) => {
                let (fd, socket) = &self.sockets[index(at)];
                let ours = self.process.getsockopt(*fd, SocketOption::Error).unwrap();
                let theirs = host::getsockopt(socket, host::sockopt::SocketError).unwrap();
                let OptionValue::Number(ours) = ours else {
                    panic!("an error is a number");
                };
                (Answer::Errno(ours), Answer::Errno(theirs))
            }
        }
    }

    fn pair(&mut self, kind: SocketType) {
        let flags = OpenFlags::NONBLOCK;
        let (near, far) = self.process.socketpair_of(kind, flags).unwrap();
        let hosts = match kind {
            SocketType::Stream => host::SockType::Stream,
            SocketType::Datagram => host::SockType::Datagram,
            SocketType::SeqPacket => host::SockType::SeqPacket,
        };
        let flags = host::SockFlag::SOCK_NONBLOCK;
        let pair = host::socketpair(host::AddressFamily::Unix, hosts, None, flags).unwrap();
        self.sockets.push((near, pair.0));
        self.sockets.push((far, pair.1));
    }

    fn send(&mut self, at: usize, bytes: usize, files: usize) -> (Answer, Answer) {
        self.next = self.next.wrapping_add(1);
        let bytes = vec![self.next; bytes];
        let (fd, socket) = &self.sockets[at];
        let slices = [IoSlice::new(&bytes)];
        let file = self.process.files().get(*fd).unwrap();
        let message = SendMessage {
            bytes: &slices,
            rights: vec![file; files],
            ..SendMessage::default()
        };
        let flags = socket::MsgFlags::NOSIGNAL;
        let sent = self.process.sendmsg(*fd, message, flags);
        let raw = vec![socket.as_raw_fd(); files];
        let rights = [host::ControlMessage::ScmRights(&raw)];
        let ancillary = &rights[..usize::from(files > 0)];
        let flags = host::MsgFlags::MSG_NOSIGNAL;
        let hosts = host::sendmsg::<()>(socket.as_raw_fd(), &slices, ancillary, flags, None);
        (ours(sent, Answer::Done), theirs(hosts, Answer::Done))
    }

    fn receive(&self, at: usize, bytes: usize, flags: socket::MsgFlags) -> (Answer, Answer) {
        let (fd, socket) = &self.sockets[at];
        let kept = socket::MsgFlags::TRUNC.bits();
        let looks = flags.contains(socket::MsgFlags::PEEK);
        let mut buf = vec![0; bytes];
        let received = self
            .process
            .recvmsg(*fd, &mut [IoSliceMut::new(&mut buf)], flags);
        let ours = ours(received, |received| Answer::Received {
            count: received.count,
            first: buf[0],
            files: if looks { 0 } else { received.rights.len() },
            flags: received.flags.bits() & kept,
        });
        let mut buf = vec![0; bytes];
        let slices = &mut [IoSliceMut::new(&mut buf)];
        let mut space = nix::cmsg_space!([i32; 10]);
        let hosts = host::MsgFlags::from_bits_retain(flags.bits() as i32);
        let received = host::recvmsg::<()>(socket.as_raw_fd(), slices, Some(&mut space), hosts);
        let received = received.map(|received| {
            let mut files = 0;
            for message in received.cmsgs().unwrap() {
                if let host::ControlMessageOwned::ScmRights(fds) = message {
                    files += fds.len();
                    fds.into_iter().for_each(|fd| unistd::close(fd).unwrap());
                }
            }
            let files = if looks { 0 } else { files };
            (received.bytes, files, received.flags.bits() as u32 & kept)
        });
        let theirs = theirs(received, |(count, files, flags)| Answer::Received {
            count,
            first: buf[0],
            files,
            flags,
        });
        (ours, theirs)
    }

    fn poll(&self, at: usize) -> (Answer, Answer) {
        let (fd, socket) = &self.sockets[at];
        // The host has more second spellings than we do, and `nix` does not have `RDHUP`.
        let asked = Events::IN | Events::OUT | Events::HUP | Events::ERR;
        let ours = self.process.files().get(*fd).unwrap().events() & asked;
        let flags = PollFlags::from_bits_retain(asked.bits() as i16);
        let mut hosts = [PollFd::new(socket.as_fd(), flags)];
        poll(&mut hosts, PollTimeout::ZERO).unwrap();
        let theirs = hosts[0].revents().unwrap().bits();
        (
            Answer::Done(ours.bits() as usize),
            Answer::Done(theirs as usize),
        )
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let at = || 0..4usize;
    let bytes = || select(vec![1, 1, 3, 10, 100]);
    let flags = select(vec![
        socket::MsgFlags::empty(),
        socket::MsgFlags::empty(),
        socket::MsgFlags::PEEK,
        socket::MsgFlags::TRUNC,
        socket::MsgFlags::WAITALL,
    ]);
    let how = select(vec![
        socket::Shutdown::Read,
        socket::Shutdown::Write,
        socket::Shutdown::Both,
    ]);
    prop_oneof![
        10 => (at(), bytes(), select(vec![0, 0, 0, 1, 2]))
            .prop_map(|(at, bytes, files)| Step::Send { at, bytes, files }),
        10 => (at(), bytes(), flags)
            .prop_map(|(at, bytes, flags)| Step::Receive { at, bytes, flags }),
        1 => (at(), how).prop_map(|(at, how)| Step::Shutdown(at, how)),
        1 => at().prop_map(Step::Close),
        4 => at().prop_map(Step::Poll),
        1 => at().prop_map(Step::Error),
    ]
}

fn judge(kind: SocketType) {
    let asked = std::env::var("PROPTEST_CASES").ok();
    let config = Config {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(CASES),
        rng_algorithm: RngAlgorithm::XorShift,
        failure_persistence: None,
        max_shrink_time: 10_000,
        ..Config::default()
    };
    let replay = |steps: Vec<Step>| {
        let mut both = Both::new();
        for step in [Step::Pair(kind), Step::Pair(kind)]
            .into_iter()
            .chain(steps)
        {
            let (ours, host) = both.run(step);
            prop_assert_eq!(ours, host, "{:?}", step);
        }
        Ok(())
    };
    TestRunner::new(config)
        .run(&vec(any_step(), 1..40), replay)
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn streams_answer_as_those_of_the_host() {
    judge(SocketType::Stream);
}

#[test]
fn datagrams_answer_as_those_of_the_host() {
    judge(SocketType::Datagram);
}

#[test]
fn messages_in_sequence_answer_as_those_of_the_host() {
    judge(SocketType::SeqPacket);
}
