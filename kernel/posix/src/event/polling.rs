//! Waiting for descriptors: `poll`, `ppoll`, `select`, `pselect`.
//!
//! A set may contain our files and host files: see `host::watch`. Every signal handler ends a wait
//! with `EINTR`. A signal mask argument applies while it waits.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use fdtable_vfs::event::Events;
use fdtable_vfs::{Errno, FdSet, PollFd, select_to_poll};

use crate::abi::call::call;
use crate::abi::system::System;
use crate::abi::{handlers, uaccess};
use crate::host;
use crate::host::direct::pollfd;
use crate::host::file::OpenHostFd;
use crate::host::watch;

/// Waits until a descriptor is ready: `poll(2)`. A negative timeout means no limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_poll(
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    milliseconds: c_int,
) -> c_int {
    call(|system| {
        let timeout = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        // SAFETY: as the caller promises.
        unsafe { poll(system, fds, count, timeout, None) }
    })
}

/// Waits like `poll`, with another signal mask: `ppoll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_ppoll(
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let timeout = unsafe { duration(timeout) }?;
        // SAFETY: as the caller promises.
        let mask = unsafe { uaccess::get_if_any(mask) }?;
        // SAFETY: as the caller promises.
        unsafe { poll(system, fds, count, timeout, mask) }
    })
}

/// Waits until a descriptor of three sets is ready: `select(2)`. Writes the remaining time to
/// `timeout`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_select(
    count: c_int,
    read: *mut libc::fd_set,
    write: *mut libc::fd_set,
    except: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let given = unsafe { uaccess::get_if_any(timeout) }?;
        let limit = given.as_ref().map(duration_of_timeval).transpose()?;
        let begun = Instant::now();
        // SAFETY: as the caller promises.
        let ready = unsafe { select(system, count, [read, write, except], limit, None) };
        if let Some(limit) = limit {
            let left = limit.saturating_sub(begun.elapsed());
            let left = libc::timeval {
                tv_sec: left.as_secs().cast_signed(),
                tv_usec: left.subsec_micros().into(),
            };
            // On the host too, a timeout that cannot be written is no error.
            // SAFETY: it was read from there.
            let _ = unsafe { uaccess::put(timeout, left) };
        }
        ready
    })
}

/// Waits like `select`, with another signal mask, and does not change the timeout: `pselect(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_pselect(
    count: c_int,
    read: *mut libc::fd_set,
    write: *mut libc::fd_set,
    except: *mut libc::fd_set,
    timeout: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let timeout = unsafe { duration(timeout) }?;
        // SAFETY: as the caller promises.
        let mask = unsafe { uaccess::get_if_any(mask) }?;
        // SAFETY: as the caller promises.
        unsafe { select(system, count, [read, write, except], timeout, mask) }
    })
}

/// Polls an array of the caller.
///
/// # Safety
/// If `fds` can be an address, `count` entries are there, and nothing else accesses them during the
/// call.
unsafe fn poll(
    system: &System,
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: Option<Duration>,
    mask: Option<libc::sigset_t>,
) -> Result<c_int, Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    if count > system.process.files().limit() as usize {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as the caller promises.
    let entries = unsafe { uaccess::values(fds, count) }?;
    let mut polled = uaccess::vec_with_capacity(count)?;
    polled.extend(
        entries
            .iter()
            .map(|fd| PollFd::new(fd.fd, events(fd.events))),
    );
    let always = Events::ALWAYS | Events::NVAL;
    let ready = poll_for(system, &mut polled, always, timeout, mask)?;
    for (index, polled) in polled.iter().enumerate() {
        let revents = polled.revents.bits() as i16;
        // SAFETY: as the caller promises; the index is below `count`.
        unsafe { uaccess::put(&raw mut (*fds.add(index)).revents, revents) }?;
    }
    Ok(ready as c_int)
}

/// Polls files of either side. Of the events that are not requested, only `always` are reported.
fn poll_for(
    system: &System,
    fds: &mut [PollFd],
    always: Events,
    timeout: Option<Duration>,
    mask: Option<libc::sigset_t>,
) -> Result<usize, Errno> {
    let begun = Instant::now();
    if let Some(mut of_host) = HostFiles::of(system, fds) {
        let found = host::ppoll(&mut of_host.polled, timeout, mask.as_ref())?;
        let entries = fds.iter_mut().zip(&of_host.polled);
        let ready = entries
            .filter_map(|(one, polled)| one.note(events(polled.revents), always).then_some(()))
            .count();
        // The host does not wait where a file is ready for what is not to be reported.
        if ready > 0 || found == 0 {
            return Ok(ready);
        }
    }
    let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
    watch::rewatch();
    waiting(mask, || system.process.poll_for(fds, always, left))
}

/// Host files that are polled together, each with its entry for the host.
struct HostFiles {
    polled: Vec<libc::pollfd>,
    /// They keep the host descriptors open.
    _files: Vec<OpenHostFd>,
}

impl HostFiles {
    /// Looks up descriptors. A negative one stays in its place. Returns nothing unless there are
    /// host files, and all others are negative.
    fn of(system: &System, fds: &[PollFd]) -> Option<Self> {
        let (mut polled, mut files) = (Vec::new(), Vec::new());
        for one in fds {
            let mut entry = pollfd(one.fd, one.events.bits() as i16);
            if one.fd >= 0 {
                let host_fd = system.host_fd(one.fd).ok()??;
                entry.fd = host_fd.get();
                files.push(host_fd);
            }
            polled.push(entry);
        }
        let is_some = !files.is_empty();
        is_some.then_some(HostFiles {
            polled,
            _files: files,
        })
    }
}

