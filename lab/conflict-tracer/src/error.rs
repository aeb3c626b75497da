//! Errors of traces and comparisons.

use std::fmt;
use std::io;

/// Reason why something could not be traced or compared.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Stepping needs Linux on x86-64. It is not supported here.
    NotSupported,
    /// There is no memory for the trace.
    OutOfMemory,
    /// The thread is being traced already.
    AlreadyTracing,
    /// The thread is on a simulated CPU already.
    AlreadySimulated,
    /// All simulated CPUs of the process are taken: [`MAX_CPUS`](crate::MAX_CPUS).
    AllSimulated,
    /// There is no simulated CPU with this index.
    NoSuchCpu(usize),
    /// The requested number was none, or more than [`MAX_CPUS`](crate::MAX_CPUS).
    CpuCount(usize),
    /// Two traces of one CPU cannot conflict.
    SameCpu(usize),
    /// The operating system refused this step.
    System(&'static str, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotSupported => {
                f.write_str("tracing is not supported here: it needs Linux on x86-64")
            }
            Error::OutOfMemory => f.write_str("no memory for the trace"),
            Error::AlreadyTracing => f.write_str("this thread is being traced already"),
            Error::AlreadySimulated => f.write_str("this thread is on a simulated CPU already"),
            Error::AllSimulated => {
                write!(f, "all {} simulated CPUs are taken", crate::MAX_CPUS)
            }
            Error::NoSuchCpu(cpu) => write!(f, "there is no simulated CPU {cpu}"),
            Error::CpuCount(count) => write!(
                f,
                "there can be 1 to {} simulated CPUs, not {count}",
                crate::MAX_CPUS
            ),
            Error::SameCpu(cpu) => write!(f, "both traces are of CPU {cpu}"),
            Error::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::System(_, error) => Some(error),
            _ => None,
        }
    }
}
