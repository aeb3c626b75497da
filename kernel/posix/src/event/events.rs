//! Event files: `eventfd` and `epoll`.

use std::any::Any;
use std::ffi::{c_int, c_uint};
use std::time::{Duration, Instant};

use fdtable::FileRef;
use fdtable_vfs::event::{
    Epoll, EpollCreateFlags, EpollCtl, EpollEvent, EpollFlags, EventFdFlags, Events,
};
use fdtable_vfs::{Errno, PollFd, RcuObject};

use crate::abi::call::call;
use crate::abi::system::System;
use crate::abi::{handlers, uaccess};
use crate::event::polling::duration;
use crate::host::epoll::HostEpoll;
use crate::host::file::{HostFile, known_names};
use crate::host::watch;

/// Creates a counter: `eventfd(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_eventfd(initial: c_uint, flags: c_int) -> c_int {
    call(|system| {
        let flags = EventFdFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::EINVAL)?;
        system.process.eventfd(initial.into(), flags)
    })
}

/// Creates an epoll: `epoll_create(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_epoll_create(size: c_int) -> c_int {
    call(|system| {
        if size <= 0 {
            return Err(Errno::EINVAL);
        }
        system.process.epoll_create1(EpollCreateFlags::empty())
    })
}

/// Creates an epoll, with flags: `epoll_create1(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_epoll_create1(flags: c_int) -> c_int {
    call(|system| {
        let flags = EpollCreateFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::EINVAL)?;
        system.process.epoll_create1(flags)
    })
}

/// Adds, changes or removes a descriptor of an epoll: `epoll_ctl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_epoll_ctl(
    epfd: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    call(|system| {
        let requested = if operation == libc::EPOLL_CTL_DEL {
            None
        } else {
            // SAFETY: as the caller promises.
            Some(unsafe { uaccess::get(event) }?)
        };
        let operation_of_ours = match operation {
            libc::EPOLL_CTL_ADD => EpollCtl::Add,
            libc::EPOLL_CTL_MOD => EpollCtl::Mod,
            libc::EPOLL_CTL_DEL => EpollCtl::Del,
            _ => {
                system.opened_file(epfd)?;
                let file = system.opened_file(fd)?;
                return Err(match file.pollee() {
                    Some(_) => Errno::EINVAL,
                    None => Errno::EPERM,
                });
            }
        };
        if let Some(answer) = control_host_file(system, epfd, operation, fd, requested) {
            return answer;
        }
        let requested = requested.map(|requested| {
            let events = EpollFlags::from_bits_truncate(requested.events);
            EpollEvent::new(events, requested.u64)
        });
        watch::rewatch();
        let process = &system.process;
        process.epoll_ctl(epfd, operation_of_ours, fd, requested)
    })
}

/// Adds, changes or removes a host file: a member of the host epoll. Returns nothing if one of the
/// descriptors has another file.
fn control_host_file(
    system: &System,
    epfd: c_int,
    operation: c_int,
    fd: c_int,
    event: Option<libc::epoll_event>,
) -> Option<Result<(), Errno>> {
    let file = system.file(fd).ok()?;
    let host_file = HostFile::below(&**file)?;
    let set = system.file(epfd).ok()?;
    let epoll = epoll_below(&set)?;
    let control = || {
        let set = HostEpoll::beside(epoll, known_names)?;
        let used = host_file.fd();
        let host_fd = host_file.name_in(set, fd, &used)?;
        let host_epoll = HostEpoll::of(&**set).ok_or(Errno::EINVAL)?;
        host_epoll.control(operation, host_fd, event)
    };
    Some(control())
}

/// Returns the epoll behind an open file, if it is one.
fn epoll_below(file: &FileRef<RcuObject>) -> Option<&Epoll> {
    (&***file as &dyn Any).downcast_ref()
}

/// Waits for events of an epoll: `epoll_wait(2)`. A negative timeout means no limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_epoll_wait(
    epfd: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    milliseconds: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_epoll_pwait(epfd, events, most, milliseconds, std::ptr::null()) }
}

/// Waits for events of an epoll, with another signal mask: `epoll_pwait(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_epoll_pwait(
    epfd: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    milliseconds: c_int,
    mask: *const libc::sigset_t,
) -> c_int {
    call(|system| {
        let timeout = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        // SAFETY: as the caller promises.
        let mask = unsafe { uaccess::get_if_any(mask) }?;
        // SAFETY: as the caller promises.
        unsafe { epoll_wait(system, epfd, events, most, timeout, mask) }
    })
}

/// Waits for events of an epoll, with a timeout in nanoseconds: `epoll_pwait2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_epoll_pwait2(
    epfd: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    timeout: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let timeout = unsafe { duration(timeout) }?;
        // SAFETY: as the caller promises.
        let mask = unsafe { uaccess::get_if_any(mask) }?;
        // SAFETY: as the caller promises.
        unsafe { epoll_wait(system, epfd, events, most, timeout, mask) }
    })
}

/// Number of events from which on the members bound the internal buffer.
const MANY_EVENTS: usize = 1024;

