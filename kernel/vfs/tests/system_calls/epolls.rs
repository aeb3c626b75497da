//! `epoll` on eventfds and on other epolls.

use std::time::Duration;

use fdtable::{Fd, FileRef};
use fdtable_vfs::event::{
    EpollCreateFlags, EpollCtl, EpollEvent, EpollFlags, EventFdFlags, Events,
};
use fdtable_vfs::{Errno, OpenFlags, PollFd, Process};

use crate::call::Call;

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

const IN: EpollFlags = EpollFlags::IN;
const OUT: EpollFlags = EpollFlags::OUT;
const ET: EpollFlags = EpollFlags::ET;
const ONESHOT: EpollFlags = EpollFlags::ONESHOT;
const EXCLUSIVE: EpollFlags = EpollFlags::EXCLUSIVE;

/// Process with a set, whose members have their descriptors as user data.
struct World {
    process: Process,
    set: Fd,
}

impl World {
    fn new() -> Self {
        let process = Process::new();
        let set = process.epoll_create1(EpollCreateFlags::empty()).unwrap();
        World { process, set }
    }

    fn with_member(asked: EpollFlags) -> (Self, Fd) {
        let world = World::new();
        let fd = world.eventfd(0);
        world.join(fd, asked).unwrap();
        (world, fd)
    }

    fn set(&self) -> Fd {
        self.process
            .epoll_create1(EpollCreateFlags::empty())
            .unwrap()
    }

    fn eventfd(&self, initial: u64) -> Fd {
        self.process
            .eventfd(initial, EventFdFlags::empty())
            .unwrap()
    }

    fn ctl(&self, set: Fd, operation: EpollCtl, fd: Fd, asked: EpollFlags) -> Result<(), Errno> {
        let event = EpollEvent::new(asked, fd.index() as u64);
        self.process.epoll_ctl(set, operation, fd, Some(event))
    }

    fn join(&self, fd: Fd, asked: EpollFlags) -> Result<(), Errno> {
        self.ctl(self.set, EpollCtl::Add, fd, asked)
    }

    fn change(&self, fd: Fd, asked: EpollFlags) -> Result<(), Errno> {
        self.ctl(self.set, EpollCtl::Mod, fd, asked)
    }

    fn leave(&self, fd: Fd) -> Result<(), Errno> {
        self.process.epoll_ctl(self.set, EpollCtl::Del, fd, None)
    }

    fn write(&self, fd: Fd) {
        self.process.write(fd, &1u64.to_ne_bytes()).unwrap();
    }

    fn read(&self, fd: Fd) {
        self.process.read(fd, &mut [0; 8]).unwrap();
    }

    /// Returns at most `max` members that are ready now.
    fn some_ready(&self, max: usize) -> Vec<(u64, EpollFlags)> {
        ready(&self.process, self.set, max, AT_ONCE)
    }

    fn ready(&self) -> Vec<(u64, EpollFlags)> {
        self.some_ready(16)
    }

    fn waiting_on(&self, set: Fd) -> Call<Vec<(u64, EpollFlags)>> {
        let process = self.process.clone();
        Call::start_waiting(move || ready(&process, set, 16, None))
    }
}

fn ready(
    process: &Process,
    set: Fd,
    max: usize,
    timeout: Option<Duration>,
) -> Vec<(u64, EpollFlags)> {
    let mut events = vec![EpollEvent::default(); max];
    let count = process.epoll_wait(set, &mut events, timeout).unwrap();
    let found = events[..count].iter();
    found.map(|event| (event.data, event.events)).collect()
}

fn found(fd: Fd, events: EpollFlags) -> (u64, EpollFlags) {
    (fd.index() as u64, events)
}

#[test]
fn a_level_is_returned_for_as_long_as_it_lasts() {
    let (world, fd) = World::with_member(IN);
    assert_eq!(world.ready(), []);
    world.write(fd);
    assert_eq!(world.ready(), [found(fd, IN)]);
    assert_eq!(world.ready(), [found(fd, IN)]);
    world.read(fd);
    assert_eq!(world.ready(), []);
}

#[test]
fn an_edge_is_returned_once_for_each_change() {
    let (world, fd) = World::with_member(IN | ET);
    world.write(fd);
    assert_eq!(world.ready(), [found(fd, IN)]);
    assert_eq!(world.ready(), []);
    world.write(fd);
    assert_eq!(world.ready(), [found(fd, IN)]);
    world.write(fd);
    world.read(fd);
    assert_eq!(world.ready(), []);
}

