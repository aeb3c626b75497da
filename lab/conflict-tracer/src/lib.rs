//! Finds operations that share cache lines.
//!
//! Two operations do not slow each other down, on any number of CPUs, if neither writes a cache
//! line that the other accesses. This can be checked on any machine, without a clock: trace both,
//! and compare. Where operations commute, an implementation without such lines exists (the
//! *scalable commutativity rule*: Clements, Kaashoek, Zeldovich, Morris, Kohler, SOSP 2013), so a
//! conflict between such operations is worth a look.
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//! use conflict_tracer::{Cpus, Error, LineSize, Sharing, conflicts};
//!
//! #[repr(align(64))]
//! struct Counters([AtomicU64; 16]);
//!
//! # fn main() -> Result<(), Error> {
//! # if !conflict_tracer::SUPPORTED { return Ok(()) }
//! let counters = Counters(Default::default());
//! // Two threads, each of which reads the number of a CPU of its own.
//! // SAFETY: nothing here has restartable sequences.
//! let mut cpus = unsafe { Cpus::new(2) }?;
//!
//! let (_, first) = cpus.trace(0, || counters.0[0].fetch_add(1, Relaxed))?;
//! let (_, near) = cpus.trace(1, || counters.0[1].fetch_add(1, Relaxed))?;
//! let (_, far) = cpus.trace(1, || counters.0[8].fetch_add(1, Relaxed))?;
//!
//! let report = conflicts(&first, &near, LineSize::Bytes64)?;
//! assert_eq!(report.conflicts().len(), 1);
//! assert_eq!(report.conflicts()[0].sharing(), Sharing::False);
//! println!("{report}");               // both code locations, through inlining
//!
//! assert!(conflicts(&first, &far, LineSize::Bytes64)?.is_free());
//! # Ok(())
//! # }
//! ```
//!
//! Read it in this order:
//!
//! 1. [`Recorder`], [`CpuId`]: every load and store of real, optimised code, in the process itself,
//!    without privileges: [`Trace`].
//! 2. [`Cpus`]: simulated CPUs that do one operation at a time.
//! 3. [`conflicts`]: the lines that one trace writes and the other touches: [`Report`]; and
//!    [`Location`]: where in the source.
//! 4. [`Directory`]: the number of lines that travel between up to [`MAX_CPUS`] caches.
//!
//! # What a verdict means
//!
//! - *Free* means that these two operations, in this state, access no common line that one of them
//!   writes. Then every interleaving runs the same paths, and tracing one after the other was
//!   enough. It does not mean that they are fast, nor that operations in another state are free.
//! - *Steady state is a choice*: first uses, refills and growth are in a trace only if they are in
//!   the operation. Trace long runs too.
//! - *Nothing is left out by a list.* A thread's own stack and the tracer's own memory need no
//!   exception: the tracer touches nothing inside of a window, the operation and its result are
//!   kept on the stack of the CPU, and a stack that two CPUs access is shared like any other
//!   memory.
//! - *A line is its address.* Memory that is mapped at two addresses counts as two lines.
//! - *The kernel is not traced.* A trace with a system call is never [free](Report::is_free); its
//!   [remarks](Report::blind_spots) give the reason.
//!
//! # Where it runs
//!
//! Tracing needs Linux on x86-64, and no debugger that steps the same threads. Elsewhere everything
//! compiles, and [`Recorder::new`], [`Cpus::new`] and [`CpuId::claim`] return
//! [`Error::NotSupported`]; [`SUPPORTED`] is false.

mod access;
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    allow(dead_code, reason = "only stepping sees calls")
)]
mod calls;
mod claim;
mod conflict;
mod cpu_id;
mod cpus;
mod directory;
mod error;
mod location;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod missing;
mod recorder;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod step;
mod trace;
mod worker;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
use missing as engine;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use step as engine;

pub use access::{Access, Kind};
pub use conflict::{Conflict, LineSize, Report, Sharing, Side, conflicts};
pub use cpu_id::{CpuId, numbers};
pub use cpus::Cpus;
pub use directory::{Directory, MAX_CPUS, Transfers};
pub use error::Error;
pub use location::{Frame, Location};
pub use recorder::Recorder;
pub use trace::{Remark, Trace};

/// True if operations can be traced on this target: Linux on x86-64.
pub const SUPPORTED: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));
