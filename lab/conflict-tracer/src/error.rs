//! Errors of traces and comparisons.

use std::io;

use crate::directory::MAX_CPUS;

/// Reason why something could not be traced or compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Stepping needs Linux on x86-64. It is not supported here.
    #[error("tracing is not supported here: it needs Linux on x86-64")]
    NotSupported,
    /// There is no memory for the trace.
    #[error("no memory for the trace")]
    OutOfMemory,
    /// The thread is being traced already.
    #[error("this thread is being traced already")]
    AlreadyTracing,
    /// The thread is on a simulated CPU already.
    #[error("this thread is on a simulated CPU already")]
    AlreadySimulated,
    /// All simulated CPUs of the process are taken: [`MAX_CPUS`](crate::MAX_CPUS).
    #[error("all {MAX_CPUS} simulated CPUs are taken")]
    AllSimulated,
    /// There is no simulated CPU with this index.
    #[error("there is no simulated CPU {0}")]
    NoSuchCpu(usize),
    /// The requested number was none, or more than [`MAX_CPUS`](crate::MAX_CPUS).
    #[error("there can be 1 to {MAX_CPUS} simulated CPUs, not {0}")]
    CpuCount(usize),
    /// Two traces of one CPU cannot conflict.
    #[error("both traces are of CPU {0}")]
    SameCpu(usize),
    /// The operating system refused this step.
    #[error("{0}: {1}")]
    System(&'static str, #[source] io::Error),
}
