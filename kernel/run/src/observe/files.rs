//! Where descriptors were opened and closed: the list of open files, and uses after close.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::SystemTime;

use fdtable_listing::{Descriptor, List, Listing};
use fdtable_posix::{fdt_readlink, runner};

use super::observers::{Call, OBSERVERS, Observers, Sink};
use super::place::{self, Stack};
use super::trace::{self, Kind};
use crate::abi::exchange_mask;
use crate::guarded::Guarded;
use crate::memory::pointer;
use crate::options::Owners;

/// A call that has opened or closed a descriptor.
#[derive(Clone)]
struct Event {
    call: i64,
    thread: i32,
    time: SystemTime,
    stack: Stack,
}

impl Event {
    fn of(call: &Call) -> Self {
        Self {
            call: call.number,
            // SAFETY: it takes nothing.
            thread: unsafe { libc::gettid() },
            time: SystemTime::now(),
            stack: place::stack(call),
        }
    }

    /// Returns the call and its stack, one line each.
    fn report(&self, what: &str) -> String {
        let mut text = format!(
            "  {what} by {} in thread {}\n",
            trace::name(self.call),
            self.thread
        );
        for &address in &self.stack {
            let _ = writeln!(text, "    at {}", place::name(address));
        }
        text
    }
}

/// Recorded opens and closes, by descriptor.
struct Known {
    opened: BTreeMap<i32, Event>,
    closed: BTreeMap<i32, (Event, Option<Event>)>,
}

static KNOWN: Guarded<Known> = Guarded::new(Known {
    opened: BTreeMap::new(),
    closed: BTreeMap::new(),
});

/// Records the descriptors that a call has opened and closed, and reports a use after close.
pub(super) fn record(observers: &Observers, call: &Call, result: i64) {
    match call.number {
        libc::SYS_mmap | libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_mremap => {
            const EXECUTABLE: i64 = libc::PROT_EXEC as i64;
            if call.number == libc::SYS_munmap || call.arguments[2] & EXECUTABLE != 0 {
                place::forget_mappings();
            }
        }
        _ => {}
    }
    if result == -i64::from(libc::EBADF) {
        if let Some(sink) = &observers.closes {
            report_use(sink, call);
        }
        return;
    }
    if result < 0 {
        return;
    }
    if observers.closes.is_some() {
        record_close(call);
    }
    let opened = opened(call, result);
    if opened.is_empty() {
        return;
    }
    let records_place = observers.list.is_some() || observers.owners == Owners::Recorded;
    let event = records_place.then(|| Event::of(call));
    let mut known = KNOWN.lock();
    for fd in opened {
        known.closed.remove(&fd);
        if let Some(event) = &event {
            known.opened.insert(fd, event.clone());
        }
    }
}

/// Forgets the places of closes and mappings, when another program begins.
pub(super) fn in_program() {
    place::forget_mappings();
    KNOWN.lock().closed.clear();
}

/// Returns the descriptors that a call has opened.
fn opened(call: &Call, result: i64) -> Vec<i32> {
    let a = call.arguments;
    let pair_at = match call.number {
        libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_creat
        | libc::SYS_dup
        | libc::SYS_dup2
        | libc::SYS_dup3
        | libc::SYS_socket
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_epoll_create
        | libc::SYS_epoll_create1
        | libc::SYS_eventfd
        | libc::SYS_eventfd2
        | libc::SYS_timerfd_create
        | libc::SYS_signalfd
        | libc::SYS_signalfd4
        | libc::SYS_inotify_init
        | libc::SYS_inotify_init1
        | libc::SYS_memfd_create
        | libc::SYS_pidfd_open => return vec![result as i32],
        libc::SYS_fcntl if [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(a[1] as i32)) => {
            return vec![result as i32];
        }
        libc::SYS_pipe | libc::SYS_pipe2 => a[0],
        libc::SYS_socketpair => a[3],
        _ => return Vec::new(),
    };
    // SAFETY: the call has succeeded, so it has written two descriptors there.
    let pair = unsafe { pointer::<[i32; 2]>(pair_at.cast_unsigned()).read_unaligned() };
    pair.to_vec()
}

/// Records the descriptors that a call has closed.
fn record_close(call: &Call) {
    let a = call.arguments;
    let fds = match call.number {
        libc::SYS_close => vec![a[0] as i32],
        libc::SYS_close_range if a[2] & i64::from(libc::CLOSE_RANGE_CLOEXEC) == 0 => {
            let range = a[0] as u32..=a[1] as u32;
            let known = KNOWN.lock();
            let opened = known.opened.keys().copied();
            opened
                .filter(|fd| range.contains(&fd.cast_unsigned()))
                .collect()
        }
        _ => return,
    };
    let event = Event::of(call);
    let mut known = KNOWN.lock();
    for fd in fds {
        let opened = known.opened.remove(&fd);
        known.closed.insert(fd, (event.clone(), opened));
    }
}

