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
        Ring2 = "context switch, 2p/0K",
        Ring8 = "context switch, 8p/0K",
        PipeLatency = "latency, pipe",
        /// With a thread on each of two CPUs.
        PipeLatencyApart = "latency, pipe, 2 CPUs",
        PipeBandwidth = "bandwidth, pipe",
        FileReread = "bandwidth, file reread",
    }
}

impl Row {
    /// Returns the key of its figure, which is also its name in a request.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::NullCall => "lmbench.null_call_vs_plain",
            Self::OpenClose => "lmbench.open_close_vs_plain",
            Self::Select10 => "lmbench.select_10_vs_plain",
            Self::Select100 => "lmbench.select_100_vs_plain",
            Self::Select1000 => "lmbench.select_1000_vs_plain",
            Self::ForkExit => "lmbench.fork_exit_vs_plain",
            Self::ForkExec => "lmbench.fork_exec_vs_plain",
            Self::Ring2 => "lmbench.ring_2_vs_plain",
            Self::Ring8 => "lmbench.ring_8_vs_plain",
            Self::PipeLatency => "lmbench.pipe_latency_vs_plain",
            Self::PipeLatencyApart => "lmbench.pipe_latency_2_cpus_vs_plain",
            Self::PipeBandwidth => "lmbench.pipe_bandwidth_vs_plain",
            Self::FileReread => "lmbench.file_reread_vs_plain",
        }
    }
}

impl FromStr for Row {
    type Err = anyhow::Error;

    fn from_str(key: &str) -> anyhow::Result<Self> {
        let found = Self::ALL.into_iter().find(|row| row.key() == key);
        found.ok_or_else(|| anyhow!("no row is called {key}"))
    }
}
