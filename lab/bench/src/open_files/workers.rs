//! Threads that start together, and end early when one of them fails.

use std::sync::atomic::{AtomicBool, Ordering};

use fdtable::SuperBlock;
use fdtable_vfs::MemFs;

use super::outcome::{Outcome, Snapshot, Tally};
use crate::start::together;

/// Stack of each thread in bytes.
const STACK: usize = 256 << 10;

/// Flag that is raised when a thread of the workload failed.
#[derive(Default)]
pub(super) struct FailureFlag(AtomicBool);

impl FailureFlag {
    /// Returns true if a thread failed. Costs a load of a line that is written only once.
    pub(super) fn is_raised(&self) -> bool {
        // Relaxed: the flag publishes no other memory, and a delay does no harm.
        self.0.load(Ordering::Relaxed)
    }

    fn raise(&self) {
        // Relaxed: as above.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` on `fs` with each index below `threads`, on a thread of its own. `prepare` creates
/// the work of an index before the start. Blocks until the last thread is done.
///
/// # Errors
/// The first of the threads; or if one cannot be created or panics.
pub(super) fn run<W>(
    threads: usize,
    fs: &MemFs,
    prepare: impl Fn(usize) -> W + Sync,
    work: impl Fn(W, &FailureFlag) -> anyhow::Result<Tally> + Sync,
) -> anyhow::Result<Outcome> {
    let lists = || fs.superblock().map(SuperBlock::statistics);
    let failure = FailureFlag::default();
    let (began, tallies) = together(
        threads,
        STACK,
        || Snapshot::now(lists()),
        prepare,
        |prepared| work(prepared, &failure).inspect_err(|_| failure.raise()),
    )?;
    let mut all = Tally::default();
    tallies.iter().for_each(|tally| all.add(tally));
    all.since(&began, lists())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use anyhow::bail;

    use super::*;

    #[test]
    fn the_failure_of_one_ends_the_work_of_all() {
        let failed = run(
            3,
            &MemFs::default(),
            |place| place,
            |place, failure| {
                if place == 1 {
                    bail!("as expected");
                }
                while !failure.is_raised() {
                    thread::yield_now();
                }
                Ok(Tally::default())
            },
        );
        assert_eq!(failed.unwrap_err().to_string(), "as expected");
    }

    #[test]
    fn a_panic_is_an_error() {
        let failed = run(
            2,
            &MemFs::default(),
            |place| place,
            |_, _| panic!("as expected"),
        );
        assert!(failed.is_err());
    }
}
