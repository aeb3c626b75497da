//! The timed cases: the work, the number of threads, and the descriptors.

use std::fmt;
use std::os::fd::RawFd;

use serde::Serialize;

use crate::lookup::timing::Sequences;

/// Descriptors that a thread looks up; at least as many are open.
pub(super) const LIVE: u32 = 64;

/// Length of a sequence of lookups: its keys stay in the first-level cache, even if they have 8
/// bytes.
pub(super) const SEQUENCE: usize = 2048;

/// Work of a number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Case {
    pub(super) work: Work,
    /// 1 or 2.
    pub(super) threads: usize,
}

/// The repeated work of a thread. Objects have 64 bytes and are held by counted references, unless
/// a table holds them in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Work {
    /// Looks up a descriptor without a reference of its own and reads an integer of the object. All
    /// threads look up the same descriptors.
    Borrowed,
    /// Takes a reference, reads an integer of the object, and drops the reference. Each thread
    /// looks up descriptors of its own.
    Owned,
    /// Opens an object of the thread's own and closes it: the same counted reference moves in and
    /// out, where the table holds references.
    OpenClose,
    /// Takes one more reference to an object of the thread's own, opens it, and closes it.
    OpenCloseClone,
    /// Creates an object, opens it, and closes it, which frees it.
    OpenCloseNew,
    /// Of 20 operations 9 lookups, an open, 9 lookups, and a close of the opened descriptor.
    /// Lookups are borrowed where the table supports that, and owned otherwise; each thread looks
    /// up descriptors of its own. The reference moves as in [`Work::OpenClose`].
    Mixed,
}

/// Lookups between two changes in [`Work::Mixed`].
pub(super) const LOOKUPS_BETWEEN: usize = 9;

impl Case {
    /// Every case, in the order of the report.
    pub(super) const ALL: [Case; 10] = [
        Case::of(Work::Borrowed, 1),
        Case::of(Work::Borrowed, 2),
        Case::of(Work::Owned, 1),
        Case::of(Work::Owned, 2),
        Case::of(Work::OpenClose, 1),
        Case::of(Work::OpenClose, 2),
        Case::of(Work::OpenCloseClone, 1),
        Case::of(Work::OpenCloseNew, 1),
        Case::of(Work::OpenCloseNew, 2),
        Case::of(Work::Mixed, 2),
    ];

    pub(super) const fn of(work: Work, threads: usize) -> Self {
        Case { work, threads }
    }

    /// Returns how many descriptors are open before the work starts. They stay open.
    pub(super) fn open(self) -> u32 {
        match self.work {
            Work::Owned | Work::Mixed => LIVE * self.threads as u32,
            _ => LIVE,
        }
    }

    /// Returns the sequence of lookups of each thread: indices in the order in which the
    /// descriptors were opened, counted from 0, the same for every table. Work without lookups
    /// ignores them.
    pub(super) fn sequences(self) -> Vec<Vec<RawFd>> {
        let own = self.open() / LIVE;
        let disjoint = Sequences::disjoint(self.open(), own as usize);
        let of_thread = |nth: usize| {
            let all = &disjoint.of_threads()[nth % own as usize];
            // Threads that share descriptors do not look them up in step.
            let start = nth * SEQUENCE % all.len();
            all.iter()
                .cycle()
                .skip(start)
                .take(SEQUENCE)
                .copied()
                .collect()
        };
        (0..self.threads).map(of_thread).collect()
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Work::Borrowed => "borrowed",
            Work::Owned => "owned",
            Work::OpenClose => "open and close",
            Work::OpenCloseClone => "open and close, clone",
            Work::OpenCloseNew => "open and close, new",
            Work::Mixed => "mixed",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn sets(work: Work, threads: usize) -> Vec<BTreeSet<RawFd>> {
        let case = Case { work, threads };
        case.sequences()
            .into_iter()
            .map(|sequence| {
                assert_eq!(sequence.len(), SEQUENCE);
                sequence.into_iter().collect()
            })
            .collect()
    }

    #[test]
    fn borrowers_share_their_descriptors_and_owners_do_not() {
        assert_eq!(
            sets(Work::Borrowed, 2),
            [(0..64).collect(), (0..64).collect()]
        );
        assert_eq!(
            sets(Work::Owned, 2),
            [(0..64).collect(), (64..128).collect()]
        );
        assert_eq!(
            sets(Work::Mixed, 2),
            [(0..64).collect(), (64..128).collect()]
        );
        assert_eq!(sets(Work::Owned, 1), [(0..64).collect()]);
    }

    #[test]
    fn two_borrowers_are_not_in_step() {
        let case = Case::of(Work::Borrowed, 2);
        let sequences = case.sequences();
        assert_ne!(sequences[0], sequences[1]);
    }
}
