//! Simulated CPUs: threads that run one operation at a time.
//!
//! Each CPU is a thread of its own for as long as the [`Cpus`] live, so it has thread-local data, a
//! stack and a heap arena of its own, like a thread on a CPU of a large machine. Only one runs at a
//! time, which is sufficient for a [verdict](crate::conflicts) and deterministic.
//!
//! A trace names its CPU by the index among those that were started together, from 0. The CPU
//! number that code reads is [another](crate::numbers), which no other thread has.
//!
//! The transfer of an operation and its result to and from the CPU is not in the trace. The
//! operation moves to the stack of its CPU before the window opens, and its result leaves after it
//! is closed; the requesting thread copies the trace.

use std::panic::resume_unwind;

use crate::directory::MAX_CPUS;
use crate::engine;
use crate::error::Error;
use crate::recorder::Recorder;
use crate::trace::Trace;
use crate::worker::Worker;

/// Simulated CPUs, counted from 0. They end when this is dropped.
pub struct Cpus {
    recorder: Recorder,
    workers: Vec<Worker>,
}

impl Cpus {
    /// Starts `count` CPUs, at most [`MAX_CPUS`]. Raises the limit of heap arenas of the process,
    /// so that each has one of its own, where the C library has such a limit. Blocks until all run.
    ///
    /// # Errors
    /// - [`Error::CpuCount`] for none or too many.
    /// - As [`Recorder::new`] and [`CpuId::claim`](crate::CpuId::claim).
    /// - [`Error::System`] if the system refuses a thread.
    ///
    /// # Safety
    /// As for [`CpuId::claim`](crate::CpuId::claim), while one of them runs an operation.
    pub unsafe fn new(count: usize) -> Result<Self, Error> {
        // SAFETY: by the caller's promise.
        unsafe { Self::with_recorder(count, Recorder::new()?) }
    }

    /// As [`new`](Self::new), with a recorder that has another limit.
    ///
    /// # Errors
    /// Errors of [`new`](Self::new).
    ///
    /// # Safety
    /// Errors of [`new`](Self::new).
    pub unsafe fn with_recorder(count: usize, recorder: Recorder) -> Result<Self, Error> {
        if !(1..=MAX_CPUS).contains(&count) {
            return Err(Error::CpuCount(count));
        }
        engine::raise_arena_limit();
        let start = |cpu| {
            // SAFETY: by the caller's promise.
            unsafe { Worker::start(format!("cpu {cpu}")) }
        };
        let workers = (0..count).map(start).collect::<Result<_, _>>()?;
        Ok(Self { recorder, workers })
    }

    /// Returns the number of CPUs.
    pub fn count(&self) -> usize {
        self.workers.len()
    }

    /// Runs `operation` on CPU `cpu` without a trace, for set-up and warm-up. Blocks until done.
    ///
    /// ```
    /// # fn main() -> Result<(), conflict_tracer::Error> {
    /// # if !conflict_tracer::SUPPORTED { return Ok(()) }
    /// // SAFETY: nothing here has restartable sequences.
    /// let mut cpus = unsafe { conflict_tracer::Cpus::new(2) }?;
    /// let name = cpus.run(1, || std::thread::current().name().map(str::to_owned))?;
    /// assert_eq!(name.as_deref(), Some("cpu 1"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`].
    ///
    /// # Panics
    /// If `operation` does.
    pub fn run<R: Send>(
        &mut self,
        cpu: usize,
        operation: impl FnOnce() -> R + Send,
    ) -> Result<R, Error> {
        let worker = self.workers.get(cpu).ok_or(Error::NoSuchCpu(cpu))?;
        let result = worker.call(|_| operation());
        Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Runs `operation` on CPU `cpu`, and returns its result and trace. Blocks until done: some
    /// microseconds for each instruction.
    ///
    /// # Errors
    /// - [`Error::NoSuchCpu`].
    /// - As [`Recorder::record`].
    ///
    /// # Panics
    /// If `operation` does.
    pub fn trace<R: Send>(
        &mut self,
        cpu: usize,
        operation: impl FnOnce() -> R + Send,
    ) -> Result<(R, Trace), Error> {
        let worker = self.workers.get(cpu).ok_or(Error::NoSuchCpu(cpu))?;
        let recorder = &mut self.recorder;
        let result = worker.call(|id| recorder.run(id, operation));
        match result.unwrap_or_else(|panic| resume_unwind(panic))? {
            Ok(response) => Ok((response, self.recorder.trace(cpu))),
            Err(panic) => resume_unwind(panic),
        }
    }
}
