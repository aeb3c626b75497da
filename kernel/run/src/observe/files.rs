//! Opens and closes of descriptors, and the faults of the guest that they show.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fdtable_posix::fdt_fcntl;

use super::call::Call;
use super::event::Event;
use super::findings::{Finding, Findings, Kind};
use super::observers::Observers;
use super::unwind::{self, Place, Stack};
use super::{descriptors, locks, names, waits};
use crate::block::Block;
use crate::guarded::Guarded;
use crate::options::Owners;

/// An open descriptor.
#[derive(Clone)]
struct Opened {
    name: String,
    event: Option<Event>,
    /// True if this program has not opened it: its parent has, or the program before it.
    is_inherited: bool,
    /// True for a listening socket that the program has got by `execve`, until it uses it.
    is_unused: bool,
}

struct Closed {
    event: Event,
    opened: Opened,
    /// True once a use of it was reported.
    is_reported: bool,
}

/// The last closes of a thread, if their descriptors were one behind the other, at one place.
///
/// Programs close all descriptors of a [range](descriptors::RANGE) before they execute another
/// program. This is no fault.
struct Series {
    last: i32,
    stack: Stack,
    length: usize,
    /// Double closes that are no findings if the series becomes longer.
    held: Vec<Finding>,
}

/// Recorded opens and closes, by descriptor, and series of closes, by thread.
struct Known {
    opened: BTreeMap<i32, Opened>,
    closed: BTreeMap<i32, Closed>,
    series: BTreeMap<i32, Series>,
}

static KNOWN: Guarded<Known> = Guarded::new(Known {
    opened: BTreeMap::new(),
    closed: BTreeMap::new(),
    series: BTreeMap::new(),
});

/// The number of findings that the series hold.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// True if the program has descriptors that it has not used.
static HAS_UNUSED: AtomicBool = AtomicBool::new(false);
/// True once the process had no descriptor left.
static HAS_REACHED_LIMIT: AtomicBool = AtomicBool::new(false);

/// Prepares for a call: notes the name of a descriptor that it closes, reports what the close does
/// to others, and ends the series of the thread if it is no close.
pub(super) fn prepare(findings: &Findings, call: &Call) {
    if let Some(fd) = descriptors::closed(call) {
        let known = |known: &Opened| !names::changes(&known.name);
        if !KNOWN.lock().opened.get(&fd).is_some_and(known)
            && is_open(fd)
            && let Some(name) = names::of(fd)
        {
            let mut all = KNOWN.lock();
            let opened = all.opened.entry(fd).or_insert_with(Opened::unknown);
            opened.name = name;
        }
        report_before_close(findings, call, fd);
    }
    let ends_series = HELD.load(Ordering::Relaxed) > 0 || call.number == libc::SYS_exit;
    if ends_series && call.number != libc::SYS_close {
        end_series(findings, Block::current().id.get());
    }
}

/// Reports locks that a close drops, and calls that wait on its descriptor.
fn report_before_close(findings: &Findings, call: &Call, fd: i32) {
    let locks = locks::dropped(fd);
    let waits = waits::on(fd);
    if locks.is_empty() && waits.is_empty() {
        return;
    }
    let event = Event::of(call);
    let opened = KNOWN.lock().opened.get(&fd).cloned();
    let opened = opened.unwrap_or_else(Opened::unknown);
    let report = |kind, what, other: &Event| {
        let mut finding = Finding::new(kind, fd, &opened.name, event.thread);
        finding.add("closed", &event);
        finding.add(what, other);
        if let Some(event) = &opened.event {
            finding.add("opened", event);
        }
        findings.send(&finding);
    };
    for lock in locks {
        report(Kind::LostLock, "locked", &lock.event);
    }
    for (thread, call) in waits {
        let event = Event::of_thread(&call, thread);
        report(Kind::CloseDuringUse, "in use", &event);
    }
}

impl Opened {
    fn unknown() -> Self {
        Self {
            name: String::new(),
            event: None,
            is_inherited: true,
            is_unused: false,
        }
    }
}

/// Ends the series of a thread, and sends what it holds unless it is a range.
fn end_series(findings: &Findings, thread: i32) {
    let Some(series) = KNOWN.lock().series.remove(&thread) else {
        return;
    };
    HELD.fetch_sub(series.held.len(), Ordering::Relaxed);
    if series.length < descriptors::RANGE {
        series.held.iter().for_each(|held| findings.send(held));
    }
}

/// Ends the series of all threads.
fn end_all_series(findings: &Findings) {
    let threads: Vec<i32> = KNOWN.lock().series.keys().copied().collect();
    for thread in threads {
        end_series(findings, thread);
    }
}

