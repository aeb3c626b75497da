//! Waiting in the host: `poll`, `epoll`, and counters that wake a wait.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::time::Duration;

use fdtable::host_fork;
use fdtable_vfs::Errno;

use super::check::{check, done, errno, without_cancellation};
use super::direct::{Wait, call, pollfd, wait_for_events, words};
use super::paths::OwnedHostFd;

/// Returns the events that a descriptor is ready for, without blocking.
pub(crate) fn ready(fd: RawFd, events: i16) -> Result<i16, Errno> {
    let mut entry = pollfd(fd, events);
    // SAFETY: the pointer is to one entry.
    without_cancellation(|| check(unsafe { libc::poll(&raw mut entry, 1, 0) }))?;
    Ok(entry.revents)
}

/// Creates an epoll.
pub(crate) fn epoll_create() -> Result<OwnedHostFd, Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(OwnedHostFd)
}

/// Adds, changes or removes a file of an epoll.
pub(crate) fn epoll_control(
    epoll: RawFd,
    operation: c_int,
    fd: RawFd,
    event: Option<libc::epoll_event>,
) -> Result<(), Errno> {
    let mut event = event.unwrap_or(libc::epoll_event { events: 0, u64: 0 });
    // SAFETY: the entry is valid during the call.
    done(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) })
}

/// Waits for events of an epoll, at most `most`. A signal mask applies while it waits. May block.
///
/// # Safety
/// If `events` can be an address, there is room for `most` events.
pub(crate) unsafe fn epoll_wait_in(
    epoll: RawFd,
    events: *mut libc::epoll_event,
    most: usize,
    timeout: Option<Duration>,
    mask: Option<&libc::sigset_t>,
) -> Result<usize, Errno> {
    let mask = mask.map_or(std::ptr::null(), std::ptr::from_ref);
    let wait = |timeout: Option<Duration>| {
        let time = timeout.map(timespec);
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let a = words!(epoll, events, most, time, mask, SIGNAL_MASK_SIZE);
        // SAFETY: as the caller promises.
        unsafe { call(Wait::within(timeout), libc::SYS_epoll_pwait2, a) }
    };
    let _out = may_run_handlers(timeout, mask.is_null()).then(host_fork::blocking_section);
    wait_for_events(timeout, wait)
}

/// Bytes of a signal mask that the host's kernel reads.
const SIGNAL_MASK_SIZE: usize = 8;

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Waits for events of files. A signal mask applies while it waits. May block.
pub(crate) fn ppoll(
    entries: &mut [libc::pollfd],
    timeout: Option<Duration>,
    mask: Option<&libc::sigset_t>,
) -> Result<usize, Errno> {
    let mask = mask.map_or(std::ptr::null(), std::ptr::from_ref);
    let (place, count) = (entries.as_mut_ptr(), entries.len());
    let wait = |timeout: Option<Duration>| {
        let mut left = timeout.map(timespec);
        let left = left
            .as_mut()
            .map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let a = words!(place, count, left, mask, SIGNAL_MASK_SIZE);
        // SAFETY: the pointers are to values or null.
        unsafe { call(Wait::within(timeout), libc::SYS_ppoll, a) }
    };
    let _out = may_run_handlers(timeout, mask.is_null()).then(host_fork::blocking_section);
    wait_for_events(timeout, wait)
}

/// Returns true if a wait may block, or let signals in that its mask unblocks. A handler that runs
/// in such a wait must find the thread outside: after the wait, its signal is blocked again.
fn may_run_handlers(timeout: Option<Duration>, has_no_mask: bool) -> bool {
    timeout != Some(Duration::ZERO) || !has_no_mask
}

/// Creates a counter that never blocks.
pub(crate) fn eventfd() -> Result<OwnedHostFd, Errno> {
    // SAFETY: the call takes no pointer.
    let eventfd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) });
    eventfd.map(OwnedHostFd)
}

/// Makes a counter readable. Returns false if there is no such descriptor.
pub(crate) fn eventfd_set(eventfd: RawFd) -> bool {
    let one = 1_u64;
    // SAFETY: the value is there.
    let written =
        without_cancellation(|| unsafe { libc::write(eventfd, (&raw const one).cast(), 8) });
    // At the maximum, the counter is readable already.
    written == 8 || errno() != Errno::EBADF
}

/// Makes a counter unreadable.
pub(crate) fn eventfd_reset(eventfd: RawFd) {
    let mut count = 0_u64;
    // SAFETY: there is room. An error means that it is unreadable.
    without_cancellation(|| unsafe { libc::read(eventfd, (&raw mut count).cast(), 8) });
}

/// Adds a file to an epoll, edge-triggered and for all events. One that was added under this
/// descriptor, and closed while others have it, is there still: it gets the key.
pub(crate) fn epoll_add(epoll: RawFd, fd: RawFd, key: u64) -> Result<(), Errno> {
    let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLET;
    let event = Some(libc::epoll_event {
        events: events.cast_unsigned(),
        u64: key,
    });
    match epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, event) {
        Err(Errno::EEXIST) => epoll_control(epoll, libc::EPOLL_CTL_MOD, fd, event),
        done => done,
    }
}

/// Waits for events of an epoll, for so many milliseconds, or without limit if it is -1. Returns
/// keys and events. Must be called outside the freezer.
pub(crate) fn epoll_wait(epoll: RawFd, limit: c_int) -> Result<Vec<(u64, i16)>, Errno> {
    const MAX_EVENTS: usize = 64;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_EVENTS];
    // SAFETY: there is room for `MAX_EVENTS` events.
    let count =
        check(unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), MAX_EVENTS as c_int, limit) })?;
    let ready = events.iter().take(count as usize);
    Ok(ready
        .map(|event| (event.u64, event.events as i16))
        .collect())
}
