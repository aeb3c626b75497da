//! The simulated CPU of a thread.
//!
//! Code with data for each CPU asks which one it runs on. While a thread has a [`CpuId`], that code
//! is told the simulated number, by the C library's own means: the thread's rseq area and
//! `sched_getcpu` at any time, the system call `getcpu` while the thread is traced. Restartable
//! sequences run to their end under stepping then, which they would not otherwise.
//!
//! Not told are code that asks the processor itself (`rdpid`, `lsl`, `rdtscp`, as `getcpu` in the
//! vDSO does) and the kernel, which runs the thread wherever it likes.

use crate::claim::Claim;
use crate::engine;
use crate::error::Error;

/// A simulated CPU, on which this thread is until it is dropped. Then the kernel tells the number
/// again, and another thread may have the CPU.
///
/// It stays with its thread:
///
/// ```compile_fail,E0277
/// # use conflict_tracer::CpuId;
/// fn sent<T: Send>() {}
/// sent::<CpuId>();
/// ```
#[derive(Debug)]
pub struct CpuId {
    number: usize,
    /// Dropped first: the thread is off the CPU before the claim to it ends.
    _area: engine::CpuId,
    claim: Claim,
}

impl CpuId {
    /// Has the calling thread be on the first simulated CPU that no thread of the process is on.
    /// Enters the operating system.
    ///
    /// ```
    /// # fn main() -> Result<(), conflict_tracer::Error> {
    /// # if !conflict_tracer::SUPPORTED { return Ok(()) }
    /// // SAFETY: nothing here has restartable sequences.
    /// let cpu = unsafe { conflict_tracer::CpuId::claim() }?;
    /// assert_eq!(cpu.number(), conflict_tracer::numbers(cpu.index())?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`Error::NotSupported`] on other systems than Linux on x86-64.
    /// - [`Error::AlreadySimulated`] if the thread is on one.
    /// - [`Error::AllSimulated`] if all [`MAX_CPUS`](crate::MAX_CPUS) are taken.
    /// - [`Error::System`] if the kernel does not tell how many CPUs the machine could have, or does
    ///   not let go of the thread's rseq area.
    ///
    /// # Safety
    /// No other thread is on this CPU, so its data is as safe from others as it is on a real one. But
    /// the kernel restarts no sequence of this thread any more. So as long as this lives, while the
    /// thread is at work in code with restartable sequences:
    ///
    /// - no other thread may count on having restarted them, by `membarrier(2)` with
    ///   `MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ`: as who takes what all CPUs have does;
    /// - no signal handler of this thread may run sequences.
    ///
    /// Where only one thread is at work, and handles no signals with such code, both hold.
    pub unsafe fn claim() -> Result<Self, Error> {
        let claim = Claim::first_free()?;
        let number = numbers(claim.index())?;
        Ok(Self {
            number,
            // SAFETY: the claim is this thread's, and the number behind all that the kernel gives.
            // For the sequences, as the caller promises.
            _area: unsafe { engine::CpuId::tell(number)? },
            claim,
        })
    }

    /// Returns its place among the simulated CPUs, from 0 to [`MAX_CPUS`](crate::MAX_CPUS) − 1.
    pub fn index(&self) -> usize {
        self.claim.index()
    }

    /// Returns the number that code on it is told.
    pub fn number(&self) -> usize {
        self.number
    }
}

/// Returns how many numbers CPUs have if there are `simulated` ones: first come those of all that
/// this machine could have, then the simulated ones. Code with data for each CPU needs so many
/// copies. Reads a file.
///
/// ```
/// # fn main() -> Result<(), conflict_tracer::Error> {
/// # if !conflict_tracer::SUPPORTED { return Ok(()) }
/// let real = std::thread::available_parallelism().map_or(1, |count| count.get());
/// assert!(conflict_tracer::numbers(2)? >= real + 2);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// - [`Error::NotSupported`] on other systems than Linux on x86-64.
/// - [`Error::System`] if the kernel does not tell how many CPUs the machine could have.
pub fn numbers(simulated: usize) -> Result<usize, Error> {
    Ok(engine::possible_cpus()?.saturating_add(simulated))
}
