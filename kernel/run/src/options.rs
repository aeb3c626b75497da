//! Options of a run: reports about the program, and its table of descriptors.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of a run. The default reports nothing, and leaves the table as the host's limits say.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The calls by name at the end of each process, as `strace -c` prints them.
    pub statistics: Report,
    /// Each call on descriptors, as `strace -e trace=desc` prints them, and each that is answered
    /// with ENOSYS.
    pub trace: Report,
    /// The open files at the end of each process, and when another process sends SIGSTKFLT.
    pub list: Report,
    /// The table of descriptors.
    pub descriptors: Descriptors,
    /// Record of the places of opens.
    pub owners: Owners,
    /// Receiver of findings: uses after close and double closes, and what else it asks for.
    pub findings: Option<Findings>,
}

/// Receiver of findings about descriptors.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The socket that [`start_beside`](crate::start_beside) has returned.
    pub receiver: Arc<OwnedFd>,
    /// True if descriptors that are open at the end of a process are findings.
    pub leaks: bool,
}

/// Destination of a report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Report {
    /// None: the report is not made.
    #[default]
    Off,
    /// The standard error that the runner was started with.
    StandardError,
    /// A file of the host. It is created, or emptied; processes of the program append to it.
    File(PathBuf),
}

/// The table of descriptors.
#[derive(Debug, Clone, Default)]
pub struct Descriptors {
    /// How many opens a closed descriptor waits for before it is reused.
    pub quarantine: u32,
    /// Which free descriptor a new file takes.
    pub choice: Choice,
    /// The limit of descriptors, hard and soft, if it is not the host's.
    pub limit: Option<u32>,
}

/// Which free descriptor a new file takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// The lowest, as POSIX requires.
    #[default]
    Lowest,
    /// Any, as long as 0, 1 and 2 are open, so that calls on different CPUs do not disturb each
    /// other. `dup` takes the lowest.
    Any,
}

/// Record of the places of opens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Owners {
    /// No record.
    #[default]
    Unknown,
    /// The stack of each open. A report about a use after close shows it.
    Recorded,
}
