//! Receivers of reports.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::options::Report;

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
        if let Err(error) = (&self.0).write_all(text.as_bytes()) {
            fail(&error);
        }
    }
}

/// Notes that a report is incomplete.
pub(super) fn fail(error: &io::Error) {
    if !HAS_FAILED.swap(true, Ordering::Relaxed) {
        eprintln!("fdtable: a report is incomplete: {error}");
    }
}
