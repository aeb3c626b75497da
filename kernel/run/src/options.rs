//! Options of a run: reports about the program, and its table of descriptors.

use std::path::PathBuf;

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
    /// How many opens a closed descriptor waits for before it is reused. If it is not 0, each use
    /// of a descriptor after its close is reported on standard error.
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