#[test]
fn a_file_that_is_ready_before_it_joins_is_returned() {
    let world = World::new();
    let fd = world.eventfd(1);
    world.join(fd, IN | ET).unwrap();
    assert_eq!(world.ready(), [found(fd, IN)]);
    assert_eq!(world.ready(), []);
    world.change(fd, IN | ET).unwrap();
    assert_eq!(world.ready(), [found(fd, IN)]);
}

#[test]
fn a_oneshot_fires_once_until_it_is_modified() {
    let (world, fd) = World::with_member(IN | ONESHOT);
    world.write(fd);
    assert_eq!(world.ready(), [found(fd, IN)]);
    world.write(fd);
    assert_eq!(world.ready(), []);
    world.change(fd, IN | ONESHOT).unwrap();
    assert_eq!(world.ready(), [found(fd, IN)]);
}

#[test]
fn the_requested_events_may_change() {
    let (world, fd) = World::with_member(IN);
    world.change(fd, OUT).unwrap();
    assert_eq!(world.ready(), [found(fd, OUT)]);
    world.change(fd, IN).unwrap();
    assert_eq!(world.ready(), []);
    world.change(fd, OUT | IN).unwrap();
    world.write(fd);
    assert_eq!(world.ready(), [found(fd, OUT | IN)]);
    world.change(fd, EpollFlags::empty()).unwrap();
    assert_eq!(world.ready(), []);
}

/// An event that was not requested at first wakes a waiter once it is.
#[test]
fn a_waiter_wakes_for_events_that_are_requested_later() {
    let (world, fd) = World::with_member(EpollFlags::PRI);
    let call = world.waiting_on(world.set);
    world.change(fd, IN).unwrap();
    call.assert_waiting();
    world.write(fd);
    assert_eq!(call.result(), [found(fd, IN)]);
}

#[test]
fn the_user_data_is_returned_as_it_was_last_set() {
    let (world, fd) = World::with_member(OUT);
    for data in [0, u64::MAX] {
        let event = Some(EpollEvent::new(OUT, data));
        let changed = world.process.epoll_ctl(world.set, EpollCtl::Mod, fd, event);
        assert_eq!(changed, Ok(()));
        assert_eq!(world.ready(), [(data, OUT)]);
    }
}

#[test]
fn members_take_turns() {
    let world = World::new();
    let members = [(); 3].map(|()| world.eventfd(1));
    for fd in members {
        world.join(fd, IN).unwrap();
    }
    let turns: Vec<_> = (0..6).flat_map(|_| world.some_ready(1)).collect();
    let in_order = members.map(|fd| found(fd, IN));
    assert_eq!(turns, [in_order, in_order].concat());
    assert_eq!(world.some_ready(2), in_order[..2]);
    let [one, other, third] = in_order;
    assert_eq!(world.ready(), [third, one, other]);
}

#[test]
fn the_key_of_a_member_is_its_descriptor_and_its_file() {
    let (world, fd) = World::with_member(IN);
    assert_eq!(world.join(fd, IN), Err(Errno::EEXIST));
    let copy = world.process.dup(fd).unwrap();
    assert_eq!(world.change(copy, IN), Err(Errno::ENOENT));
    assert_eq!(world.leave(copy), Err(Errno::ENOENT));
    world.join(copy, IN | OUT).unwrap();
    world.write(fd);
    assert_eq!(world.ready(), [found(copy, IN | OUT), found(fd, IN)]);
    world.leave(fd).unwrap();
    assert_eq!(world.leave(fd), Err(Errno::ENOENT));
    assert_eq!(world.ready(), [found(copy, IN | OUT)]);
}

/// As on Linux: the member is the open file, and the descriptor only its name.
#[test]
fn a_member_stays_until_its_last_descriptor_is_closed() {
    let (world, fd) = World::with_member(IN);
    let copy = world.process.dup(fd).unwrap();
    let child = world.process.fork().unwrap();
    world.process.close(fd).unwrap();
    world.write(copy);
    assert_eq!(world.ready(), [found(fd, IN)]);
    world.process.close(copy).unwrap();
    assert_eq!(world.ready(), [found(fd, IN)]);
    child.close(fd).unwrap();
    child.close(copy).unwrap();
    assert_eq!(world.ready(), []);
    // The descriptor is free for another file.
    let next = world.eventfd(1);
    assert_eq!(next, fd);
    world.join(next, IN).unwrap();
    assert_eq!(world.ready(), [found(fd, IN)]);
}

