//! Reports about the calls of a guest, if the options ask for them.
//!
//! The entry serves a call through a pointer in the block of the thread. Without observers it leads
//! to the dispatcher, so that a call costs nothing more. With observers it leads to [`observed`],
//! which records the call around the dispatcher.
//!
//! A report looks up code under the lock of a change of code, and the change waits for each thread
//! that [returns](Block::returns) to the guest: so no thread counts as one while it records.
//!
//! Reports are made at the end of each process: by `exit_group`, by the exit of the last thread,
//! and by a signal whose default ends the program. The runner handles these signals itself,
//! reports, and then lets the host's default end the process, so that the exit status is the same.
//! SIGKILL, and signals that the host raises in calls of the runner, leave no report.

mod call;
mod descriptors;
mod event;
mod files;
mod findings;
mod list;
mod locks;
mod names;
mod observers;
mod sink;
mod statistics;
mod trace;
mod unwind;
mod waits;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fdtable_posix::runner;

use crate::block::Block;
use crate::frame::Frame;
use crate::options::{Choice, Options, Report};
use crate::patch;

use call::Call;
use findings::Findings;
pub(crate) use list::{ask_for_list, start_lister};
use observers::{Answer, OBSERVERS, Observers};
use sink::Sink;

/// True once this process has begun to make its reports.
static IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Prepares the table and the observers, before the guest starts. Returns the function that serves
/// and records the calls of its threads, if the options ask for reports.
///
/// # Errors
/// Errors of opening the file of a report, or of a quarantine, with a name for either.
pub(crate) fn begin(
    options: &Options,
    answer: Answer,
) -> Result<Option<extern "C" fn(&mut Frame)>, (String, io::Error)> {
    let open = |report: &Report| {
        let name = match report {
            Report::File(path) => path.display().to_string(),
            _ => "standard error".to_owned(),
        };
        Sink::open(report).map_err(|error| (name, error))
    };
    if let Some(limit) = options.descriptors.limit {
        runner::limit_descriptors(limit);
    }
    if options.descriptors.choice == Choice::Any {
        runner::open_any_descriptor();
    }
    let set = runner::set_quarantine(options.descriptors.quarantine);
    set.map_err(|errno| ("a quarantine".to_owned(), errno.into()))?;
    let observers = Observers {
        statistics: open(&options.statistics)?,
        trace: open(&options.trace)?,
        list: open(&options.list)?,
        findings: options.findings.as_ref().map(|asked| Findings {
            socket: Arc::clone(&asked.receiver),
            first: std::process::id(),
            leaks: asked.leaks,
            quarantine: options.descriptors.quarantine,
        }),
        owners: options.owners,
        answer,
    };
    let is_used = observers.statistics.is_some()
        || observers.trace.is_some()
        || observers.list.is_some()
        || observers.findings.is_some();
    if !is_used {
        return Ok(None);
    }
    // The one call before the guest starts.
    let _ = OBSERVERS.set(observers);
    Ok(Some(observed))
}

/// Serves a call, and records it.
extern "C" fn observed(frame: &mut Frame) {
    let block = Block::current();
    let Some(observers) = OBSERVERS.get() else {
        return;
    };
    block.returns.set(0);
    let site = match block.must_exit() {
        true => (observers.answer)(block, frame),
        false => record(observers, block, frame),
    };
    if site != 0 {
        frame.rip = patch::return_to(block, frame.rip);
    }
}

/// Serves a call, and records it. Returns the site at which it has trapped, or 0.
fn record(observers: &Observers, block: &'static Block, frame: &mut Frame) -> u64 {
    let site = block.trapped_at.get();
    let call = Call {
        number: i64::from(frame.rax as i32),
        arguments: frame.arguments(),
        has_trapped: site != 0,
        rip: frame.rip,
        rsp: frame.rsp,
        rbp: frame.rbp,
    };
    if let Some(findings) = &observers.findings {
        files::prepare(findings, &call);
    }
    // These calls do not return here.
    let leaves = matches!(
        call.number,
        libc::SYS_exit | libc::SYS_exit_group | libc::SYS_rt_sigreturn
    );
    if leaves {
        if observers.statistics.is_some() {
            statistics::count(&call, 0, 0);
        }
        return (observers.answer)(block, frame);
    }
    let line = observers.trace.as_ref().map(|_| trace::begin(&call));
    let begun = observers.statistics.is_some().then(Instant::now);
    let wait = observers.findings.as_ref().map(|_| waits::begin(&call));
    (observers.answer)(block, frame);
    drop(wait);
    let result = frame.rax.cast_signed();
    if let Some(begun) = begun {
        statistics::count(&call, result, begun.elapsed().as_nanos() as u64);
    }
    if let (Some(sink), Some(line)) = (&observers.trace, line) {
        trace::end(sink, line, &call, result);
    }
    if observers.findings.is_some() || observers.list.is_some() {
        files::record(observers, &call, result);
    }
    site
}

/// Makes the reports of this process, once.
pub(crate) fn at_end() {
    let Some(observers) = OBSERVERS.get() else {
        return;
    };
    // Relaxed: only the one exchange that finds `false` goes on; nothing else is published by it.
    if IS_REPORTED.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Some(sink) = &observers.list {
        list::write(sink);
    }
    if let Some(sink) = &observers.statistics {
        sink.write(&statistics::report());
    }
    if let Some(findings) = &observers.findings {
        files::at_end(findings);
        findings.end();
    }
}

/// Returns the exit code of a process whose own is `code`: 125 if a report is incomplete, or what
/// was asked for if there are findings.
pub(crate) fn exit_code(code: i32) -> i32 {
    match sink::HAS_FAILED.load(Ordering::Relaxed) {
        true => 125,
        false => findings::exit_code(code),
    }
}

/// Begins anew in the child of a fork: its reports are about its own calls.
pub(crate) fn in_child() {
    if OBSERVERS.get().is_some() {
        // Relaxed: the child has one thread.
        IS_REPORTED.store(false, Ordering::Relaxed);
        statistics::clear();
        files::in_child();
        start_lister();
    }
}

/// Forgets what concerns the program before, when another one begins.
pub(crate) fn in_program() {
    if let Some(observers) = OBSERVERS.get() {
        files::in_program(observers.findings.as_ref());
    }
}

/// Returns true if the runner handles a signal because its default ends the program: to report
/// before, and so that no process ends in the middle of a call.
pub(crate) fn is_last(signal: i32) -> bool {
    /// Real-time signals that the C library does not use.
    const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;
    ENDS.contains(&signal) || REAL_TIME.contains(&signal)
}

/// Signals whose default ends a program, without those that the runner always handles.
const ENDS: [i32; 17] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGFPE,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
];
