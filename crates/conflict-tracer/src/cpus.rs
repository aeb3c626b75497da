//! Simulated CPUs: threads that do one operation at a time.
//!
//! Each CPU is a thread of its own for as long as the [`Cpus`] live, so it has thread-local data, a
//! stack and a heap arena of its own, as a thread on a CPU of a large machine has. Only one runs at
//! a time, which is all that a [verdict](crate::conflicts) needs, and the same every time.
//!
//! What is traced is named by its CPU's place among those that were started together, from 0. The
//! number that code is told is [another](crate::numbers), which no other thread has.
//!
//! What is handed over and back stays out of the trace. The operation moves to the stack of its CPU
//! before the window opens, and its answer leaves after it is closed; the trace is copied by the
//! thread that asked.

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
    /// - [`Error::System`] if there is no thread to be had.
    ///
    /// # Safety
    /// As for [`CpuId::claim`](crate::CpuId::claim), while one of them does something.
    pub unsafe fn new(count: usize) -> Result<Self, Error> {
        // SAFETY: as the caller promises.
        unsafe { Self::with_recorder(count, Recorder::new()?) }
    }

    /// As [`new`](Self::new), with a recorder that has a limit of its own.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Safety
    /// As [`new`](Self::new).
    pub unsafe fn with_recorder(count: usize, recorder: Recorder) -> Result<Self, Error> {
        if !(1..=MAX_CPUS).contains(&count) {
            return Err(Error::CpuCount(count));
        }
        engine::raise_arena_limit();
        let start = |cpu| {
            // SAFETY: as the caller promises.
            unsafe { Worker::start(format!("cpu {cpu}")) }
        };
        let workers = (0..count).map(start).collect::<Result<_, _>>()?;
        Ok(Self { recorder, workers })
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.workers.len()
    }

    /// Has CPU `cpu` do something without a trace, for setting up and warming up. Blocks until
    /// done.
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

    /// Has CPU `cpu` do `operation`, and returns its answer and trace. Blocks until done: some
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