#[test]
fn a_set_keeps_no_file_open() {
    let world = World::new();
    let (reader, writer) = world.process.pipe2(OpenFlags::empty()).unwrap();
    world.join(reader, IN).unwrap();
    world.join(writer, OUT).unwrap();
    world.process.close(writer).unwrap();
    assert_eq!(world.process.read(reader, &mut [0]), Ok(0));
    assert_eq!(world.ready(), [found(reader, EpollFlags::HUP)]);
    world.process.close(reader).unwrap();
    assert_eq!(world.ready(), []);
}

#[test]
fn a_descriptor_may_stand_for_two_files() {
    let (world, fd) = World::with_member(IN);
    let copy = world.process.dup(fd).unwrap();
    world.process.close(fd).unwrap();
    let other = world.eventfd(1);
    assert_eq!(other, fd);
    world.join(other, IN).unwrap();
    world.write(copy);
    assert_eq!(world.ready(), [found(fd, IN), found(fd, IN)]);
}

#[test]
fn a_child_shares_the_set() {
    let (world, fd) = World::with_member(IN);
    let child = world.process.fork().unwrap();
    let own = child.eventfd(1, EventFdFlags::empty()).unwrap();
    let event = EpollEvent::new(IN, 77);
    child
        .epoll_ctl(world.set, EpollCtl::Add, own, Some(event))
        .unwrap();
    assert_eq!(world.ready(), [(77, IN)]);
    world.write(fd);
    assert_eq!(ready(&child, world.set, 16, AT_ONCE).len(), 2);
    drop(child);
    assert_eq!(world.ready(), [found(fd, IN)]);
}

#[test]
fn files_that_cannot_be_members_are_refused() {
    let world = World::new();
    let process = &world.process;
    let file = process
        .open("/file", OpenFlags::CREAT | OpenFlags::RDWR)
        .unwrap();
    assert_eq!(world.join(file, IN), Err(Errno::EPERM));
    assert_eq!(world.leave(file), Err(Errno::EPERM));
    assert_eq!(world.join(world.set, IN), Err(Errno::EINVAL));
    let fd = world.eventfd(0);
    assert_eq!(world.ctl(fd, EpollCtl::Add, fd, IN), Err(Errno::EINVAL));
    assert_eq!(world.ctl(fd, EpollCtl::Add, file, IN), Err(Errno::EPERM));
    let event = Some(EpollEvent::new(IN, 0));
    let none = process.epoll_ctl(world.set, EpollCtl::Add, 99, event);
    assert_eq!(none, Err(Errno::EBADF));
    let none = process.epoll_ctl(99, EpollCtl::Add, fd, event);
    assert_eq!(none, Err(Errno::EBADF));
    let none = process.epoll_ctl(world.set, EpollCtl::Add, fd, None);
    assert_eq!(none, Err(Errno::EFAULT));
    let unknown = EpollCreateFlags::from_bits_retain(1);
    assert_eq!(process.epoll_create1(unknown), Err(Errno::EINVAL));
}

#[test]
fn only_a_set_is_waited_for_with_room() {
    let world = World::new();
    let fd = world.eventfd(0);
    let mut events = [EpollEvent::default()];
    let mut wait =
        |fd: i32, room: usize| world.process.epoll_wait(fd, &mut events[..room], AT_ONCE);
    assert_eq!(wait(world.set.raw(), 0), Err(Errno::EINVAL));
    assert_eq!(wait(99, 1), Err(Errno::EBADF));
    assert_eq!(wait(fd.raw(), 1), Err(Errno::EINVAL));
    let set = world.set;
    assert_eq!(world.process.read(set, &mut [0; 8]), Err(Errno::EINVAL));
    assert_eq!(world.process.write(set, &[0; 8]), Err(Errno::EINVAL));
}

#[test]
fn a_wait_ends_with_its_time() {
    let (world, _) = World::with_member(IN);
    let start = std::time::Instant::now();
    let short = Duration::from_millis(20);
    assert_eq!(ready(&world.process, world.set, 1, Some(short)), []);
    assert!(start.elapsed() >= short);
}