/// Records the descriptors that a call has opened and closed, and reports a use after close.
pub(super) fn record(observers: &Observers, call: &Call, result: i64) {
    record_mappings(call, result);
    if let Some(findings) = &observers.findings {
        record_uses(findings, call, result);
    }
    if result < 0 {
        return;
    }
    let opened = descriptors::opened(call, result);
    if opened.is_empty() {
        return;
    }
    let records_place = observers.list.is_some() || observers.owners == Owners::Recorded;
    let event = records_place.then(|| Event::of(call));
    for fd in opened {
        let of_copy = descriptors::source(call);
        let copied = of_copy.and_then(|fd| Some(KNOWN.lock().opened.get(&fd)?.name.clone()));
        let name = copied.or_else(|| names::opened(call, fd));
        let mut known = KNOWN.lock();
        known.closed.remove(&fd);
        let opened = Opened {
            name: name.unwrap_or_default(),
            event: event.clone(),
            is_inherited: false,
            is_unused: false,
        };
        known.opened.insert(fd, opened);
    }
}

/// Records what a call has done with descriptors that were open before, and reports faults.
fn record_uses(findings: &Findings, call: &Call, result: i64) {
    match call.number {
        libc::SYS_close => record_close(findings, call, result),
        libc::SYS_close_range if result >= 0 => record_close_range(findings, call),
        libc::SYS_fcntl if result >= 0 => locks::record(call),
        _ => {}
    }
    for fd in descriptors::without_file(call, result) {
        report_use(findings, call, fd);
    }
    if HAS_UNUSED.load(Ordering::Relaxed) {
        let mut known = KNOWN.lock();
        for fd in descriptors::used(call) {
            let used = known.opened.entry(fd);
            used.and_modify(|opened| opened.is_unused = false);
        }
    }
    if result == -i64::from(libc::EMFILE) && !HAS_REACHED_LIMIT.swap(true, Ordering::Relaxed) {
        report_limit(findings, call);
    }
}

/// Notes what a call has done with code in memory.
fn record_mappings(call: &Call, result: i64) {
    const EXECUTABLE: i64 = libc::PROT_EXEC as i64;
    let [address, length, protection, ..] = call.arguments.map(i64::cast_unsigned);
    let is_code = protection.cast_signed() & EXECUTABLE != 0;
    let start = match call.number {
        _ if result < 0 => return,
        libc::SYS_mmap if is_code => result.cast_unsigned(),
        libc::SYS_munmap | libc::SYS_mremap => address,
        libc::SYS_mprotect if is_code => return unwind::map_code(),
        _ => return,
    };
    unwind::unmap(&(start..start.saturating_add(length)));
    if is_code {
        unwind::map_code();
    }
}

/// Forgets what concerns a program that has ended, when another one begins in its process.
pub(super) fn in_program(findings: Option<&Findings>) {
    if let Some(findings) = findings {
        end_all_series(findings);
    }
    unwind::unmap(&(0..u64::MAX));
    unwind::map_code();
    let mut known = KNOWN.lock();
    known.closed.clear();
    known.opened.retain(|&fd, _| is_open(fd));
    inherit(&mut known);
    for (&fd, opened) in &mut known.opened {
        opened.is_unused = opened.event.is_some() && names::is_listening(fd);
        if opened.is_unused {
            HAS_UNUSED.store(true, Ordering::Relaxed);
        }
    }
}

/// Begins anew in the child of a fork.
pub(super) fn in_child() {
    let mut known = KNOWN.lock();
    known.series.clear();
    HELD.store(0, Ordering::Relaxed);
    HAS_UNUSED.store(false, Ordering::Relaxed);
    HAS_REACHED_LIMIT.store(false, Ordering::Relaxed);
    inherit(&mut known);
    locks::in_child();
    waits::in_child();
}

fn inherit(known: &mut Known) {
    for opened in known.opened.values_mut() {
        opened.is_inherited = true;
        opened.is_unused = false;
    }
}

fn is_open(fd: i32) -> bool {
    // SAFETY: it takes no pointer.
    unsafe { fdt_fcntl(fd, libc::F_GETFD, 0) >= 0 }
}

/// Records a close, and continues the series of its thread.
fn record_close(findings: &Findings, call: &Call, result: i64) {
    let fd = call.arguments[0] as i32;
    let event = Event::of(call);
    let is_new = {
        let mut known = KNOWN.lock();
        let series = known.series.get_mut(&event.thread);
        match series.filter(|it| it.last.abs_diff(fd) == 1 && it.stack == event.stack) {
            Some(series) => {
                (series.last, series.length) = (fd, series.length + 1);
                false
            }
            None => true,
        }
    };
    if is_new {
        end_series(findings, event.thread);
        let series = Series {
            last: fd,
            stack: event.stack.clone(),
            length: 1,
            held: Vec::new(),
        };
        KNOWN.lock().series.insert(event.thread, series);
    }
    if result >= 0 {
        close(findings, fd, event);
    }
}

