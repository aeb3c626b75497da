//! Who takes part: a table as the experiment sees it, and what it can do beside what is timed.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::case::Case;
use crate::tail::Tail;

/// A table of somebody else, or ours, as its authors would use it.
///
/// What it cannot do is `None`, which is not an error.
pub(super) trait Rival {
    /// Returns the name in reports, the same in each run.
    fn name(&self) -> &'static str;

    /// Returns whose it is.
    fn side(&self) -> Side {
        Side::Theirs
    }

    /// Returns what it can do.
    fn features(&self) -> Features;

    /// Does the work of one case for about `length`, on a table that is made anew, each of
    /// `case.threads` threads bound to a CPU of its own (the `nth` thread to the `nth` CPU).
    /// Starts in the sequences of lookups where another round did not. Returns nanoseconds per
    /// operation and busy CPU; an open with its close is one operation, except in
    /// [`Work::Mixed`](super::case::Work::Mixed).
    ///
    /// # Errors
    /// If a table answers what it must not, or the system refuses threads.
    fn turn(&mut self, case: Case, length: Duration, round: usize) -> anyhow::Result<Option<f64>>;

    /// Opens `most` descriptors in a new table, each open timed alone, with nobody else at work.
    /// Objects are ready before the clock starts. A table that has to know its size is made for
    /// `most`.
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

/// Whose a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Side {
    /// One of `fdtable`'s.
    Ours,
    /// One that ours are compared with.
    Theirs,
    /// No table: what the work costs without one. Nothing is compared with it.
    Floor,
}

/// What a table can do beside what is timed.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Features {
    /// An open gets the lowest free number, as POSIX asks.
    pub(super) lowest_free: Feature,
    /// An open gets any free number, without waiting for other CPUs.
    pub(super) any_free: Feature,
    /// One open file has several numbers, one of which can be chosen.
    pub(super) dup: Feature,
    /// A child gets a table with the same files at less than a copy of every slot.
    pub(super) fork: Feature,
    /// Lists what is open, in the order of the numbers, while others open and close.
    pub(super) enumeration: Feature,
    /// Refuses a number that was closed and given out again.
    pub(super) stale_refused: Feature,
    /// Looks a file up without a write to a counter that other threads write too.
    pub(super) borrowed: Feature,
    /// Hands out a reference that outlives the close.
    pub(super) owned: Feature,
    /// Threads use one table at once.
    pub(super) shared: Feature,
    /// Grows without an open that copies the table or waits.
    pub(super) grows_without_stall: Feature,
}

impl Features {
    /// Those of something that is no table.
    pub(super) const NONE: Features = Features {
        lowest_free: Feature::No,
        any_free: Feature::No,
        dup: Feature::No,
        fork: Feature::No,
        enumeration: Feature::No,
        stale_refused: Feature::No,
        borrowed: Feature::No,
        owned: Feature::No,
        shared: Feature::No,
        grows_without_stall: Feature::No,
    };

    /// Names of the features, in the order of [`Features::answers`].
    pub(super) const NAMES: [&str; 10] = [
        "lowest free",
        "any free",
        "dup",
        "fork",
        "enumeration",
        "stale refused",
        "borrowed",
        "owned",
        "shared",
        "no stall",
    ];

    /// Returns the answer for each of [`Features::NAMES`].
    pub(super) fn answers(&self) -> [Feature; 10] {
        [
            self.lowest_free,
            self.any_free,
            self.dup,
            self.fork,
            self.enumeration,
            self.stale_refused,
            self.borrowed,
            self.owned,
            self.shared,
            self.grows_without_stall,
        ]
    }
}

/// Whether a table can do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Feature {
    /// It can.
    Yes,
    /// It cannot, or its user would have to write it.
    No,
    /// It can, in the way that the word tells: "lock", "fixed size", "counter".
    With(&'static str),
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::Yes => "yes",
            Feature::No => "no",
            Feature::With(word) => word,
        })
    }
}

/// Rival that cannot take part on this machine, which is said in the report and is no error.
#[derive(Clone, Debug)]
pub(super) struct Missing {
    /// Its name in reports.
    pub(super) name: &'static str,
    /// What it would need, in a sentence: "no C compiler was found".
    pub(super) reason: String,
}
