//! A profile of the chat: which part of the samples hit lookup, on each table.
//!
//! The introduction of RCU to the descriptor table was judged by a profiler too: `fget` had 65 %
//! fewer hits. Here as there, a timer of the process's CPU time interrupts the running thread, and
//! the handler records the place with its callers.
//!
//! # Sampled code
//!
//! The profile is not of the timed code: there a lookup is inlined in a read or write, and the
//! profiler distinguishes functions, not instructions. So the tables have another form here, with
//! the parts of a lookup as functions of their own ([`lookup`]): to find the file and keep it, and
//! to release it. That costs a call each, three for a lookup of ours and two for one under a lock;
//! so if anything, ours has more samples than it should. The waits of a lock are called from there,
//! and count too, with the time in the kernel.
//!
//! # A process of its own
//!
//! A signal at any moment, and a handler that unwinds the stack, would disturb other measurements
//! in the process. The unwinder reads its tables with the first signal and allocates for that; so
//! the first is sent before there are other threads, by a thread that allocates nothing
//! ([`sampler`]).

use anyhow::{Context, ensure};
use fdtable::Files;
use fdtable_vfs::{Object, RcuObject};
use serde::{Deserialize, Serialize};

use super::conversation::{Conversation, Run};
use super::descriptors::Descriptors;
use crate::baseline::{RwLockBitmap, RwLockVec};

mod lookup;
#[cfg(not(feature = "profile"))]
#[path = "profile/no_sampler.rs"]
mod sampler;
#[cfg(feature = "profile")]
mod sampler;
mod subject;

use subject::{Borrowing, Owning};

/// Request for a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Name of the table in reports.
    pub(super) table: String,
    pub(super) conversation: Conversation,
    /// Number of runs of the conversation.
    pub(super) times: usize,
}

/// Samples of a chat by the code that they hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// Finds the file of a descriptor, keeps it, or releases it.
    pub(super) lookup: u64,
    /// Copies into buffers and out of them, and takes their locks.
    pub(super) buffers: u64,
    /// Puts threads to sleep and wakes them.
    pub(super) sleep: u64,
    /// Other work of the chat's threads: creates messages and checks them, starts and ends.
    pub(super) chat: u64,
    /// Code without a source file.
    pub(super) unknown: u64,
}

impl Profile {
    /// Counts all samples.
    pub(super) fn samples(&self) -> u64 {
        self.lookup + self.buffers + self.sleep + self.chat + self.unknown
    }

    /// Returns the part of `hits` in all samples.
    pub(super) fn share(&self, hits: u64) -> f64 {
        hits as f64 / self.samples() as f64
    }

    fn add(&mut self, stack: &[String], count: u64) {
        *match kind(stack) {
            Kind::Lookup => &mut self.lookup,
            Kind::Buffers => &mut self.buffers,
            Kind::Sleep => &mut self.sleep,
            Kind::Chat => &mut self.chat,
            Kind::Unknown => &mut self.unknown,
        } += count;
    }
}

/// The kind of code that a sample hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lookup,
    Buffers,
    Sleep,
    Chat,
    Unknown,
}

/// Classifies a stack by its source files: the names of inlined functions lack their modules.
fn kind(stack: &[String]) -> Kind {
    let any = |part: &str| stack.iter().any(|file| file.contains(part));
    // A wait within a lookup counts as lookup.
    if any("bench/src/chat/profile/lookup.rs") {
        Kind::Lookup
    } else if any("vfs/src/event") {
        Kind::Sleep
    } else if any("vfs/src/") {
        Kind::Buffers
    } else if any("bench/src/chat") || any("std/src/thread/") {
        Kind::Chat
    } else {
        Kind::Unknown
    }
}

/// Takes a profile in this process. Blocks for seconds.
///
/// # Errors
/// If the chat fails, the system has no timer, or the program has no debug information (line tables
/// are enough).
pub(crate) fn run(request: &Request) -> anyhow::Result<Profile> {
    let hold = subject_of(&request.table)?;
    let stacks = sampler::sample(|| {
        (0..request.times).try_for_each(|_| hold(&request.conversation).map(drop))
    })?;
    let mut profile = Profile::default();
    for (stack, count) in &stacks {
        profile.add(stack, *count);
    }
    ensure!(profile.samples() > 0, "no sample was taken");
    ensure!(
        profile.unknown * 2 < profile.samples(),
        "most samples hit what has no source file, is there debug information? {profile:?}"
    );
    Ok(profile)
}

type Hold = fn(&Conversation) -> anyhow::Result<Run>;

/// Finds the form of a table that is built for profiles.
fn subject_of(table: &str) -> anyhow::Result<Hold> {
    fn entry<D: Descriptors>() -> (&'static str, Hold) {
        (D::NAME, Conversation::hold::<D>)
    }
    let all = [
        entry::<Borrowing<Files<RcuObject>>>(),
        entry::<Owning<RwLockBitmap<dyn Object>>>(),
        entry::<Owning<RwLockVec<dyn Object>>>(),
    ];
    let found = all.iter().find(|(name, _)| *name == table);
    found
        .map(|&(_, hold)| hold)
        .with_context(|| format!("no table is {table}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(stack: &[&str]) -> Kind {
        kind(&stack.iter().map(|&it| it.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_wait_within_a_lookup_is_lookup() {
        let waits = [
            "parking_lot-0.13.0/src/raw_rwlock.rs",
            "lab/bench/src/table.rs",
            "lab/bench/src/chat/profile/lookup.rs",
            "lab/bench/src/chat/profile/subject.rs",
            "library/std/src/thread/mod.rs",
        ];
        assert_eq!(kind_of(&waits), Kind::Lookup);
        assert_eq!(kind_of(&waits[3..]), Kind::Chat);
        assert_eq!(kind_of(&waits[..2]), Kind::Unknown);
    }

    #[test]
    fn a_sleep_in_a_buffer_is_a_sleep() {
        let sleeps = [
            "parking_lot-0.13.0/src/condvar.rs",
            "kernel/vfs/src/event/wait_queue.rs",
            "kernel/vfs/src/ipc/buffer.rs",
            "lab/bench/src/chat/role.rs",
        ];
        assert_eq!(kind_of(&sleeps), Kind::Sleep);
        assert_eq!(kind_of(&sleeps[2..]), Kind::Buffers);
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        assert!(subject_of("nobody").is_err());
        assert!(subject_of("fdtable").is_ok());
    }
}
