//! Findings about descriptors, for the process beside the program that prints them.
//!
//! A message has lines of a word and its value. Places are addresses in files: the other process
//! finds functions and lines, so that the program pays for neither.

use std::fmt::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{fs, io};

use fdtable_posix::runner;

use super::event::Event;
use super::sink::fail;
use super::{trace, unwind};

/// The kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    DoubleClose,
    UseAfterClose,
    /// A call waits on the descriptor.
    CloseDuringUse,
    LostLock,
    /// A listening socket that a program has got by `execve`, and does not use.
    Inherited,
    /// No descriptor was left for a call.
    Limit,
    Leak,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::DoubleClose => "double-close",
            Kind::UseAfterClose => "use-after-close",
            Kind::CloseDuringUse => "close-during-use",
            Kind::LostLock => "lost-lock",
            Kind::Inherited => "inherited",
            Kind::Limit => "limit",
            Kind::Leak => "leak",
        }
    }
}

/// A fault of the program.
pub(super) struct Finding {
    kind: Kind,
    fd: i32,
    name: String,
    thread: i32,
    /// The number of descriptors that it is about.
    pub(super) count: usize,
    events: String,
}

impl Finding {
    pub(super) fn new(kind: Kind, fd: i32, name: &str, thread: i32) -> Self {
        Self {
            kind,
            fd,
            name: name.replace('\n', "?"),
            thread,
            count: 1,
            events: String::new(),
        }
    }

    /// Adds a call that is concerned.
    pub(super) fn add(&mut self, what: &str, event: &Event) {
        let call = trace::name(event.call);
        let (process, thread) = (event.process, event.thread);
        let _ = writeln!(self.events, "event {call} {process} {thread} {what}");
        for &place in event.stack.iter() {
            let file = unwind::file(place).unwrap_or_default();
            let _ = writeln!(self.events, "at {:x} {file}", place.address);
        }
    }
}

/// The receiver of findings.
pub(super) struct Findings {
    pub(super) socket: Arc<OwnedFd>,
    /// The process in which the first program has begun.
    pub(super) first: u32,
    /// True if descriptors that are open at the end are findings.
    pub(super) leaks: bool,
    pub(super) quarantine: u32,
}

/// The exit code that the receiver has chosen for the first process; -1 for that of the program.
static EXIT_CODE: AtomicI32 = AtomicI32::new(-1);

impl Findings {
    /// Frees all descriptors that are in quarantine: the next open takes the lowest one. Programs
    /// close 0, 1 or 2 for that.
    pub(super) fn end_quarantine(&self) {
        // It needs memory only at its first begin.
        let _ = runner::set_quarantine(0);
        let _ = runner::set_quarantine(self.quarantine);
    }

    pub(super) fn send(&self, finding: &Finding) {
        let program = fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let text = format!(
            "kind {}\nprocess {}\nthread {}\nprogram {}\nfd {}\ncount {}\nfile {}\n{}",
            finding.kind.name(),
            std::process::id(),
            finding.thread,
            program.trim_end(),
            finding.fd,
            finding.count,
            finding.name,
            finding.events
        );
        self.send_text(&text);
    }

    fn send_text(&self, text: &str) {
        loop {
            let (fd, at) = (self.socket.as_raw_fd(), text.as_ptr().cast());
            // SAFETY: the bytes are there.
            if unsafe { libc::send(fd, at, text.len(), libc::MSG_NOSIGNAL) } >= 0 {
                return;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return fail(&error);
            }
        }
    }

    /// Ends the first process: waits until its findings are printed, and for its exit code.
    pub(super) fn end(&self) {
        if std::process::id() != self.first {
            return;
        }
        self.send_text("end\n");
        let mut code = -1_i32;
        loop {
            let (fd, at) = (self.socket.as_raw_fd(), (&raw mut code).cast());
            // SAFETY: there is room for 4 bytes.
            let length = unsafe { libc::recv(fd, at, 4, 0) };
            let is_interrupted =
                length < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            if !is_interrupted {
                break;
            }
        }
        EXIT_CODE.store(code, Ordering::Relaxed);
    }
}

/// Returns the exit code of this process, whose own is `code`.
pub(super) fn exit_code(code: i32) -> i32 {
    match EXIT_CODE.load(Ordering::Relaxed) {
        -1 => code,
        chosen => chosen,
    }
}
