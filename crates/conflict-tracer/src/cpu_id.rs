//! The simulated CPU of a thread.
//!
//! Code with data for each CPU asks which one it runs on. While a thread has a [`CpuId`], that code
//! is told the simulated number, by the C library's own means: the thread's rseq area and
//! `sched_getcpu` at any time, the system call `getcpu` while the thread is traced. Restartable
//! sequences run to their end under stepping then, which they would not otherwise.
//!
//! Not told are code that asks the processor itself (`rdpid`, `lsl`, `rdtscp`, as `getcpu` in the
//! vDSO does) and the kernel, which runs the thread wherever it likes.

use std::marker::PhantomData;

use crate::directory::MAX_CPUS;
use crate::engine;
use crate::error::Error;

/// Number of a simulated CPU, which this thread has until it is dropped. Then the kernel tells the
/// number again.
///
/// # What it asks for
///
/// Where a sequence is not registered, nobody restarts it. So while a thread with a simulated number
/// is at work, no other thread of the process may run sequences under the same number: neither one
/// that simulates it too, nor one that the kernel runs on the CPU of that number. They would both
/// believe to be alone with its data, and tear them. [`Cpus`](crate::Cpus) work one at a time while
/// who asks them waits, and that is enough if nobody else is at work: tests of code with such
/// sequences belong into processes of their own, or take turns by a lock. Code that takes the
/// number for a hint, and locks, is not concerned.
#[derive(Debug)]
pub struct CpuId {
    number: usize,
    _area: engine::CpuId,
    /// It is this thread's: neither sent nor shared.
    _thread: PhantomData<*mut ()>,
}

impl CpuId {
    /// Has the calling thread be on CPU `number`, from 0. Enters the operating system.
    ///
    /// ```
    /// # fn main() -> Result<(), conflict_tracer::Error> {
    /// # if !conflict_tracer::SUPPORTED { return Ok(()) }
    /// let cpu = conflict_tracer::CpuId::assume(77)?;
    /// assert_eq!(cpu.number(), 77);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`Error::NotSupported`] on other systems than Linux on x86-64.
    /// - [`Error::NoSuchCpu`] from [`MAX_CPUS`] on.
    /// - [`Error::System`] if the kernel does not let go of the thread's rseq area.
    pub fn assume(number: usize) -> Result<Self, Error> {
        if number >= MAX_CPUS {
            return Err(Error::NoSuchCpu(number));
        }
        Ok(Self {
            number,
            _area: engine::CpuId::assume(number as u32)?,
            _thread: PhantomData,
        })
    }

    /// Returns the number.
    pub fn number(&self) -> usize {
        self.number
    }
}
