//! The reports that are made, their receivers, and the calls that they are about.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::frame::Frame;
use crate::options::{Owners, Report};

/// A call of the guest, before it is served.
pub(super) struct Call {
    pub(super) number: i64,
    pub(super) arguments: [i64; 6],
    /// True if the call came by a signal, and not from a rewritten site.
    pub(super) has_trapped: bool,
    /// Address at which the guest continues, and its stack pointer.
    pub(super) rip: u64,
    pub(super) rsp: u64,
}

/// True if a report of this process could not be written.
pub(super) static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// File that receives a report.
pub(super) struct Sink(File);

impl Sink {
    /// Returns `None` if the report is off.
    pub(super) fn open(report: &Report) -> io::Result<Option<Self>> {
        let file = match report {
            Report::Off => return Ok(None),
            Report::StandardError => {
                /// Above the descriptors that the runner's libraries open.
                const FIRST: i32 = 100;
                // SAFETY: it takes integers.
                let fd = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, FIRST) };
                if fd < 0 {
                    return Err(io::Error::last_os_error());
                }
                // SAFETY: opened above, for this file alone.
                unsafe { File::from_raw_fd(fd) }
            }
            Report::File(path) => {
                drop(File::create(path)?);
                OpenOptions::new().append(true).open(path)?
            }
        };
        Ok(Some(Self(file)))
    }

    /// Writes a text in one call. The first error of a process is reported on standard error.
    pub(super) fn write(&self, text: &str) {
        if let Err(error) = (&self.0).write_all(text.as_bytes())
            && !HAS_FAILED.swap(true, Ordering::Relaxed)
        {
            eprintln!("fdtable: a report is incomplete: {error}");
        }
    }
}

/// The reports that are made, each with its receiver.
pub(super) struct Observers {
    pub(super) statistics: Option<Sink>,
    pub(super) trace: Option<Sink>,
    pub(super) list: Option<Sink>,
    /// Receives reports about uses after close.
    pub(super) closes: Option<Sink>,
    pub(super) owners: Owners,
    /// Serves the calls.
    pub(super) serve: Serve,
}

/// Serves a call of the guest.
pub(super) type Serve = extern "C" fn(&mut Frame);

pub(super) static OBSERVERS: OnceLock<Observers> = OnceLock::new();