/// Waits with another signal mask, if there is one. As on the host, signals that it unblocks come
/// before the end of the timeout, also if there was no time to sleep.
fn waiting(
    mask: Option<libc::sigset_t>,
    wait: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let ready = handlers::with_mask(mask, wait)?;
    if ready == 0 {
        handlers::let_in(mask.as_ref())?;
    }
    Ok(ready)
}

fn events(bits: i16) -> Events {
    Events::from_bits_truncate(u32::from(bits.cast_unsigned()))
}

/// Bits in a word of a set.
const WORD: usize = u64::BITS as usize;

/// Returns how many of `count` bits are examined. As on the host, the size of the table limits
/// them: a program may pass `getdtablesize()` and have room for only `FD_SETSIZE` bits.
fn examined_bits(system: &System, count: c_int) -> c_int {
    let files = system.process.files();
    let (mut past, mut end) = (libc::FD_SETSIZE as c_int, count);
    // Invariant: the last open descriptor below `count` is below `end`. If it is `FD_SETSIZE` or
    // more, it is at or above `past - 1`.
    while past < end {
        let middle = past + (end - past) / 2;
        match files.iter_from(middle).next() {
            Some((fd, ..)) if fd.raw() < end => past = fd.raw() + 1,
            _ => end = middle,
        }
    }
    count.min(past)
}

/// Selects from sets of the caller, which have room for `count` bits, whatever `FD_SETSIZE` is.
///
/// # Safety
/// Each set that can be an address has enough words for `count` bits, and nothing else accesses
/// them during the call.
unsafe fn select(
    system: &System,
    count: c_int,
    sets: [*mut libc::fd_set; 3],
    timeout: Option<Duration>,
    mask: Option<libc::sigset_t>,
) -> Result<c_int, Errno> {
    if count < 0 {
        return Err(Errno::EINVAL);
    }
    let count = examined_bits(system, count);
    let bits = count as usize;
    let words = bits.div_ceil(WORD);
    let mut copies = [None, None, None];
    for (copy, set) in copies.iter_mut().zip(sets) {
        if !set.is_null() {
            // SAFETY: as the caller promises.
            *copy = Some(unsafe { Set::read(set.cast(), words) }?);
        }
    }
    let sets = copies
        .each_mut()
        .map(|set| set.as_mut().map(|set: &mut Set| &mut set.bits));
    let mut fds = select_to_poll(count, &sets)?;
    poll_for(system, &mut fds, Events::NVAL, timeout, mask)?;
    let ready = system.process.select_from_poll(sets, &fds)?;
    for set in copies.into_iter().flatten() {
        // SAFETY: as the caller promises.
        unsafe { set.write_back(bits) }?;
    }
    Ok(ready as c_int)
}

/// Set of the caller, and a copy of it.
struct Set {
    place: *mut u64,
    bits: FdSet,
}

impl Set {
    /// Copies a set.
    ///
    /// # Safety
    /// If `at` can be an address, `words` words are there.
    unsafe fn read(at: *mut u64, words: usize) -> Result<Self, Errno> {
        // SAFETY: as the caller promises.
        let bits = FdSet::from_words(&unsafe { uaccess::values(at, words) }?);
        Ok(Set { place: at, bits })
    }

    /// Writes the result back. Clears the bits from `end` on in the last word: they are not
    /// examined.
    ///
    /// # Safety
    /// The set was read, and its memory is still valid.
    unsafe fn write_back(&self, end: usize) -> Result<(), Errno> {
        for (index, found) in self.bits.words().iter().enumerate() {
            let bits = end.saturating_sub(index * WORD).min(WORD);
            let mask = u64::MAX.checked_shr((WORD - bits) as u32).unwrap_or(0);
            // SAFETY: as the caller promises; the result has no more words than were read.
            unsafe { uaccess::put(self.place.add(index), found & mask) }?;
        }
        Ok(())
    }
}

/// Reads a timeout; null means none.
///
/// # Errors
/// `EFAULT`; `EINVAL` if it is not a valid time.
///
/// # Safety
/// If `at` can be an address, a `timespec` is there.
pub(crate) unsafe fn duration(at: *const libc::timespec) -> Result<Option<Duration>, Errno> {
    // SAFETY: as the caller promises.
    match unsafe { uaccess::get_if_any(at) }? {
        None => Ok(None),
        Some(time) => time_of(time.tv_sec, time.tv_nsec).map(Some),
    }
}

fn duration_of_timeval(time: &libc::timeval) -> Result<Duration, Errno> {
    // Like the host, accept a second or more in the microseconds.
    let carried = time.tv_sec.saturating_add(time.tv_usec / 1_000_000);
    time_of(carried, time.tv_usec % 1_000_000 * 1000)
}

pub(crate) fn time_of(seconds: i64, nanoseconds: i64) -> Result<Duration, Errno> {
    let nanoseconds = u32::try_from(nanoseconds).map_err(|_| Errno::EINVAL)?;
    let seconds = u64::try_from(seconds).map_err(|_| Errno::EINVAL)?;
    if nanoseconds >= 1_000_000_000 {
        return Err(Errno::EINVAL);
    }
    Ok(Duration::new(seconds, nanoseconds))
}
