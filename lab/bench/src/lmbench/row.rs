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

named! {
    /// The table of lmbench to which a row belongs, named by its heading.
    pub(super) enum Group {
        Processes = "Processor, processes: times in microseconds, smaller is better",
        ContextSwitches =
            "Context switching, a pipe included: times in microseconds, smaller is better",
        Latencies =
            "Local communication latencies: round trips in microseconds, smaller is better",
        Bandwidths = "Local communication bandwidths in MB/s, bigger is better",
    }
}

impl Row {
    /// Returns the key of its figure, and its table.
    fn key_and_group(self) -> (&'static str, Group) {
        use Group::{Bandwidths, ContextSwitches, Latencies, Processes};
        match self {
            Self::NullCall => ("lmbench.null_call_vs_plain", Processes),
            Self::OpenClose => ("lmbench.open_close_vs_plain", Processes),
            Self::Select10 => ("lmbench.select_10_vs_plain", Processes),
            Self::Select100 => ("lmbench.select_100_vs_plain", Processes),
            Self::Select1000 => ("lmbench.select_1000_vs_plain", Processes),
            Self::ForkExit => ("lmbench.fork_exit_vs_plain", Processes),
            Self::ForkExec => ("lmbench.fork_exec_vs_plain", Processes),
            Self::Ring2 => ("lmbench.ring_2_vs_plain", ContextSwitches),
            Self::Ring8 => ("lmbench.ring_8_vs_plain", ContextSwitches),
            Self::PipeLatency => ("lmbench.pipe_latency_vs_plain", Latencies),
            Self::PipeLatencyApart => ("lmbench.pipe_latency_2_cpus_vs_plain", Latencies),
            Self::PipeBandwidth => ("lmbench.pipe_bandwidth_vs_plain", Bandwidths),
            Self::FileReread => ("lmbench.file_reread_vs_plain", Bandwidths),
        }
    }

    /// Returns the key of its figure, which is also its name in a request.
    pub(super) fn key(self) -> &'static str {
        self.key_and_group().0
    }

    pub(super) fn group(self) -> Group {
        self.key_and_group().1
    }
}

impl FromStr for Row {
    type Err = anyhow::Error;

    fn from_str(key: &str) -> anyhow::Result<Self> {
        let found = Self::ALL.into_iter().find(|row| row.key() == key);
        found.ok_or_else(|| anyhow!("no row is called {key}"))
    }
}
