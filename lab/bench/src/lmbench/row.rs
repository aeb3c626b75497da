//! The rows, by lmbench's names.

use std::str::FromStr;

use anyhow::anyhow;
use serde::Serialize;

named! {
    /// Measured row.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Row {
        NullCall = "null call",
        OpenClose = "open/close",
        Select10 = "select, 10 fds",
        Select100 = "select, 100 fds",
        Select1000 = "select, 1000 fds",
        ForkExit = "fork, exit",
        ForkExec = "fork, exec, exit",
        Ring2 = "2p/0K",
        Ring8 = "8p/0K",
        PipeLatency = "pipe",
        /// With a thread on each of two CPUs.
        PipeLatencyApart = "pipe, 2 CPUs",
        PipeBandwidth = "pipe",
        FileReread = "file reread",
    }
}

/// The table of lmbench to which a row belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Processes,
    ContextSwitches,
    Latencies,
    Bandwidths,
}

impl Row {
    /// Returns the name of the figure that compares it with the plain configuration.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::NullCall => "lmbench.null_call_vs_plain",
            Self::OpenClose => "lmbench.open_close_vs_plain",
            Self::Select10 => "lmbench.select_10_vs_plain",
            Self::Select100 => "lmbench.select_100_vs_plain",
            Self::Select1000 => "lmbench.select_1000_vs_plain",
            Self::ForkExit => "lmbench.fork_exit_vs_plain",
            Self::ForkExec => "lmbench.fork_exec_vs_plain",
            Self::PipeLatency => "lmbench.pipe_latency_vs_plain",
            Self::PipeLatencyApart => "lmbench.pipe_latency_2_cpus_vs_plain",
            Self::PipeBandwidth => "lmbench.pipe_bandwidth_vs_plain",
            Self::Ring2 => "lmbench.ring_2_vs_plain",
            Self::Ring8 => "lmbench.ring_8_vs_plain",
            Self::FileReread => "lmbench.file_reread_vs_plain",
        }
    }

    pub(super) fn group(self) -> Group {
        match self {
            Self::NullCall
            | Self::OpenClose
            | Self::Select10
            | Self::Select100
            | Self::Select1000
            | Self::ForkExit
            | Self::ForkExec => Group::Processes,
            Self::Ring2 | Self::Ring8 => Group::ContextSwitches,
            Self::PipeLatency | Self::PipeLatencyApart => Group::Latencies,
            Self::PipeBandwidth | Self::FileReread => Group::Bandwidths,
        }
    }
}

impl Group {
    pub(super) const ALL: [Self; 4] = [
        Self::Processes,
        Self::ContextSwitches,
        Self::Latencies,
        Self::Bandwidths,
    ];

    /// Returns the heading of the table, with its unit.
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Processes => "Processor, processes: times in microseconds, smaller is better",
            Self::ContextSwitches => {
                "Context switching, a pipe included: times in microseconds, smaller is better"
            }
            Self::Latencies => {
                "Local communication latencies: round trips in microseconds, smaller is better"
            }
            Self::Bandwidths => "Local communication bandwidths in MB/s, bigger is better",
        }
    }

    pub(super) fn rows(self) -> impl Iterator<Item = Row> {
        Row::ALL.into_iter().filter(move |row| row.group() == self)
    }
}

/// A row by its figure, between processes.
impl FromStr for Row {
    type Err = anyhow::Error;

    fn from_str(key: &str) -> anyhow::Result<Self> {
        let found = Self::ALL.into_iter().find(|row| row.key() == key);
        found.ok_or_else(|| anyhow!("no row is called {key}"))
    }
}
