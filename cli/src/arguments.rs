//! The command line as types.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
#[cfg(feature = "systems")]
use fdtable_bench::part;

#[cfg(feature = "systems")]
mod experiments;
#[cfg(feature = "systems")]
pub(crate) use experiments::*;

/// A kernel's descriptor table as a library, and its cost compared with others.
///
/// Without a command: what the five systems of the library gain, on one screen.
#[derive(Debug, Parser)]
#[command(name = "fdtable", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "systems")]
    /// Run one experiment, or all that this program was built with.
    Bench(Bench),
    #[cfg(feature = "experiments")]
    /// List which operations share cache lines, from traces of their machine code. Nothing is
    /// timed.
    Conflicts(Conflicts),
    /// Run an unmodified program on the kernel of this library. This is no security boundary.
    #[command(after_help = crate::observing::WARNING)]
    Run(Run),
    /// Print what `run` finds on this machine, and what each lack means.
    Doctor,
    /// Run a program, and report faults in its use of descriptors: double closes, uses after close,
    /// descriptors that are left open. This is no security boundary.
    #[command(after_help = crate::observing::WARNING)]
    Check(Check),
    #[cfg(feature = "systems")]
    /// Run a part of an experiment for another process.
    #[command(name = part::COMMAND, hide = true)]
    Part {
        /// The part, as JSON.
        part: String,
    },
}

/// A program, and the options of its run.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) observing: crate::observing::Observing,
    #[command(flatten)]
    pub(crate) guest: Guest,
}

/// A program, and what is reported about it.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Exit with N instead of the code of the program if there are findings, in any of its processes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) error_exitcode: Option<u8>,
    /// Report descriptors that a process has opened and leaves open at its end: each place in the
    /// program that has opened some, their number, or nothing.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Leaks::Summary)]
    pub(crate) leaks: Leaks,
    /// Do not report findings that FILE names: a line KIND:PATTERN for each. Can be given several
    /// times.
    #[arg(long, value_name = "FILE")]
    pub(crate) suppressions: Vec<PathBuf>,
    /// Write a line of JSON for each finding, and one for the summary.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write to FILE, and not to standard error.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Reuse a closed descriptor only after N more opens: so long a double close or a use after close is
    /// found.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) quarantine: u32,
    #[command(flatten)]
    pub(crate) guest: Guest,
}

/// How descriptors are reported that are open at the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Leaks {
    Full,
    Summary,
    No,
}

/// A program and its arguments, and the files that it sees.
#[derive(Debug, Args)]
pub(crate) struct Guest {
    /// Show the program HOSTDIR as /, and keep its changes in memory. /proc, /dev and /sys stay the
    /// host's.
    #[arg(long, value_name = "HOSTDIR")]
    pub(crate) root: Option<OsString>,
    /// Show the program what the host has in HOSTDIR, and keep its changes in memory. Can be given
    /// several times.
    #[arg(long, value_name = "HOSTDIR")]
    pub(crate) overlay: Vec<OsString>,
    /// Keep the files below PATH in memory, as below /fdt. Can be given several times.
    #[arg(long, value_name = "PATH")]
    pub(crate) mount: Vec<OsString>,
    /// The program, as a shell finds it, and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) words: Vec<OsString>,
}
