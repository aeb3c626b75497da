//! Recording an operation of the calling thread.
//!
//! Everything between the first and the last instruction of a closure is traced, in any library:
//! the closure itself, `std`, the C library, `malloc`. Not traced are the kernel, for which there
//! are [remarks](crate::Remark), and handlers of other signals that interrupt the operation, which
//! are not part of it.
//!
//! The trace shows the machine code as it was compiled: build with optimisations to learn about an
//! optimised program.

use std::panic::resume_unwind;
use std::thread;

use crate::cpu_id::CpuId;
use crate::engine::Window;
use crate::error::Error;
use crate::trace::Trace;

/// Buffer for one trace after the other. All of its memory is allocated beforehand, as nothing can
/// be allocated in the middle of the operation's instructions.
pub struct Recorder(Window);

impl Recorder {
    /// Default limit of instructions of an operation: some seconds of stepping.
    pub const LIMIT: u32 = 1 << 20;

    /// Makes a recorder for operations of at most [`LIMIT`](Self::LIMIT) instructions. Allocates 48
    /// MiB, which the system provides as they are used. From then on the process handles `SIGTRAP`;
    /// foreign ones are passed on to the previous handler.
    ///
    /// # Errors
    /// - [`Error::NotSupported`] on other systems than Linux on x86-64.
    /// - [`Error::OutOfMemory`] if there is no memory.
    /// - [`Error::System`] if the kernel refuses the handler.
    pub fn new() -> Result<Self, Error> {
        Self::with_limit(Self::LIMIT)
    }

    /// As [`new`](Self::new), for operations of at most `limit` instructions, with 48 bytes for
    /// each.
    ///
    /// # Errors
    /// Errors of [`new`](Self::new).
    pub fn with_limit(limit: u32) -> Result<Self, Error> {
        Ok(Self(Window::new(limit)?))
    }

    /// Calls `operation` on the calling thread and traces it. Each instruction takes microseconds.
    ///
    /// A panic is traced as well, up to its end, and then continues.
    ///
    /// ```
    /// use conflict_tracer::{CpuId, Kind, Recorder};
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// # fn main() -> Result<(), conflict_tracer::Error> {
    /// # if !conflict_tracer::SUPPORTED { return Ok(()) }
    /// let hits = AtomicU64::new(0);
    /// // SAFETY: nothing here has restartable sequences.
    /// let cpu = unsafe { CpuId::claim() }?;
    /// let add = || hits.fetch_add(1, Ordering::Relaxed);
    /// let (before, trace) = Recorder::new()?.record(&cpu, add)?;
    ///
    /// assert_eq!(before, 0);
    /// assert!(trace.accesses().iter().any(|access| access.kind == Kind::Locked));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`Error::AlreadyTracing`] inside of an operation that is being traced. `operation` is not
    ///   called.
    /// - [`Error::System`] if the kernel refuses a stack for the handler. `operation` is not
    ///   called.
    ///
    /// # Panics
    /// If `operation` does.
    pub fn record<R>(
        &mut self,
        cpu: &CpuId,
        operation: impl FnOnce() -> R,
    ) -> Result<(R, Trace), Error> {
        match self.run(cpu, operation)? {
            Ok(response) => Ok((response, self.trace(cpu.index()))),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// As [`record`](Self::record), with the trace left in the window. Allocates nothing.
    pub(crate) fn run<R>(
        &mut self,
        cpu: &CpuId,
        operation: impl FnOnce() -> R,
    ) -> Result<thread::Result<R>, Error> {
        self.0.record(cpu.number(), operation)
    }

    /// Copies the trace of the last operation.
    pub(crate) fn trace(&self, cpu: usize) -> Trace {
        self.0.trace(cpu)
    }
}
