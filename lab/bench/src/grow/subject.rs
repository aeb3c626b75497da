//! The growing subjects: our table, the baselines, the host's own, and nothing.

use fdtable::{Files, Rcu};

use super::run::{Run, grow};
use crate::any_free::AnyFree;
use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::host;
use crate::opener::{Bare, CLOCK, Dup, FILES_STRUCT, HOST, Nothing, OURS, RWLOCK_VEC};
use crate::table::NewFile;

pub(super) const ANY: &str = "fdtable, any free number";

/// Descriptors below the limit beyond those needed: CPUs may reserve some.
const SPARE: u32 = 4096;

/// One growing subject.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) most: u32,
    /// Creates an empty table and grows it; none where the host refuses.
    pub(super) grow: fn(u32) -> anyhow::Result<Option<Run>>,
}

/// Lists every subject, for `most` descriptors or as many as the host allows.
pub(super) fn all(most: u32) -> anyhow::Result<Vec<Subject>> {
    let host_most = host::raise_limit()?.min(most);
    let subject = |name, most, grow| Subject { name, most, grow };
    Ok(vec![
        subject(OURS, most, grow_table::<Files<Rcu<u64>>>),
        subject(ANY, most, grow_table::<AnyFree<u64>>),
        subject(RWLOCK_VEC, most, grow_table::<RwLockVec<u64>>),
        subject(FILES_STRUCT, most, grow_table::<RwLockBitmap<u64>>),
        // All of the host's descriptors are closed with the table.
        subject(HOST, host_most, |most| {
            host::with_own_table(|| grow(&Dup::new()?, most))
        }),
        subject(CLOCK, most, |most| grow(&Nothing, most).map(Some)),
    ])
}

fn grow_table<Tb: NewFile<u64, u64>>(most: u32) -> anyhow::Result<Option<Run>> {
    grow(&Bare::<Tb>::new(most.saturating_add(SPARE)), most).map(Some)
}