/// Records the descriptors that a range has closed.
fn record_close_range(findings: &Findings, call: &Call) {
    let [first, last, flags, ..] = call.arguments;
    if flags & i64::from(libc::CLOSE_RANGE_CLOEXEC) != 0 {
        return;
    }
    let range = first as u32..=last as u32;
    let event = Event::of(call);
    let fds: Vec<i32> = KNOWN.lock().opened.keys().copied().collect();
    for fd in fds {
        if range.contains(&fd.cast_unsigned()) {
            close(findings, fd, event.clone());
        }
    }
}

fn close(findings: &Findings, fd: i32, event: Event) {
    if fd <= libc::STDERR_FILENO {
        findings.end_quarantine();
    }
    let mut known = KNOWN.lock();
    let opened = known.opened.remove(&fd).unwrap_or_else(Opened::unknown);
    let closed = Closed {
        event,
        opened,
        is_reported: false,
    };
    known.closed.insert(fd, closed);
}

/// Reports a call on a descriptor that has no file, if it was closed before. Each close is reported
/// once.
fn report_use(findings: &Findings, call: &Call, fd: i32) {
    // A call may fail with EBADF for the rights of a descriptor too.
    if !KNOWN.lock().closed.contains_key(&fd) || is_open(fd) {
        return;
    }
    let event = Event::of(call);
    let mut known = KNOWN.lock();
    let Some(closed) = known.closed.get_mut(&fd) else {
        return;
    };
    if std::mem::replace(&mut closed.is_reported, true) {
        return;
    }
    let kind = match call.number {
        libc::SYS_close => Kind::DoubleClose,
        _ => Kind::UseAfterClose,
    };
    let thread = event.thread;
    let mut finding = Finding::new(kind, fd, &closed.opened.name, thread);
    let what = match kind {
        Kind::DoubleClose => "closed again",
        _ => "used",
    };
    finding.add(what, &event);
    finding.add("closed", &closed.event);
    if let Some(event) = &closed.opened.event {
        finding.add("opened", event);
    }
    match known.series.get_mut(&thread) {
        Some(series) if kind == Kind::DoubleClose => {
            series.held.push(finding);
            HELD.fetch_add(1, Ordering::Relaxed);
        }
        _ => findings.send(&finding),
    }
}

/// Open descriptors with a stack of their opening, by it.
type Places<'k> = BTreeMap<&'k [Place], Vec<(i32, &'k Opened, &'k Event)>>;

fn places<'k>(opened: impl Iterator<Item = (&'k i32, &'k Opened)>) -> Places<'k> {
    let mut places = Places::new();
    for (&fd, opened) in opened {
        if let Some(event) = &opened.event {
            let place = places.entry(&event.stack).or_default();
            place.push((fd, opened, event));
        }
    }
    places
}

/// Reports a call for which no descriptor was left, with the place that has opened most.
fn report_limit(findings: &Findings, call: &Call) {
    let event = Event::of(call);
    let known = KNOWN.lock();
    let places = places(known.opened.iter());
    let Some(most) = places.values().max_by_key(|place| place.len()) else {
        return;
    };
    let (fd, opened, opening) = most[0];
    let mut finding = Finding::new(Kind::Limit, fd, &opened.name, event.thread);
    finding.count = most.len();
    finding.add("failed", &event);
    finding.add("opened", opening);
    findings.send(&finding);
}

/// Reports what is left at the end of a process: findings that were held, sockets that its program
/// has got and not used, and open descriptors that it has opened.
pub(super) fn at_end(findings: &Findings) {
    end_all_series(findings);
    let known = KNOWN.lock();
    let open = || known.opened.iter().filter(|&(&fd, _)| is_open(fd));
    let report = |kind, place: &[(i32, &Opened, &Event)]| {
        let (fd, opened, event) = place[0];
        let name = match names::changes(&opened.name) {
            true => names::of(fd).unwrap_or_default(),
            false => opened.name.clone(),
        };
        let mut finding = Finding::new(kind, fd, &name, event.thread);
        finding.count = place.len();
        finding.add("opened", event);
        findings.send(&finding);
    };
    for unused in places(open().filter(|(_, opened)| opened.is_unused)).values() {
        report(Kind::Inherited, unused);
    }
    if findings.leaks {
        for leaked in places(open().filter(|(_, opened)| !opened.is_inherited)).values() {
            report(Kind::Leak, leaked);
        }
    }
}

/// Returns the calls that have opened the open descriptors.
pub(super) fn openings() -> BTreeMap<i32, Event> {
    let known = KNOWN.lock();
    let opened = known.opened.iter();
    let events = opened.filter_map(|(&fd, opened)| Some((fd, opened.event.clone()?)));
    events.collect()
}
