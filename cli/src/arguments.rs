//! The command line as types.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};
#[cfg(feature = "experiments")]
use fdtable_bench::lmbench::{configuration::Configuration, subject};
#[cfg(feature = "systems")]
use fdtable_bench::slab::part;

#[cfg(feature = "systems")]
mod experiments;
#[cfg(feature = "systems")]
pub(crate) use experiments::*;

/// A kernel's descriptor table as a library, and its cost compared with others.
///
/// Without a command: what the five systems of the library gain, on one screen, in 90 seconds.
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
    #[cfg(feature = "systems")]
    /// Run a part of an experiment for another process.
    #[command(name = part::COMMAND, subcommand, hide = true)]
    Part(Part),
    #[cfg(feature = "experiments")]
    /// Serve one configuration of `lmbench`, turn by turn.
    #[command(name = subject::COMMAND, hide = true)]
    LmbenchSubject {
        /// With slabs and blocks, or without.
        configuration: Configuration,
    },
}

/// A program and its arguments.
#[derive(Debug, Args)]
pub(crate) struct Run {
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
    #[command(flatten)]
    pub(crate) observing: crate::observing::Observing,
    /// The program, as a shell finds it, and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) words: Vec<OsString>,
}