/// Waits, and writes the events to an array of the caller.
///
/// # Safety
/// If `events` can be an address, there is room for `most` events.
unsafe fn epoll_wait(
    system: &System,
    epfd: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    timeout: Option<Duration>,
    mask: Option<libc::sigset_t>,
) -> Result<c_int, Errno> {
    let set = system.file(epfd)?;
    let bytes = usize::try_from(most).map(|most| most * size_of::<libc::epoll_event>());
    let is_some = bytes.is_ok_and(|bytes| bytes > 0 && bytes <= c_int::MAX as usize);
    let most = if is_some {
        most as usize
    } else {
        system.opened_file(epfd)?;
        return Err(Errno::EINVAL);
    };
    uaccess::check_range_end(events, most)?;
    let Some(epoll) = epoll_below(&set) else {
        system.opened_file(epfd)?;
        return Err(Errno::EINVAL);
    };
    let mut left = timeout;
    loop {
        // SAFETY: as the caller promises.
        let waited = unsafe { wait_in_host(epoll, events, most, left, mask.as_ref()) };
        left = match waited {
            Waited::Host(result) => return result.map(|count| count as c_int),
            Waited::Not(left) => left,
        };
        // With a host set, only the host's wait applies the mask, so this one does not block.
        let in_host = epoll.host_set().is_some();
        let now = if in_host { Some(Duration::ZERO) } else { left };
        let begun = Instant::now();
        // SAFETY: as the caller promises.
        let count = handlers::with_mask(mask, || unsafe {
            wait_for_all(system, epfd, epoll, events, most, now)
        })?;
        let may_sleep = left != Some(Duration::ZERO);
        if count == 0 && in_host && may_sleep {
            left = left.map(|left| left.saturating_sub(begun.elapsed()));
            if left != Some(Duration::ZERO) {
                continue;
            }
        }
        if count == 0 && may_sleep {
            // The time may have passed before a sleep. With a timeout of 0, the host lets none in.
            handlers::let_in(mask.as_ref())?;
        }
        return Ok(count);
    }
}

/// Result of [`wait_in_host`].
enum Waited {
    Host(Result<usize, Errno>),
    /// A member of ours may be ready. The timeout is what is left of it.
    Not(Option<Duration>),
}

/// Waits in the host, if the epoll has host files and no member of ours is ready. The host writes
/// the events.
///
/// # Safety
/// As for [`epoll_wait`].
#[inline]
unsafe fn wait_in_host(
    epoll: &Epoll,
    events: *mut libc::epoll_event,
    most: usize,
    timeout: Option<Duration>,
    mask: Option<&libc::sigset_t>,
) -> Waited {
    if epoll.host_set().is_none() {
        return Waited::Not(timeout);
    }
    // A wait that does not block, or has no end, needs no clock.
    let time = |time: Duration| Instant::now().checked_add(time);
    let deadline = timeout.filter(|time| !time.is_zero()).and_then(time);
    // A deadline too far ahead is none.
    let mut left = timeout.filter(|time| time.is_zero() || deadline.is_some());
    while let Some(waiting) = epoll.wait_in_host() {
        let Some(host_epoll) = HostEpoll::of(waiting.host()) else {
            break;
        };
        // SAFETY: as the caller promises.
        let waited = unsafe { host_epoll.wait_in_host(events, most, left, mask, true) };
        drop(waiting);
        if waited != Ok(0) {
            return Waited::Host(waited);
        }
        // The time has passed, or another thread has changed a member of ours.
        left = deadline.map(remaining).or(left);
        if left.is_some_and(|left| left.is_zero()) && epoll.wait_in_host().is_some() {
            return Waited::Host(Ok(0));
        }
    }
    Waited::Not(left)
}

/// Returns the time until a point in time.
fn remaining(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// Waits for members of both kinds.
///
/// # Safety
/// As for [`epoll_wait`].
unsafe fn wait_for_all(
    system: &System,
    epfd: c_int,
    epoll: &Epoll,
    events: *mut libc::epoll_event,
    most: usize,
    timeout: Option<Duration>,
) -> Result<c_int, Errno> {
    // No more events than members.
    let most = match most > MANY_EVENTS {
        true => most.min(epoll.members().len().max(MANY_EVENTS)),
        false => most,
    };
    watch::rewatch();
    // SAFETY: as the caller promises.
    let room =
        unsafe { uaccess::writable_prefix(events.cast(), most * size_of::<libc::epoll_event>()) };
    let most = most.min(room / size_of::<libc::epoll_event>());
    if most == 0 {
        return wait_without_room(system, epfd, timeout);
    }
    let mut found = vec![EpollEvent::default(); most];
    let count = epoll.wait(&mut found, timeout)?;
    for (index, event) in found.iter().take(count).enumerate() {
        let event = libc::epoll_event {
            events: event.events.bits(),
            u64: event.data,
        };
        // SAFETY: as the caller promises; the index is below `most`.
        unsafe { uaccess::put(events.add(index), event) }?;
    }
    Ok(count as c_int)
}

/// Waits like `epoll_wait` with an array that cannot be written. No event is lost.
#[cold]
fn wait_without_room(
    system: &System,
    epfd: c_int,
    timeout: Option<Duration>,
) -> Result<c_int, Errno> {
    // It reports a descriptor that is not an epoll.
    if let Err(errno) = system.process.epoll_wait(epfd, &mut [], timeout)
        && system.file(epfd)?.label() != "anon_inode:[eventpoll]"
    {
        return Err(errno);
    }
    match system
        .process
        .poll(&mut [PollFd::new(epfd, Events::IN)], timeout)?
    {
        0 => Ok(0),
        _ => Err(Errno::EFAULT),
    }
}