#[test]
fn an_edge_wakes_one_waiter() {
    let (world, fd) = World::with_member(IN | ET);
    let (one, other) = (world.waiting_on(world.set), world.waiting_on(world.set));
    world.write(fd);
    assert_eq!(one.result(), [found(fd, IN)]);
    other.assert_waiting();
    world.write(fd);
    assert_eq!(other.result(), [found(fd, IN)]);
}

/// One after the other, as long as it lasts.
#[test]
fn a_level_wakes_all_waiters() {
    let (world, fd) = World::with_member(IN);
    let calls = [(); 3].map(|()| world.waiting_on(world.set));
    world.write(fd);
    for call in calls {
        assert_eq!(call.result(), [found(fd, IN)]);
    }
}

#[test]
fn two_members_serve_two_waiters_for_one_event_each() {
    let (world, fd) = World::with_member(IN | ET);
    let other = world.eventfd(0);
    world.join(other, IN | ET).unwrap();
    let calls = [(); 2].map(|()| {
        let (process, set) = (world.process.clone(), world.set);
        Call::start_waiting(move || ready(&process, set, 1, None))
    });
    world.write(fd);
    world.write(other);
    let mut served: Vec<_> = calls.into_iter().flat_map(Call::result).collect();
    served.sort_by_key(|&(data, _)| data);
    assert_eq!(served, [found(fd, IN), found(other, IN)]);
}

#[test]
fn a_set_is_ready_for_reading_when_a_member_is_ready() {
    let (world, fd) = World::with_member(IN);
    let mut fds = [PollFd::new(world.set, Events::all())];
    assert_eq!(world.process.poll(&mut fds, AT_ONCE), Ok(0));
    let (process, set) = (world.process.clone(), world.set);
    let call = Call::start_waiting(move || {
        let mut fds = [PollFd::new(set, Events::all())];
        process.poll(&mut fds, None).map(|_| fds[0].revents)
    });
    world.write(fd);
    assert_eq!(call.result(), Ok(Events::READABLE));
    world.read(fd);
    assert_eq!(world.process.poll(&mut fds, AT_ONCE), Ok(0));
}

#[test]
fn a_set_of_sets_learns_of_the_innermost_change() {
    let (world, fd) = World::with_member(IN);
    let outer = world.set();
    world.ctl(outer, EpollCtl::Add, world.set, IN | ET).unwrap();
    let call = world.waiting_on(outer);
    world.write(fd);
    assert_eq!(call.result(), [found(world.set, IN)]);
    assert_eq!(ready(&world.process, outer, 16, AT_ONCE), []);
    assert_eq!(world.ready(), [found(fd, IN)]);
    // The inner one leaves with its last descriptor.
    world.process.close(world.set).unwrap();
    world.write(fd);
    assert_eq!(ready(&world.process, outer, 16, AT_ONCE), []);
}

#[test]
fn sets_do_not_contain_each_other() {
    let world = World::new();
    let sets = [(); 6].map(|()| world.set());
    let link =
        |parent: usize, child: usize| world.ctl(sets[parent], EpollCtl::Add, sets[child], IN);
    link(0, 1).unwrap();
    assert_eq!(link(1, 0), Err(Errno::ELOOP));
    link(1, 2).unwrap();
    assert_eq!(link(2, 0), Err(Errno::ELOOP));
    link(3, 4).unwrap();
    assert_eq!(link(0, 1), Err(Errno::EEXIST));
    // A chain of five is the longest: 0, 1, 2, 3, 4.
    link(2, 3).unwrap();
    assert_eq!(link(4, 5), Err(Errno::ELOOP));
    assert_eq!(link(5, 0), Err(Errno::ELOOP));
    link(0, 5).unwrap();
    // Removing a link makes room.
    world
        .process
        .epoll_ctl(sets[2], EpollCtl::Del, sets[3], None)
        .unwrap();
    link(4, 2).unwrap();
    assert_eq!(link(2, 3), Err(Errno::ELOOP));
    // And removing a set removes its links.
    world.process.close(sets[4]).unwrap();
    link(2, 3).unwrap();
}

