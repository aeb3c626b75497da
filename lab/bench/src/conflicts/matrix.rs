//! The matrix: every case of one subject, and how many of each two operations are free.

use conflict_tracer::Cpus;
use serde::Serialize;

use super::operation::Operation;
use super::setup::Case;
use super::subject::Subject;
use super::verdict::{Verdict, judge};
use crate::experiment::Progress;

/// The result of every case of a subject.
pub(super) struct Matrix {
    pub(super) subject: &'static str,
    pub(super) trials: Vec<(Case, Verdict)>,
}

/// Cases of two operations, or of more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Cell {
    /// Cases that commute.
    pub(super) commutative: usize,
    /// Cases of them that have no conflict.
    pub(super) free: usize,
    /// Cases of them that share lines, but no bytes.
    pub(super) false_sharing: usize,
}

impl Cell {
    /// Returns the fraction of free cases; none if no case commutes.
    pub(super) fn ratio(&self) -> Option<f64> {
        (self.commutative > 0).then(|| self.free as f64 / self.commutative as f64)
    }

    fn add(&mut self, verdict: &Verdict) {
        self.commutative += usize::from(verdict.commutes());
        self.free += usize::from(matches!(verdict, Verdict::Free));
        self.false_sharing += usize::from(verdict.is_false_sharing());
    }
}

impl Matrix {
    /// Tries the cases that `wanted` selects.
    ///
    /// # Errors
    /// If the subject cannot be set up, or returns a wrong result.
    pub(super) fn of<S: Subject>(
        cpus: &mut Cpus,
        wanted: impl Fn(&Case) -> bool,
        progress: &dyn Progress,
    ) -> anyhow::Result<Self> {
        let mut cases = Case::all(S::SETUPS, S::can);
        cases.retain(wanted);
        progress.begin(S::NAME, cases.len() as u64);
        let trial = |case: Case| {
            let verdict = judge::<S>(cpus, &case)?;
            progress.step();
            Ok((case, verdict))
        };
        Ok(Matrix {
            subject: S::NAME,
            trials: cases
                .into_iter()
                .map(trial)
                .collect::<anyhow::Result<_>>()?,
        })
    }

    /// Counts all cases.
    pub(super) fn sum(&self) -> Cell {
        self.count(|_| true)
    }

    /// Counts the cases of two operations, in either order.
    pub(super) fn cell(&self, one: Operation, other: Operation) -> Cell {
        self.count(|case| {
            let [first, second] = case.calls.map(|call| call.operation);
            (first, second) == (one, other) || (second, first) == (one, other)
        })
    }

    /// Lists the operations that the subject has.
    pub(super) fn operations(&self) -> Vec<Operation> {
        let has = |operation: &Operation| {
            let mut cases = self.trials.iter().map(|(case, _)| case);
            cases.any(|case| case.calls.iter().any(|call| call.operation == *operation))
        };
        Operation::ALL.into_iter().filter(has).collect()
    }

    fn count(&self, which: impl Fn(&Case) -> bool) -> Cell {
        let mut cell = Cell::default();
        for (_, verdict) in self.trials.iter().filter(|(case, _)| which(case)) {
            cell.add(verdict);
        }
        cell
    }
}
