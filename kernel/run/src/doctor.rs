//! Examination of the machine for a run, by the checks that a run makes.

use fdtable::rcu;
use fdtable_posix::runner;
use fdtable_sync::{fence, sequence};

use crate::block::Block;
use crate::{calls, patch, signals, thread};

/// Something that a run uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// A process that is not itself a program of a runner.
    Host,
    /// Syscall User Dispatch.
    Dispatch,
    /// Memory for a kernel that processes share.
    SharedMemory,
    /// A supervisor that traces the processes.
    Tracing,
    /// Code that the runner can change.
    CodeMemory,
    /// Restartable sequences.
    Sequences,
    /// Fences of all CPUs, by `membarrier(2)`.
    Fences,
}

/// Looks for what a run uses. Returns each with what is missing, or nothing. It makes this process
/// one that could run a program, so it is called once, in a process that does nothing else.
#[must_use]
pub fn examine() -> Vec<(Offer, Option<String>)> {
    let refused = "the host does not have it, or refuses it";
    let lacks = |is_there: bool| (!is_there).then(|| refused.to_owned());
    if thread::check_not_nested().is_err() {
        return vec![(Offer::Host, lacks(false))];
    }
    // SAFETY: this thread is the only one, has called nothing of the kernel, and leaks no guard.
    let shared = unsafe { fdtable_shm::begin() }.err();
    rcu::use_ticks();
    let dispatch = Block::prepare(calls::serve).map(Block::end).err();
    signals::install();
    let is_traced = shared.is_none()
        && runner::start_supervisor(thread::layout()).is_ok()
        && runner::begin_tracing();
    vec![
        (Offer::Host, None),
        (Offer::Dispatch, dispatch.map(|error| error.to_string())),
        (Offer::SharedMemory, shared.map(|error| error.to_string())),
        (Offer::Tracing, lacks(is_traced)),
        (Offer::CodeMemory, lacks(patch::has_code_memory())),
        (Offer::Sequences, lacks(sequence::Area::find().is_some())),
        (Offer::Fences, lacks(fence::prepare())),
    ]
}
