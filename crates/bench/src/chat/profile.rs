//! A profile of the chat: which part of the samples hit lookup, on each table.
//!
//! The experiment by which RCU came to the descriptor table was judged by a profiler too: `fget` had
//! 65 % fewer hits. Here as there a timer of the processor time of the process interrupts whoever
//! runs, and where that was is noted, with its callers.
//!
//! # What is sampled
//!
//! Not the code that is timed: there a lookup is inlined in a read or write, and the profiler tells
//! functions apart, not instructions. So the tables have another form here, which does the same by
//! functions of their own ([`lookup`]): to find the file and keep it, and to let it go. That costs a
//! call each, three for a lookup of ours and two for one under a lock; so if anything, ours has more
//! samples than it should. What a lock does when it has to wait is called from there, and counts
//! too, with the time in the kernel.
//!
//! # A process of its own
//!
//! A signal that comes at any moment, and a handler that follows the stack, are nothing to have in a
//! process that measures other things. The unwinder reads its tables with the first signal and
//! allocates for that; so the first is sent before there are threads, by a thread that allocates
//! nothing ([`sampler`]).

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use fdtable::Files;
use fdtable_vfs::Object;
use serde::{Deserialize, Serialize};
use serde_json::{from_slice, from_str, to_string};

use super::conversation::{Conversation, Run};
use super::descriptors::Descriptors;
use crate::baseline::{RwLockBitmap, RwLockVec};

mod lookup;
mod sampler;
mod subject;

use subject::{Borrowing, Owning};

/// Command of the program that takes a profile and prints it. Nobody but the program calls it.
pub const COMMAND: &str = "chat-profile";

/// For how long a profile may take: a hundred times what it does.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is to be profiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    /// Name of the table in reports.
    pub(super) table: String,
    pub(super) conversation: Conversation,
    /// How often the conversation is held.
    pub(super) times: usize,
}

/// Samples of a chat by what they hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Profile {
    /// To find the file of a descriptor and keep it, and to let it go.
    pub(super) lookup: u64,
    /// To copy into buffers and out of them, and their locks.
    pub(super) buffers: u64,
    /// To put threads to sleep and wake them.
    pub(super) sleep: u64,
    /// What threads of the chat do besides: make messages and check them, begin and end.
    pub(super) chat: u64,
    /// What no source file tells.
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

/// What a sample hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lookup,
    Buffers,
    Sleep,
    Chat,
    Unknown,
}

/// Tells by the source files of a stack, whatever else is on it, what it was about: names of
/// functions that were inlined come without their modules.
fn kind(stack: &[String]) -> Kind {
    let any = |part: &str| stack.iter().any(|file| file.contains(part));
    // What waits within a lookup is lookup.
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

/// Takes a profile in this process, and returns it as the program is to print it. Blocks for
/// seconds.
///
/// # Errors
/// If the request is none, the chat fails, or the system has no timer, or the program no
/// debug information (line tables are enough).
pub fn run(request: &str) -> anyhow::Result<String> {
    let request: Request = from_str(request).context("what is to be profiled")?;
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
    Ok(to_string(&profile)?)
}

type Hold = fn(&Conversation) -> anyhow::Result<Run>;

/// Finds the form of a table that is made for profiles.
fn subject_of(table: &str) -> anyhow::Result<Hold> {
    fn entry<D: Descriptors>() -> (&'static str, Hold) {
        (D::NAME, Conversation::hold::<D>)
    }
    let all = [
        entry::<Borrowing<Files<dyn Object>>>(),
        entry::<Owning<RwLockBitmap<dyn Object>>>(),
        entry::<Owning<RwLockVec<dyn Object>>>(),
    ];
    let found = all.iter().find(|(name, _)| *name == table);
    found
        .map(|&(_, hold)| hold)
        .with_context(|| format!("no table is {table}"))
}

/// Takes a profile in a process of `program`. Blocks for seconds.
///
/// # Errors
/// If the process fails, or does not end.
pub(super) fn take(program: &Path, request: &Request) -> anyhow::Result<Profile> {
    let child = Command::new(program)
        .args(["part", COMMAND, &to_string(request)?])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let printed = output_within(child, PATIENCE)?;
    from_slice(&printed).with_context(|| format!("{}: what its process printed", request.table))
}

/// Returns what a process printed, which is less than a pipe holds, or ends it.
fn output_within(mut child: Child, patience: Duration) -> anyhow::Result<Vec<u8>> {
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            bail!("the process did not end within {patience:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "the process ended with {}",
        output.status
    );
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(stack: &[&str]) -> Kind {
        kind(&stack.iter().map(|&it| it.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_waits_within_a_lookup_is_lookup() {
        let waits = [
            "parking_lot-0.13.0/src/raw_rwlock.rs",
            "crates/bench/src/table.rs",
            "crates/bench/src/chat/profile/lookup.rs",
            "crates/bench/src/chat/profile/subject.rs",
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
            "crates/vfs/src/event/wait_queue.rs",
            "crates/vfs/src/ipc/buffer.rs",
            "crates/bench/src/chat/role.rs",
        ];
        assert_eq!(kind_of(&sleeps), Kind::Sleep);
        assert_eq!(kind_of(&sleeps[2..]), Kind::Buffers);
    }

    #[test]
    fn a_process_that_does_not_end_is_ended() {
        let child = Command::new("sleep")
            .arg("1000")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let error = output_within(child, Duration::from_millis(10)).unwrap_err();
        assert!(error.to_string().contains("did not end"), "{error}");
    }

    #[test]
    fn nobody_of_that_name_is_an_error() {
        assert!(subject_of("nobody").is_err());
        assert!(subject_of("fdtable").is_ok());
    }
}
