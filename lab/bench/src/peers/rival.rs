//! The `Rival` trait: a table as the experiment sees it.

use std::time::Duration;

use serde::Serialize;

use super::case::Case;
use crate::tail::Tail;

/// A table of other authors, or ours, as its authors would use it.
///
/// Operations that it lacks return `None`, which is not an error.
pub(super) trait Rival {
    /// Returns the name in reports, the same in each run.
    fn name(&self) -> &'static str;

    /// Returns on which side it is.
    fn side(&self) -> Side {
        Side::Theirs
    }

    /// Does the work of one case for about `length`, on a new table. Each of `case.threads` threads
    /// is bound to a CPU of its own (the `nth` thread to the `nth` CPU). Each round starts at
    /// another position of the sequences of lookups. Returns nanoseconds per operation and busy
    /// CPU; an open with its close is one operation, except in
    /// [`Work::Mixed`](super::case::Work::Mixed).
    ///
    /// # Errors
    /// If a table returns a wrong result, or the system refuses threads.
    fn turn(&mut self, case: Case, length: Duration, round: usize) -> anyhow::Result<Option<f64>>;

    /// Opens `most` descriptors in a new table, each open timed alone, without other threads.
    /// Objects are created before the clock starts. A table of a fixed size is created for `most`.
    ///
    /// # Errors
    /// If an open fails.
    fn growth(&mut self, most: u32) -> anyhow::Result<Option<Tail>>;

    /// Returns the bytes of a table with `live` open descriptors for each, beyond the objects.
    ///
    /// # Errors
    /// If an open fails.
    fn footprint(&mut self, live: u32) -> anyhow::Result<Option<f64>>;
}

/// Side of a table in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Side {
    /// One of `fdtable`'s.
    Ours,
    /// One with which ours are compared.
    Theirs,
}

/// Rival that cannot take part on this machine, which the report states and which is no error.
#[derive(Clone, Debug)]
pub(super) struct Missing {
    /// Its name in reports.
    pub(super) name: &'static str,
    /// The missing requirement, in a sentence: "no C compiler was found".
    pub(super) reason: String,
}