/// Reports a call that has failed with EBADF, if its descriptor was closed before. Each close is
/// reported once.
fn report_use(sink: &Sink, call: &Call) {
    let kinds = trace::arguments(call.number).unwrap_or_default();
    for (kind, value) in kinds.iter().zip(call.arguments) {
        if !matches!(kind, Kind::Fd | Kind::At) {
            continue;
        }
        let fd = value as i32;
        let found = KNOWN.lock().closed.remove(&fd);
        let Some((closed, opened)) = found else {
            continue;
        };
        let what = match call.number {
            libc::SYS_close => "double close",
            _ => "use after close",
        };
        let mut text = format!(
            "fdtable: {what} of descriptor {fd} in process {}\n",
            std::process::id()
        );
        text += &Event::of(call).report("used");
        text += &closed.report("closed");
        if let Some(opened) = opened {
            text += &opened.report("opened");
        }
        sink.write(&text);
    }
}

/// Writes the list of open files.
pub(super) fn list(sink: &Sink) {
    let text = match runner::with_files(|files| Ok(files.list()?)) {
        Ok(listing) => described(listing).to_string(),
        Err(errno) => errno.to_string(),
    };
    let id = std::process::id();
    sink.write(&format!("fdtable: open files of process {id}\n{text}\n"));
}

/// Adds names, times and places to a list.
fn described(listing: Listing) -> Listing {
    let known = KNOWN.lock().opened.clone();
    let rows = listing.into_iter().map(|mut row| {
        let Some(Descriptor::Fd { fd, .. }) = row.descriptor else {
            return row;
        };
        if let Some(name) = name(fd.raw()) {
            row.description.name = name.into();
        }
        let Some(event) = known.get(&fd.raw()) else {
            return row;
        };
        let place = place::caller(&event.stack).unwrap_or_else(|| "an unknown place".to_owned());
        let opened = format!(
            "{} ({}, thread {}, {place})",
            row.description.name,
            trace::name(event.call),
            event.thread
        );
        row.description.name = opened.into();
        row.description.since = Some(event.time.into());
        row
    });
    rows.collect()
}

/// Returns the path of a descriptor.
fn name(fd: i32) -> Option<String> {
    let path = std::ffi::CString::new(format!("/proc/self/fd/{fd}")).ok()?;
    let mut name = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: the path is a C string, and there is room for the answer.
    let length = unsafe { fdt_readlink(path.as_ptr(), name.as_mut_ptr().cast(), name.len()) };
    name.truncate(usize::try_from(length).ok()?);
    Some(String::from_utf8_lossy(&name).into_owned())
}

/// The host's event descriptor by which the signal handler wakes the thread that lists; -1 if there
/// is none.
static WAKES: AtomicI32 = AtomicI32::new(-1);

/// Wakes the thread that lists, because a signal handler may take no lock. Returns false if there
/// is no list.
pub(crate) fn ask_for_list() -> bool {
    // Acquire: pairs with the release in `start_lister`, so the descriptor is open.
    let fd = WAKES.load(Ordering::Acquire);
    let one = 1_u64;
    // SAFETY: there are 8 bytes.
    fd >= 0 && unsafe { libc::write(fd, (&raw const one).cast(), 8) } == 8
}

/// Starts the thread that lists, if there is a list. The thread blocks all signals, because it is
/// no thread of the guest.
pub(crate) fn start_lister() {
    let Some(sink) = OBSERVERS.get().and_then(|all| all.list.as_ref()) else {
        return;
    };
    // SAFETY: it takes integers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    // Release: pairs with the acquire in `ask`. In a child, the parent's is replaced.
    let before = WAKES.swap(fd, Ordering::Release);
    if before >= 0 {
        // SAFETY: it takes an integer.
        unsafe { libc::close(before) };
    }
    let mask = exchange_mask(libc::SIG_SETMASK, !0);
    let body = move || {
        let mut count = 0_u64;
        // SAFETY: there is room for 8 bytes.
        while unsafe { libc::read(fd, (&raw mut count).cast(), 8) } == 8 {
            list(sink);
        }
    };
    // Without the thread, the list is written only at the end.
    if thread::Builder::new().spawn(body).is_err() {
        sink.write("fdtable: no thread for lists while the program runs\n");
    }
    exchange_mask(libc::SIG_SETMASK, mask);
}
