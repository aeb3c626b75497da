//! The generator: initial states, and the pairs of calls that are tried in each.
//!
//! Both CPUs have the same objects, so a pair and its mirror image are one case.

use std::fmt;

use serde::Serialize;

use super::operation::Argument::{self, *};
use super::operation::Call;
use super::operation::Operation::{self, *};

named! {
    /// State before the two calls, and the calls that are tried in it. In each state, both CPUs
    /// have opened and closed before.
    #[derive(PartialOrd, Ord, Hash, Serialize)]
    pub(super) enum Setup {
        /// There is room, and the lowest free descriptor is in the first leaf. Calls on the table.
        Steady = "steady",
        /// The same state. Calls on the objects beside the table, with each other and with those on
        /// it.
        Beside = "beside",
        /// The lowest descriptors are taken, by searches that have passed over them.
        Passed = "passed",
        /// Two descriptors are free below the limit.
        NearlyFull = "nearly full",
        /// No descriptor is free below the limit.
        Full = "full",
    }
}

impl Setup {
    fn calls(self) -> Vec<Call> {
        let table = match self {
            Setup::Steady => STEADY,
            Setup::Beside => BESIDE,
            Setup::Passed => PASSED,
            Setup::NearlyFull | Setup::Full => LIMITED,
        };
        let bind = |&(operation, arguments): &(Operation, &[Argument])| {
            let bind = move |&argument| Call {
                operation,
                argument,
            };
            arguments.iter().map(bind).collect::<Vec<_>>()
        };
        table.iter().flat_map(bind).collect()
    }
}

/// Descriptors, open or not.
const DESCRIPTORS: &[Argument] = &[
    Own,
    Others,
    SameLeaf,
    Neighbour,
    Far,
    Duplicate,
    Common,
    Handed,
    Closed,
    CommonClosed,
];
/// Descriptors whose close is a special case.
const CLOSED: &[Argument] = &[
    Own,
    Others,
    SameLeaf,
    Neighbour,
    Far,
    Duplicate,
    Common,
    Handed,
    Lone,
    Closed,
    CommonClosed,
];
/// Descriptors of which only the position matters.
const PLACES: &[Argument] = &[Own, SameLeaf, Neighbour, Common, Closed];
/// Descriptors and references of which only the file matters.
const FILES: &[Argument] = &[Own, Duplicate, Common, Handed];
const NOTHING: &[Argument] = &[Nothing];

/// Calls on the table.
const STEADY: &[(Operation, &[Argument])] = &[
    (BorrowedGet, DESCRIPTORS),
    (
        OwnedGet,
        &[
            Own, Others, SameLeaf, Neighbour, Duplicate, Common, Handed, Closed,
        ],
    ),
    (Put, FILES),
    (Clone, &[Own, Duplicate, Common]),
    (Upgrade, FILES),
    (OpenLowest, NOTHING),
    (OpenAny, NOTHING),
    (Close, CLOSED),
    (Dup, &[Own, Duplicate, Common, Closed]),
    (
        DupTo,
        &[Closed, CommonClosed, Neighbour, Far, Duplicate, Common],
    ),
    (GetFlags, PLACES),
    (SetFlags, PLACES),
];

/// Calls on the table and on the objects beside it, with fewer arguments.
const BESIDE: &[(Operation, &[Argument])] = &[
    (BorrowedGet, &[Own, Common]),
    (OwnedGet, &[Own, Common]),
    (Put, &[Own, Common]),
    (Clone, &[Own, Common]),
    (Upgrade, &[Own, Common]),
    (OpenLowest, NOTHING),
    (OpenAny, NOTHING),
    (PrivateOpen, NOTHING),
    (PrivateClose, &[Own, Others]),
    (Close, &[Own, Others, Handed]),
    (Dup, &[Own, Common]),
    (DupTo, &[Closed, Common]),
    (GetFlags, &[Own, Common]),
    (SetFlags, &[Own, Common]),
    (Add, NOTHING),
    (Remove, &[Own, Handed]),
    (Count, NOTHING),
    (Iterate, NOTHING),
    (SlabAlloc, NOTHING),
    (SlabFree, &[Own, Handed]),
    (PipeWrite, &[Own]),
    (PipeRead, &[Own]),
    (Lseek, &[Own]),
    (Pread, &[Own, Common]),
];

const PASSED: &[(Operation, &[Argument])] = &[
    (BorrowedGet, &[Own, Passed]),
    (OwnedGet, &[Own, Passed]),
    (OpenLowest, NOTHING),
    (OpenAny, NOTHING),
    (PrivateOpen, NOTHING),
    (Close, &[Own, Far, Passed]),
    (Dup, &[Own]),
    (DupTo, &[Passed]),
    (SetFlags, &[Own, Passed]),
    (Add, NOTHING),
];

const LIMITED: &[(Operation, &[Argument])] = &[
    (BorrowedGet, &[Own, Common]),
    (OwnedGet, &[Own]),
    (OpenLowest, NOTHING),
    (OpenAny, NOTHING),
    (PrivateOpen, NOTHING),
    (Close, &[Own, Far, Passed]),
    (Dup, &[Own]),
    (SetFlags, &[Own]),
    (Add, NOTHING),
];

/// Two calls in a state: the first is made by CPU 0, the second by CPU 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Case {
    pub(super) setup: Setup,
    pub(super) calls: [Call; 2],
}

impl Case {
    /// Lists every pair of calls that a subject can make in these states.
    pub(super) fn all(setups: &[Setup], can: impl Fn(Call) -> bool) -> Vec<Case> {
        let mut cases = Vec::new();
        for &setup in setups {
            let calls: Vec<_> = setup
                .calls()
                .into_iter()
                .filter(|call| can(*call))
                .collect();
            for (nth, &first) in calls.iter().enumerate() {
                let case = |&second| Case {
                    setup,
                    calls: [first, second],
                };
                let pairs = calls[nth..].iter().map(case);
                cases.extend(pairs.filter(|case| !case.is_elsewhere()));
            }
        }
        cases
    }
}

impl Case {
    /// Returns true if the case is already among those of another state.
    fn is_elsewhere(&self) -> bool {
        let is_steady = |call: &Call| {
            STEADY
                .iter()
                .any(|(operation, _)| *operation == call.operation)
        };
        self.setup == Setup::Beside && self.calls.iter().all(is_steady)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.calls;
        write!(f, "{}: {first} / {second}", self.setup.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_operation_is_tried_with_every_other() {
        let pairs: BTreeSet<_> = Case::all(&Setup::ALL, |_| true)
            .iter()
            .map(|case| {
                let mut pair = case.calls.map(|call| call.operation);
                pair.sort();
                pair
            })
            .collect();
        let all = Operation::ALL.len();
        assert_eq!(pairs.len(), all * (all + 1) / 2);
    }

    #[test]
    fn unsupported_operations_are_not_tried() {
        let cases = Case::all(&Setup::ALL, |call| call.operation == OpenAny);
        assert_eq!(cases.len(), Setup::ALL.len() - 1);
    }
}