#[test]
fn exclusive_has_its_own_rules() {
    let world = World::new();
    let fd = world.eventfd(0);
    let other = world.set();
    assert_eq!(world.join(other, IN | EXCLUSIVE), Err(Errno::EINVAL));
    assert_eq!(world.join(fd, IN | EXCLUSIVE | ONESHOT), Err(Errno::EINVAL));
    let band = EpollFlags::RDNORM | EXCLUSIVE;
    assert_eq!(world.join(fd, band), Err(Errno::EINVAL));
    world.join(fd, IN | EXCLUSIVE | ET).unwrap();
    assert_eq!(world.change(fd, IN), Err(Errno::EINVAL));
    assert_eq!(world.change(fd, IN | EXCLUSIVE), Err(Errno::EINVAL));
    world.leave(fd).unwrap();
    world.join(fd, IN).unwrap();
    assert_eq!(world.change(fd, IN | EXCLUSIVE), Err(Errno::EINVAL));
}

#[test]
fn of_sets_that_share_a_member_one_with_a_waiter_is_notified() {
    let world = World::new();
    let fd = world.eventfd(0);
    let sets = [(); 3].map(|()| world.set());
    for set in sets {
        world
            .ctl(set, EpollCtl::Add, fd, IN | ET | EXCLUSIVE)
            .unwrap();
    }
    let (second, third) = (world.waiting_on(sets[1]), world.waiting_on(sets[2]));
    world.write(fd);
    assert_eq!(second.result(), [found(fd, IN)]);
    third.assert_waiting();
    // The first had no waiter, and the change is not lost for it.
    assert_eq!(ready(&world.process, sets[0], 1, AT_ONCE).len(), 1);
    world.write(fd);
    assert_eq!(third.result(), [found(fd, IN)]);
}

#[test]
fn a_revoked_member_is_returned_once_more_and_leaves() {
    let (world, fd) = World::with_member(IN);
    let call = world.waiting_on(world.set);
    FileRef::revoke(&world.process.files().get(fd).unwrap());
    assert_eq!(call.result(), [found(fd, EpollFlags::ERR)]);
    assert_eq!(world.ready(), []);
    assert_eq!(world.leave(fd), Err(Errno::EIO));
}

#[test]
fn every_kind_of_revoked_member_leaves_like_that() {
    let world = World::new();
    let process = &world.process;
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    for fd in [reader, writer, near, far] {
        world.join(fd, EpollFlags::PRI).unwrap();
    }
    for (fd, stays) in [(writer, reader), (near, far)] {
        FileRef::revoke(&process.files().get(fd).unwrap());
        let reports_error = |&(data, events): &(u64, EpollFlags)| {
            data == fd.index() as u64 && events.contains(EpollFlags::ERR)
        };
        assert!(world.ready().iter().any(reports_error));
        assert_eq!(world.ready(), [found(stays, EpollFlags::HUP)]);
        world.leave(stays).unwrap();
    }
}

#[test]
fn a_revoked_set_ends_the_wait() {
    let (world, _) = World::with_member(IN);
    let (process, set) = (world.process.clone(), world.set);
    let call =
        Call::start_waiting(move || process.epoll_wait(set, &mut [EpollEvent::default()], None));
    FileRef::revoke(&world.process.files().get(world.set).unwrap());
    assert_eq!(call.result(), Err(Errno::EIO));
}

/// As on Linux: a waiter holds the set.
#[test]
fn a_close_of_the_set_does_not_wake_a_waiter() {
    let (world, fd) = World::with_member(IN);
    let call = world.waiting_on(world.set);
    world.process.close(world.set).unwrap();
    call.assert_waiting();
    world.write(fd);
    assert_eq!(call.result(), [found(fd, IN)]);
}

#[test]
fn sets_that_share_members_are_notified_a_bounded_number_of_times() {
    let world = World::new();
    let inner = world.set();
    let mut below = vec![inner];
    let mut results = Vec::new();
    for _ in 0..4 {
        let sets: Vec<_> = (0..10).map(|_| world.set()).collect();
        for (&set, &member) in sets
            .iter()
            .flat_map(|set| below.iter().map(move |member| (set, member)))
        {
            results.push(world.ctl(set, EpollCtl::Add, member, IN));
        }
        below = sets;
    }
    // Not all of the last level are accepted: each has ten paths down to each of ten, and so on.
    let (accepted, refused): (Vec<_>, Vec<_>) =
        results.into_iter().partition(|result| result.is_ok());
    assert!(accepted.len() >= 10 + 100 + 10, "{}", accepted.len());
    assert!(!refused.is_empty());
    assert!(refused.iter().all(|result| *result == Err(Errno::EINVAL)));
    // A set has as many members as it likes.
    (0..900).for_each(|_| world.join(world.set(), IN).unwrap());
}
