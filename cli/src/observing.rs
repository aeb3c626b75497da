//! Options of `run` about reports and the table of descriptors.

use std::path::PathBuf;

use clap::Args;
use fdtable_run::{Choice, Descriptors, Options, Owners, Report};

/// The end of the help.
pub(crate) const WARNING: &str = "This is no security boundary: the program shares its address \
space with the runner, and can write to its memory.";

#[derive(Debug, Default, Args)]
pub(crate) struct Observing {
    /// At the end of each process, report its system calls by name: number, time, errors, and the
    /// share that trapped. Without FILE on standard error.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    stats: Option<Option<PathBuf>>,
    /// Write each call on descriptors, and each that is answered with ENOSYS, like `strace -f -e
    /// trace=desc`. Without FILE to standard error.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    trace: Option<Option<PathBuf>>,
    /// List the open files of each process, with the time and the place of their opening, at its
    /// end, and whenever another process sends it SIGSTKFLT. Without FILE on standard error.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    list: Option<Option<PathBuf>>,
    /// Reuse a closed descriptor only after N more opens, and report uses after close and double
    /// closes on standard error, with stacks.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    quarantine: u32,
    /// Show in reports of uses after close where the descriptor was opened.
    #[arg(long)]
    owner: bool,
    /// Let new files, pipes and sockets take any free descriptor instead of the lowest, as long as 0, 1
    /// and 2 are open.
    #[arg(long)]
    any_fd: bool,
    /// Limit descriptors to N, whatever the limit of the host is.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1 << 30))]
    max_fd: Option<u32>,
}

impl Observing {
    /// Returns true if uses after close are reported.
    pub(crate) fn has_findings(&self) -> bool {
        self.quarantine > 0 || self.owner
    }

    /// Returns the options of the runner.
    pub(crate) fn options(self) -> Options {
        let report = |chosen: Option<Option<PathBuf>>| match chosen {
            None => Report::Off,
            Some(None) => Report::StandardError,
            Some(Some(path)) => Report::File(path),
        };
        Options {
            statistics: report(self.stats),
            trace: report(self.trace),
            list: report(self.list),
            descriptors: Descriptors {
                quarantine: self.quarantine,
                choice: match self.any_fd {
                    true => Choice::Any,
                    false => Choice::Lowest,
                },
                limit: self.max_fd,
            },
            owners: match self.owner {
                true => Owners::Recorded,
                false => Owners::Unknown,
            },
            findings: None,
        }
    }
}
