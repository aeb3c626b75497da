//! The `Rival` trait: a table as the experiment sees it, with its features.

use std::fmt;
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

    /// Returns its features.
    fn features(&self) -> Features;

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
    /// No table: the cost of the work without one. Nothing is compared with it.
    Floor,
}

/// Features of a table besides its times.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Features {
    /// An open takes the lowest free descriptor, as POSIX requires.
    pub(super) lowest_free: Feature,
    /// An open takes any free descriptor, without waiting for other CPUs.
    pub(super) any_free: Feature,
    /// One open file has several descriptors, one of which can be chosen.
    pub(super) dup: Feature,
    /// A child gets a table with the same files at less than a copy of every slot.
    pub(super) fork: Feature,
    /// Lists the open descriptors in ascending order, while others open and close.
    pub(super) enumeration: Feature,
    /// Refuses a key that was closed and reused.
    pub(super) stale_refused: Feature,
    /// Looks up a file without a write to a counter that other threads write too.
    pub(super) borrowed: Feature,
    /// Returns a reference that outlives the close.
    pub(super) owned: Feature,
    /// Several threads may use one table.
    pub(super) shared: Feature,
    /// Grows without an open that copies the table or waits.
    pub(super) grows_without_stall: Feature,
}

impl Features {
    /// The features of something that is no table.
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

/// Extent to which a table has a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Feature {
    /// It has the feature.
    Yes,
    /// It lacks the feature, or its user would have to write it.
    No,
    /// It has the feature, in the way of this word: "lock", "fixed size", "counter".
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

/// Rival that cannot take part on this machine, which the report states and which is no error.
#[derive(Clone, Debug)]
pub(super) struct Missing {
    /// Its name in reports.
    pub(super) name: &'static str,
    /// The missing requirement, in a sentence: "no C compiler was found".
    pub(super) reason: String,
}
