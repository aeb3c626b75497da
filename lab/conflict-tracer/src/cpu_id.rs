//! The simulated CPU of a thread.
//!
//! Code with per-CPU data reads the number of its CPU. While a thread has a [`CpuId`], that code
//! gets the simulated number, by the C library's own means: the thread's rseq area and
//! `sched_getcpu` at any time, the system call `getcpu` while the thread is traced. Under stepping,
//! restartable sequences then run to their end, which they would not otherwise.
//!
//! Two observers still see the real CPU: code that reads it from the CPU itself (`rdpid`, `lsl`,
//! `rdtscp`, as `getcpu` in the vDSO does), and the kernel, which may run the thread on any CPU.

use crate::claim::Claim;
use crate::engine;
use crate::error::Error;

/// A simulated CPU, on which this thread is until this is dropped. Then the kernel provides the
/// number again, and another thread may claim the CPU.
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
    /// Moves the calling thread to the first free simulated CPU. Enters the operating system.
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
    /// - [`Error::System`] if the kernel does not report how many CPUs the machine could have, or
    ///   does not unregister the thread's rseq area.
    ///
    /// # Safety
    /// No other thread is on this CPU, so its data is as safe from others as it is on a real one.
    /// But the kernel restarts no sequence of this thread any more. So as long as this exists,
    /// while the thread runs code with restartable sequences:
    ///
    /// - no other thread may rely on having restarted them, by `membarrier(2)` with
    ///   `MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ`, for instance to drain the caches of all CPUs;
    /// - no signal handler of this thread may run sequences.
    ///
    /// Both hold if only one thread runs such code, and none of its signal handlers does.
    pub unsafe fn claim() -> Result<Self, Error> {
        let claim = Claim::first_free()?;
        let number = numbers(claim.index())?;
        Ok(Self {
            number,
            // SAFETY: the claim belongs to this thread, and its number is above all that the kernel
            // uses. The caller promises the rest for restartable sequences.
            _area: unsafe { engine::CpuId::set(number)? },
            claim,
        })
    }

    /// Returns its index among the simulated CPUs, from 0 to [`MAX_CPUS`](crate::MAX_CPUS) − 1.
    pub fn index(&self) -> usize {
        self.claim.index()
    }

    /// Returns the CPU number that code on it reads.
    pub fn number(&self) -> usize {
        self.number
    }
}

/// Returns the number of CPUs including `simulated` ones: first come all that this machine could
/// have, then the simulated ones. Code with per-CPU data needs this many copies. Reads a file.
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
/// - [`Error::System`] if the kernel does not report how many CPUs the machine could have.
pub fn numbers(simulated: usize) -> Result<usize, Error> {
    Ok(engine::possible_cpus()?.saturating_add(simulated))
}
