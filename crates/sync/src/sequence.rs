//! Restartable sequences: a few instructions that a thread runs on one CPU, or begins again.
//!
//! A restartable sequence is a run of instructions that ends with one instruction that writes, the
//! *commit*. The kernel knows where it begins and ends: a thread that is preempted, moved to
//! another CPU or given a signal in between continues at its beginning and not where it was
//! (`linux/rseq.h`, Linux ≥ 4.18). Another thread restarts the sequences of all CPUs with
//! [`fence::restart`](crate::fence::restart), which is `membarrier(2)` (Linux ≥ 5.10), or a visit
//! to each CPU where processes share memory.
//!
//! They are for data of a CPU: a thread that reaches the commit has had its CPU to itself since the
//! beginning, and its loads are still valid. See the magazines of `fdtable-slab`.
//!
//! # What a restart orders
//!
//! `membarrier(2)` with the command for sequences is a full fence on every CPU that runs a thread
//! of this process, and interrupts the sequence there. When it returns, each sequence that had
//! begun before is over in one of two ways: it has committed, and the commit is visible; or it
//! begins again, and sees the stores before the restart. A thread that did not run was preempted:
//! it has passed a full fence, and begins again anyway.
//!
//! # How a sequence is written
//!
//! On x86-64 with the macro [`restartable!`](crate::restartable), in assembly. A kernel can
//! restart them too: see
//! [`Platform::sequence_area`](crate::platform::kernel::Platform::sequence_area). Models run each
//! step by `model::run`. On other machines there is no [`Area`], and the caller takes another
//! way.

#[cfg(not(any(
    loom,
    all(
        any(
            all(feature = "std", target_os = "linux"),
            all(feature = "platform", not(feature = "std"))
        ),
        target_arch = "x86_64",
        target_pointer_width = "64"
    )
)))]
#[path = "sequence/missing.rs"]
mod areas;
#[cfg(all(
    any(
        all(feature = "std", target_os = "linux"),
        all(feature = "platform", not(feature = "std"))
    ),
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(loom)
))]
#[path = "sequence/x86_64.rs"]
mod areas;
#[cfg(loom)]
#[path = "sequence/model.rs"]
pub mod model;

pub use areas::{Area, resume_address};
#[cfg(loom)]
use model as areas;
